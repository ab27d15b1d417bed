//! A stored grace period never grows (L-TERM-3, L-TEST-9), nor does the remaining period on the node (L-TERM-8).

use berth_engine::lifecycle::termination::{apply_delete, effective_node_grace};
use berth_proto::Time;
use berth_proto::berth_v1::{
    ApplyDeleteRequest, EffectiveNodeGraceRequest, PodDeleteOptions, PodDeletePreconditions,
};
use berth_proto::core_v1::{Pod, PodSpec, PodStatus};
use berth_proto::meta_v1::ObjectMeta;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::config;

const START: i64 = 1_000_000;

/// Generates ordinary grace periods, and some that are invalid or extreme.
fn period() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => 0_i64..70,
        2 => -3_i64..3,
        1 => select(vec![i64::MIN, i64::MAX, i64::MAX - START, -i64::MAX]),
    ]
}

/// A delete request, some time after the previous one.
#[derive(Clone, Debug)]
struct Request {
    after: i64,
    period: Option<i64>,
    uid: Option<&'static str>,
    version: Option<&'static str>,
    /// Whether the finalizers have been removed before the request.
    finalized: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let precondition =
        |right, wrong| prop_oneof![8 => Just(None), 2 => Just(Some(right)), 1 => Just(Some(wrong))];
    (
        prop_oneof![5 => 0_i64..25, 1 => Just(500)],
        option::of(period()),
        precondition("u1", "u2"),
        precondition("7", ""),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(after, period, uid, version, finalized)| Request {
            after,
            period,
            uid,
            version,
            finalized,
        })
}

fn pod() -> impl Strategy<Value = Pod> {
    (
        prop::bool::weighted(0.85),
        option::of(period()),
        select(vec!["", "Pending", "Running", "Running", "Succeeded", "Unknown"]),
        any::<bool>(),
        0_i64..3,
    )
        .prop_map(|(is_bound, own, phase, has_finalizer, generation)| Pod {
            metadata: Some(ObjectMeta {
                uid: "u1".into(),
                resource_version: "7".into(),
                finalizers: has_finalizer.then(|| "a.io/hold".into()).into_iter().collect(),
                generation,
                ..Default::default()
            }),
            spec: Some(PodSpec {
                node_name: if is_bound { "n1".into() } else { String::new() },
                termination_grace_period_seconds: own,
                ..Default::default()
            }),
            status: Some(PodStatus { phase: phase.into(), ..Default::default() }),
        })
}

/// Returns the stored end and length of the grace period.
fn stored(pod: &Pod) -> Option<(i64, i64)> {
    let metadata = pod.metadata.as_ref().unwrap();
    let at = metadata.deletion_timestamp.as_ref()?.unix_seconds()?;
    Some((at, metadata.deletion_grace_period_seconds.unwrap()))
}

proptest! {
    #![proptest_config(config(4000, 5))]

    #[test]
    fn a_stored_period_never_grows(pod in pod(), requests in vec(request(), 1..14)) {
        let (mut pod, mut now) = (pod, START);
        let first_generation = pod.metadata.as_ref().unwrap().generation;
        for request in requests {
            now += request.after;
            let metadata = pod.metadata.as_mut().unwrap();
            if request.finalized {
                metadata.finalizers.clear();
            }
            let has_finalizers = !metadata.finalizers.is_empty();
            let response = apply_delete(&ApplyDeleteRequest {
                pod: Some(pod.clone()),
                options: Some(PodDeleteOptions {
                    grace_period_seconds: request.period,
                    preconditions: Some(PodDeletePreconditions {
                        uid: request.uid.map(Into::into),
                        resource_version: request.version.map(Into::into),
                    }),
                }),
                now: Some(Time::from_unix_seconds(now)), key: None,
            })
            .unwrap();
            let before = stored(&pod);
            let metadata = pod.metadata.as_mut().unwrap();
            metadata.deletion_timestamp = response.deletion_timestamp;
            metadata.deletion_grace_period_seconds = response.deletion_grace_period_seconds;
            metadata.generation = response.generation;
            let after = stored(&pod);

            let holds = request.uid != Some("u2") && request.version != Some("");
            prop_assert_eq!(response.outcome == "Conflict", !holds);
            if !holds || response.outcome == "AlreadyTerminating" {
                prop_assert_eq!(before, after);
                // A forced deletion has nothing to wait for, so another request completes it.
                prop_assert!(!holds || before.is_some_and(|(_, period)| period > 0));
                continue;
            }
            let (at, period) = after.unwrap();
            prop_assert!(period >= 0);
            if let Some((old_at, old_period)) = before {
                prop_assert!(period <= old_period, "{} grew to {}", old_period, period);
                // A deadline in the past may move to now, but never later.
                prop_assert!(at <= old_at.max(now), "{} moved to {}", old_at, at);
                prop_assert!(response.outcome != "GracefulStarted");
                if response.outcome == "GracefulShortened" {
                    prop_assert!(period < old_period && at >= now);
                    prop_assert!(request.period.is_some_and(|requested| requested < old_period));
                }
            } else {
                prop_assert_eq!(at, now.saturating_add(period));
            }
            // Nothing is removed before its grace period is over, nor while it has finalizers.
            let is_over = period == 0;
            prop_assert_eq!(response.outcome == "RemoveNow", is_over && !has_finalizers);
            prop_assert_eq!(response.outcome == "HeldByFinalizers", is_over && has_finalizers);
            if response.outcome == "RemoveNow" {
                break;
            }
        }
        let generation = pod.metadata.as_ref().unwrap().generation;
        let is_raised = stored(&pod).is_some() && first_generation > 0;
        prop_assert_eq!(generation, first_generation + i64::from(is_raised));
    }

    #[test]
    fn the_period_on_the_node_never_grows(
        own in option::of(period()),
        steps in vec((option::of(period()), option::of(period())), 1..14),
    ) {
        let mut current = 0;
        let mut shortest = i64::MAX;
        for (deletion, eviction) in steps {
            let response = effective_node_grace(&EffectiveNodeGraceRequest {
                current,
                deletion_grace_period_seconds: deletion,
                pod_grace_period_seconds: own,
                override_seconds: eviction,
            })
            .unwrap();
            prop_assert!(response.seconds >= 1);
            prop_assert!(current == 0 || response.seconds <= current);
            let is_shorter = current != 0 && response.seconds != current;
            prop_assert_eq!(response.shortened, is_shorter);
            for requested in [deletion, eviction].into_iter().flatten() {
                shortest = shortest.min(requested.max(1));
            }
            prop_assert!(response.seconds <= shortest);
            current = response.seconds;
        }
        // The result is the requested period or, without a request, the pod's own.
        prop_assert!(current == shortest || current == own.unwrap_or(30).max(1));
    }
}
