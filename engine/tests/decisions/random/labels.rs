//! Random labels of pods, and selectors over them, from one small vocabulary.

use std::collections::BTreeMap;

use berth_proto::meta_v1::{LabelSelector, LabelSelectorRequirement};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Namespaces of pods; the last never has an object.
pub(crate) const NAMESPACES: [&str; 4] = ["default", "team-a", "team-b", "ghost"];

pub(crate) fn namespace() -> BoxedStrategy<String> {
    prop_oneof![5 => Just("default"), 3 => select(NAMESPACES.to_vec())]
        .prop_map(str::to_owned)
        .boxed()
}

/// Generates labels of a pod, or a map of required labels.
pub(crate) fn pod_labels() -> BoxedStrategy<BTreeMap<String, String>> {
    let app = select(vec![None, Some("web"), Some("web"), Some("db")]);
    let tier = select(vec![None, None, Some("front"), Some("back")]);
    let revision = select(vec![None, Some("1"), Some("2")]);
    (app, tier, revision)
        .prop_map(|(app, tier, revision)| {
            let pairs = [("app", app), ("tier", tier), ("revision", revision)];
            pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                .collect()
        })
        .boxed()
}

/// Generates labels of a namespace.
pub(crate) fn namespace_labels() -> BoxedStrategy<BTreeMap<String, String>> {
    select(vec![None, Some("a"), Some("b")])
        .prop_map(|team| {
            team.map(|team| ("team".to_owned(), team.to_owned())).into_iter().collect()
        })
        .boxed()
}

/// Generates a selector over pods: most parse, some are absent or empty.
pub(crate) fn pod_selector() -> BoxedStrategy<Option<LabelSelector>> {
    let invalid = select(vec![
        requirement("app", "in", &["web"]),
        requirement("app", "In", &[]),
        requirement("not a key", "Exists", &[]),
        requirement("app", "NotIn", &["not a value!"]),
        requirement("app", "Exists", &["web"]),
    ]);
    prop_oneof![
        24 => valid_pod_selector().prop_map(Some),
        1 => Just(None),
        1 => vec(invalid, 1..2).prop_map(|invalid| Some(of_expressions(invalid))),
    ]
    .boxed()
}

/// Generates a selector over pods that parses.
pub(crate) fn valid_pod_selector() -> BoxedStrategy<LabelSelector> {
    let expressions = select(vec![
        requirement("app", "In", &["web"]),
        requirement("app", "In", &["web", "db"]),
        requirement("app", "NotIn", &["web"]),
        requirement("app", "Exists", &[]),
        requirement("tier", "Exists", &[]),
        requirement("tier", "DoesNotExist", &[]),
        requirement("tier", "NotIn", &["front", "unheard"]),
        requirement("unheard", "DoesNotExist", &[]),
        requirement("unheard", "Exists", &[]),
    ]);
    let of_app = select(vec!["web", "db"]).prop_map(|app| LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        ..LabelSelector::default()
    });
    let both = (pod_labels(), vec(expressions.clone(), 1..2)).prop_map(
        |(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions },
    );
    prop_oneof![
        5 => of_app,
        4 => vec(expressions, 1..3).prop_map(of_expressions),
        2 => both,
        1 => Just(LabelSelector::default()),
    ]
    .boxed()
}

fn of_expressions(match_expressions: Vec<LabelSelectorRequirement>) -> LabelSelector {
    LabelSelector { match_expressions, ..LabelSelector::default() }
}

/// Generates a selector over namespaces.
pub(crate) fn namespace_selector() -> BoxedStrategy<Option<LabelSelector>> {
    let expression = select(vec![
        requirement("team", "In", &["a"]),
        requirement("team", "In", &["a", "b"]),
        requirement("team", "NotIn", &["a"]),
        requirement("team", "DoesNotExist", &[]),
        requirement("team", "Exists", &[]),
    ]);
    let one = vec(expression, 1..3).prop_map(|match_expressions| {
        Some(LabelSelector { match_expressions, ..LabelSelector::default() })
    });
    prop_oneof![5 => Just(None), 1 => Just(Some(LabelSelector::default())), 3 => one].boxed()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}
