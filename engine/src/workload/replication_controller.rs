//! ReplicationController: equal pods with generated names, chosen by a map of labels.

use berth_proto::core_v1::{ReplicationController, ReplicationControllerSpec};

use super::expansion::{ExpandOptions, Expansion, PodController};
use super::kind::WorkloadKind;
use super::selector;
use super::subject::Subject;
use super::template::{Template, copies, n_pods};
use crate::model::ModelError;

pub(super) fn expand(
    controller: &ReplicationController,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::ReplicationController, controller.metadata.as_ref())?;
    let spec = controller.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    let template = Template::of(spec.template.as_ref(), "spec.template", subject.kind.name())?;
    selector::check_map(&spec.selector, template)?;
    let n = n_pods(options.replicas, spec.replicas, "spec.replicas")?;
    let pod = template.pod(&subject.namespace, format!("{}-", subject.name), Some(subject.owner()));
    let is_unset = spec.selector.is_empty();
    let selector = if is_unset { selector::labels_of(template) } else { &spec.selector };
    let stored = ReplicationController {
        metadata: Some(subject.metadata()),
        spec: Some(ReplicationControllerSpec {
            replicas: i32::try_from(n).ok(),
            selector: selector.clone(),
            ..ReplicationControllerSpec::default()
        }),
    };
    Ok(Expansion {
        kind: subject.kind,
        pods: copies(&pod, n),
        namespace: subject.namespace,
        name: subject.name,
        are_alike: true,
        is_ordered: false,
        controller: Some(PodController::ReplicationController(Box::new(stored))),
        claims: Vec::new(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_the_templates_labels_by_default() {
        let json = |selector: &str| {
            format!(
                r#"{{"metadata": {{"name": "old"}}, "spec": {{"replicas": 2, {selector}
                    "template": {{"metadata": {{"labels": {{"app": "old"}}}},
                                  "spec": {{"containers": [{{"name": "c"}}]}}}}}}}}"#
            )
        };
        let expand = |selector: &str| {
            let controller: ReplicationController = serde_json::from_str(&json(selector)).unwrap();
            expand(&controller, &ExpandOptions::default())
        };
        let expansion = expand("").unwrap();
        assert_eq!(expansion.pods.len(), 2);
        assert_eq!(expansion.pods[1].metadata.as_ref().unwrap().name, "old-1");
        let Some(PodController::ReplicationController(stored)) = expansion.controller else {
            panic!()
        };
        assert_eq!(stored.spec.unwrap().selector["app"], "old");
        assert!(expand(r#""selector": {"app": "old"},"#).is_ok());
        let error = expand(r#""selector": {"app": "new"},"#).unwrap_err();
        assert_eq!(error.field, "spec.template.metadata.labels");
    }
}
