//! ReplicaSet: equal pods with generated names.

use berth_proto::apps_v1::{ReplicaSet, ReplicaSetSpec};
use berth_proto::meta_v1::LabelSelector;

use super::expansion::{ExpandOptions, Expansion, PodController};
use super::kind::WorkloadKind;
use super::selector;
use super::subject::Subject;
use super::template::{Template, copies, n_pods};
use crate::model::ModelError;

pub(super) fn expand(
    set: &ReplicaSet,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::ReplicaSet, set.metadata.as_ref())?;
    let spec = set.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    let template = Template::of(spec.template.as_ref(), "spec.template", subject.kind.name())?;
    selector::check(subject.kind, spec.selector.as_ref(), template)?;
    let n = n_pods(options.replicas, spec.replicas, "spec.replicas")?;
    Ok(pods_of(&subject, spec.selector.clone(), template, n))
}

/// The pods of the ReplicaSet `subject`.
pub(super) fn pods_of(
    subject: &Subject,
    selector: Option<LabelSelector>,
    template: Template<'_>,
    n: u32,
) -> Expansion {
    let pod = template.pod(&subject.namespace, format!("{}-", subject.name), Some(subject.owner()));
    let spec =
        ReplicaSetSpec { replicas: i32::try_from(n).ok(), selector, ..ReplicaSetSpec::default() };
    let set = ReplicaSet { metadata: Some(subject.metadata()), spec: Some(spec), status: None };
    Expansion {
        kind: subject.kind,
        namespace: subject.namespace.clone(),
        name: subject.name.clone(),
        pods: copies(&pod, n),
        are_alike: true,
        is_ordered: false,
        controller: Some(PodController::ReplicaSet(Box::new(set))),
        claims: Vec::new(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rest: &str) -> ReplicaSet {
        let json = format!(
            r#"{{"metadata": {{"name": "web", "namespace": "shop", "uid": "u1"}}, "spec": {{
                "selector": {{"matchLabels": {{"app": "web"}}}},
                "template": {{"metadata": {{"labels": {{"app": "web"}}}},
                              "spec": {{"containers": [{{"name": "c"}}]}}}}{rest}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn pods_are_owned_and_numbered() {
        let expansion = expand(&set(r#", "replicas": 2"#), &ExpandOptions::default()).unwrap();
        let names: Vec<_> =
            expansion.pods.iter().map(|pod| pod.metadata.clone().unwrap().name).collect();
        assert_eq!(names, ["web-0", "web-1"]);
        let metadata = expansion.pods[0].metadata.as_ref().unwrap();
        assert_eq!(metadata.generate_name, "web-");
        let [owner] = &metadata.owner_references[..] else { panic!("{metadata:?}") };
        assert_eq!(
            (
                owner.api_version.as_str(),
                owner.kind.as_str(),
                owner.name.as_str(),
                owner.uid.as_str()
            ),
            ("apps/v1", "ReplicaSet", "web", "u1")
        );
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        let Some(PodController::ReplicaSet(set)) = expansion.controller else { panic!() };
        assert_eq!(set.spec.unwrap().selector.unwrap().match_labels["app"], "web");
    }

    #[test]
    fn the_number_is_one_by_default_and_may_be_given() {
        let n = |rest: &str, replicas| {
            expand(&set(rest), &ExpandOptions { replicas, nodes: &[] }).map(|e| e.pods.len())
        };
        assert_eq!(n("", None), Ok(1));
        assert_eq!(n(r#", "replicas": 0"#, None), Ok(0));
        assert_eq!(n(r#", "replicas": 2"#, Some(5)), Ok(5));
        assert_eq!(n(r#", "replicas": -2"#, None).unwrap_err().field, "spec.replicas");
    }
}
