//! Recent: pods of requests that were compiled before. The pods of a workload differ in their names only, and to write
//! one down and look it up takes a fraction of compiling it. A remembered pod, under its new name, equals what
//! compiling would give.

use berth_proto::{EncodedPod, core_v1};

use crate::model::kept::{KeptPod, Source};
use crate::model::nameless::{Nameless, Sent};
use crate::model::table::table_bytes;
use crate::model::{Model, ModelError, Pod};
use crate::recent::Recent;

/// Pods of requests by their encodings without name and uid.
#[derive(Debug, Default)]
pub(crate) struct RecentPods {
    /// Pods that came to the engine decoded, by what encoding them gives.
    decoded: Pods,
    /// Pods that were sent to be placed, by the bytes that were sent. A caller checks such a pod before it is compiled, and
    /// does not check one that is recalled: so no decoded pod, which nobody may have checked, is among them.
    sent: Pods,
}

#[derive(Debug, Default)]
struct Pods {
    with_object: Recent<Pod>,
    without_object: Recent<Pod>,
}

impl RecentPods {
    /// Compiles the pod of a request, and keeps its object or not.
    pub(crate) fn compile(
        &self,
        pod: &core_v1::Pod,
        keeps_object: bool,
        model: &Model,
    ) -> Result<Pod, ModelError> {
        model.check_room()?;
        let nameless = Nameless::of(pod);
        let recent = self.decoded.of(keeps_object);
        if let Some(known) = recent.get(nameless.encoded()) {
            let metadata = pod.metadata.as_ref();
            let (name, uid) = metadata.map_or(("", ""), |it| (&it.name, &it.uid));
            return known.renamed(name, uid);
        }
        let compiled = compile(pod, &nameless, keeps_object, model)?;
        note(&compiled, nameless.encoded(), recent);
        Ok(compiled)
    }

    /// The pod as [`RecentPods::compile_sent`] would compile it. `None` where it has not compiled one like it.
    pub(crate) fn recall(
        &self,
        pod: &EncodedPod,
        keeps_object: bool,
        model: &Model,
    ) -> Result<Option<Pod>, ModelError> {
        model.check_room()?;
        let Some(sent) = Sent::of(pod) else { return Ok(None) };
        let known = self.sent.of(keeps_object).get(sent.nameless.encoded());
        known.map(|known| known.renamed(sent.name, sent.uid)).transpose()
    }

    /// Compiles the decoded pod of a request, and remembers it by the encoding in which it was sent.
    pub(crate) fn compile_sent(
        &self,
        pod: &core_v1::Pod,
        encoded: &EncodedPod,
        keeps_object: bool,
        model: &Model,
    ) -> Result<Pod, ModelError> {
        model.check_room()?;
        let Some(Sent { nameless, .. }) = Sent::of(encoded) else {
            return self.compile(pod, keeps_object, model);
        };
        let compiled = match keeps_object {
            // The object is kept as the decoded pod is encoded: without the fields that Berth does not know.
            true => compile(pod, &Nameless::of(pod), keeps_object, model)?,
            false => compile(pod, &nameless, keeps_object, model)?,
        };
        note(&compiled, nameless.encoded(), self.sent.of(keeps_object));
        Ok(compiled)
    }
}

impl Pods {
    fn of(&self, keeps_object: bool) -> &Recent<Pod> {
        if keeps_object { &self.with_object } else { &self.without_object }
    }
}

fn compile(
    pod: &core_v1::Pod,
    nameless: &Nameless,
    keeps_object: bool,
    model: &Model,
) -> Result<Pod, ModelError> {
    let compiled = Pod::compile_requested(pod, nameless, model)?;
    if !keeps_object {
        return Ok(compiled);
    }
    let kept = KeptPod::shared(nameless.encoded(), model.requested());
    Ok(compiled.keeping(Some(kept), Source::Request))
}

/// Remembers a pod, unless a copy would lack claims, which are made for one pod.
fn note(compiled: &Pod, encoded: &[u8], recent: &Recent<Pod>) {
    if compiled.is_copied_whole() {
        recent.note(encoded, compiled, table_bytes(encoded.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::pod::PodFacts;
    use berth_testing::object;

    /// Checks that a third pod of a kind is remembered or not, and is in any case what would be compiled.
    fn check(texts: [&str; 3], is_remembered: bool) {
        for keeps_object in [false, true] {
            let (model, recent) = (Model::new(), RecentPods::default());
            let pods = texts.map(object::pod);
            let compile = |pod| recent.compile(pod, keeps_object, &model.lending()).unwrap();
            let compiled = [&pods[0], &pods[1], &pods[2]].map(compile);
            let third = Nameless::of(&pods[2]);
            let known = recent.decoded.of(keeps_object).get(third.encoded());
            assert_eq!(known.is_some(), is_remembered, "{texts:?}");
            let fresh = model.lending();
            let kept = keeps_object.then(|| KeptPod::shared(third.encoded(), model.requested()));
            let expected =
                Pod::compile(&pods[2], &fresh).map(|pod| pod.keeping(kept, Source::Request));
            // Names that a shape holds need not be lent to its pods as well.
            let facts =
                |pod: &Pod| format!("{:?}", PodFacts { lease: None, ..pod.facts().clone() });
            let expected = facts(&expected.unwrap());
            assert_eq!(facts(&compiled[2]), expected, "{texts:?}");

            let mut last = None;
            for pod in &pods {
                let encoded = EncodedPod::from(pod);
                let recall = || recent.recall(&encoded, keeps_object, &model.lending()).unwrap();
                let known = recall();
                let compile = || recent.compile_sent(pod, &encoded, keeps_object, &model.lending());
                last = Some((known.is_some(), known.unwrap_or_else(|| compile().unwrap())));
            }
            let (was_known, compiled) = last.unwrap();
            assert_eq!((was_known, facts(&compiled)), (is_remembered, expected), "{texts:?}");
        }
    }

    #[test]
    fn a_pod_that_differs_in_its_name_is_remembered() {
        check(["a uid=1 cpu=1", "b uid=2 cpu=1", "c uid=3 cpu=1"], true);
        check(["a uid=1 cpu=1 label:x=y", "b uid=2 cpu=1 label:x=y", "c cpu=1 label:x=y"], true);
    }

    #[test]
    fn a_pod_that_differs_in_more_is_compiled() {
        check(["a cpu=1", "b cpu=1", "c cpu=2"], false);
        check(["a cpu=1", "b cpu=1", "c cpu=1 namespace=other"], false);
        check(["a cpu=1 label:x=y", "b cpu=1 label:x=y", "c cpu=1 label:x=z"], false);
        check(["a cpu=1", "b cpu=2", "c cpu=3"], false);
    }

    /// Pods that differ in more than the spec share what was compiled of it, unless it refers to what they differ in.
    #[test]
    fn pods_of_one_spec_are_what_would_be_compiled() {
        for spec in [
            "cpu=1",
            "cpu=1 spread=zone,1,DoNotSchedule,app:web",
            "cpu=1 far=zone,app:web",
            "cpu=1 prefer-near=5,zone,app:web",
            "cpu=1 near=zone,app:web",
            "cpu=1 port=80 image=nginx toleration=k,Exists,,",
        ] {
            let of = |others: &str| format!("{others} {spec}");
            let texts = ["a label:app=web", "b label:app=api", "c namespace=other label:app=db"];
            check([&of(texts[0]), &of(texts[1]), &of(texts[2])], false);
            check([&of(texts[2]), &of(texts[1]), &of(texts[0])], false);
            check([&of("a node=n1"), &of("b node=n2"), &of("c")], false);
        }
    }

    #[test]
    fn what_a_shape_is_known_by() {
        let mut with_keys = object::pod("d label:app=db spread=zone,1,DoNotSchedule,app:web");
        let constraints = &mut with_keys.spec.as_mut().unwrap().topology_spread_constraints;
        constraints[0].match_label_keys = vec!["app".to_owned()];
        let mut resized = object::pod("e cpu=1");
        let mut actual = core_v1::ResourceRequirements::default();
        actual.requests.insert("cpu".to_owned(), berth_proto::Quantity::new("2"));
        let of_container = core_v1::ContainerStatus {
            name: "c".to_owned(),
            resources: Some(actual),
            ..Default::default()
        };
        resized.status.as_mut().unwrap().container_statuses = vec![of_container];
        for pod in [with_keys, resized] {
            let (model, recent) = (Model::new(), RecentPods::default());
            for (name, label) in [("a", "x"), ("b", "y"), ("c", "z")] {
                let mut pod = pod.clone();
                let metadata = pod.metadata.as_mut().unwrap();
                metadata.name = name.to_owned();
                metadata.labels.insert("app".to_owned(), label.to_owned());
                let compiled = recent.compile(&pod, false, &model).unwrap();
                let expected = Pod::compile(&pod, &Model::new()).unwrap();
                assert_eq!(compiled.requests(), expected.requests());
                let amounts = |pod: &Pod| format!("{:?}", pod.footprint());
                assert_eq!(amounts(&compiled), amounts(&expected));
                let spread = |pod: &Pod| pod.shape().facts.spread.clone();
                let fresh = Pod::compile(&pod, &model).unwrap();
                assert_eq!(spread(&compiled), spread(&fresh));
            }
            assert_eq!(model.recent_shapes().size().0, 0);
        }
    }

    #[test]
    fn names_are_checked_whether_remembered_or_not() {
        let (model, recent) = (Model::new(), RecentPods::default());
        for name in ["a", "b", "c"] {
            recent.compile(&object::pod(name), false, &model).unwrap();
        }
        let mut pod = object::pod("d");
        pod.metadata.as_mut().unwrap().name = String::new();
        let error = recent.compile(&pod, false, &model).unwrap_err();
        assert_eq!(error.field, "metadata.name");
        let mut sent = object::pod("e");
        for _ in 0..2 {
            recent.compile_sent(&sent, &EncodedPod::from(&sent), false, &model).unwrap();
        }
        let metadata = sent.metadata.as_mut().unwrap();
        "u".repeat(1_000).clone_into(&mut metadata.uid);
        let error = recent.recall(&EncodedPod::from(&sent), false, &model).unwrap_err();
        assert_eq!(error.field, "metadata.uid");
        "e_".clone_into(&mut sent.metadata.as_mut().unwrap().name);
        let error = recent.recall(&EncodedPod::from(&sent), false, &model).unwrap_err();
        assert_eq!(error.field, "metadata.name");
    }

    /// A pod that was compiled decoded, and perhaps never checked, is not recalled for one that is sent.
    #[test]
    fn only_sent_pods_are_recalled() {
        let (model, recent) = (Model::new(), RecentPods::default());
        let pod = object::pod("a cpu=1");
        for _ in 0..3 {
            recent.compile(&pod, false, &model).unwrap();
        }
        let encoded = EncodedPod::from(&pod);
        let recall = |keeps_object| recent.recall(&encoded, keeps_object, &model).unwrap();
        assert!(recall(false).is_none());
        for _ in 0..2 {
            recent.compile_sent(&pod, &encoded, false, &model).unwrap();
        }
        assert_eq!((recall(false).is_some(), recall(true).is_none()), (true, true));
    }
}
