//! Whether and when the NoExecute taints of its node evict a pod.

use berth_proto::berth_v1::{ScheduledEviction, TaintEvictionRequest, TaintEvictionResponse};
use berth_proto::core_v1::{Taint, Toleration};
use smallvec::SmallVec;

use super::toleration::{NoExecuteTolerations, effect_of};
use crate::lifecycle::condition::DisruptionCause;
use crate::lifecycle::reading::{self, END_OF_TIME, Seconds, after, in_list};
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::taint::Effect;

words! {
    /// Decision of the taint eviction controller about a pod.
    enum TaintDecision {
        /// The pod is deleted now.
        EvictNow = "EvictNow",
        /// The pod is deleted at a given time.
        EvictAt = "EvictAt",
        /// The pod stays.
        Keep = "Keep",
        /// The pod stays, and a scheduled eviction is cancelled.
        Cancel = "Cancel",
    }
}

/// An eviction that was scheduled before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    pub(crate) created_at: Seconds,
    pub(crate) fire_at: Seconds,
}

impl Scheduled {
    fn read(scheduled: &ScheduledEviction) -> Result<Scheduled, ModelError> {
        let created_at = reading::required(scheduled.created_at.as_ref(), "createdAt")?;
        let fire_at = reading::required(scheduled.fire_at.as_ref(), "fireAt")?;
        if fire_at < created_at {
            return Err(ModelError::new("fireAt", "is before `createdAt`"));
        }
        Ok(Scheduled { created_at, fire_at })
    }
}

/// Decision about a pod, with the time of its eviction if there is one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) decision: TaintDecision,
    pub(crate) at: Option<Seconds>,
}

/// Whether a pod will be evicted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// No eviction, as far as is known now.
    Never,
    /// Eviction at this time, which may have passed.
    At(Seconds),
}

/// Tolerance of a pod for a set of taints.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Tolerance {
    /// At least one taint is not tolerated.
    Not,
    /// All taints are tolerated, at least one of them for this time only; not negative.
    For(Seconds),
    /// All taints are tolerated for ever.
    Forever,
}

/// `TaintEviction`: whether and when the NoExecute taints of its node evict a pod (L-NODE-12 to L-NODE-15). An eviction
/// marks the pod first and then deletes it with its own grace period (L-NODE-16).
///
/// # Errors
/// [`ModelError`] for an unknown operator or effect, a missing `now`, and a scheduled eviction that lacks a time or
/// fires before it was created.
pub fn taint_eviction(request: &TaintEvictionRequest) -> Result<TaintEvictionResponse, ModelError> {
    let now = reading::required(request.now.as_ref(), "now")?;
    let scheduled = request.scheduled.as_ref().map(Scheduled::read).transpose();
    let scheduled = scheduled.map_err(|error| error.under("scheduled"))?;
    let verdict = eviction_of(&request.tolerations, &request.taints, scheduled, now)?;
    let reason = verdict.at.map_or("", |_| DisruptionCause::TaintEviction.reason());
    Ok(TaintEvictionResponse {
        decision: verdict.decision.word().to_owned(),
        at: verdict.at.map(reading::time),
        disruption_reason: reason.to_owned(),
    })
}

/// [`taint_eviction`] with typed arguments. Without a NoExecute taint nothing is evicted (L-NODE-15).
///
/// # Errors
/// [`ModelError`] at `tolerations[i]` or `taints[i]` for an unknown operator or effect.
pub(crate) fn eviction_of(
    tolerations: &[Toleration],
    taints: &[Taint],
    scheduled: Option<Scheduled>,
    now: Seconds,
) -> Result<Verdict, ModelError> {
    let tolerations = NoExecuteTolerations::read(tolerations, "tolerations")?;
    let taints: SmallVec<[&Taint; 4]> = no_execute(taints)?.map(|(_, taint)| taint).collect();
    let evict_now = Verdict { decision: TaintDecision::EvictNow, at: Some(now) };
    let evict = |at| Verdict { decision: TaintDecision::EvictAt, at: Some(at) };
    let forget = if scheduled.is_some() { TaintDecision::Cancel } else { TaintDecision::Keep };
    let keep = Verdict { decision: forget, at: None };
    let stands = scheduled.filter(|scheduled| scheduled.created_at < now);
    Ok(match (Tolerance::of(&tolerations, taints.iter().copied()), stands) {
        (Tolerance::Not, _) | (Tolerance::For(0), None) => evict_now,
        (Tolerance::Forever, _) => keep,
        // An earlier schedule stands, even if the taints by themselves gave another time (L-NODE-14).
        (Tolerance::For(_), Some(stands)) => evict(stands.fire_at),
        (Tolerance::For(seconds), None) => after(now, seconds).map_or(keep, evict),
    })
}

/// The time at which the taints of its node evict a pod, derived from the node alone. The first taint that is not
/// tolerated for ever starts the wait, later ones do not move it (L-NODE-14), and a taint that is not tolerated ends
/// it. A taint without a time counts as added now.
///
/// # Errors
/// [`ModelError`] at `spec.tolerations[i]` of the pod, or at `node.spec.taints[i]`, for an unknown operator or effect.
pub(crate) fn eviction_since(
    tolerations: &[Toleration],
    taints: &[Taint],
    now: Seconds,
) -> Result<Eviction, ModelError> {
    let tolerations = NoExecuteTolerations::read(tolerations, "tolerations")
        .map_err(|error| error.under("spec"))?;
    let taints = no_execute(taints).map_err(|error| error.under("node.spec"))?;
    let mut taints: SmallVec<[(Seconds, &Taint); 4]> =
        taints.map(|(added, taint)| (added.unwrap_or(now).min(now), taint)).collect();
    taints.sort_by_key(|(added, _)| *added);
    let mut fires: Option<Seconds> = None;
    for together in taints.chunk_by(|(left, _), (right, _)| left == right) {
        let added = together[0].0;
        match Tolerance::of(&tolerations, together.iter().map(|(_, taint)| *taint)) {
            Tolerance::Not => return Ok(Eviction::At(fires.map_or(added, |at| at.min(added)))),
            Tolerance::For(seconds) => fires = fires.or(Some(added.saturating_add(seconds))),
            Tolerance::Forever => {}
        }
    }
    Ok(fires.filter(|at| *at <= END_OF_TIME).map_or(Eviction::Never, Eviction::At))
}

/// The NoExecute taints, each with the time at which it was added.
fn no_execute(
    taints: &[Taint],
) -> Result<impl Iterator<Item = (Option<Seconds>, &Taint)>, ModelError> {
    for (index, taint) in taints.iter().enumerate() {
        in_list("taints", index, effect_of(taint))?;
    }
    let is_no_execute = |taint: &&Taint| taint.effect == Effect::NoExecute.name();
    Ok(taints
        .iter()
        .filter(is_no_execute)
        .map(|taint| (reading::optional(taint.time_added.as_ref()), taint)))
}

impl Tolerance {
    /// The shortest time that the first matching tolerations grant (L-NODE-12, L-NODE-13).
    fn of<'a>(
        tolerations: &NoExecuteTolerations<'_>,
        taints: impl Iterator<Item = &'a Taint>,
    ) -> Tolerance {
        let mut least = Tolerance::Forever;
        for taint in taints {
            let Some(toleration) = tolerations.first_matching(taint) else {
                return Tolerance::Not;
            };
            least = match (toleration.toleration_seconds, least) {
                (None, least) => least,
                (Some(seconds), Tolerance::For(least)) => Tolerance::For(seconds.max(0).min(least)),
                (Some(seconds), _) => Tolerance::For(seconds.max(0)),
            };
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tolerations: `key:seconds`, or `key` for ever.
    fn tolerations(text: &str) -> Vec<Toleration> {
        let one = |text: &str| {
            let (key, seconds) = text.split_once(':').map_or((text, None), |(k, s)| (k, Some(s)));
            Toleration {
                key: key.into(),
                operator: "Exists".into(),
                toleration_seconds: seconds.map(|seconds| seconds.parse().unwrap()),
                ..Toleration::default()
            }
        };
        text.split_whitespace().map(one).collect()
    }

    fn taints(text: &str) -> Vec<Taint> {
        let one = |text: &str| {
            let (key, added) = text.split_once('@').map_or((text, None), |(k, a)| (k, Some(a)));
            Taint {
                key: key.into(),
                effect: "NoExecute".into(),
                time_added: added.map(|added| reading::time(added.parse().unwrap())),
                ..Taint::default()
            }
        };
        text.split_whitespace().map(one).collect()
    }

    fn check(
        tolerated: &str,
        tainted: &str,
        scheduled: Option<(i64, i64)>,
        now: i64,
    ) -> (TaintDecision, Option<i64>) {
        let scheduled = scheduled.map(|(created_at, fire_at)| Scheduled { created_at, fire_at });
        let verdict =
            eviction_of(&tolerations(tolerated), &taints(tainted), scheduled, now).unwrap();
        (verdict.decision, verdict.at)
    }

    /// L-NODE-14: an eviction scheduled at this very second does not stand yet; one that stands is not moved, not even
    /// by a tolerance of zero seconds.
    #[test]
    fn a_scheduled_eviction_stands() {
        use TaintDecision::{Cancel, EvictAt, EvictNow};
        assert_eq!(check("a:9", "a", Some((10, 90)), 10), (EvictAt, Some(19)));
        assert_eq!(check("a:9", "a", Some((9, 90)), 10), (EvictAt, Some(90)));
        assert_eq!(check("a:0", "a", Some((9, 90)), 10), (EvictAt, Some(90)));
        assert_eq!(check("a:0", "a", Some((10, 90)), 10), (EvictNow, Some(10)));
        assert_eq!(check("a:9", "a", Some((9, 12)), 50), (EvictAt, Some(12)));
        assert_eq!(check("a:9", "b", Some((9, 90)), 10), (EvictNow, Some(10)));
        assert_eq!(check("a:9", "", Some((9, 90)), 10), (Cancel, None));
        assert_eq!(check("a", "a", Some((9, 90)), 10), (Cancel, None));
        // A tolerance without end does not move it either.
        let endless = format!("a:{END_OF_TIME}");
        assert_eq!(check(&endless, "a", Some((9, 90)), 10), (EvictAt, Some(90)));
        assert_eq!(check(&endless, "a", Some((10, 90)), 10), (Cancel, None));
    }

    /// L-NODE-12: a tolerance that ends after the end of time never ends.
    #[test]
    fn extreme_tolerances() {
        use TaintDecision::{EvictAt, EvictNow, Keep};
        assert_eq!(check("a:9223372036854775807", "a", None, 10), (Keep, None));
        assert_eq!(check("a:253402300789", "a", None, 10), (EvictAt, Some(END_OF_TIME)));
        assert_eq!(check("a:253402300790", "a", None, 10), (Keep, None));
        assert_eq!(check("a:-9223372036854775808", "a", None, 10), (EvictNow, Some(10)));
        assert_eq!(check("a:0", "a", None, i64::MAX), (EvictNow, Some(i64::MAX)));
        assert_eq!(check("a:5", "a", None, i64::MIN), (EvictAt, Some(i64::MIN + 5)));
    }

    /// L-NODE-12 to L-NODE-15 replayed over the times at which the node's taints were added.
    #[test]
    fn since_the_taints_were_added() {
        let check = |tolerated: &str, tainted: &str, expected: Eviction| {
            let found = eviction_since(&tolerations(tolerated), &taints(tainted), 100).unwrap();
            assert_eq!(found, expected, "{tolerated} {tainted}");
        };
        check("a:300", "", Eviction::Never);
        check("a:300", "a@40", Eviction::At(340));
        check("a:300", "a", Eviction::At(400));
        check("a:300", "a@900", Eviction::At(400));
        check("a:300 b:5", "b@60 a@40", Eviction::At(340));
        check("a:300 b:5", "b@40 a@40", Eviction::At(45));
        check("a b:5", "b@60 a@40", Eviction::At(65));
        check("a:300", "b@60 a@40", Eviction::At(60));
        check("a:3", "b@60 a@40", Eviction::At(43));
        check("a b", "b@60 a@40", Eviction::Never);
        check(&format!("a:{END_OF_TIME} b:5"), "b@60 a@40", Eviction::Never);
    }

    #[test]
    fn many_taints_and_tolerations_are_fast() {
        let key = |n: usize| format!("k{n}");
        let tolerated: String = (0..50_000).map(|n| key(n) + ":7 ").collect();
        let tainted: String = (0..50_000).rev().map(|n| key(n) + " ").collect();
        assert_eq!(check(&tolerated, &tainted, None, 1), (TaintDecision::EvictAt, Some(8)));
    }

    /// L-NODE-16 with the reason of L-COND-12, and refused requests.
    #[test]
    fn the_mark_and_the_errors() {
        let request = TaintEvictionRequest {
            tolerations: tolerations("a:5"),
            taints: taints("a"),
            now: Some(reading::time(7)),
            scheduled: None,
        };
        let answer = taint_eviction(&request).unwrap();
        assert_eq!(answer.disruption_reason, "DeletionByTaintManager");
        let kept = TaintEvictionRequest { taints: Vec::new(), ..request.clone() };
        assert_eq!(taint_eviction(&kept).unwrap().disruption_reason, "");

        let refused = |request| taint_eviction(&request).unwrap_err().to_string();
        assert_eq!(
            refused(TaintEvictionRequest { now: None, ..request.clone() }),
            "`now`: required"
        );
        let scheduled = |created_at, fire_at| {
            Some(ScheduledEviction {
                created_at: Some(reading::time(created_at)),
                fire_at: Some(reading::time(fire_at)),
            })
        };
        assert_eq!(
            refused(TaintEvictionRequest { scheduled: scheduled(8, 7), ..request.clone() }),
            "`scheduled.fireAt`: is before `createdAt`"
        );
        let empty = Some(ScheduledEviction::default());
        assert_eq!(
            refused(TaintEvictionRequest { scheduled: empty, ..request.clone() }),
            "`scheduled.createdAt`: required"
        );
        let taints = vec![Taint { effect: String::new(), ..request.taints[0].clone() }];
        assert_eq!(
            refused(TaintEvictionRequest { taints, ..request }),
            "`taints[0].effect`: `` is not a taint effect"
        );
    }
}
