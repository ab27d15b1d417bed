//! Recent: pods of requests that were compiled before. The pods of a workload differ in their names only, and to write
//! one down and look it up takes a fraction of compiling it. A remembered pod, under its new name, equals what
//! compiling would give.

use berth_proto::core_v1;

use crate::model::kept::{KeptPod, Nameless, Source};
use crate::model::table::table_bytes;
use crate::model::{Model, ModelError, Pod};
use crate::recent::Recent;

/// Pods of requests by their encodings without name and uid.
#[derive(Debug, Default)]
pub(crate) struct RecentPods {
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
        let encoded = nameless.encoded();
        let recent = if keeps_object { &self.with_object } else { &self.without_object };
        if let Some(known) = recent.get(encoded) {
            return known.renamed(pod, model);
        }
        let mut compiled = Pod::compile_requested(pod, &nameless, model)?;
        if keeps_object {
            let kept = KeptPod::shared(encoded, model.requested());
            compiled = compiled.keeping(Some(kept), Source::Request);
        }
        // A copy would lack the claims that are made for one pod.
        if compiled.is_copied_whole() {
            recent.note(encoded, &compiled, table_bytes(encoded.len()));
        }
        Ok(compiled)
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
            let known = if keeps_object { recent.with_object } else { recent.without_object };
            assert_eq!(known.get(third.encoded()).is_some(), is_remembered, "{texts:?}");
            let fresh = model.lending();
            let kept = keeps_object.then(|| KeptPod::shared(third.encoded(), model.requested()));
            let expected =
                Pod::compile(&pods[2], &fresh).map(|pod| pod.keeping(kept, Source::Request));
            // Names that a shape holds need not be lent to its pods as well.
            let facts =
                |pod: &Pod| format!("{:?}", PodFacts { lease: None, ..pod.facts().clone() });
            assert_eq!(facts(&compiled[2]), facts(&expected.unwrap()), "{texts:?}");
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
    }
}
