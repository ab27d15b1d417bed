//! Deployment: the pods of the ReplicaSet that a new Deployment gets.

use berth_proto::apps_v1::Deployment;

use super::expansion::{ExpandOptions, Expansion};
use super::kind::WorkloadKind;
use super::naming;
use super::subject::Subject;
use super::template::{Template, n_pods};
use super::{replica_set, selector};
use crate::model::ModelError;

/// The label that tells the pods of a Deployment's ReplicaSets apart.
const HASH_LABEL: &str = "pod-template-hash";

pub(super) fn expand(
    deployment: &Deployment,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::Deployment, deployment.metadata.as_ref())?;
    let spec = deployment.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    let template = Template::of(spec.template.as_ref(), "spec.template", subject.kind.name())?;
    selector::check(subject.kind, spec.selector.as_ref(), template)?;
    let n = n_pods(options.replicas, spec.replicas, "spec.replicas")?;

    let hash = naming::template_hash(template.spec);
    let name = format!("{}-{hash}", subject.name);
    let set = Subject::named(WorkloadKind::ReplicaSet, &subject.namespace, name);
    let mut labelled = template.spec.clone();
    let labels = &mut labelled.metadata.get_or_insert_default().labels;
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut of_set = spec.selector.clone();
    if let Some(selector) = &mut of_set {
        selector.match_labels.insert(HASH_LABEL.to_owned(), hash);
    }
    let mut expansion = replica_set::pods_of(&set, of_set, template.with(&labelled), n);
    expansion.kind = subject.kind;
    expansion.name.clone_from(&subject.name);
    if spec.paused {
        let text = subject.text();
        expansion.notes.push(format!(
            "{text} is paused: no pods of a new template are created until it is resumed"
        ));
    }
    Ok(expansion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::expansion::PodController;

    fn deployment(app: &str, rest: &str) -> Deployment {
        let json = format!(
            r#"{{"metadata": {{"name": "web"}}, "spec": {{
                "selector": {{"matchLabels": {{"app": "web"}}}},
                "template": {{"metadata": {{"labels": {{"app": "{app}"}}}},
                              "spec": {{"containers": [{{"name": "c"}}]}}}}{rest}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn pods_belong_to_the_replica_set_of_the_template() {
        let expansion =
            expand(&deployment("web", r#", "replicas": 3"#), &ExpandOptions::default()).unwrap();
        assert_eq!((expansion.pods.len(), expansion.notes.len()), (3, 0));
        let Some(PodController::ReplicaSet(set)) = &expansion.controller else { panic!() };
        let (name, hash) = {
            let labels = &set.spec.as_ref().unwrap().selector.as_ref().unwrap().match_labels;
            assert_eq!(labels["app"], "web");
            (&set.metadata.as_ref().unwrap().name, &labels[HASH_LABEL])
        };
        assert_eq!(*name, format!("web-{hash}"));
        for (i, pod) in expansion.pods.iter().enumerate() {
            let metadata = pod.metadata.as_ref().unwrap();
            assert_eq!(metadata.name, format!("{name}-{i}"));
            assert_eq!(
                (&metadata.labels[HASH_LABEL], metadata.labels["app"].as_str()),
                (hash, "web")
            );
            let owner = &metadata.owner_references[0];
            assert_eq!((owner.kind.as_str(), &owner.name), ("ReplicaSet", name));
            assert_eq!(owner.uid, set.metadata.as_ref().unwrap().uid);
        }
        let again = expand(&deployment("web", r#", "replicas": 3"#), &ExpandOptions::default());
        assert_eq!(again.unwrap(), expansion);
    }

    #[test]
    fn a_paused_one_says_so() {
        let expansion =
            expand(&deployment("web", r#", "paused": true"#), &ExpandOptions::default()).unwrap();
        assert!(expansion.notes[0].starts_with("Deployment `default/web` is paused"));
    }

    #[test]
    fn a_selector_that_misses_its_template_is_refused() {
        let error = expand(&deployment("api", ""), &ExpandOptions::default()).unwrap_err();
        assert_eq!(error.field, "spec.template.metadata.labels");
    }
}
