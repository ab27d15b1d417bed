//! `NodeLossTimeline`: the events after the loss of a node, with their times.

use berth_proto::Time;
use berth_proto::berth_v1::{NodeLossTimelineRequest, NodeLossTimelineResponse};

use super::{GRACE_SECONDS, seconds_or};
use crate::lifecycle::deletion::QUARANTINE_SECONDS;
use crate::lifecycle::pod_gc::PERIOD_SECONDS;
use crate::lifecycle::reading::{self, Seconds, after};
use crate::lifecycle::termination::own_period;
use crate::lifecycle::vocabulary::ControllerKind;
use crate::model::ModelError;

/// Default period of the node controller's passes over all nodes (L-NODE-2).
const MONITOR_PERIOD_SECONDS: i64 = 5;

/// The facts about a loss of contact. No other time is before `lost`.
struct Loss {
    lost: Seconds,
    monitor_period: Seconds,
    grace: Seconds,
    /// Seconds of tolerance; `None` for ever.
    toleration: Option<Seconds>,
    pod_grace: Seconds,
    controller: ControllerKind,
    gc_period: Seconds,
    quarantine: Seconds,
    object_deleted: Option<Seconds>,
    out_of_service: Option<Seconds>,
    restored: Option<Seconds>,
}

/// `NodeLossTimeline`: the events of a pod on a node without contact, with their times (L-NODE-17, L-NODE-18,
/// L-NODE-21).
///
/// # Errors
/// [`ModelError`] for a missing `contactLostAt`, an event before it, a period below one second, and a negative grace or
/// quarantine.
pub fn node_loss_timeline(
    request: &NodeLossTimelineRequest,
) -> Result<NodeLossTimelineResponse, ModelError> {
    let loss = Loss::read(request)?;
    let unknown = loss.unknown();
    let requested = loss.deletion_requested(unknown);
    let removed = loss.removed(requested);
    let requested = requested.filter(|at| removed.is_none_or(|removed| *at <= removed));
    let wire = |at: Option<Seconds>| -> Option<Time> { at.map(reading::time) };
    Ok(NodeLossTimelineResponse {
        node_unknown_at: wire(unknown),
        pod_not_ready_at: wire(unknown),
        tainted_at: wire(unknown),
        deletion_requested_at: wire(requested),
        deletion_timestamp: wire(requested.and_then(|at| after(at, loss.pod_grace))),
        // PodGC writes the phase and removes the object in one run (L-GC-6).
        phase_failed_at: wire(removed),
        removed_at: wire(removed),
        replacement_at: wire(loss.replaced(requested, removed)),
    })
}

impl Loss {
    fn read(request: &NodeLossTimelineRequest) -> Result<Loss, ModelError> {
        let lost = reading::required(request.contact_lost_at.as_ref(), "contactLostAt")?;
        let event = |time: &Option<Time>, field| match reading::optional(time.as_ref()) {
            Some(at) if at < lost => Err(ModelError::new(field, "is before `contactLostAt`")),
            at => Ok(at),
        };
        let period = |given: Option<i64>, default, field| match given.unwrap_or(default) {
            seconds if seconds < 1 => {
                Err(ModelError::new(field, format!("`{seconds}` is less than a second")))
            }
            seconds => Ok(seconds),
        };
        Ok(Loss {
            lost,
            monitor_period: period(
                request.monitor_period_seconds,
                MONITOR_PERIOD_SECONDS,
                "monitorPeriodSeconds",
            )?,
            grace: seconds_or(request.grace_seconds, GRACE_SECONDS, "graceSeconds")?,
            toleration: request.toleration_seconds.map(|seconds| seconds.max(0)),
            // A controller may not force: for a pod whose own period is 0 it requests one second (L-DEL-5).
            pod_grace: own_period(request.pod_grace_period_seconds).max(1),
            controller: ControllerKind::parse(&request.controller_kind, "controllerKind")?,
            gc_period: period(request.gc_period_seconds, PERIOD_SECONDS, "gcPeriodSeconds")?,
            quarantine: seconds_or(
                request.quarantine_seconds,
                QUARANTINE_SECONDS,
                "quarantineSeconds",
            )?,
            object_deleted: event(&request.node_object_deleted_at, "nodeObjectDeletedAt")?,
            out_of_service: event(&request.out_of_service_at, "outOfServiceAt")?,
            restored: event(&request.contact_restored_at, "contactRestoredAt")?,
        })
    }

    /// Time at which the node becomes Unknown and tainted, and its pods not ready: the first pass after the grace
    /// period, unless contact is restored or the node object deleted by then (L-NODE-1, L-NODE-18).
    fn unknown(&self) -> Option<Seconds> {
        let silent = after(self.lost, self.grace)?;
        let look = pass(self.lost, self.monitor_period, silent.saturating_add(1))?;
        let is_after = |event: Option<Seconds>| event.is_none_or(|at| at > look);
        (is_after(self.restored) && is_after(self.object_deleted)).then_some(look)
    }

    /// Time at which the taints evict the pod.
    fn deletion_requested(&self, unknown: Option<Seconds>) -> Option<Seconds> {
        let at = after(unknown?, self.toleration?)?;
        Some(at).filter(|at| self.restored.is_none_or(|restored| restored >= *at))
    }

    /// Time at which PodGC removes the pod (L-NODE-21). A node with contact restored before then is neither absent nor
    /// out of service.
    fn removed(&self, requested: Option<Seconds>) -> Option<Seconds> {
        let orphaned = self.object_deleted.and_then(|deleted| {
            let missed = pass(self.lost, self.gc_period, deleted)?;
            let at = pass(self.lost, self.gc_period, after(missed, self.quarantine)?)?;
            let is_back = self.restored.is_some_and(|back| (deleted..=at).contains(&back));
            Some(at).filter(|_| !is_back)
        });
        let out_of_service = self.out_of_service.zip(requested).and_then(|(marked, requested)| {
            let at = pass(self.lost, self.gc_period, marked.max(requested))?;
            let is_after = |event: Option<Seconds>| event.is_none_or(|event| event > at);
            Some(at).filter(|_| is_after(self.restored) && is_after(self.object_deleted))
        });
        orphaned.into_iter().chain(out_of_service).min()
    }

    /// Time at which a replacement may run (L-NODE-17, L-DEL-14). A daemon pod belongs to its node: its replacement
    /// waits for the removal, and there is none once the node's object is gone.
    fn replaced(&self, requested: Option<Seconds>, removed: Option<Seconds>) -> Option<Seconds> {
        match self.controller {
            ControllerKind::ReplicaSet
            | ControllerKind::ReplicationController
            | ControllerKind::Deployment
            | ControllerKind::Job => requested.into_iter().chain(removed).min(),
            ControllerKind::StatefulSet => removed,
            ControllerKind::DaemonSet => {
                removed.filter(|at| self.object_deleted.is_none_or(|deleted| deleted > *at))
            }
            ControllerKind::None => None,
        }
    }
}

/// The first pass at `not_before` or later; passes are at whole multiples of `period`, 1 or more, after `lost`.
fn pass(lost: Seconds, period: Seconds, not_before: Seconds) -> Option<Seconds> {
    let (lost, period) = (i128::from(lost), i128::from(period));
    let since = i128::from(not_before) - lost;
    let n = (since + period - 1).div_euclid(period).max(1);
    after(i64::try_from(lost + n * period).ok()?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> NodeLossTimelineRequest {
        NodeLossTimelineRequest {
            contact_lost_at: Some(reading::time(0)),
            toleration_seconds: Some(300),
            controller_kind: "StatefulSet".into(),
            ..NodeLossTimelineRequest::default()
        }
    }

    /// Times of Unknown, deletion request, removal and replacement, in seconds.
    fn check(request: &NodeLossTimelineRequest) -> [Option<i64>; 4] {
        let answer = node_loss_timeline(request).unwrap();
        let of = |time: Option<Time>| time.and_then(|time| time.unix_seconds());
        [
            of(answer.node_unknown_at),
            of(answer.deletion_requested_at),
            of(answer.removed_at),
            of(answer.replacement_at),
        ]
    }

    fn with(
        deleted: Option<i64>,
        out_of_service: Option<i64>,
        restored: Option<i64>,
    ) -> [Option<i64>; 4] {
        check(&NodeLossTimelineRequest {
            node_object_deleted_at: deleted.map(reading::time),
            out_of_service_at: out_of_service.map(reading::time),
            contact_restored_at: restored.map(reading::time),
            ..base()
        })
    }

    /// L-NODE-18: contact restored before the pass, before the request, and after it.
    #[test]
    fn contact_restored() {
        let (unknown, requested) = (Some(55), Some(355));
        assert_eq!(with(None, None, Some(0)), [None; 4]);
        assert_eq!(with(None, None, Some(55)), [None; 4]);
        assert_eq!(with(None, None, Some(56)), [unknown, None, None, None]);
        assert_eq!(with(None, None, Some(354)), [unknown, None, None, None]);
        assert_eq!(with(None, None, Some(355)), [unknown, requested, None, None]);
    }

    /// L-NODE-21: the node object is deleted early or late, or is created again before the quarantine is over.
    #[test]
    fn node_object_deleted() {
        let at = |seconds| Some(seconds);
        assert_eq!(with(at(0), None, None), [None, None, at(60), at(60)]);
        assert_eq!(with(at(55), None, None), [None, None, at(100), at(100)]);
        assert_eq!(with(at(61), None, None), [at(55), None, at(120), at(120)]);
        assert_eq!(with(at(341), None, None), [at(55), at(355), at(400), at(400)]);
        assert_eq!(with(at(341), None, at(400)), [at(55), at(355), None, None]);
        assert_eq!(with(at(341), None, at(401)), [at(55), at(355), at(400), at(400)]);
    }

    /// L-NODE-21: out of service counts once the pod is marked, and while the node is neither back nor gone.
    #[test]
    fn out_of_service() {
        let at = |seconds| Some(seconds);
        assert_eq!(with(None, at(10), None), [at(55), at(355), at(360), at(360)]);
        assert_eq!(with(None, at(361), None), [at(55), at(355), at(380), at(380)]);
        assert_eq!(with(None, at(361), at(380)), [at(55), at(355), None, None]);
        assert_eq!(with(None, at(361), at(200)), [at(55), None, None, None]);
        assert_eq!(with(at(362), at(361), None), [at(55), at(355), at(420), at(420)]);
        let for_ever = NodeLossTimelineRequest { toleration_seconds: None, ..base() };
        let marked =
            NodeLossTimelineRequest { out_of_service_at: Some(reading::time(10)), ..for_ever };
        assert_eq!(check(&marked), [at(55), None, None, None]);
    }

    /// L-NODE-17, L-DEL-14: the time of the replacement by kind of controller.
    #[test]
    fn replacements() {
        let check = |kind: &str, deleted: Option<i64>| {
            let [.., replaced] = check(&NodeLossTimelineRequest {
                controller_kind: kind.into(),
                out_of_service_at: Some(reading::time(400)),
                node_object_deleted_at: deleted.map(reading::time),
                ..base()
            });
            replaced
        };
        for kind in ["ReplicaSet", "ReplicationController", "Deployment", "Job"] {
            assert_eq!(check(kind, None), Some(355), "{kind}");
            assert_eq!(check(kind, Some(61)), Some(120), "{kind}");
        }
        assert_eq!(check("StatefulSet", None), Some(400));
        assert_eq!(check("DaemonSet", None), Some(400));
        assert_eq!(check("DaemonSet", Some(61)), None);
        assert_eq!(check("None", None), None);
    }

    /// L-DEL-5, L-TERM-2: an own period of 0 does not force; like a negative one it counts as 1.
    #[test]
    fn own_grace_periods() {
        for (own, marked_for) in [(Some(0), 356), (Some(-7), 356), (None, 385)] {
            let request = NodeLossTimelineRequest { pod_grace_period_seconds: own, ..base() };
            let answer = node_loss_timeline(&request).unwrap();
            assert_eq!(answer.deletion_timestamp, Some(reading::time(marked_for)));
            assert_eq!(answer.removed_at, None);
        }
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |request| node_loss_timeline(&request).unwrap_err().to_string();
        assert_eq!(refused(NodeLossTimelineRequest::default()), "`contactLostAt`: required");
        assert_eq!(
            refused(NodeLossTimelineRequest { gc_period_seconds: Some(0), ..base() }),
            "`gcPeriodSeconds`: `0` is less than a second"
        );
        let early = Some(reading::time(-1));
        assert_eq!(
            refused(NodeLossTimelineRequest { contact_restored_at: early, ..base() }),
            "`contactRestoredAt`: is before `contactLostAt`"
        );
        assert_eq!(
            refused(NodeLossTimelineRequest { quarantine_seconds: Some(-40), ..base() }),
            "`quarantineSeconds`: `-40` is negative"
        );
        let unknown = NodeLossTimelineRequest { controller_kind: String::new(), ..base() };
        assert!(refused(unknown).starts_with("`controllerKind`: required: one of `ReplicaSet`"));
    }

    #[test]
    fn events_after_the_end_of_time_never_happen() {
        let huge = Some(i64::MAX);
        assert_eq!(check(&NodeLossTimelineRequest { grace_seconds: huge, ..base() }), [None; 4]);
        assert_eq!(
            check(&NodeLossTimelineRequest { monitor_period_seconds: huge, ..base() }),
            [None; 4]
        );
        let request = NodeLossTimelineRequest {
            toleration_seconds: huge,
            pod_grace_period_seconds: Some(i64::MIN),
            ..base()
        };
        assert_eq!(check(&request), [Some(55), None, None, None]);
        let request = NodeLossTimelineRequest {
            contact_lost_at: Some(reading::time(i64::MIN)),
            node_object_deleted_at: Some(reading::time(i64::MAX)),
            ..base()
        };
        let [unknown, requested, ..] = check(&request);
        assert_eq!((unknown, requested), (Some(i64::MIN + 55), Some(i64::MIN + 355)));
    }
}
