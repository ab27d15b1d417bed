use serde_json::{Value, json};

use super::*;

/// The response to a request about a running pod `u1` on `n1`, overridden by `fields`.
fn answer(fields: &Value) -> Result<AuthorizeRemovalResponse, String> {
    let mut request = json!({
        "actor": {"kind": "user"},
        "pod": {
            "metadata": {
                "name": "p",
                "uid": "u1",
                "deletionTimestamp": "2026-01-10T11:50:00Z",
                "deletionGracePeriodSeconds": 30,
            },
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        },
        "request": {"gracePeriodSeconds": 0, "uid": "u1"},
        "now": "2026-01-10T12:00:00Z",
    });
    request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let request: AuthorizeRemovalRequest = serde_json::from_value(request).unwrap();
    authorize_removal(&request).map_err(|error| error.to_string())
}

fn check(fields: &Value, effect: RemovalEffect, reason: RemovalReason) -> AuthorizeRemovalResponse {
    let answer = answer(fields).unwrap();
    assert_eq!((&*answer.effect, &*answer.reason), (effect.word(), reason.word()));
    assert_eq!(answer.allowed, effect != RemovalEffect::None);
    answer
}

#[test]
fn the_uid_is_checked_first() {
    use RemovalReason::{ControllerMayOnlySignal, GracefulDelete, UidMismatch};
    // L-DEL-16: an absent UID, a different one, and actors that may never force.
    for kind in ["user", "podGC"] {
        let actor = json!({"kind": kind});
        for uid in ["", "u0"] {
            let terms = json!({"gracePeriodSeconds": 0, "uid": uid, "acknowledgeDataLoss": true});
            check(&json!({"actor": actor, "request": terms}), RemovalEffect::None, UidMismatch);
        }
    }
    for kind in ["nodeController", "replicaSetController", "scheduler"] {
        let terms = json!({"gracePeriodSeconds": 0});
        let fields = json!({"actor": {"kind": kind}, "request": terms});
        check(&fields, RemovalEffect::None, ControllerMayOnlySignal);
        let fields = json!({"actor": {"kind": kind}, "request": {"gracePeriodSeconds": -1}});
        check(&fields, RemovalEffect::Signal, GracefulDelete);
    }
    // A graceful request needs no UID, but must not have another one.
    check(&json!({"request": null}), RemovalEffect::Signal, GracefulDelete);
    check(&json!({"request": {"uid": "u0"}}), RemovalEffect::None, UidMismatch);
    // Two absent UIDs are not equal.
    let pod = json!({"metadata": {"name": "p"}});
    let fields = json!({"pod": pod, "request": {"gracePeriodSeconds": 0}});
    check(&fields, RemovalEffect::None, UidMismatch);
}

#[test]
fn an_agent_acts_for_its_node() {
    use RemovalReason::{GracefulDelete, NotOwnNode, ProcessesConfirmedDead};
    let agent = |node: &str| json!({"kind": "nodeAgent", "nodeName": node});
    // L-DEL-17: graceful requests too.
    let graceful = json!({"uid": "u1"});
    let fields = json!({"actor": agent("n2"), "request": graceful});
    check(&fields, RemovalEffect::None, NotOwnNode);
    let fields = json!({"actor": agent("n1"), "request": graceful});
    check(&fields, RemovalEffect::Signal, GracefulDelete);
    // L-DEL-2: resources that are still in use lead to a warning.
    let fields = json!({
        "actor": agent("n1"),
        "pod": {
            "metadata": {"uid": "u1", "deletionTimestamp": "2026-01-10T11:50:00Z"},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Failed"},
        },
        "evidence": {"processesConfirmedDead": true},
    });
    let answer = check(&fields, RemovalEffect::Remove, ProcessesConfirmedDead);
    assert_eq!(answer.warnings, ["ResourcesNotFreed"]);
    assert_eq!(answer.record, None);
}

#[test]
fn force_is_warned_of_and_recorded() {
    use RemovalReason::{AcknowledgedForceDelete, AcknowledgementRequired};
    // L-DEL-3: the text names both dangers.
    let refused = check(&json!({}), RemovalEffect::None, AcknowledgementRequired);
    for danger in ["two copies of the process may run at the same time", "data may be lost"] {
        assert!(refused.message.contains(danger), "{}", refused.message);
    }
    assert_eq!(refused.record, None);
    // L-DEL-10
    let terms = json!({"gracePeriodSeconds": 0, "uid": "u1", "acknowledgeDataLoss": true});
    let fields = json!({"request": terms});
    let answer = check(&fields, RemovalEffect::Remove, AcknowledgedForceDelete);
    let record = answer.record.unwrap();
    assert_eq!((&*record.actor, &*record.pod_uid), ("user", "u1"));
    assert_eq!((&*record.consequence, record.is_unsafe), ("IdentityReleasedUnsafely", true));
}

#[test]
fn finalizers_keep_the_name() {
    // L-DEL-15: the object stays, and with it the name.
    let pod = json!({"metadata": {"uid": "u1", "finalizers": ["a.io/hold"]}});
    let answer = check(&json!({"pod": pod}), RemovalEffect::Remove, RemovalReason::NeverBound);
    assert!(!answer.releases_identity);
    assert_eq!(answer.record.unwrap().consequence, "HeldByFinalizers");
}

#[test]
fn the_collector_removes_or_leaves_alone() {
    // L-DEL-1
    let fields = json!({"actor": {"kind": "podGC"}, "request": {"uid": "u1"}});
    check(&fields, RemovalEffect::None, RemovalReason::CollectorMayOnlyForce);
}

#[test]
fn an_effective_period_of_zero_forces() {
    use RemovalReason::{AcknowledgementRequired, ControllerMayOnlySignal, GracefulDelete};
    // L-TERM-1: the pod's own period; L-TERM-3: the stored period, which no request makes longer.
    let running = |metadata: Value, own: i64| {
        let spec = json!({"nodeName": "n1", "terminationGracePeriodSeconds": own});
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    };
    let stored = json!({
        "uid": "u1",
        "deletionTimestamp": "2026-01-10T11:50:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["a.io/hold"],
    });
    let check = |kind: &str, pod: &Value, request: Value, effect, reason| {
        check(&json!({"actor": {"kind": kind}, "pod": pod, "request": request}), effect, reason)
    };
    let own = running(json!({"uid": "u1"}), 0);
    for (pod, grace) in [(&own, Value::Null), (&running(stored, 30), json!(5))] {
        let request = |terms: Value| {
            let mut request = json!({"uid": "u1", "gracePeriodSeconds": grace});
            request.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
            request
        };
        for kind in ["taintEvictionController", "scheduler", "statefulSetController"] {
            let plain = request(json!({}));
            check(kind, pod, plain, RemovalEffect::None, ControllerMayOnlySignal);
        }
        let plain = request(json!({}));
        check("user", pod, plain, RemovalEffect::None, AcknowledgementRequired);
        let no_uid = request(json!({"uid": "", "acknowledgeDataLoss": true}));
        check("user", pod, no_uid, RemovalEffect::None, RemovalReason::UidMismatch);
        let acknowledged = request(json!({"acknowledgeDataLoss": true}));
        let reason = RemovalReason::AcknowledgedForceDelete;
        let answer = check("user", pod, acknowledged, RemovalEffect::Remove, reason);
        assert!(answer.record.unwrap().is_unsafe);
    }
    // A period of one second is graceful; a pod with nothing to lose needs no acknowledgement (L-DEL-18).
    let second = json!({"gracePeriodSeconds": 1});
    check("taintEvictionController", &own, second, RemovalEffect::Signal, GracefulDelete);
    for pod in
        [json!({"spec": {}}), json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}})]
    {
        check("statefulSetController", &pod, json!({}), RemovalEffect::Signal, GracefulDelete);
    }
}

#[test]
fn unknown_readiness_entitles_to_nothing() {
    // L-FENCE-11, L-GEN-4: the taint counts on a node that is known not to be ready.
    let node = |conditions: Value| {
        let taints = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
        let status = json!({"conditions": conditions});
        json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}, "status": status})
    };
    let fields = |conditions: Value| json!({"actor": {"kind": "podGC"}, "node": node(conditions)});
    let ready = |status: &str| json!({"type": "Ready", "status": status});
    check(&fields(json!([])), RemovalEffect::None, RemovalReason::NodeExists);
    for status in ["False", "Unknown"] {
        let fields = fields(json!([ready(status)]));
        check(&fields, RemovalEffect::Remove, RemovalReason::NodeOutOfService);
    }
    let error = answer(&fields(json!([ready("false")]))).unwrap_err();
    let unknown = "`node.status.conditions[0].status`: unknown value `false`";
    assert!(error.starts_with(unknown), "{error}");
    let error = answer(&fields(json!([ready("False"), ready("True")]))).unwrap_err();
    assert_eq!(error, "`node.status.conditions[1].type`: duplicate `Ready`");
}

#[test]
fn bad_input_is_named() {
    let error = |fields: Value| answer(&fields).unwrap_err();
    assert_eq!(error(json!({"actor": null})), "`actor`: required");
    assert!(error(json!({"actor": {"kind": "root"}})).starts_with("`actor.kind`: unknown value"));
    assert_eq!(error(json!({"pod": null})), "`pod`: required");
    assert_eq!(error(json!({"now": null})), "`now`: required");
    let agent = json!({"kind": "nodeAgent"});
    assert_eq!(error(json!({"actor": agent})), "`actor.nodeName`: required for a node agent");
    let node = json!({"metadata": {"name": "n2"}});
    let wrong = "`node.metadata.name`: `n2` is not `n1`, the pod's node";
    assert_eq!(error(json!({"node": node})), wrong);
    let fields = json!({"node": node, "pod": {"metadata": {"uid": "u1"}}});
    assert_eq!(error(fields), "`node`: must be absent: the pod is not bound");
    let pod = json!({
        "metadata": {"uid": "u1"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Gone"},
    });
    assert!(error(json!({"pod": pod})).starts_with("`pod.status.phase`: unknown value `Gone`"));
}
