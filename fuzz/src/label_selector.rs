//! Label selectors as text, the grammar of list requests: a selector selects what all of its parts select.

use std::sync::Arc;

use berth_server::service::label_selector::LabelSelector;

use crate::work::bounded;

/// Labels against which selectors are matched; the dictionary has the same keys and values.
const LABELS: [&[(&str, &str)]; 5] = [
    &[],
    &[("a", "1")],
    &[("a", "x"), ("b", "")],
    &[("a", "6"), ("in", "in"), ("zone.io/b", "notin")],
    &[("a", "9223372036854775807"), ("b", "2")],
];

/// Checks the bytes as the text of a selector.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let selector = match bounded(text.len(), 64, || LabelSelector::parse(text)) {
        Ok(selector) => selector,
        Err(reason) => {
            assert!(!reason.is_empty() && reason.len() <= text.len() + 200, "{reason}");
            return;
        }
    };
    let holds = |selector: &LabelSelector| LABELS.map(|labels| selector.matches(&owned(labels)));
    // White space around it and a requirement that always holds have no effect.
    assert_eq!(LabelSelector::parse(&format!(" \t{text}\r\n")).unwrap(), selector);
    let is_empty = selector == LabelSelector::default();
    assert_eq!(is_empty, text.trim_matches([' ', '\t', '\r', '\n']).is_empty(), "`{text}`");
    if is_empty {
        assert_eq!(holds(&selector), [true; LABELS.len()]);
        return;
    }
    let twice = LabelSelector::parse(&format!("{text},{text}")).unwrap();
    assert_eq!(holds(&twice), holds(&selector), "`{text}` twice");
    let narrowed = LabelSelector::parse(&format!("{text},!never,a")).unwrap();
    let has_a = |labels: &[(&str, &str)]| labels.iter().any(|(key, _)| *key == "a");
    for (labels, is_held) in LABELS.into_iter().zip(holds(&selector)) {
        assert_eq!(narrowed.matches(&owned(labels)), is_held && has_a(labels), "`{text}`");
    }
    check_equality(text);
}

/// Checks that `k=v` is `k in (v)`, and that `k!=v` is its negation.
fn check_equality(text: &str) {
    let Some((key, value)) = text.split_once('=') else { return };
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if !is_plain(key) || !is_plain(value) {
        return;
    }
    let parse = |text: String| LabelSelector::parse(&text).unwrap();
    let equal = parse(format!("{key} == {value}"));
    assert_eq!(equal, parse(format!("{key} in ({value})")));
    let unequal = parse(format!("{key}!={value}"));
    assert_eq!(unequal, parse(format!("{key} notin ({value})")));
    for labels in LABELS {
        assert_ne!(equal.matches(&owned(labels)), unequal.matches(&owned(labels)), "`{text}`");
    }
}

fn owned(labels: &[(&str, &str)]) -> Vec<(Arc<str>, Arc<str>)> {
    labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}
