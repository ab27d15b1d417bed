//! What admission did to the pods of a command, for people: the fields that decide and were filled in, and the
//! warnings.

use std::borrow::Cow;

use berth_proto::berth_v1::{Admission, AdmissionChange, BatchEntry};

use super::manifest;

/// Sources of values that every pod gets alike: they are in the structured output only.
const USUAL: [&str; 5] = [
    "default",
    "DefaultTolerationSeconds",
    "ServiceAccount",
    "serviceAccountName",
    "serviceAccount",
];

/// Whether a value of this source is one that every pod gets alike.
pub(super) fn is_usual(source: &str) -> bool {
    USUAL.contains(&source)
}

/// Maximum number of pods that are listed, and of fields for each.
const MAX_PODS: usize = 20;
const MAX_FIELDS: usize = 8;

/// The name of each entry's pod.
pub(super) fn names(entries: &[BatchEntry]) -> Vec<String> {
    entries.iter().map(manifest::name_of_entry).collect()
}

/// Pairs each admission with the name of the pod that it is about.
pub(super) fn named<'a>(
    admissions: &'a [Admission],
    names: &'a [String],
) -> impl Iterator<Item = (&'a str, &'a Admission)> {
    admissions.iter().map(|admission| {
        let index = usize::try_from(admission.index).unwrap_or(usize::MAX);
        (names.get(index).map_or("-", String::as_str), admission)
    })
}

/// Returns lines such as `filled in: shop/web: priority 100000 (PriorityClass high)`; `None` if there is nothing to
/// tell. Each admission comes with the name of its pod.
pub(super) fn filled_in<'a>(
    admissions: impl Iterator<Item = (&'a str, &'a Admission)>,
) -> Option<String> {
    let mut lines: Vec<String> = admissions
        .filter_map(|(name, admission)| {
            Some(format!("filled in: {}: {}", full_name(name, admission), fields(admission)?))
        })
        .collect();
    let n_more = lines.len().saturating_sub(MAX_PODS);
    lines.truncate(MAX_PODS);
    if n_more > 0 {
        lines.push(format!("filled in: {} more", super::output::count(n_more, "pod")));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The pod's name; of one that has only a prefix, the name that was generated.
fn full_name<'a>(name: &'a str, admission: &Admission) -> Cow<'a, str> {
    let generated = admission.admitted.iter().find(|change| change.field == "metadata.name");
    match (generated, name.split_once('/')) {
        (Some(generated), Some((namespace, _))) => {
            Cow::Owned(format!("{namespace}/{}", generated.value))
        }
        _ => Cow::Borrowed(name),
    }
}

/// The fields of one pod that were filled in and are not the same for every pod.
fn fields(admission: &Admission) -> Option<String> {
    let is_notable = |change: &&AdmissionChange| {
        let is_named = change.field == "metadata.name";
        !is_named && !is_usual(&change.source) || change.field.ends_with(".whenUnsatisfiable")
    };
    let notable: Vec<&AdmissionChange> = admission.admitted.iter().filter(is_notable).collect();
    let mut texts: Vec<String> = notable.iter().take(MAX_FIELDS).map(|it| text(it)).collect();
    if notable.len() > MAX_FIELDS {
        texts.push(format!("{} more", notable.len() - MAX_FIELDS));
    }
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn text(change: &AdmissionChange) -> String {
    let AdmissionChange { field, value, source } = change;
    let field = field.strip_prefix("spec.").unwrap_or(field);
    format!("{field} {value} ({source})")
}

/// The warnings as notes, each with the name of its pod.
pub(super) fn notes<'a>(admissions: impl Iterator<Item = (&'a str, &'a Admission)>) -> Vec<String> {
    let of_one = |(name, admission): (&str, &Admission)| -> Vec<String> {
        let warnings = admission.warnings.iter();
        warnings.map(|it| format!("{name}: {} ({})", it.message, it.source)).collect()
    };
    admissions.flat_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::berth_v1::AdmissionWarning;

    fn change(field: &str, value: &str, source: &str) -> AdmissionChange {
        let [field, value, source] = [field, value, source].map(str::to_owned);
        AdmissionChange { field, value, source }
    }

    #[test]
    fn usual_defaults_are_not_listed() {
        let mut admission = Admission {
            admitted: vec![
                change("spec.dnsPolicy", "ClusterFirst", "default"),
                change("spec.priority", "9", "PriorityClass high"),
                change(
                    "spec.topologySpreadConstraints[0].whenUnsatisfiable",
                    "DoNotSchedule",
                    "default",
                ),
            ],
            ..Admission::default()
        };
        assert_eq!(
            filled_in([("a/b", &admission)].into_iter()).unwrap(),
            "filled in: a/b: priority 9 (PriorityClass high), topologySpreadConstraints[0].whenUnsatisfiable DoNotSchedule (default)"
        );
        admission.admitted.push(change("metadata.name", "web-x2x", "generateName"));
        let generated = filled_in([("a/web-", &admission)].into_iter()).unwrap();
        assert!(generated.starts_with("filled in: a/web-x2x: priority 9"), "{generated}");
        admission.admitted.truncate(1);
        assert_eq!(filled_in([("a/b", &admission)].into_iter()), None);
        admission.admitted = vec![change("spec.x", "1", "limits"); MAX_FIELDS + 2];
        let many = filled_in(std::iter::repeat_n(("p", &admission), MAX_PODS + 3)).unwrap();
        assert!(many.contains("(limits), 2 more\n"), "{many}");
        assert!(many.ends_with("\nfilled in: 3 pods more"), "{many}");
    }

    #[test]
    fn warnings_become_notes() {
        let warning = AdmissionWarning {
            source: "ResourceQuota a/q".to_owned(),
            message: "exceeded quota: q".to_owned(),
            quota: None,
        };
        let admission = Admission { warnings: vec![warning], ..Admission::default() };
        let notes = notes([("a/b", &admission)].into_iter());
        assert_eq!(notes, ["a/b: exceeded quota: q (ResourceQuota a/q)"]);
    }
}
