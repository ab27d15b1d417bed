//! `matchLabelKeys` and `mismatchLabelKeys`: the API server adds requirements on the values of the pod's own labels to
//! the selectors. Rule: A-DEF-13.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Pod, PodAffinityTerm};
use berth_proto::meta_v1::{LabelSelector, LabelSelectorRequirement};

use super::filling::Filling;

pub(super) fn fill(pod: &mut Pod, filling: &mut Filling) {
    let Pod { metadata: Some(metadata), spec: Some(spec), .. } = pod else { return };
    let labels = &metadata.labels;
    for (index, constraint) in spec.topology_spread_constraints.iter_mut().enumerate() {
        let at = format!("spec.topologySpreadConstraints[{index}]");
        let keys = [("In", "matchLabelKeys", constraint.match_label_keys.as_slice())];
        add(constraint.label_selector.as_mut(), &keys, labels, &at, filling);
    }
    let Some(affinity) = &mut spec.affinity else { return };
    if let Some(near) = &mut affinity.pod_affinity {
        let at = "spec.affinity.podAffinity";
        let required = &mut near.required_during_scheduling_ignored_during_execution;
        let preferred = &mut near.preferred_during_scheduling_ignored_during_execution;
        let preferred = preferred.iter_mut().map(|weighted| weighted.pod_affinity_term.as_mut());
        of_terms(required.iter_mut().map(Some), labels, at, REQUIRED, filling);
        of_terms(preferred, labels, at, PREFERRED, filling);
    }
    if let Some(far) = &mut affinity.pod_anti_affinity {
        let at = "spec.affinity.podAntiAffinity";
        let required = &mut far.required_during_scheduling_ignored_during_execution;
        let preferred = &mut far.preferred_during_scheduling_ignored_during_execution;
        let preferred = preferred.iter_mut().map(|weighted| weighted.pod_affinity_term.as_mut());
        of_terms(required.iter_mut().map(Some), labels, at, REQUIRED, filling);
        of_terms(preferred, labels, at, PREFERRED, filling);
    }
}

/// A list of terms, and the path from an entry to its term.
const REQUIRED: (&str, &str) = ("requiredDuringSchedulingIgnoredDuringExecution", "");
const PREFERRED: (&str, &str) =
    ("preferredDuringSchedulingIgnoredDuringExecution", ".podAffinityTerm");

fn of_terms<'a>(
    terms: impl Iterator<Item = Option<&'a mut PodAffinityTerm>>,
    labels: &BTreeMap<String, String>,
    at: &str,
    (list, path): (&str, &str),
    filling: &mut Filling,
) {
    for (index, term) in terms.enumerate() {
        let Some(term) = term else { continue };
        let at = format!("{at}.{list}[{index}]{path}");
        let keys = [
            ("In", "matchLabelKeys", term.match_label_keys.as_slice()),
            ("NotIn", "mismatchLabelKeys", term.mismatch_label_keys.as_slice()),
        ];
        add(term.label_selector.as_mut(), &keys, labels, &at, filling);
    }
}

/// Adds a requirement for each key that the pod has as a label, unless it is there. An absent selector stays absent.
fn add(
    selector: Option<&mut LabelSelector>,
    keys: &[(&str, &str, &[String])],
    labels: &BTreeMap<String, String>,
    at: &str,
    filling: &mut Filling,
) {
    let Some(selector) = selector else { return };
    for (operator, source, keys) in keys {
        for key in *keys {
            let Some(value) = labels.get(key) else { continue };
            let requirement = LabelSelectorRequirement {
                key: key.clone(),
                operator: (*operator).to_owned(),
                values: vec![value.clone()],
            };
            if !selector.match_expressions.contains(&requirement) {
                let field = format!(
                    "{at}.labelSelector.matchExpressions[{}]",
                    selector.match_expressions.len()
                );
                filling.note(field, format!("{key} {operator} ({value})"), *source);
                selector.match_expressions.push(requirement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A-DEF-13
    #[test]
    fn requirements_follow_from_the_labels() {
        let term = r#"{"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["rev", "gone"], "mismatchLabelKeys": ["app"]}"#;
        let json = format!(
            r#"{{"metadata": {{"labels": {{"rev": "7", "app": "a"}}}}, "spec": {{
                "topologySpreadConstraints": [{{"labelSelector": {{}}, "matchLabelKeys": ["rev"]}}, {{"matchLabelKeys": ["rev"]}}],
                "affinity": {{"podAffinity": {{"preferredDuringSchedulingIgnoredDuringExecution": [
                    {{"weight": 1, "podAffinityTerm": {term}}}]}},
                  "podAntiAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": [{term}]}}}}}}}}"#
        );
        let mut pod: Pod = serde_json::from_str(&json).unwrap();
        let mut filling = Filling::default();
        fill(&mut pod, &mut filling);
        let lines: Vec<String> = filling
            .finish()
            .filled
            .into_iter()
            .map(|it| format!("{}: {} ({})", it.field, it.value, it.source))
            .collect();
        let near = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm";
        let far = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
        let expected = [
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0]: rev In (7) (matchLabelKeys)".to_owned(),
            format!("{near}.labelSelector.matchExpressions[0]: rev In (7) (matchLabelKeys)"),
            format!("{near}.labelSelector.matchExpressions[1]: app NotIn (a) (mismatchLabelKeys)"),
            format!("{far}.labelSelector.matchExpressions[0]: rev In (7) (matchLabelKeys)"),
            format!("{far}.labelSelector.matchExpressions[1]: app NotIn (a) (mismatchLabelKeys)"),
        ];
        assert_eq!(lines, expected);
        let mut again = Filling::default();
        fill(&mut pod, &mut again);
        assert_eq!(again.finish().filled, []);
    }
}
