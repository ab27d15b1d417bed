//! Wording: quantities, requirements and selectors as readable text.

use std::sync::Arc;

use crate::model::intern::{Interner, Symbol};
use crate::model::label_selector::LabelSelector;
use crate::model::selector::{Requirement, Rule};

/// An amount of a resource without its name: `500m`, `1.7`, `345Gi`, `2`. Exact.
pub(crate) fn quantity(resource: &str, amount: i64) -> String {
    if resource == "cpu" {
        return cores(amount);
    }
    let is_whole = |size: i64| is_bytes(resource) && amount != 0 && amount % size == 0;
    match UNITS.iter().find(|(size, _)| is_whole(*size)) {
        Some((size, suffix)) => format!("{}{suffix}", amount / size),
        None if is_bytes(resource) && amount != 0 => format!("{amount} bytes"),
        None => amount.to_string(),
    }
}

/// An amount of milli-cpu: below one core in milli-units, else in cores.
fn cores(milli: i64) -> String {
    let (whole, rest) = (milli / 1000, milli % 1000);
    match (whole, rest) {
        (0, rest) if rest != 0 => format!("{rest}m"),
        (whole, 0) => whole.to_string(),
        (whole, rest) => {
            let rest = format!("{:03}", rest.abs());
            format!("{whole}.{}", rest.trim_end_matches('0'))
        }
    }
}

/// How an amount of bytes is rounded.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Toward less: what is free is not overstated.
    Down,
    /// Toward more: what is asked for is not understated.
    Up,
}

/// An amount of a resource for people: `500m` and `1.7` for cpu, `4.9Gi` for bytes, `2` for anything else. Amounts are
/// milli-units of cpu and whole units of everything else; only bytes are rounded, to a tenth of their largest unit.
pub fn amount_text(resource: &str, amount: i64, rounding: Rounding) -> String {
    let of_unit = |(size, suffix): &(i64, &str)| {
        let (tenths, size) = (i128::from(amount).abs() * 10, i128::from(*size));
        // The distance from zero shrinks where a negative amount is rounded up.
        let is_away = (rounding == Rounding::Up) == (amount >= 0);
        let tenths = if is_away { (tenths + size - 1) / size } else { tenths / size };
        let sign = if amount < 0 { "-" } else { "" };
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{sign}{whole}{suffix}"),
            (whole, tenth) => format!("{sign}{whole}.{tenth}{suffix}"),
        }
    };
    let is_unit = |size: i64| is_bytes(resource) && amount.unsigned_abs() >= size.unsigned_abs();
    let unit = UNITS.iter().find(|(size, _)| is_unit(*size));
    unit.map_or_else(|| quantity(resource, amount), of_unit)
}

/// An amount of bytes in whole units of the largest kind that it has at least ten of, rounded up; other amounts
/// unchanged.
pub(crate) fn rounded_up(resource: &str, amount: i64) -> i64 {
    match UNITS.iter().find(|(size, _)| is_bytes(resource) && amount / 10 >= *size) {
        Some((size, _)) => (amount + size - 1) / size * size,
        None => amount,
    }
}

/// Units of bytes, largest first.
const UNITS: [(i64, &str); 5] =
    [(1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];

fn is_bytes(resource: &str) -> bool {
    matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

/// A requirement's key, operator and values; values are in text order.
pub(crate) fn parts(
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
pub(crate) fn requirement(requirement: &Requirement, names: &Interner) -> String {
    let (key, operator, values) = parts(requirement, names);
    expression(&key, operator, &values)
}

/// A key, an operator and values in the same way.
pub(super) fn expression(key: &str, operator: &str, values: &[Arc<str>]) -> String {
    let listed = values.join(",");
    match operator {
        "In" if values.len() == 1 => format!("{key}={listed}"),
        "In" => format!("{key} in ({listed})"),
        "NotIn" if values.len() == 1 => format!("{key}!={listed}"),
        "NotIn" => format!("{key} notin ({listed})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        "Gt" => format!("{key}>{listed}"),
        _ => format!("{key}<{listed}"),
    }
}

/// Text for the pods that a selector matches: `pods with `app=web``; an absent one matches none, an empty one all.
pub(crate) fn pods_of(selector: Option<&LabelSelector>, names: &Interner) -> String {
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
pub(crate) fn nodes(nodes: &[Arc<str>]) -> String {
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
            ("cpu", 1700, 1700, "1.7"),
            ("cpu", 250, 250, "250m"),
            ("cpu", 675_580, 675_580, "675.58"),
            ("cpu", 3000, 3000, "3"),
            ("cpu", 0, 0, "0"),
            ("cpu", -2500, -2500, "-2.5"),
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

    /// What is asked never reads as no more than what is free where it is more.
    #[test]
    fn bytes_for_people() {
        for (amount, down, up) in [
            (0, "0", "0"),
            (1 << 30, "1Gi", "1Gi"),
            ((1 << 30) + 1, "1Gi", "1.1Gi"),
            ((1 << 30) - 1, "1023.9Mi", "1024Mi"),
            (-(3 << 29), "-1.5Gi", "-1.5Gi"),
            (-(3 << 29) - 1, "-1.6Gi", "-1.5Gi"),
            (1023, "1023 bytes", "1023 bytes"),
            (i64::MIN, "-8192Pi", "-8192Pi"),
        ] {
            assert_eq!(amount_text("memory", amount, Rounding::Down), down, "{amount}");
            assert_eq!(amount_text("memory", amount, Rounding::Up), up, "{amount}");
        }
        assert_eq!(amount_text("cpu", 1700, Rounding::Up), "1.7");
        assert_eq!(amount_text("nvidia.com/gpu", 2, Rounding::Up), "2");
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
