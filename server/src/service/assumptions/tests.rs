use std::time::{Duration, Instant};

use berth_engine::Delta;
use berth_proto::berth_v1::PlaceMode;

use super::error::AssumptionError;
use super::*;
use crate::service::{Access, AssumeTerms, State, fixture};

const TTL: Duration = Duration::from_secs(60);

/// A server whose clock stands still unless a test moves it.
struct World {
    state: Arc<State>,
    start: Instant,
}

impl World {
    fn new() -> World {
        World { state: fixture::state(&[("n0", "64")]), start: Instant::now() }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    /// Assumes a pod at the start; returns its token.
    fn assume(&self, name: &str, ttl: Option<Duration>) -> u64 {
        let pod = self.state.cluster.compile_pod(&fixture::pod(name, "1", 0)).unwrap();
        self.state.cluster.assume_on(pod.key(), pod.uid(), "n0", Some(&pod)).unwrap();
        let assumed = self.state.cluster.assumed_pods();
        let stamp = assumed.iter().find(|it| it.pod.key() == pod.key()).unwrap().stamp.unwrap();
        let (volumes, devices) = (VolumeBindings::default(), None);
        let held = [HeldPod { key: pod.key().clone(), stamp, volumes, devices }];
        let holder = Holder { user: &"jane".into(), ttl, request: None };
        self.state.assumptions.record(&held, holder, self.start).0
    }

    fn delete(&self, name: &str) {
        let delta = Delta::DeletePod { key: named(name, 0).key, uid: None };
        self.state.cluster.apply(vec![delta]);
    }

    /// A feed reports the pod on its node.
    fn report(&self, name: &str) {
        fixture::run(&self.state.cluster, &fixture::pod(name, "1", 0), "n0");
    }

    /// Names of the assumed pods, each with its seconds left at the start.
    fn assumed(&self) -> Vec<(String, Option<u64>)> {
        let seconds = |held: ListedHold| held.assumption.time_left_ms.map(|left| left / 1_000);
        self.state
            .assumptions
            .list(self.start)
            .into_iter()
            .map(|it| (it.standing.pod.key().name.to_string(), it.held.and_then(seconds)))
            .collect()
    }

    fn counts(&self, line: &str) {
        let text = self.state.metrics.render(&self.state.cluster.snapshot(), 0, None);
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}

/// Node and whether the pod is still assumed, as the caller is told.
fn told(renewed: Result<Renewed, AssumptionError>) -> Result<(Arc<str>, bool), AssumptionError> {
    renewed.map(|Renewed { node, is_assumed, .. }| (node, is_assumed))
}

fn is_first(released: Result<(bool, Written), AssumptionError>) -> Result<bool, AssumptionError> {
    released.map(|(is_first, _)| is_first)
}

fn named(name: &str, token: u64) -> Named {
    Named { key: PodKey::new("default", name), uid: String::new(), token }
}

/// S-CCH-5: a pod that nobody confirms does not keep its room.
#[test]
fn room_comes_back_when_the_time_is_over() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    world.assume("a", Some(TTL));
    world.assume("b", Some(TTL * 2));
    world.assume("c", None);
    assert_eq!(assumptions.expire(world.at(59)), 0);
    assert!(!assumptions.is_any_due(world.at(59)) && assumptions.is_any_due(world.at(60)));
    assert_eq!(assumptions.expire(world.at(60)), 1);
    assert_eq!(world.assumed(), [("b".to_owned(), Some(120)), ("c".to_owned(), None)]);
    assert_eq!(assumptions.expire(world.at(1 << 30)), 1);
    assert_eq!(world.assumed(), [("c".to_owned(), None)]);
    world.counts("berth_assumptions_ended_total{reason=\"expired\"} 2");
}

/// A pod that a feed has confirmed, that was deleted, or that was assumed anew, is left alone.
#[test]
fn what_is_not_assumed_any_more_does_not_expire() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    for name in ["reported", "deleted", "again"] {
        world.assume(name, Some(TTL));
    }
    world.report("reported");
    world.delete("deleted");
    world.delete("again");
    world.assume("again", Some(TTL * 9));
    assert_eq!(assumptions.expire(world.at(61)), 0);
    assert_eq!(world.assumed(), [("again".to_owned(), Some(540))]);
    assert_eq!(world.state.cluster.snapshot().n_pods(), 2);
}

#[test]
fn tokens_grow_and_belong_to_one_assumption() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    let first = world.assume("p", Some(TTL));
    world.delete("p");
    let second = world.assume("p", Some(TTL));
    assert!(second > first);
    let pod = PodKey::new("default", "p");
    let other = AssumptionError::OtherToken { pod: pod.clone(), token: first };
    let late = named("p", first);
    assert_eq!(told(assumptions.confirm(&late)), Err(other.clone()));
    assert_eq!(told(assumptions.extend(&late, None, world.start)), Err(other.clone()));
    assert_eq!(is_first(assumptions.release(&late)), Err(other));
    let wrong = Named { uid: "other".to_owned(), ..named("p", second) };
    let error = assumptions.confirm(&wrong).unwrap_err();
    assert_eq!(error.to_string(), "pod `default/p` has uid `uid-p`, not `other`");
    let right = Named { uid: "uid-p".to_owned(), ..wrong };
    assert_eq!(told(assumptions.confirm(&right)), Ok(("n0".into(), true)));
    // A later server's tokens are greater than those of an earlier one.
    let later = World::new();
    assert!(later.assume("p", None) > second);
}

#[test]
fn an_assumption_is_confirmed_extended_and_released() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    let (a, b) =
        (named("a", world.assume("a", Some(TTL))), named("b", world.assume("b", Some(TTL))));
    for _ in 0..2 {
        assert_eq!(told(assumptions.confirm(&a)), Ok(("n0".into(), true)));
        assert_eq!(told(assumptions.extend(&b, Some(TTL), world.at(30))), Ok(("n0".into(), true)));
    }
    assert_eq!(assumptions.expire(world.at(61)), 0);
    assert_eq!(world.assumed(), [("a".to_owned(), None), ("b".to_owned(), Some(90))]);
    // Confirmed, and then extended after all; extended without a limit.
    assert!(assumptions.extend(&a, Some(TTL), world.at(61)).is_ok());
    assert!(assumptions.extend(&b, None, world.at(61)).is_ok());
    assert_eq!(assumptions.expire(world.at(200)), 1);
    let over = AssumptionError::Over { pod: a.key.clone() };
    assert_eq!(told(assumptions.confirm(&a)), Err(over.clone()));
    assert_eq!(told(assumptions.extend(&a, None, world.at(200))), Err(over));
    assert_eq!(is_first(assumptions.release(&a)), Ok(false));
    assert_eq!(is_first(assumptions.release(&b)), Ok(true));
    assert_eq!(is_first(assumptions.release(&b)), Ok(false));
    assert_eq!(world.assumed(), []);
    world.counts("berth_assumptions_kept_total{call=\"confirm\"} 2");
    world.counts("berth_assumptions_kept_total{call=\"extend\"} 4");
    world.counts("berth_assumptions_ended_total{reason=\"released\"} 1");
}

/// The feed may report a pod before its caller confirms it: that is no error, and only the feed removes it then.
#[test]
fn a_feed_may_be_faster_than_the_caller() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    let pod = named("p", world.assume("p", Some(TTL)));
    world.report("p");
    assert_eq!(told(assumptions.confirm(&pod)), Ok(("n0".into(), false)));
    assert_eq!(told(assumptions.extend(&pod, None, world.start)), Ok(("n0".into(), false)));
    let error = assumptions.release(&pod).unwrap_err().to_string();
    assert_eq!(error, "a feed has reported pod `default/p` on node `n0`: only a feed removes it");
    assert_eq!(world.state.cluster.snapshot().n_pods(), 1);
}

/// The server assumes pods of its own without a token, as for the extender's bind verb.
#[test]
fn what_the_server_assumes_for_itself_has_no_token() {
    let world = World::new();
    let pod = world.state.cluster.compile_pod(&fixture::pod("p", "1", 0)).unwrap();
    world.state.cluster.assume_on(pod.key(), pod.uid(), "n0", Some(&pod)).unwrap();
    assert!(world.state.assumptions.list(world.start)[0].held.is_none());
    let refused = world.state.assumptions.release(&named("p", 1));
    assert!(matches!(refused, Err(AssumptionError::OtherToken { .. })), "{refused:?}");
    assert_eq!(world.state.assumptions.expire(world.at(1 << 30)), 0);
}

/// Memory is bounded by the number of assumed pods, whatever the time to live.
#[test]
fn ended_assumptions_are_forgotten() {
    let world = World::new();
    let assumptions = &world.state.assumptions;
    let kept = world.assume("kept", Some(TTL));
    for i in 0..=MAX_ENDED + 2 {
        assert!(!assumptions.are_many_ended() || i > MAX_ENDED + 1);
        world.assume(&format!("p{i}"), Some(TTL));
        world.delete(&format!("p{i}"));
    }
    assert!(assumptions.are_many_ended());
    assumptions.forget_ended();
    assert_eq!(assumptions.table().len(), 1);
    assert_eq!(is_first(assumptions.release(&named("kept", kept))), Ok(true));
}

#[test]
fn the_default_time_to_live_is_the_configured_one() {
    let world = World::new();
    let state = &world.state;
    assert_eq!(state.assumptions.ttl("f", None), Ok(Some(state.limits.assume_ttl)));
    assert_eq!(state.assumptions.ttl("f", Some(0)), Ok(None));
    assert_eq!(state.assumptions.ttl("f", Some(7)), Ok(Some(Duration::from_millis(7))));
    let cluster = state.cluster.clone();
    let none = Assumptions::new(cluster, Duration::ZERO, 1, state.metrics.assumptions().clone());
    assert_eq!(none.ttl("f", None), Ok(None));
    let (access, target) = (Access::open(), state.target_of("").unwrap());
    let terms = AssumeTerms::of(state, &access, &target, PlaceMode::DryRun as i32, Some(1));
    assert!(terms.is_err());
}
