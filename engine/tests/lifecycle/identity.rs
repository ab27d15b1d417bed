//! Identity locks under any interleaving of events about any pods: at most one uid holds a name, and only the events of
//! L-DEL-12 release it (L-DEL-11 to L-DEL-13, L-DEL-16, L-TEST-7).

use std::collections::BTreeSet;

use berth_engine::lifecycle::identity::{
    IdentityLock, LockEvent, LockEventType, LockOutcome, identity_lock,
};
use berth_proto::berth_v1::{IdentityLockEvent, IdentityLockRequest, IdentityLockState};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::config;

/// Generates an event; several controllers may send events late, twice, or about a pod that is long gone.
fn event() -> impl Strategy<Value = IdentityLockEvent> {
    // Acquire is frequent, because otherwise the name would be free most of the time.
    let words = prop_oneof![
        2 => Just("Acquire"),
        5 => select(LockEventType::WORDS.to_vec()),
    ];
    (words, 1..5_u8, any::<bool>(), any::<bool>()).prop_map(
        |(word, pod, acknowledged, fence_confirmed)| IdentityLockEvent {
            r#type: word.to_owned(),
            uid: format!("u{pod}"),
            acknowledged,
            fence_confirmed,
        },
    )
}

fn typed(event: &IdentityLockEvent) -> LockEvent<'_> {
    LockEvent {
        r#type: LockEventType::parse(&event.r#type, "type").unwrap(),
        uid: &event.uid,
        acknowledged: event.acknowledged,
        fence_confirmed: event.fence_confirmed,
    }
}

/// Whether the event is one of the four entitlements that the rule names.
fn entitles(event: &IdentityLockEvent) -> bool {
    match &*event.r#type {
        "RemovedByNodeAgent" | "RemovedByPodGC" => true,
        "RemovedAfterFence" => event.fence_confirmed,
        "ForceDeletedByUser" => event.acknowledged,
        _ => false,
    }
}

/// Checks the effect of one event on the lock.
fn check(
    before: &IdentityLock,
    event: &IdentityLockEvent,
    outcome: LockOutcome,
    after: &IdentityLock,
) {
    let holder = before.holder_uid.as_deref();
    let is_about_holder = holder == Some(&*event.uid);
    let expected = match (&*event.r#type, holder) {
        ("Acquire", None) => LockOutcome::Granted,
        ("Acquire", Some(_)) if is_about_holder => LockOutcome::AlreadyHeld,
        ("Acquire", Some(_)) => LockOutcome::HeldByOther,
        _ if !is_about_holder => LockOutcome::StaleUid,
        _ if !entitles(event) => LockOutcome::NotReleased,
        ("ForceDeletedByUser", _) => LockOutcome::ReleasedUnsafely,
        _ => LockOutcome::Released,
    };
    assert_eq!(outcome, expected, "{event:?} to {before:?}");
    let is_released = matches!(outcome, LockOutcome::Released | LockOutcome::ReleasedUnsafely);
    let holder = match outcome {
        LockOutcome::Granted => Some(&*event.uid),
        _ if is_released => None,
        _ => holder,
    };
    assert_eq!(after.holder_uid.as_deref(), holder, "{event:?} to {before:?}");
    let is_unsafe = before.released_unsafely || outcome == LockOutcome::ReleasedUnsafely;
    assert_eq!(after.released_unsafely, is_unsafe, "{event:?} to {before:?}");
}

/// Pods that consider themselves holders of the name: from `Granted` until one of the events of L-DEL-12.
#[derive(Default)]
struct Believers(BTreeSet<String>);

impl Believers {
    fn see(&mut self, event: &IdentityLockEvent, outcome: LockOutcome) {
        if outcome == LockOutcome::Granted {
            self.0.insert(event.uid.clone());
        } else if entitles(event) {
            self.0.remove(&event.uid);
        }
    }
}

proptest! {
    #![proptest_config(config(2000, 51))]

    #[test]
    fn at_most_one_uid_holds_a_name(events in vec(event(), 1..60)) {
        let mut lock = IdentityLock::default();
        let mut believers = Believers::default();
        for event in &events {
            let before = lock.clone();
            let outcome = lock.apply(&typed(event));
            check(&before, event, outcome, &lock);
            believers.see(event, outcome);
            // Counted without the lock, from the responses to each pod (L-DEL-11, L-TEST-7).
            let held: Vec<&str> = believers.0.iter().map(String::as_str).collect();
            prop_assert_eq!(held, lock.holder_uid.as_deref().into_iter().collect::<Vec<_>>());
        }
    }

    /// The request function gives the same result as the lock, event by event, wherever the sequence is split.
    #[test]
    fn a_sequence_may_be_cut_anywhere(events in vec(event(), 1..40), cut in 0..40_usize) {
        let run = |lock: IdentityLockState, events: &[IdentityLockEvent]| {
            let request = IdentityLockRequest { lock: Some(lock), events: events.to_vec() };
            let answer = identity_lock(&request).unwrap();
            (answer.results, answer.lock.unwrap())
        };
        let start = IdentityLockState {
            namespace: "default".to_owned(),
            name: "pet-2".to_owned(),
            ..IdentityLockState::default()
        };
        let mut lock = IdentityLock::default();
        let words: Vec<_> = events.iter().map(|event| lock.apply(&typed(event)).word()).collect();

        let (first, second) = events.split_at(cut.min(events.len()));
        let (mut results, state) = run(start.clone(), first);
        let (rest, state) = run(state, second);
        results.extend(rest);
        prop_assert_eq!(&results, &words);
        prop_assert_eq!(&state.holder_uid, &lock.holder_uid);
        prop_assert_eq!(state.released_unsafely, lock.released_unsafely);
        prop_assert_eq!((results, state), run(start, &events));
    }
}
