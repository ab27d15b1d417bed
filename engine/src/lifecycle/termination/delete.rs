//! `ApplyDelete`: the effect of a delete request on the stored pod (L-TERM-1 to L-TERM-7).

use berth_proto::berth_v1::{ApplyDeleteRequest, ApplyDeleteResponse, PodDeleteOptions};
use berth_proto::core_v1::Pod;

use crate::lifecycle::reading::{self, given, meta, required, spec, time};
use crate::lifecycle::word::words;
use crate::model::ModelError;

/// Default grace period of a pod, in seconds (L-TERM-1).
pub(super) const DEFAULT_PERIOD: i64 = 30;

words! {
    /// Outcome of a delete request.
    enum DeleteOutcome {
        /// The pod is marked; the node has the grace period to end it.
        GracefulStarted = "GracefulStarted",
        /// The pod was marked before, and its grace period is shorter now.
        GracefulShortened = "GracefulShortened",
        /// The pod was marked before, and nothing has changed.
        AlreadyTerminating = "AlreadyTerminating",
        /// The object is removed without waiting for the node.
        RemoveNow = "RemoveNow",
        /// The object would be removed, but finalizers hold it.
        HeldByFinalizers = "HeldByFinalizers",
        /// A precondition does not hold, and nothing has changed.
        Conflict = "Conflict",
    }
}

/// The mark of a pod with a requested deletion (L-TERM-4).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// `metadata.deletionTimestamp`: the end of the period, in seconds since the epoch.
    pub deletion_timestamp: i64,
    /// `metadata.deletionGracePeriodSeconds`, not negative.
    pub period_seconds: i64,
}

/// Effect of a delete request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Outcome of the request.
    pub outcome: DeleteOutcome,
    /// The mark as stored afterwards; `None` only after a conflict over a pod that is not marked.
    pub mark: Option<Mark>,
    /// Whether this request marks the pod.
    pub marks: bool,
}

/// The mark of a pod, if its deletion has been requested.
///
/// An absent stored period reads as 0 and a negative one as 1, as in the API server.
#[must_use]
pub fn mark(pod: &Pod) -> Option<Mark> {
    let meta = meta(pod);
    let deletion_timestamp = reading::optional(meta.deletion_timestamp.as_ref())?;
    let period_seconds = at_least_one_if_negative(meta.deletion_grace_period_seconds.unwrap_or(0));
    Some(Mark { deletion_timestamp, period_seconds })
}

/// The effect that a delete request with these options has on `pod` at `now`.
///
/// # Errors
/// [`ModelError`] relative to the pod for an unknown phase.
pub fn delete(pod: &Pod, options: &PodDeleteOptions, now: i64) -> Result<Deletion, ModelError> {
    let stored = mark(pod);
    if !preconditions_hold(pod, options) {
        return Ok(Deletion { outcome: DeleteOutcome::Conflict, mark: stored, marks: false });
    }
    let requested = options.grace_period_seconds.map(at_least_one_if_negative);
    let (outcome, mark) = match stored {
        Some(stored) => again(stored, requested, now),
        None => {
            let period_seconds = first_period(pod, requested)?;
            let deletion_timestamp = now.saturating_add(period_seconds);
            (DeleteOutcome::GracefulStarted, Mark { deletion_timestamp, period_seconds })
        }
    };
    let outcome = match outcome {
        DeleteOutcome::AlreadyTerminating => outcome,
        // Force deletion marks first, then removes, unless finalizers are left (L-TERM-5, L-TERM-6, L-DEL-15).
        _ if mark.period_seconds > 0 => outcome,
        _ if meta(pod).finalizers.is_empty() => DeleteOutcome::RemoveNow,
        _ => DeleteOutcome::HeldByFinalizers,
    };
    Ok(Deletion { outcome, mark: Some(mark), marks: stored.is_none() })
}

/// Whether the preconditions of a request, UID and resource version, hold (L-TERM-7).
fn preconditions_hold(pod: &Pod, options: &PodDeleteOptions) -> bool {
    let meta = meta(pod);
    options.preconditions.as_ref().is_none_or(|preconditions| {
        preconditions.uid.as_ref().is_none_or(|uid| *uid == meta.uid)
            && preconditions
                .resource_version
                .as_ref()
                .is_none_or(|version| *version == meta.resource_version)
    })
}

/// The period with which a pod is marked: the request's, else the pod's own, else 30 s (L-TERM-1); 0 for a pod without
/// processes (L-TERM-2).
fn first_period(pod: &Pod, requested: Option<i64>) -> Result<i64, ModelError> {
    if reading::node_name(pod).is_none() || reading::phase(pod)?.is_terminal() {
        return Ok(0);
    }
    Ok(period(pod, requested))
}

/// The period that applies to a pod with running processes after a request for `requested` seconds. A marked pod has at
/// most its stored period (L-TERM-3). Otherwise the request's period counts, else the pod's own, else 30 s (L-TERM-1).
pub(crate) fn period(pod: &Pod, requested: Option<i64>) -> i64 {
    let requested = requested.map(at_least_one_if_negative);
    match mark(pod) {
        Some(Mark { period_seconds: stored, .. }) => {
            requested.map_or(stored, |requested| requested.min(stored))
        }
        None => requested.unwrap_or_else(|| own_period(spec(pod).termination_grace_period_seconds)),
    }
}

/// A pod's own grace period in seconds; absent means 30, negative means 1 (L-TERM-1, L-TERM-2).
pub(crate) fn own_period(period: Option<i64>) -> i64 {
    at_least_one_if_negative(period.unwrap_or(DEFAULT_PERIOD))
}

/// Effect of a request on a marked pod: its period may shrink and never grows (L-TERM-3).
///
/// The new deadline is not before `now`, even if the old one has passed: the process has had its time by then.
fn again(stored: Mark, requested: Option<i64>, now: i64) -> (DeleteOutcome, Mark) {
    if stored.period_seconds == 0 {
        let deletion_timestamp = stored.deletion_timestamp.min(now);
        return (DeleteOutcome::RemoveNow, Mark { deletion_timestamp, period_seconds: 0 });
    }
    let Some(period) = requested.filter(|period| *period < stored.period_seconds) else {
        return (DeleteOutcome::AlreadyTerminating, stored);
    };
    let started_at = stored.deletion_timestamp.saturating_sub(stored.period_seconds);
    let deadline = started_at.saturating_add(period);
    let shortened = if deadline < now {
        Mark { deletion_timestamp: now, period_seconds: period.min(1) }
    } else {
        Mark { deletion_timestamp: deadline, period_seconds: period }
    };
    (DeleteOutcome::GracefulShortened, shortened)
}

/// The period, with 1 s for a negative one (L-TERM-2).
pub(super) const fn at_least_one_if_negative(period: i64) -> i64 {
    if period < 0 { 1 } else { period }
}

/// `ApplyDelete`: the effect of a delete request, and the values stored after it.
///
/// A pod's generation is raised once, together with the mark (L-TERM-4).
///
/// # Errors
/// [`ModelError`] if `pod` or `now` is missing, or the pod's phase unknown.
pub fn apply_delete(request: &ApplyDeleteRequest) -> Result<ApplyDeleteResponse, ModelError> {
    let pod = given(request.pod.as_ref(), "pod")?;
    let now = required(request.now.as_ref(), "now")?;
    let without = PodDeleteOptions::default();
    let options = request.options.as_ref().unwrap_or(&without);
    let Deletion { outcome, mark, marks } =
        delete(pod, options, now).map_err(|error| error.under("pod"))?;
    let generation = meta(pod).generation;
    Ok(ApplyDeleteResponse {
        outcome: outcome.word().into(),
        deletion_timestamp: mark.map(|mark| time(mark.deletion_timestamp)),
        deletion_grace_period_seconds: mark.map(|mark| mark.period_seconds),
        generation: generation.saturating_add(i64::from(marks && generation > 0)),
    })
}

#[cfg(test)]
mod tests {
    use berth_proto::Time;
    use berth_proto::berth_v1::PodDeletePreconditions;
    use serde_json::json;

    use super::*;

    fn pod(metadata: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        }))
        .unwrap()
    }

    fn check(
        metadata: &serde_json::Value,
        period: Option<i64>,
        now: i64,
        outcome: DeleteOutcome,
        mark: (i64, i64),
    ) {
        let options = PodDeleteOptions { grace_period_seconds: period, preconditions: None };
        let deletion = delete(&pod(metadata), &options, now).unwrap();
        let stored = deletion.mark.map(|mark| (mark.deletion_timestamp, mark.period_seconds));
        assert_eq!((deletion.outcome, stored), (outcome, Some(mark)));
    }

    fn marked(seconds: i64, period: Option<i64>) -> serde_json::Value {
        let at = serde_json::to_value(Time::from_unix_seconds(seconds)).unwrap();
        json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": period})
    }

    #[test]
    fn periods_at_the_edges() {
        // L-TERM-1: no period is given; L-TERM-4: the end of time.
        check(&json!({}), None, 100, DeleteOutcome::GracefulStarted, (130, 30));
        let forever = DeleteOutcome::GracefulStarted;
        check(&json!({}), Some(i64::MAX), 100, forever, (i64::MAX, i64::MAX));
        check(&json!({}), Some(i64::MIN), 100, DeleteOutcome::GracefulStarted, (101, 1));
    }

    #[test]
    fn a_marked_pod_only_loses_time() {
        use DeleteOutcome::{AlreadyTerminating, GracefulShortened, RemoveNow};
        // L-TERM-3: negative means 1, which is shorter than 30 and not shorter than 1.
        check(&marked(130, Some(30)), Some(-7), 100, GracefulShortened, (101, 1));
        check(&marked(101, Some(1)), Some(-7), 100, AlreadyTerminating, (101, 1));
        check(&marked(130, Some(-3)), Some(1), 100, AlreadyTerminating, (130, 1));
        // A pod with a stored period of 0, or without one, is removed after any request.
        check(&marked(90, Some(0)), Some(60), 100, RemoveNow, (90, 0));
        check(&marked(130, None), None, 100, RemoveNow, (100, 0));
        // The old deadline has passed.
        check(&marked(130, Some(30)), Some(10), 500, GracefulShortened, (500, 1));
        let forever = Mark { deletion_timestamp: i64::MAX, period_seconds: i64::MAX };
        let now = Mark { deletion_timestamp: 100, period_seconds: 0 };
        assert_eq!(again(forever, Some(0), 100), (GracefulShortened, now));
    }

    #[test]
    fn finalizers_prevent_the_removal() {
        let mut metadata = marked(130, Some(30));
        metadata["finalizers"] = json!(["a.io/hold"]);
        // L-TERM-6: finalizers make no difference to a graceful deletion.
        check(&metadata, Some(9), 100, DeleteOutcome::GracefulShortened, (109, 9));
        check(&metadata, Some(0), 100, DeleteOutcome::HeldByFinalizers, (100, 0));
    }

    #[test]
    fn a_precondition_that_fails_changes_nothing() {
        let preconditions = |uid: Option<&str>, version: Option<&str>| PodDeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Some(PodDeletePreconditions {
                uid: uid.map(Into::into),
                resource_version: version.map(Into::into),
            }),
        };
        let pod = pod(&json!({"uid": "u1", "resourceVersion": "7"}));
        let outcome = |options| delete(&pod, &options, 0).unwrap().outcome;
        // L-TERM-7
        assert_eq!(outcome(preconditions(Some("u1"), Some("7"))), DeleteOutcome::RemoveNow);
        assert_eq!(outcome(preconditions(None, Some("8"))), DeleteOutcome::Conflict);
        assert_eq!(outcome(preconditions(Some(""), None)), DeleteOutcome::Conflict);
    }

    #[test]
    fn the_generation_goes_up_once() {
        // L-TERM-4
        let generation = |metadata: &serde_json::Value| {
            let request = ApplyDeleteRequest {
                pod: Some(pod(metadata)),
                options: None,
                now: Some(Time::from_unix_seconds(100)),
                key: None,
            };
            apply_delete(&request).unwrap().generation
        };
        assert_eq!(generation(&json!({"generation": 3})), 4);
        assert_eq!(generation(&json!({})), 0);
        let mut metadata = marked(130, Some(30));
        metadata["generation"] = json!(4);
        assert_eq!(generation(&metadata), 4);
    }

    #[test]
    fn bad_input_names_its_field() {
        let error = |request| apply_delete(&request).unwrap_err().to_string();
        assert_eq!(error(ApplyDeleteRequest::default()), "`pod`: required");
        let mut pod = pod(&json!({}));
        let request = ApplyDeleteRequest { pod: Some(pod.clone()), ..Default::default() };
        assert_eq!(error(request), "`now`: required");
        pod.status.as_mut().unwrap().phase = "Done".into();
        let now = Some(Time::from_unix_seconds(0));
        let request = ApplyDeleteRequest { pod: Some(pod), options: None, now, key: None };
        assert!(error(request).starts_with("`pod.status.phase`: unknown value `Done`"));
    }
}
