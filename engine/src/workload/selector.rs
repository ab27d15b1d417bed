//! Selectors: a workload's selector must match the labels of its own template. Rules: W-SEL-1 to W-SEL-4.

use std::collections::BTreeMap;

use berth_proto::meta_v1::LabelSelector as WireSelector;

use super::kind::WorkloadKind;
use super::template::Template;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label;
use crate::model::label_selector::LabelSelector;

/// Checks `spec.selector` of a kind that requires one.
pub(super) fn check(
    kind: WorkloadKind,
    selector: Option<&WireSelector>,
    template: Template<'_>,
) -> Result<(), ModelError> {
    let Some(selector) = selector else {
        return Err(ModelError::new("spec.selector", "must be set"));
    };
    let names = Interner::new();
    let compiled =
        LabelSelector::compile(selector, &names).map_err(|error| error.under("spec.selector"))?;
    if compiled.is_empty() {
        let reason = format!("an empty selector is invalid for a {kind}");
        return Err(ModelError::new("spec.selector", reason));
    }
    let labels = labels_of(template);
    let labels = label::compile(labels, &names)
        .map_err(|error| template.error(&error.field, error.reason.clone()))?;
    if compiled.matches(&labels) { Ok(()) } else { Err(mismatch(template)) }
}

/// Checks the selector of a ReplicationController, a map of equalities; an empty one is set to the template's labels.
pub(super) fn check_map(
    selector: &BTreeMap<String, String>,
    template: Template<'_>,
) -> Result<(), ModelError> {
    let labels = labels_of(template);
    if labels.is_empty() && selector.is_empty() {
        return Err(ModelError::new("spec.selector", "must be set"));
    }
    if selector.iter().all(|(key, value)| labels.get(key) == Some(value)) {
        Ok(())
    } else {
        Err(mismatch(template))
    }
}

/// The labels of a template.
pub(super) fn labels_of(template: Template<'_>) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    template.spec.metadata.as_ref().map_or(&NONE, |metadata| &metadata.labels)
}

fn mismatch(template: Template<'_>) -> ModelError {
    template.error("metadata.labels", "`selector` does not match template `labels`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::core_v1::PodTemplateSpec;

    fn template(labels: &str) -> PodTemplateSpec {
        let json = format!(
            r#"{{"metadata": {{"labels": {labels}}}, "spec": {{"containers": [{{"name": "c"}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_selector_matches_its_template() {
        let check = |selector: &str, labels: &str| {
            let template = template(labels);
            let template = Template::of(Some(&template), "spec.template", "Deployment").unwrap();
            let selector: WireSelector = serde_json::from_str(selector).unwrap();
            check(WorkloadKind::Deployment, Some(&selector), template)
        };
        let web = r#"{"matchLabels": {"app": "web"}}"#;
        assert_eq!(check(web, r#"{"app": "web", "x": "y"}"#), Ok(()));
        let expression = r#"{"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}"#;
        assert_eq!(check(expression, r#"{"app": "web"}"#), Ok(()));
        let error = |selector: &str, labels: &str| check(selector, labels).unwrap_err().to_string();
        assert_eq!(
            error(web, r#"{"app": "api"}"#),
            "`spec.template.metadata.labels`: `selector` does not match template `labels`"
        );
        assert_eq!(
            error("{}", r#"{"app": "api"}"#),
            "`spec.selector`: an empty selector is invalid for a Deployment"
        );
        let bad = r#"{"matchExpressions": [{"key": "x", "operator": "Is"}]}"#;
        assert!(error(bad, "{}").starts_with("`spec.selector.matchExpressions[0].operator`"));
        let illegal = error(web, r#"{"app": "web", "-": "1"}"#);
        assert!(illegal.starts_with("`spec.template.metadata.labels[-]`"), "{illegal}");
    }

    #[test]
    fn a_map_of_equalities_matches_its_template() {
        let check = |selector: &[(&str, &str)], labels: &str| {
            let template = template(labels);
            let template = Template::of(Some(&template), "spec.template", "ReplicaSet").unwrap();
            let selector = selector.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            check_map(&selector.collect(), template).map_err(|error| error.field)
        };
        assert_eq!(check(&[("a", "b")], r#"{"a": "b"}"#), Ok(()));
        assert_eq!(check(&[], r#"{"a": "b"}"#), Ok(()));
        let field = "spec.template.metadata.labels".to_owned();
        assert_eq!(check(&[("a", "c")], r#"{"a": "b"}"#), Err(field));
        assert_eq!(check(&[], "{}"), Err("spec.selector".to_owned()));
    }
}
