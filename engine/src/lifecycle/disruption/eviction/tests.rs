//! Evictions: cases that the worked examples leave out.

use super::*;

fn pod(phase: &str, ready: &str, metadata: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "p", "resourceVersion": "7"{metadata}}}, "status": {{"phase": "{phase}", "conditions": [{{"type": "Ready", "status": "{ready}"}}]}}}}"#
    )
}

fn budget(spec: &str, status: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "b"}}, "spec": {{"selector": {{}}{spec}}}, "status": {status}}}"#
    )
}

fn evict_with(pod: &str, budgets: &[String], rest: &str) -> Result<EvictResponse, String> {
    let json = format!(
        r#"{{"pod": {pod}, "pdbs": [{}], "now": "2026-01-10T12:00:00Z"{rest}}}"#,
        budgets.join(",")
    );
    evict(&serde_json::from_str(&json).unwrap()).map_err(|error| error.to_string())
}

/// Checks the outcome, the retry hint, the allowed disruptions that are left, and the precondition of the delete.
fn check(pod: &str, budgets: &[String], expected: (&str, Option<i32>, Option<i32>, &str)) {
    let answer = evict_with(pod, budgets, "").unwrap();
    let actual = (
        &*answer.outcome,
        answer.retry_after_seconds,
        answer.disruptions_allowed_after,
        &*answer.precondition_resource_version,
    );
    assert_eq!(actual, expected, "{}", answer.message);
    assert_eq!(answer.budget_used, !answer.disrupted_pods_added.is_empty());
    assert_eq!(answer.is_conditional, !answer.precondition_resource_version.is_empty());
    assert_eq!(answer.outcome == "Evicted", answer.disruption_reason == "EvictionByEvictionAPI");
}

/// L-PDB-13 before L-PDB-18 before L-PDB-12.
#[test]
fn a_status_out_of_order() {
    let ready = pod("Running", "True", "");
    let pending = |n: usize| {
        let entries = (0..n).map(|i| format!(r#""p{i}": "2026-01-10T12:00:00Z""#));
        let entries: Vec<String> = entries.collect();
        format!(r#"{{"disruptionsAllowed": 1, "disruptedPods": {{{}}}}}"#, entries.join(","))
    };
    check(&ready, &[budget("", &pending(2000))], ("Evicted", None, Some(0), ""));
    check(&ready, &[budget("", &pending(2001))], ("Forbidden", None, Some(1), ""));
    let negative = r#"{"disruptionsAllowed": -1}"#;
    check(&ready, &[budget("", negative)], ("Forbidden", None, Some(-1), ""));
    let behind = budget("", negative).replace(r#""name": "b""#, r#""name": "b", "generation": 3"#);
    check(&ready, &[behind], ("TooManyRequests", Some(10), Some(-1), ""));
    check(&ready, &[budget("", "null")], ("TooManyRequests", Some(0), Some(0), ""));
}

/// L-PDB-16: the delete of a pod that could become ready meanwhile is conditional; L-PDB-15.
#[test]
fn pods_that_do_not_count() {
    let none = budget("", r#"{"currentHealthy": 2, "desiredHealthy": 2}"#);
    let one = std::slice::from_ref(&none);
    check(&pod("Running", "False", ""), one, ("Evicted", None, Some(0), "7"));
    check(&pod("Pending", "False", ""), one, ("Evicted", None, None, "7"));
    check(&pod("Failed", "False", ""), one, ("Evicted", None, None, ""));
    let marked = r#", "deletionTimestamp": "2026-01-10T12:00:00Z""#;
    check(&pod("Running", "True", marked), one, ("Evicted", None, None, ""));
    let unreadable = budget("", "{}").replace("{}", r#"{"matchLabels": {"a": "-"}}"#);
    check(&pod("Failed", "False", ""), &[unreadable], ("Evicted", None, None, ""));
    check(&pod("Unknown", "True", ""), one, ("TooManyRequests", Some(0), Some(0), ""));
    // A pod that is not ready may be evicted although the budget's status lags behind.
    let behind = none.replace(r#""name": "b""#, r#""name": "b", "generation": 3"#);
    check(&pod("Running", "False", ""), &[behind], ("Evicted", None, Some(0), "7"));
}

/// L-PDB-16: a delete is conditional, whether or not the request names a version.
#[test]
fn a_condition_needs_no_version() {
    let unversioned = pod("Pending", "False", "").replace(r#", "resourceVersion": "7""#, "");
    let answer = evict_with(&unversioned, &[], "").unwrap();
    assert!(answer.is_conditional && answer.precondition_resource_version.is_empty());
}

/// L-PDB-11, L-PDB-14: an absent selector covers nothing, nor does a budget of another namespace.
#[test]
fn coverage() {
    let ready = pod("Running", "True", "");
    let absent = r#"{"spec": {}}"#.to_owned();
    let elsewhere = budget("", "{}").replace(r#""name": "b""#, r#""name": "b", "namespace": "x""#);
    check(&ready, &[absent, elsewhere.clone()], ("Evicted", None, None, ""));
    let two = [budget("", "{}"), elsewhere, budget("", "{}")];
    check(&ready, &two, ("MultipleBudgets", None, None, ""));
}

/// L-PDB-17.
#[test]
fn a_dry_run_changes_nothing() {
    let allowing = budget("", r#"{"disruptionsAllowed": 1}"#);
    let answer =
        evict_with(&pod("Running", "True", ""), &[allowing], r#", "dryRun": true"#).unwrap();
    assert_eq!((answer.code, answer.budget_used), (201, false));
    assert_eq!(answer.disruptions_allowed_after, Some(1));
    assert_eq!(answer.disruption_reason, "");
}

#[test]
fn bad_input_names_its_field() {
    let ready = pod("Running", "True", "");
    let odd = r#", "unhealthyPodEvictionPolicy": "Sometimes""#;
    let selector = budget("", "{}").replace("{}", r#"{"matchLabels": {"a": "-"}}"#);
    for (answer, expected) in [
        (evict_with("{}", &[], ""), "`pod.metadata.name`: required"),
        // L-COND-19: a misspelt status is refused; read as `False` it would permit the eviction.
        (
            evict_with(&pod("Running", "true", ""), &[], ""),
            "`pod.status.conditions[0].status`: unknown value `true`: not one of `True`, `False`, `Unknown`",
        ),
        (
            evict_with(&pod("Done", "True", ""), &[], ""),
            "`pod.status.phase`: unknown value `Done`: not one of `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`",
        ),
        (
            evict_with(&ready, &[budget(odd, "{}")], ""),
            "`pdbs[0].spec.unhealthyPodEvictionPolicy`: unknown value `Sometimes`: not one of `IfHealthyBudget`, `AlwaysAllow`",
        ),
        (
            evict_with(&ready, &[selector], ""),
            "`pdbs[0].spec.selector.matchLabels[a]`: `-` is not a legal label value",
        ),
        (
            evict_with(&pod("Running", "True", r#", "labels": {"a": "-"}"#), &[], ""),
            "`pod.metadata.labels[a]`: `-` is not a legal label value",
        ),
    ] {
        assert_eq!(answer.unwrap_err(), expected);
    }
    let missing = |json: &str| evict(&serde_json::from_str(json).unwrap()).unwrap_err().to_string();
    assert_eq!(missing("{}"), "`pod`: required");
    assert_eq!(missing(r#"{"pod": {"metadata": {"name": "p"}}}"#), "`now`: required");
}
