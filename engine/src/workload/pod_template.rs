//! PodTemplate: pods of a template that no controller owns.

use berth_proto::core_v1::PodTemplate;

use super::expansion::{ExpandOptions, Expansion};
use super::kind::WorkloadKind;
use super::subject::Subject;
use super::template::{Template, copies, n_pods};
use crate::model::ModelError;

pub(super) fn expand(
    template: &PodTemplate,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::PodTemplate, template.metadata.as_ref())?;
    let template = Template::of(template.template.as_ref(), "template", "None")?;
    let n = n_pods(options.replicas, None, "replicas")?;
    let pod = template.pod(&subject.namespace, format!("{}-", subject.name), None);
    Ok(Expansion {
        kind: subject.kind,
        pods: copies(&pod, n),
        namespace: subject.namespace,
        name: subject.name,
        are_alike: true,
        is_ordered: false,
        controller: None,
        claims: Vec::new(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_no_owner_and_any_restart_policy() {
        let template: PodTemplate = serde_json::from_str(
            r#"{"metadata": {"name": "t"}, "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}"#,
        )
        .unwrap();
        let options = ExpandOptions { replicas: Some(2), nodes: &[] };
        let expansion = expand(&template, &options).unwrap();
        let metadata = expansion.pods[1].metadata.as_ref().unwrap();
        assert_eq!((metadata.name.as_str(), metadata.owner_references.len()), ("t-1", 0));
        let missing = PodTemplate { template: None, ..template };
        assert_eq!(expand(&missing, &options).unwrap_err().field, "template");
    }
}
