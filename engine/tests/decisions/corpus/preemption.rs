//! Compares the outcome of PostFilter with its record, and the recorded effects with those that the outcome implies.

use berth_engine::{Nomination, PostFilterCode};
use serde_json::{Map, Value, json};

use super::compare::{Got, each};
use crate::naive::dry_run::{Candidate, NotHelped};
use crate::naive::pod;
use crate::naive::post_filter::{PostFilter, cleared_nominations};

pub(crate) fn compare(
    case: &Value,
    step: &Value,
    got: &Got<'_>,
    check: &mut impl FnMut(&str, Value, Value),
) {
    let recorded = &step["expect"]["preemption"];
    let is_there = |value: bool| json!(value);
    check("preemption", is_there(!recorded.is_null()), is_there(got.post_filter.is_some()));
    let (Some(post_filter), false) = (&got.post_filter, recorded.is_null()) else {
        return;
    };
    check("preemption code", recorded["code"].clone(), json!(code(post_filter.code)));
    let message = recorded.get("message").cloned().unwrap_or(json!(""));
    check("preemption message", message, json!(post_filter.message));
    check("best candidates", or_empty(&recorded["best"]), json!(post_filter.best));
    compare_candidates(case, recorded, post_filter, check);
    compare_effects(step, got, post_filter, check);
}

fn compare_candidates(
    case: &Value,
    recorded: &Value,
    post_filter: &PostFilter,
    check: &mut impl FnMut(&str, Value, Value),
) {
    let by_node = |candidates: &[Value]| {
        let pair = |value: &Value| Some((value["node"].as_str()?.to_owned(), value.clone()));
        Value::from(candidates.iter().filter_map(pair).collect::<Map<_, _>>())
    };
    let is_full = case["scoreDetail"].is_null();
    if !is_full && !post_filter.candidates.is_empty() {
        let n = json!(post_filter.candidates.len());
        check("number of candidates", recorded["candidateCount"].clone(), n);
    }
    let is_told = |candidate: &&Candidate| is_full || post_filter.best.contains(&candidate.node);
    let candidates = post_filter.candidates.iter().filter(is_told).map(|candidate| {
        let victims: Vec<String> = candidate.victims.iter().map(pod::key).collect();
        json!({"node": candidate.node, "victims": victims, "pdbViolations": candidate.n_pdb_violations})
    });
    let candidates: Vec<Value> = candidates.collect();
    let expected = by_node(recorded["candidates"].as_array().map_or(&[], Vec::as_slice));
    each(&expected, &by_node(&candidates), |n, e, g| check(&format!("candidate {n}"), e, g));
    if is_full {
        let of = |(name, status): (&String, &NotHelped)| (name.clone(), status_value(status));
        let not_helped: Map<_, _> = post_filter.not_helped.iter().map(of).collect();
        each(&recorded["notHelped"], &not_helped.into(), |n, e, g| {
            check(&format!("not helped {n}"), e, g)
        });
    }
    if let Some(chosen) = recorded["chosen"].as_str() {
        let of_chosen = candidates.iter().find(|candidate| candidate["node"] == chosen);
        let victims = of_chosen.map_or(Value::Null, |candidate| candidate["victims"].clone());
        check("victims", recorded["victims"].clone(), victims);
    }
}

/// Compares which nominations are made and cleared, if the case applies them.
fn compare_effects(
    step: &Value,
    got: &Got<'_>,
    post_filter: &PostFilter,
    check: &mut impl FnMut(&str, Value, Value),
) {
    let expect = &step["expect"];
    if step["after"] != "nominate" {
        return;
    }
    let mut cleared: Vec<String> = match (&post_filter.nomination, expect["nominate"].as_str()) {
        (Nomination::Node(_), Some(node)) => {
            cleared_nominations(got.cluster, got.pod, node).into_iter().map(pod::key).collect()
        }
        // A newly arrived pod that fails is removed, together with its nomination.
        (Nomination::Cleared, _) => {
            let stays = pod::nominated_node(got.pod).filter(|_| !step["retry"].is_null());
            stays.map(|_| pod::key(got.pod)).into_iter().collect()
        }
        (Nomination::Unchanged | Nomination::Node(_), _) => Vec::new(),
    };
    cleared.sort();
    let nominates = matches!(post_filter.nomination, Nomination::Node(_));
    let chosen = expect["preemption"]["chosen"].clone();
    check("nominate", expect["nominate"].clone(), if nominates { chosen } else { Value::Null });
    let mut recorded = or_empty(&expect["clearNominations"]);
    recorded.as_array_mut().expect("a list").sort_by_key(Value::to_string);
    check("cleared nominations", recorded, json!(cleared));
}

fn status_value((plugin, rejection): &NotHelped) -> Value {
    let mut reasons = rejection.reasons.clone();
    reasons.sort();
    let plugin = plugin.map_or("", |plugin| plugin.name());
    json!({"plugin": plugin, "code": rejection.code.as_str(), "reasons": reasons})
}

fn code(code: PostFilterCode) -> &'static str {
    match code {
        PostFilterCode::Success => "Success",
        PostFilterCode::Unschedulable => "Unschedulable",
        PostFilterCode::Error => "Error",
    }
}

fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}
