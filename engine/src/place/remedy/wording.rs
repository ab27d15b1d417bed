//! Wording: quantities, requirements and selectors as readable text.

use std::sync::Arc;

use crate::model::intern::{Interner, Symbol};
use crate::model::label_selector::LabelSelector;
use crate::model::selector::{Requirement, Rule};

/// An amount of a resource without its name: `500m`, `345Gi`, `2`. Exact.
pub(super) fn quantity(resource: &str, amount: i64) -> String {
    if resource == "cpu" {
        return format!("{amount}m");
    }
    let unit = UNITS.iter().find(|(size, _)| is_bytes(resource) && amount % size == 0);
    match unit {
        Some((size, suffix)) => format!("{}{suffix}", amount / size),
        None if is_bytes(resource) => format!("{amount} bytes"),
        None => amount.to_string(),
    }
}

/// An amount of bytes in whole units of the largest kind that it has at least ten of, rounded up; other amounts
/// unchanged.
pub(super) fn rounded_up(resource: &str, amount: i64) -> i64 {
    match UNITS.iter().find(|(size, _)| is_bytes(resource) && amount / 10 >= *size) {
        Some((size, _)) => (amount + size - 1) / size * size,
        None => amount,
    }
}

/// Units of bytes, largest first.
const UNITS: [(i64, &str); 4] =
    [(1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];

fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// A requirement's key, operator and values; values are in text order.
pub(super) fn parts(
    requirement: &Requirement,
    names: &Interner,
) -> (Arc<str>, &'static str, Vec<Arc<str>>) {
    let texts = |values: &[Symbol]| {
        let mut texts: Vec<Arc<str>> = values.iter().map(|value| names.name(*value)).collect();
        texts.sort_unstable();
        texts
    };
    let (operator, values) = match &requirement.rule {
        Rule::In(values) => ("In", texts(values)),
        Rule::NotIn(values) => ("NotIn", texts(values)),
        Rule::Exists => ("Exists", Vec::new()),
        Rule::DoesNotExist => ("DoesNotExist", Vec::new()),
        Rule::Gt(bound) => ("Gt", vec![bound.to_string().into()]),
        Rule::Lt(bound) => ("Lt", vec![bound.to_string().into()]),
    };
    (names.name(requirement.key), operator, values)
}

/// A requirement as `kubectl` writes selectors, extended by `>` and `<`.
pub(super) fn requirement(requirement: &Requirement, names: &Interner) -> String {
    let (key, operator, values) = parts(requirement, names);
    let listed = values.join(",");
    match operator {
        "In" if values.len() == 1 => format!("{key}={listed}"),
        "In" => format!("{key} in ({listed})"),
        "NotIn" if values.len() == 1 => format!("{key}!={listed}"),
        "NotIn" => format!("{key} notin ({listed})"),
        "Exists" => key.to_string(),
        "DoesNotExist" => format!("!{key}"),
        "Gt" => format!("{key}>{listed}"),
        _ => format!("{key}<{listed}"),
    }
}

/// Text for the pods that a selector matches: `pods with `app=web``; an absent one matches none, an empty one all.
pub(super) fn pods_of(selector: Option<&LabelSelector>, names: &Interner) -> String {
    match selector {
        None => "no pod at all".into(),
        Some(selector) if selector.is_empty() => "all pods".into(),
        Some(selector) => {
            let mut listed: Vec<String> =
                selector.requirements.iter().map(|r| requirement(r, names)).collect();
            listed.sort_unstable();
            format!("pods with `{}`", listed.join(","))
        }
    }
}

/// Text for nodes: `one` by name, or how many.
pub(super) fn nodes(nodes: &[Arc<str>]) -> String {
    match nodes {
        [node] => format!("`{node}`"),
        nodes => format!("{} nodes", nodes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_for_people() {
        for (resource, exact, rounded, text) in [
            ("cpu", 1700, 1700, "1700m"),
            ("memory", 370_041_911_296, 345 << 30, "345Gi"),
            ("memory", 1 << 30, 1 << 30, "1Gi"),
            ("memory", (1 << 30) + 1, 1025 << 20, "1025Mi"),
            ("ephemeral-storage", 1023, 1023, "1023 bytes"),
            ("nvidia.com/gpu", 2, 2, "2"),
            ("hugepages-2Mi", 2 << 20, 2 << 20, "2Mi"),
        ] {
            assert_eq!(rounded_up(resource, exact), rounded);
            assert_eq!(quantity(resource, rounded), text);
        }
    }

    #[test]
    fn requirements_for_people() {
        let names = Interner::new();
        let values = |texts: &[&str]| texts.iter().map(|text| names.intern(text)).collect();
        for (rule, expected) in [
            (Rule::In(values(&["b"])), "zone=b"),
            (Rule::In(values(&["b", "a"])), "zone in (a,b)"),
            (Rule::NotIn(values(&["b"])), "zone!=b"),
            (Rule::NotIn(values(&["b", "a"])), "zone notin (a,b)"),
            (Rule::Exists, "zone"),
            (Rule::DoesNotExist, "!zone"),
            (Rule::Gt(3), "zone>3"),
            (Rule::Lt(-1), "zone<-1"),
        ] {
            let zone = Requirement { key: names.intern("zone"), rule };
            assert_eq!(requirement(&zone, &names), expected);
            let selector = LabelSelector::of([zone].into_iter().collect());
            assert_eq!(pods_of(Some(&selector), &names), format!("pods with `{expected}`"));
        }
        assert_eq!(pods_of(None, &names), "no pod at all");
        assert_eq!(pods_of(Some(&LabelSelector::default()), &names), "all pods");
    }
}
