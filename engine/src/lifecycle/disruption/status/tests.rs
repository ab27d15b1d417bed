//! Status of a budget: cases that the worked examples leave out.

use super::*;

fn pod(name: &str, owner: &str, rest: &str) -> String {
    let owner = match owner {
        "" => String::new(),
        uid => format!(
            r#", "ownerReferences": [{{"uid": "other"}}, {{"uid": "{uid}", "controller": true}}]"#
        ),
    };
    format!(
        r#"{{"metadata": {{"name": "{name}"{owner}{rest}}}, "status": {{"conditions": [{{"type": "Ready", "status": "True"}}]}}}}"#
    )
}

fn status_of(
    spec: &str,
    status: &str,
    pods: &[String],
    controllers: &str,
) -> Result<PdbStatusResponse, String> {
    let json = format!(
        r#"{{"pdb": {{"metadata": {{"namespace": "default"}}, "spec": {spec}, "status": {status}}},
            "pods": [{}], "controllers": [{controllers}], "now": "1970-01-01T00:10:00Z"}}"#,
        pods.join(",")
    );
    pdb_status(&serde_json::from_str(&json).unwrap()).map_err(|error| error.to_string())
}

/// Healthy, desired, expected and allowed pods.
fn figures(answer: &PdbStatusResponse) -> [i64; 4] {
    [
        answer.current_healthy,
        answer.desired_healthy,
        answer.expected_pods,
        answer.disruptions_allowed,
    ]
}

/// L-PDB-6: at exactly 120 s the entry is kept and the pod counts again; an entry of a marked or unknown pod is
/// dropped.
#[test]
fn approved_evictions() {
    let pods = [
        pod("a", "", ""),
        pod("b", "", ""),
        pod("c", "", ""),
        pod("d", "", r#", "deletionTimestamp": "1970-01-01T00:11:00Z""#),
    ];
    let status = r#"{"disruptedPods": {"a": "1970-01-01T00:08:01Z", "b": "1970-01-01T00:08:00Z",
        "c": "1970-01-01T00:07:59Z", "d": "1970-01-01T00:09:59Z", "e": "1970-01-01T00:09:59Z"}}"#;
    let answer = status_of(r#"{"minAvailable": 1, "selector": {}}"#, status, &pods, "").unwrap();
    assert_eq!(figures(&answer), [2, 1, 4, 1]);
    let names: Vec<&str> = answer.disrupted_pods.keys().map(String::as_str).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(answer.recheck_at.unwrap().unix_seconds(), Some(600));
}

/// L-PDB-6: no recheck is announced for a time after the end of time.
#[test]
fn an_eviction_at_the_end_of_time_is_not_rechecked() {
    let status = r#"{"disruptedPods": {"a": "9999-12-31T23:58:00Z"}}"#;
    let answer = status_of(r#"{"selector": {}}"#, status, &[pod("a", "", "")], "").unwrap();
    assert_eq!((answer.disrupted_pods.len(), answer.recheck_at), (1, None));
}

/// L-PDB-2, L-PDB-5, L-PDB-7: with a number, all existing pods are expected; ready pods that are not marked are
/// healthy.
#[test]
fn numbers() {
    let pods = [
        pod("a", "", ""),
        pod("b", "", "").replace("True", "False"),
        pod("c", "", "").replace("Ready", "ContainersReady"),
        pod("d", "", r#", "deletionTimestamp": "2026-01-10T12:00:00Z""#),
        pod("e", "", ""),
    ];
    for (min, allowed, status, reason) in [
        (0, 2, "True", "SufficientPods"),
        (1, 1, "True", "SufficientPods"),
        (2, 0, "False", "InsufficientPods"),
        (i64::from(i32::MAX), 0, "False", "InsufficientPods"),
    ] {
        let spec = format!(r#"{{"minAvailable": {min}, "selector": {{}}}}"#);
        let answer = status_of(&spec, "{}", &pods, "").unwrap();
        assert_eq!(figures(&answer), [2, min, 5, allowed]);
        let condition = answer.condition.unwrap();
        assert_eq!((&*condition.status, &*condition.reason), (status, reason));
    }
}

/// L-PDB-11.
#[test]
fn selectors() {
    let pods = [
        pod("a", "", ""),
        pod("b", "", r#", "namespace": "x""#),
        pod("c", "", r#", "labels": {"k": "v"}"#),
    ];
    let healthy = |selector: &str| {
        let spec = format!(r#"{{"minAvailable": 0{selector}}}"#);
        status_of(&spec, "{}", &pods, "").unwrap().current_healthy
    };
    assert_eq!(healthy(""), 0);
    assert_eq!(healthy(r#", "selector": {}"#), 2);
    assert_eq!(healthy(r#", "selector": {"matchLabels": {"k": "v"}}"#), 1);
}

/// L-PDB-3, L-PDB-9: each controller counts once, however many pods it has; pods without a controller do not count.
#[test]
fn scales_are_summed() {
    let pods = [pod("a", "1", ""), pod("b", "1", ""), pod("c", "2", ""), pod("d", "", "")];
    let controllers =
        r#"{"uid": "1", "scale": 5}, {"uid": "2", "scale": 2147483647}, {"uid": "3", "scale": 9}"#;
    let answer =
        status_of(r#"{"minAvailable": "50%", "selector": {}}"#, "{}", &pods, controllers).unwrap();
    assert_eq!(figures(&answer), [4, 1_073_741_826, 2_147_483_652, 0]);
    assert_eq!(answer.condition.unwrap().reason, "InsufficientPods");
}

/// L-PDB-10: the recorded figures stay.
#[test]
fn an_unknown_controller() {
    let status = r#"{"currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4, "disruptionsAllowed": 1,
        "disruptedPods": {"gone": "1970-01-01T00:00:00Z"}}"#;
    let spec = r#"{"maxUnavailable": 1, "selector": {}}"#;
    let answer = status_of(spec, status, &[pod("a", "1", "")], "").unwrap();
    assert_eq!(figures(&answer), [3, 2, 4, 0]);
    assert_eq!(answer.disrupted_pods.len(), 1);
    assert_eq!(answer.condition.unwrap().message, "the controller of pod `a` is not known");
    let number =
        status_of(r#"{"minAvailable": 1, "selector": {}}"#, status, &[pod("a", "1", "")], "");
    assert_eq!(figures(&number.unwrap()), [1, 1, 1, 0]);
}

/// L-PDB-3: UIDs whose hashes collide (rustc-hash has no seed) cost no more than others; with a hash map this took most
/// of a minute.
#[test]
fn many_uids_that_collide() {
    let uid = |i: usize| format!("d8rxm-r-b8syfacpmmmmmmmmmmmmmmmmeS=zL#W4{i:08}tttttttttttttttt");
    let controllers = (0..50_000).map(|i| format!(r#"{{"uid": "{}", "scale": 1}}"#, uid(i)));
    let controllers = controllers.collect::<Vec<_>>().join(",");
    let pods = [pod("a", &uid(0), ""), pod("b", &uid(49_999), "")];
    let answer = status_of(r#"{"maxUnavailable": 1, "selector": {}}"#, "{}", &pods, &controllers);
    assert_eq!(figures(&answer.unwrap()), [2, 1, 2, 1]);
}

/// L-PDB-8.
#[test]
fn a_budget_without_a_demand_allows_nothing() {
    let answer = status_of(r#"{"selector": {}}"#, "{}", &[pod("a", "", "")], "").unwrap();
    assert_eq!(figures(&answer), [1, 0, 0, 0]);
}

#[test]
fn bad_input_names_its_field() {
    let none = r#"{"selector": {}}"#;
    let twice = [pod("a", "", ""), pod("a", "", "")];
    let unknown = [pod("a", "", "").replace("True", "true")];
    for (answer, expected) in [
        (
            status_of(r#"{"minAvailable": 1, "maxUnavailable": 1}"#, "{}", &[], ""),
            "`pdb.spec`: `minAvailable` and `maxUnavailable` exclude each other",
        ),
        (
            status_of(r#"{"minAvailable": "half"}"#, "{}", &[], ""),
            "`pdb.spec.minAvailable`: `half` is not a percentage such as `25%`",
        ),
        (
            status_of(r#"{"maxUnavailable": -2}"#, "{}", &[], ""),
            "`pdb.spec.maxUnavailable`: `-2` is negative",
        ),
        (
            status_of(r#"{"selector": {"matchLabels": {"-": "a"}}}"#, "{}", &[], ""),
            "`pdb.spec.selector.matchLabels[-]`: `-` is not a legal label key",
        ),
        (status_of(none, "{}", &["{}".to_owned()], ""), "`pods[0].metadata.name`: required"),
        (
            status_of(none, "{}", &twice, ""),
            "`pods[1].metadata.name`: `default/a` is a duplicate of `pods[0]`",
        ),
        (
            status_of(none, "{}", &unknown, ""),
            "`pods[0].status.conditions[0].status`: unknown value `true`: not one of `True`, `False`, `Unknown`",
        ),
        (status_of(none, "{}", &[], r#"{"scale": 1}"#), "`controllers[0].uid`: required"),
        (
            status_of(none, "{}", &[], r#"{"uid": "1", "scale": -1}"#),
            "`controllers[0].scale`: `-1` is negative",
        ),
        (
            status_of(none, "{}", &[], r#"{"uid": "1"}, {"uid": "1"}"#),
            "`controllers[1].uid`: duplicate `1`",
        ),
    ] {
        assert_eq!(answer.unwrap_err(), expected);
    }
    let missing =
        |json: &str| pdb_status(&serde_json::from_str(json).unwrap()).unwrap_err().to_string();
    assert_eq!(missing("{}"), "`pdb`: required");
    assert_eq!(missing(r#"{"pdb": {}}"#), "`now`: required");
}
