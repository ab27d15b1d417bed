//! `NodeHealth`: whether there is contact with a node, and the conditions and taints that follow.

use berth_proto::berth_v1::{NodeHealthRequest, NodeHealthResponse};
use berth_proto::core_v1::Taint;

use super::{GRACE_SECONDS, NOT_READY, UNREACHABLE, seconds_or};
use crate::lifecycle::reading::{self, Seconds, after};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;
use crate::model::taint::Effect;

/// Default time without contact for a node that has no `Ready` condition yet (L-NODE-2).
const STARTUP_GRACE_SECONDS: i64 = 60;

/// Types of the conditions that become Unknown with the loss of contact. The network condition is set by others
/// (L-NODE-3).
const VOUCHED_FOR: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// `NodeHealth`: conditions and taints to write for a node (L-NODE-1 to L-NODE-6). Only the receiver's clock counts:
/// the request has no time from the node's clock. A node with a `Ready` condition and no known contact keeps its record
/// (L-GEN-4).
///
/// # Errors
/// [`ModelError`] for an unknown status, a negative grace, or a missing `now`, and for a missing `nodeCreatedAt` of a
/// node without any contact so far.
pub fn node_health(request: &NodeHealthRequest) -> Result<NodeHealthResponse, ModelError> {
    let now = reading::required(request.now.as_ref(), "now")?;
    let recorded = match request.current_ready.as_str() {
        "" => None,
        word => Some(ConditionStatus::parse(word, "currentReady")?),
    };
    let taints = no_execute_keys(&request.existing_taints)?;
    let lost_after = lost_after(request, recorded)?;
    let is_lost = lost_after.is_some_and(|last| now > last);

    let ready = if is_lost { Some(ConditionStatus::Unknown) } else { recorded };
    let reason = match recorded {
        _ if !is_lost => "",
        Some(ConditionStatus::Unknown) => "",
        Some(ConditionStatus::True | ConditionStatus::False) => "NodeStatusUnknown",
        None => "NodeStatusNeverUpdated",
    };
    let taint = match ready {
        Some(ConditionStatus::False) => NOT_READY,
        Some(ConditionStatus::Unknown) => UNREACHABLE,
        Some(ConditionStatus::True) | None => "",
    };
    let other = if taint == NOT_READY { UNREACHABLE } else { NOT_READY };
    let unknown = if reason.is_empty() { &[][..] } else { &VOUCHED_FOR };
    Ok(NodeHealthResponse {
        ready: ready.map_or("", ConditionStatus::word).to_owned(),
        reason: reason.to_owned(),
        no_execute_taint: taint.to_owned(),
        // The two taints exclude each other. A node that has one of them has passed the rate limit of its zone
        // (L-NODE-5).
        swap_immediately: !taint.is_empty() && taints.contains(&other),
        pods_become_not_ready: is_lost && recorded == Some(ConditionStatus::True),
        unknown_conditions: unknown.iter().map(|condition| (*condition).to_owned()).collect(),
        unreachable_at: lost_after
            .filter(|_| !is_lost)
            .and_then(|last| after(last, 1))
            .map(reading::time),
    })
}

/// The last second in which the node is not yet lost (L-NODE-1, L-NODE-2); `None` if the last contact is not known.
fn lost_after(
    request: &NodeHealthRequest,
    recorded: Option<ConditionStatus>,
) -> Result<Option<Seconds>, ModelError> {
    let grace = seconds_or(request.grace_seconds, GRACE_SECONDS, "graceSeconds")?;
    let startup =
        seconds_or(request.startup_grace_seconds, STARTUP_GRACE_SECONDS, "startupGraceSeconds")?;
    let contact = reading::optional(request.last_contact_at.as_ref());
    let (since, grace) = match (recorded, contact) {
        (Some(_), contact) => (contact, grace),
        (None, Some(contact)) => (Some(contact), startup),
        (None, None) => {
            let created = reading::required(request.node_created_at.as_ref(), "nodeCreatedAt")?;
            (Some(created), startup)
        }
    };
    Ok(since.map(|since| since.saturating_add(grace)))
}

/// The keys, of the two, that the node carries as NoExecute taints.
fn no_execute_keys(taints: &[Taint]) -> Result<Vec<&'static str>, ModelError> {
    let mut keys = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let effect = super::toleration::effect_of(taint);
        let effect = reading::in_list("existingTaints", index, effect)?;
        let key = [NOT_READY, UNREACHABLE].into_iter().find(|key| taint.key == *key);
        keys.extend(key.filter(|_| effect == Effect::NoExecute));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        ready: &str,
        contact: Option<i64>,
        now: i64,
        taints: &[(&str, &str)],
    ) -> NodeHealthResponse {
        let taint = |(key, effect): &(&str, &str)| Taint {
            key: (*key).into(),
            effect: (*effect).into(),
            ..Taint::default()
        };
        node_health(&NodeHealthRequest {
            current_ready: ready.into(),
            last_contact_at: contact.map(reading::time),
            node_created_at: Some(reading::time(0)),
            existing_taints: taints.iter().map(taint).collect(),
            now: Some(reading::time(now)),
            ..NodeHealthRequest::default()
        })
        .unwrap()
    }

    /// L-NODE-1 and L-NODE-2 with the default periods, to the second.
    #[test]
    fn silence_is_counted_from_the_last_contact() {
        for (ready, contact, last) in
            [("True", Some(1000), 1050), ("", None, 60), ("", Some(1000), 1060)]
        {
            let before = check(ready, contact, last, &[]);
            assert_eq!(before.ready, ready);
            assert_eq!(before.unreachable_at, Some(reading::time(last + 1)), "{ready}");
            let after = check(ready, contact, last + 1, &[]);
            assert_eq!((after.ready.as_str(), after.unreachable_at), ("Unknown", None), "{ready}");
        }
        assert_eq!(check("True", None, 1 << 40, &[]).ready, "True", "nothing is known: L-GEN-4");
    }

    /// L-NODE-3, L-NODE-6: conditions become Unknown once, and the network condition never does.
    #[test]
    fn unknown_conditions_are_not_written_again() {
        let first = check("True", Some(0), 51, &[]);
        assert_eq!(first.unknown_conditions, VOUCHED_FOR);
        assert!(!first.unknown_conditions.iter().any(|name| name == "NetworkUnavailable"));
        assert!(first.pods_become_not_ready);
        let again = check("Unknown", Some(0), 51, &[(UNREACHABLE, "NoExecute")]);
        assert_eq!((again.ready.as_str(), again.reason.as_str()), ("Unknown", ""));
        assert_eq!(again.no_execute_taint, UNREACHABLE);
        assert!(again.unknown_conditions.is_empty() && !again.pods_become_not_ready);
    }

    /// L-NODE-4: the new status decides, not the recorded one.
    #[test]
    fn taints_follow_the_status() {
        for (ready, now, taint) in [
            ("True", 50, ""),
            ("False", 50, NOT_READY),
            ("Unknown", 50, UNREACHABLE),
            ("True", 51, UNREACHABLE),
            ("False", 51, UNREACHABLE),
        ] {
            assert_eq!(check(ready, Some(0), now, &[]).no_execute_taint, taint, "{ready} {now}");
        }
    }

    /// L-NODE-5: NoExecute taints are swapped in both directions, and no others.
    #[test]
    fn taints_are_swapped() {
        assert!(check("False", Some(0), 0, &[(UNREACHABLE, "NoExecute")]).swap_immediately);
        assert!(check("True", Some(0), 51, &[(NOT_READY, "NoExecute")]).swap_immediately);
        assert!(!check("True", Some(0), 51, &[(NOT_READY, "NoSchedule")]).swap_immediately);
        assert!(!check("True", Some(0), 0, &[(NOT_READY, "NoExecute")]).swap_immediately);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let now = Some(reading::time(0));
        let refused = |request: NodeHealthRequest| node_health(&request).unwrap_err().to_string();
        assert_eq!(refused(NodeHealthRequest::default()), "`now`: required");
        assert_eq!(
            refused(NodeHealthRequest { now, ..Default::default() }),
            "`nodeCreatedAt`: required"
        );
        assert_eq!(
            refused(NodeHealthRequest { now, current_ready: "true".into(), ..Default::default() }),
            "`currentReady`: unknown value `true`: not one of `True`, `False`, `Unknown`"
        );
        assert_eq!(
            refused(NodeHealthRequest { now, grace_seconds: Some(-1), ..Default::default() }),
            "`graceSeconds`: `-1` is negative"
        );
        let taint = Taint { key: "a".into(), effect: "Sometimes".into(), ..Taint::default() };
        let existing_taints = vec![Taint { effect: "NoSchedule".into(), ..taint.clone() }, taint];
        assert_eq!(
            refused(NodeHealthRequest { now, existing_taints, ..Default::default() }),
            "`existingTaints[1].effect`: `Sometimes` is not a taint effect"
        );
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let request = NodeHealthRequest {
            current_ready: "True".into(),
            last_contact_at: Some(reading::time(i64::MAX)),
            now: Some(reading::time(i64::MIN)),
            grace_seconds: Some(i64::MAX),
            ..NodeHealthRequest::default()
        };
        let answer = node_health(&request).unwrap();
        assert_eq!((&*answer.ready, answer.unreachable_at), ("True", None));
    }
}
