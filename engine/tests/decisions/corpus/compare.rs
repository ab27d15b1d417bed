//! Compares one attempt of the naive scheduler with its record.

use std::collections::BTreeMap;

use berth_engine::{Plugin, Verdict};
use berth_proto::core_v1::Pod;
use serde_json::{Map, Value, json};

use super::preemption;
use crate::naive::attempt::{Account, Attempt};
use crate::naive::cluster::NaiveCluster;
use crate::naive::pod;
use crate::naive::post_filter::{PostFilter, whole_message};

/// An outcome of the naive scheduler, with the cluster and the pod.
pub(crate) struct Got<'a> {
    pub(crate) cluster: &'a NaiveCluster,
    pub(crate) pod: &'a Pod,
    pub(crate) attempt: Attempt,
    pub(crate) post_filter: Option<PostFilter>,
}

/// Returns every difference between the attempt and its record, as text.
pub(crate) fn differences(case: &Value, step: &Value, got: &Got<'_>) -> Vec<String> {
    let expect = &step["expect"];
    let mut found = Vec::new();
    let mut check = |what: &str, expected: Value, got: Value| {
        if expected != got {
            found.push(format!("{what}: expected {expected}, got {got}"));
        }
    };
    let refusal = |plugin: Plugin, reason: &str| json!({"plugin": plugin.name(), "code": "UnschedulableAndUnresolvable", "reasons": [reason]});
    check("error", json!(!expect["error"].is_null()), json!(matches!(got.attempt, Attempt::Error)));
    let gated = match &got.attempt {
        Attempt::Gated(reason) => refusal(Plugin::SchedulingGates, reason),
        _ => Value::Null,
    };
    check("preenqueue", expect["preenqueue"].clone(), gated);
    let refused = match &got.attempt {
        Attempt::Refused { by: Some((plugin, reason)), .. } => refusal(*plugin, reason),
        _ => Value::Null,
    };
    check("prefilter", expect["prefilter"].clone(), refused);
    preemption::compare(case, step, got, &mut check);
    let recorded = expect.get("message").cloned().unwrap_or(json!(""));
    match &got.attempt {
        Attempt::Refused { message, .. } => {
            check("message", recorded, json!(whole(message, got)));
        }
        Attempt::Decided(account) => {
            check("feasible", expect["feasible"].clone(), json!(feasible(account)));
            check("message", recorded, json!(whole(&account.message, got)));
            let is_nominated = account.is_nominated.then_some(true);
            check("viaNominatedNode", expect["viaNominatedNode"].clone(), json!(is_nominated));
            let is_full = |detail: &str| case[detail].is_null();
            if is_full("rejectDetail") && !account.is_nominated {
                let expected = expect.get("rejected").cloned().unwrap_or(json!({}));
                each(&expected, &json!(rejected(account)), |n, e, g| {
                    check(&format!("rejected {n}"), e, g)
                });
            }
            if let Some(best) = expect.get("best") {
                check("best", best.clone(), json!(best_of(account)));
            }
            if let Some(expected) = expect.get("scores") {
                check_scores(case, expected, &expect["raw"], account, &mut check);
            }
            if let Some(node) = expect["bind"].as_str().filter(|_| !account.volumes.is_empty()) {
                check("volumes", volumes(&expect["volumes"]), bindings(account, got.pod, node));
            }
        }
        Attempt::Gated(_) | Attempt::Error => {}
    }
    found
}

fn feasible(account: &Account) -> Vec<&str> {
    let is_feasible = |verdict: &Verdict| matches!(verdict, Verdict::Feasible { .. });
    account.nodes.iter().filter(|n| is_feasible(&n.verdict)).map(|n| &*n.node).collect()
}

fn best_of(account: &Account) -> Vec<&str> {
    account.best.iter().map(|name| &**name).collect()
}

fn rejected(account: &Account) -> BTreeMap<&str, Value> {
    let of = |verdict: &Verdict| match verdict {
        Verdict::Feasible { .. } => None,
        Verdict::Rejected { plugin, code, reasons } => {
            let mut reasons = reasons.clone();
            reasons.sort();
            let (plugin_name, code) = (plugin.map_or("", Plugin::name), code.as_str());
            let mut refusal = json!({"plugin": plugin_name, "code": code, "reasons": reasons});
            if plugin.is_none() {
                refusal["preFilterResult"] = json!(true);
            }
            Some(refusal)
        }
    };
    account.nodes.iter().filter_map(|n| Some((&*n.node, of(&n.verdict)?))).collect()
}

/// Compares the recorded raw and weighted scores of each node, and their sum.
fn check_scores(
    case: &Value,
    expected: &Value,
    raw: &Value,
    account: &Account,
    check: &mut impl FnMut(&str, Value, Value),
) {
    let detail = case["scoreDetail"].as_str();
    let (mut of_weighted, mut of_raw) = (Map::new(), Map::new());
    for node in &account.nodes {
        let Verdict::Feasible { scores, total, .. } = &node.verdict else {
            continue;
        };
        if detail == Some("best") && expected.get(&*node.node).is_none() {
            continue;
        }
        // The plugin is missing from the record, because its score is 0 everywhere.
        let scores = scores.iter().filter(|score| score.plugin != Plugin::DynamicResources);
        let (mut weighted, mut raw) = (Map::new(), Map::new());
        for score in scores.filter(|_| detail != Some("totals")) {
            weighted.insert(score.plugin.name().to_owned(), json!(score.weighted));
            raw.insert(score.plugin.name().to_owned(), json!(score.raw));
        }
        weighted.insert("total".to_owned(), json!(total));
        of_weighted.insert(node.node.to_string(), weighted.into());
        of_raw.insert(node.node.to_string(), raw.into());
    }
    each(expected, &of_weighted.into(), |n, e, g| check(&format!("scores of {n}"), e, g));
    if !raw.is_null() {
        each(raw, &of_raw.into(), |n, e, g| check(&format!("raw scores of {n}"), e, g));
    }
}

pub(crate) fn each(expected: &Value, got: &Value, mut check: impl FnMut(&str, Value, Value)) {
    let keys = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect::<Vec<_>>()
    };
    let mut names = keys(expected);
    names.extend(keys(got));
    names.sort();
    names.dedup();
    for name in names {
        check(&name, expected[&name].clone(), got[&name].clone());
    }
}

/// Returns the recorded volumes, with an entry for each part even if it is empty.
fn volumes(recorded: &Value) -> Value {
    let part = |name: &str, empty: Value| recorded.get(name).cloned().unwrap_or(empty);
    json!({"static": part("static", json!({})), "provision": part("provision", json!([]))})
}

/// Returns the volumes that would be bound and provisioned on a node, by claim and namespace.
fn bindings(account: &Account, of: &Pod, node: &str) -> Value {
    let key = |claim: &String| format!("{}/{claim}", pod::namespace(of));
    let bindings = account.volumes.get(node).cloned().unwrap_or_default();
    let bound: BTreeMap<String, &String> =
        bindings.bound.iter().map(|(c, v)| (key(c), v)).collect();
    json!({"static": bound, "provision": bindings.provisioned.iter().map(key).collect::<Vec<_>>()})
}

fn whole(message: &str, got: &Got<'_>) -> String {
    let post_filter =
        got.post_filter.as_ref().and_then(|post_filter| post_filter.message.as_deref());
    whole_message(message, post_filter.unwrap_or_default())
}
