//! The authority to remove a pod: every actor with any request about any pod, compared with the rules as written
//! (L-DEL-1 to L-DEL-6, L-DEL-9, L-DEL-16 to L-DEL-18, L-FENCE-11).

use berth_engine::lifecycle::deletion::{ActorKind, authorize_removal};
use berth_proto::berth_v1::{AuthorizeRemovalRequest, AuthorizeRemovalResponse};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const NOW: i64 = 1_000;

/// The facts that a request may have.
#[derive(Clone, Debug)]
struct Case {
    actor: &'static str,
    /// The actor's node: `n1`, the pod's node if it has one, or another.
    agent: &'static str,
    requested: Option<i64>,
    uid: &'static str,
    acknowledged: bool,
    is_bound: bool,
    phase: &'static str,
    own: Option<i64>,
    /// The stored grace period of a pod that is marked for deletion.
    stored: Option<i64>,
    node: Option<(&'static str, bool)>,
    is_dead: bool,
    absent_for: Option<i64>,
    confirmed: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let requested = select(vec![None, Some(-1), Some(0), Some(0), Some(0), Some(5)]);
    let period = || select(vec![None, Some(0), Some(30)]);
    let phases = vec!["Pending", "Running", "Succeeded", "Failed"];
    let node = (select(vec!["True", "False", "Unknown", ""]), any::<bool>());
    let pod = (proptest::bool::weighted(0.8), select(phases), period(), period());
    let absence = proptest::option::of(38..42_i64);
    let facts = (proptest::option::of(node), any::<bool>(), absence, any::<bool>());
    let actor = (select(ActorKind::WORDS), select(vec!["n1", "n1", "n2"]));
    let terms = (requested, select(vec!["u1", "u1", "u1", "u0", ""]), any::<bool>());
    (actor, terms, pod, facts).prop_map(
        |(
            (actor, agent),
            (requested, uid, acknowledged),
            (is_bound, phase, own, stored),
            facts,
        )| {
            let (node, is_dead, absent_for, confirmed) = facts;
            let node = node.filter(|_| is_bound);
            Case {
                actor,
                agent,
                requested,
                uid,
                acknowledged,
                is_bound,
                phase,
                own,
                stored,
                node,
                is_dead,
                absent_for,
                confirmed,
            }
        },
    )
}

fn answer(case: &Case) -> AuthorizeRemovalResponse {
    let at = |seconds: i64| format!("1970-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
    let node = case.node.map(|(ready, is_tainted)| {
        let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
        let ready = json!({"type": "Ready", "status": ready});
        json!({
            "metadata": {"name": "n1"},
            "spec": {"taints": if is_tainted { vec![taint] } else { vec![] }},
            "status": {"conditions": if ready["status"] == "" { vec![] } else { vec![ready] }},
        })
    });
    let request: Value = json!({
        "actor": {"kind": case.actor, "nodeName": case.agent},
        "pod": {
            "metadata": {
                "uid": "u1",
                "deletionTimestamp": case.stored.map(|_| at(900)),
                "deletionGracePeriodSeconds": case.stored,
            },
            "spec": {
                "nodeName": if case.is_bound { "n1" } else { "" },
                "terminationGracePeriodSeconds": case.own,
            },
            "status": {"phase": case.phase},
        },
        "request": {
            "gracePeriodSeconds": case.requested,
            "uid": case.uid,
            "acknowledgeDataLoss": case.acknowledged,
        },
        "node": node,
        "evidence": {
            "processesConfirmedDead": case.is_dead,
            "nodeAbsentSince": case.absent_for.map(|seconds| at(NOW - seconds)),
            "nodeAbsenceConfirmedLive": case.confirmed,
        },
        "now": at(NOW),
    });
    let request: AuthorizeRemovalRequest = serde_json::from_value(request).unwrap();
    authorize_removal(&request).unwrap()
}

/// Returns effect and reason by the rules as written.
fn plainly(case: &Case) -> (&'static str, &'static str) {
    let has_ended = case.phase == "Succeeded" || case.phase == "Failed";
    let has_process = case.is_bound && !has_ended;
    // L-TERM-1, L-TERM-3
    let period = match (case.stored, case.requested) {
        (Some(0), _) | (_, Some(0)) => 0,
        (_, Some(_)) | (Some(_), None) => 1,
        (None, None) => case.own.unwrap_or(30),
    };
    let is_forcing = case.requested == Some(0) || (has_process && period == 0);
    let is_controller = !["nodeAgent", "user", "podGC"].contains(&case.actor);
    if is_controller && is_forcing {
        return ("None", "ControllerMayOnlySignal");
    }
    if case.uid != "u1" && (is_forcing || !case.uid.is_empty()) {
        return ("None", "UIDMismatch");
    }
    if case.actor == "nodeAgent" && !(case.is_bound && case.agent == "n1") {
        return ("None", "NotOwnNode");
    }
    if !is_forcing {
        return if case.actor == "podGC" {
            ("None", "CollectorMayOnlyForce")
        } else {
            ("Signal", "GracefulDelete")
        };
    }
    match case.actor {
        "nodeAgent" if case.stored.is_none() => ("None", "NotBeingDeleted"),
        "nodeAgent" if !case.is_dead => ("None", "ProcessesNotConfirmedDead"),
        "nodeAgent" if !has_ended => ("None", "PhaseNotTerminal"),
        "nodeAgent" => ("Remove", "ProcessesConfirmedDead"),
        "user" if !case.is_bound => ("Remove", "NeverBound"),
        "user" if has_ended => ("Remove", "TerminalPhase"),
        "user" if case.acknowledged => ("Remove", "AcknowledgedForceDelete"),
        "user" => ("None", "AcknowledgementRequired"),
        _ if !case.is_bound && case.stored.is_some() => ("Remove", "NeverBound"),
        _ if has_ended => ("Remove", "TerminalPhase"),
        _ if !case.is_bound => ("None", "NodeExists"),
        _ => match case.node {
            Some(("False" | "Unknown", true)) if case.stored.is_some() => {
                ("Remove", "NodeOutOfService")
            }
            Some(_) => ("None", "NodeExists"),
            None if case.absent_for.is_none_or(|seconds| seconds < 40) => {
                ("None", "QuarantineNotElapsed")
            }
            None if case.confirmed => ("Remove", "NodeObjectDeleted"),
            None => ("None", "NodeExists"),
        },
    }
}

proptest! {
    #![proptest_config(super::config(20_000, 14))]

    #[test]
    fn nobody_removes_more_than_the_rules_say(case in case()) {
        let answer = answer(&case);
        prop_assert_eq!((&*answer.effect, &*answer.reason), plainly(&case));
        let removes = answer.effect == "Remove";
        prop_assert_eq!((answer.allowed, answer.releases_identity), (answer.effect != "None", removes));
        // L-DEL-10
        let is_on_record = removes && answer.reason != "ProcessesConfirmedDead";
        prop_assert_eq!(answer.record.is_some(), is_on_record);
    }
}
