//! Tests of the queue with a simulated clock.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn nobody() -> User {
    User { name: "nobody".into(), weight: 1 }
}

/// Ends the call that has run for longest.
fn end(queue: &mut Queue<u32>, now: Instant, service: Option<Service>) {
    let id = queue.turns.oldest().unwrap_or_default();
    queue.finish(now, id, service);
}

fn enter(queue: &mut Queue<u32>, now: Instant, who: u32) -> Result<Entry, Refused> {
    queue.enter(now, None, &nobody(), || who)
}

/// Service of a call that was always on a core.
fn alone(time: Duration) -> Option<Service> {
    Some(Service { time, on_core: time })
}

/// Frees a worker; returns the call that gets it.
fn finish(queue: &mut Queue<u32>, now: Instant) -> Option<u32> {
    end(queue, now, alone(MS));
    queue.next(now).map(|next| next.worker)
}

#[test]
fn no_call_is_refused_while_a_worker_is_idle() {
    let (mut queue, now) = (Queue::new(2, 100 * MS), Instant::now());
    assert!(matches!(enter(&mut queue, now, 1), Ok(Entry::Begun { .. })));
    // Not even a call whose deadline is over: the deadline itself ends it then.
    assert!(matches!(queue.enter(now, Some(now), &nobody(), || 2), Ok(Entry::Begun { .. })));
    assert!(matches!(enter(&mut queue, now, 3), Ok(Entry::Waits { .. })));
    assert_eq!(finish(&mut queue, now), Some(3));
    assert_eq!((finish(&mut queue, now), finish(&mut queue, now)), (None, None));
    assert_eq!((queue.n_busy(), queue.n_waiting()), (0, 0));
}

#[test]
fn a_burst_may_wait_and_a_standing_queue_may_not() {
    let (mut queue, start) = (Queue::new(1, 100 * MS), Instant::now());
    for who in 0..1_000 {
        let _ = enter(&mut queue, start, who);
    }
    // A call is assumed to take a millisecond before any was measured.
    assert_eq!(queue.n_waiting(), 100);
    let refused = enter(&mut queue, start, 0).unwrap_err();
    assert!(refused.retry_after > 100 * MS && refused.retry_after < 102 * MS, "{refused:?}");
    // Half of the calls are served, the others still wait: the queue is still long for a burst, and it has lasted.
    for _ in 0..50 {
        assert!(finish(&mut queue, start).is_some());
    }
    assert!(enter(&mut queue, start + 50 * MS, 0).is_ok());
    assert!(enter(&mut queue, start + 100 * MS, 0).is_err());
    while queue.n_busy() > 0 {
        assert!(enter(&mut queue, start + 100 * MS, 0).is_err());
        finish(&mut queue, start + 100 * MS);
    }
    // Only an idle worker takes a call now, until half a second has passed in which fewer calls came than could be
    // served.
    assert!(matches!(enter(&mut queue, start + 200 * MS, 0), Ok(Entry::Begun { .. })));
    assert!(enter(&mut queue, start + 599 * MS, 0).is_err());
    assert!(enter(&mut queue, start + 600 * MS, 0).is_ok());
}

#[test]
fn a_wait_longer_than_expected_refuses_further_calls() {
    let (mut queue, start) = (Queue::new(1, 100 * MS), Instant::now());
    assert!(matches!(enter(&mut queue, start, 0), Ok(Entry::Begun { .. })));
    assert!(enter(&mut queue, start, 1).is_ok());
    assert!(enter(&mut queue, start + 99 * MS, 2).is_ok());
    assert!(enter(&mut queue, start + 101 * MS, 3).is_err());
}

#[test]
fn waits_end_at_the_deadline_or_at_the_patience() {
    let (mut queue, now) = (Queue::new(1, 100 * MS), Instant::now());
    assert!(matches!(enter(&mut queue, now, 0), Ok(Entry::Begun { .. })));
    assert!(queue.enter(now, Some(now + MS / 2), &nobody(), || 1).is_err());
    let at = now + 5 * MS;
    let entry = queue.enter(now, Some(at), &nobody(), || 1).unwrap();
    assert!(matches!(entry, Entry::Waits { until, .. } if until == Some(at)), "{entry:?}");
    let entry = enter(&mut queue, now, 2).unwrap();
    let patience = Some(now + 1_000 * MS);
    assert!(matches!(entry, Entry::Waits { until, .. } if until == patience), "{entry:?}");
}

#[test]
fn streams_and_calls_take_turns() {
    let (mut queue, now) = (Queue::new(1, 100 * MS), Instant::now());
    assert!(matches!(queue.enter_patiently(now, &nobody(), || 0), Entry::Begun { .. }));
    for who in [10, 11, 12] {
        queue.enter_patiently(now, &nobody(), || who);
    }
    // Waiting streams are no reason to refuse a call.
    for who in [1, 2] {
        assert!(enter(&mut queue, now + 500 * MS, who).is_ok());
    }
    let order: Vec<u32> = std::iter::from_fn(|| finish(&mut queue, now)).collect();
    assert_eq!(order, [1, 10, 2, 11, 12]);
}

#[test]
fn a_call_that_left_is_never_notified() {
    let (mut queue, now) = (Queue::new(1, 100 * MS), Instant::now());
    assert!(matches!(enter(&mut queue, now, 0), Ok(Entry::Begun { .. })));
    let Ok(Entry::Waits { ticket, .. }) = enter(&mut queue, now, 1) else { panic!("it waits") };
    assert!(queue.leave(ticket));
    assert!(!queue.leave(ticket));
    assert_eq!(finish(&mut queue, now), None);
}

/// A standing queue of two workers, with one of them at work. Calls take 10 ms, and are on a core for `on_core` of it.
fn standing_queue(on_core: Duration) -> (Queue<u32>, Instant) {
    let (mut queue, mut now) = (Queue::new(2, 100 * MS), Instant::now());
    for who in 0..200 {
        now += 5 * MS;
        if queue.n_busy() == 2 {
            end(&mut queue, now, Some(Service { time: 10 * MS, on_core }));
            queue.next(now);
        }
        for n in 0..5 {
            // Most of them are refused.
            let _ = enter(&mut queue, now, who * 5 + n);
        }
    }
    while queue.n_busy() > 1 || queue.n_waiting() > 0 {
        end(&mut queue, now, None);
        queue.next(now);
    }
    (queue, now)
}

#[test]
fn no_more_work_than_cores_while_there_is_too_much() {
    let (mut queue, now) = standing_queue(10 * MS);
    assert!(matches!(enter(&mut queue, now, 1), Ok(Entry::Begun { .. })));
    assert_eq!(queue.n_open(now), 2);
    let (mut queue, now) = standing_queue(6 * MS);
    assert!(enter(&mut queue, now, 1).is_err());
    assert_eq!(queue.n_open(now), 1);
    end(&mut queue, now, None);
    assert!(matches!(enter(&mut queue, now, 1), Ok(Entry::Begun { .. })));
    assert!(enter(&mut queue, now, 2).is_err());
}

/// The end of a standing queue is noticed when a worker becomes free, even if no call comes any more.
#[test]
fn streams_get_all_workers_once_the_queue_no_longer_stands() {
    let (mut queue, now) = standing_queue(6 * MS);
    for who in 1..=4 {
        assert!(matches!(queue.enter_patiently(now, &nobody(), || who), Entry::Waits { .. }));
    }
    let mut assigned = |now| {
        end(&mut queue, now, None);
        std::iter::from_fn(|| queue.next(now)).map(|next| next.worker).collect::<Vec<_>>()
    };
    assert_eq!(assigned(now), [1]);
    // There was too much in the half second that ends here, and nothing in the next.
    assert_eq!(assigned(now + 600 * MS), [2]);
    assert_eq!(assigned(now + 1_200 * MS), [3, 4]);
}

#[test]
fn one_giant_does_not_make_dwarfs_of_the_next_burst() {
    let mut mean = Mean::default();
    mean.add(Duration::from_secs(60));
    assert!(mean.seconds < 1.4e-3, "{mean:?}");
    for _ in 0..25 {
        mean.add(Duration::from_secs(1));
    }
    assert!(mean.seconds > 0.5, "{mean:?}");
}

/// Remaining service time of each call.
type Work = BTreeMap<u32, Duration>;

proptest! {
    /// Any load, any service times, any share of the cores: there are never more running calls than workers, none idle
    /// while a call waits, and none refused while one is idle, except for the half that too few cores may close; and if
    /// calls take the expected time, no admitted call waits much longer than the limit.
    #[test]
    fn load_of_every_kind(
        n_workers in 1_usize..5,
        service_us in 100_u64..3_000,
        is_even in any::<bool>(),
        share in 0.0..1.0,
        arrivals in prop::collection::vec((0_u64..2_000, 1_u64..20, any::<bool>()), 1..800),
    ) {
        let max_wait = 20 * MS;
        let (mut queue, mut now) = (Queue::new(n_workers, max_wait), Instant::now());
        let n_sure = if share > 0.9 { n_workers } else { n_workers.div_ceil(2) };
        let mut work = Work::new();
        let mut longest = Duration::ZERO;
        let mut n_accepted = 0;
        for (who, (gap_us, weight, is_stream)) in (0_u32..).zip(arrivals) {
            let gap = Duration::from_micros(gap_us);
            n_accepted -= pass(&mut queue, &mut work, &mut now, gap, (service_us, share), &mut longest);
            let is_stream = is_stream && !is_even;
            let service = Duration::from_micros(service_us * if is_even { 1 } else { weight });
            let was_idle = queue.n_busy() < n_sure;
            let entry = if is_stream {
                Ok(queue.enter_patiently(now, &nobody(), || who))
            } else {
                enter(&mut queue, now, who)
            };
            let is_begun = matches!(entry, Ok(Entry::Begun { .. }));
            prop_assert!(!was_idle || is_begun);
            if is_begun {
                work.insert(who, service);
            }
            n_accepted += usize::from(entry.is_ok());
            prop_assert!(queue.n_busy() <= n_workers);
            prop_assert_eq!(queue.n_busy(), work.len());
            prop_assert!(queue.n_waiting() == 0 || queue.n_busy() >= n_sure);
        }
        let rest = Duration::from_secs(3_600);
        n_accepted -= pass(&mut queue, &mut work, &mut now, rest, (service_us, share), &mut longest);
        prop_assert_eq!((n_accepted, queue.n_busy(), queue.n_waiting()), (0, 0, 0));
        if is_even {
            // While the mean is still being learned it may be wrong by a factor of three.
            prop_assert!(longest <= max_wait * 4, "{longest:?}");
        }
    }
}

proptest! {
    /// Steady load, equal calls. If there is too much load, admitted calls wait for nobody once that is known, and no
    /// worker is idle for longer than until the next call; otherwise no call is refused.
    #[test]
    fn a_steady_load(
        n_workers in 1_usize..5,
        service_us in 500_u64..5_000,
        share in 0.0..1.0,
        load_percent in 20_u64..1_000,
    ) {
        prop_assume!(!(95..110).contains(&load_percent));
        let max_wait = 50 * MS;
        let start = Instant::now();
        let (mut queue, mut now) = (Queue::new(n_workers, max_wait), start);
        let mut work = Work::new();
        let workers = u32::try_from(n_workers).unwrap();
        let gap = Duration::from_micros(service_us * 100 / load_percent) / workers;
        let mut n_refused = 0;
        for who in 0_u32.. {
            let mut waited = Duration::ZERO;
            pass(&mut queue, &mut work, &mut now, gap, (service_us, share), &mut waited);
            let is_late = now > start + 20 * max_wait;
            prop_assert!(!is_late || waited == Duration::ZERO, "{waited:?}");
            match enter(&mut queue, now, who) {
                Ok(Entry::Begun { .. }) => drop(work.insert(who, Duration::from_micros(service_us))),
                Ok(Entry::Waits { .. }) => prop_assert!(!is_late),
                Err(_) => n_refused += 1,
            }
            if now > start + 60 * max_wait {
                break;
            }
        }
        prop_assert_eq!(n_refused == 0, load_percent < 100);
    }
}

proptest! {
    /// Callers that ask again only once they have their answer, some of them later than others: as long as their waits are
    /// within the limit none of them is ever refused, however long this goes on.
    #[test]
    fn a_closed_loop(
        n_workers in 1_usize..5,
        n_callers in 1_usize..40,
        service_us in 500_u64..5_000,
        pauses in prop::collection::vec((0_usize..40, 1_usize..200), 0..10),
    ) {
        let max_wait = 100 * MS;
        let service = Duration::from_micros(service_us);
        let n_waiting = u32::try_from(n_callers.saturating_sub(n_workers)).unwrap();
        prop_assume!(service * n_waiting < max_wait * 9 / 10);
        let (mut queue, mut now) = (Queue::new(n_workers, max_wait), Instant::now());
        let mut work = Work::new();
        let (mut n_idle, mut who, mut longest) = (n_callers, 0, Duration::ZERO);
        let mut pauses = pauses.into_iter().cycle();
        let mut pause = pauses.next();
        for _ in 0..2_000 {
            let n_resting = pause.map_or(0, |(n_resting, _)| n_resting);
            while n_idle > n_resting {
                who += 1;
                n_idle -= 1;
                let entry = enter(&mut queue, now, who);
                prop_assert!(entry.is_ok());
                if matches!(entry, Ok(Entry::Begun { .. })) {
                    work.insert(who, service);
                }
            }
            n_idle += pass(&mut queue, &mut work, &mut now, MS, (service_us, 1.0), &mut longest);
            pause = match pause {
                Some((n_resting, n_left @ 1..)) => Some((n_resting, n_left - 1)),
                _ => pauses.next(),
            };
        }
    }
}

/// Lets time pass: a worker whose call ends takes the next. `service` is the time of a call, in microseconds, and its
/// share on a core. Returns how many calls ended.
fn pass(
    queue: &mut Queue<u32>,
    work: &mut Work,
    now: &mut Instant,
    mut gap: Duration,
    (service_us, share): (u64, f64),
    longest: &mut Duration,
) -> usize {
    let time = Duration::from_micros(service_us);
    let service = Service { time, on_core: time.mul_f64(share) };
    let mut n_done = 0;
    while let Some((&who, &left)) = work.iter().min_by_key(|(_, left)| **left) {
        let step = left.min(gap);
        *now += step;
        gap -= step;
        work.values_mut().for_each(|left| *left -= step);
        if left > step {
            return n_done;
        }
        work.remove(&who);
        n_done += 1;
        end(queue, *now, Some(service));
        while let Some(Next { worker: next, since, .. }) = queue.next(*now) {
            *longest = (*longest).max(*now - since);
            work.insert(next, time);
        }
    }
    *now += gap;
    n_done
}

fn user(name: &str, weight: u32) -> User {
    User { name: name.into(), weight }
}

/// A call of a user who has nothing under way is not refused for what another user does, and gets the worker of a long
/// call at once.
#[test]
fn a_greedy_user_keeps_no_worker_from_others() {
    let (mut queue, start) = (Queue::new(2, 100 * MS), Instant::now());
    let (greedy, honest) = (user("greedy", 1), user("honest", 1));
    for who in 0..2 {
        queue.enter(start, None, &greedy, || who).unwrap();
    }
    // They are young: the honest call waits for a moment.
    let waits = queue.enter(start + MS, None, &honest, || 10).unwrap();
    assert!(matches!(waits, Entry::Waits { .. }));
    assert!(queue.next(start + 19 * MS).is_none());
    let next = queue.next(start + 20 * MS).unwrap();
    assert_eq!((next.worker, queue.n_busy()), (10, 2));
    // Both long calls go on; a third one of that user waits although a worker is free then.
    queue.finish(start + 21 * MS, next.id, None);
    assert!(matches!(queue.enter(start + 21 * MS, None, &greedy, || 3), Ok(Entry::Waits { .. })));
    for n in 0..1_000 {
        let now = start + (22 + n) * MS;
        let Ok(Entry::Begun { id }) = queue.enter(now, None, &honest, || 11) else {
            panic!("the honest user waits")
        };
        queue.finish(now, id, None);
        assert!(queue.next(now).is_none(), "the greedy user has as many as there are workers");
    }
}

/// Nor is a user who has few calls under way, or fewer than the others that do not wait for long.
#[test]
fn a_greedy_user_has_no_other_refused() {
    let (mut queue, start) = (Queue::new(1, 100 * MS), Instant::now());
    let (greedy, honest) = (user("greedy", 1), user("honest", 1));
    for who in 0..1_000 {
        let _ = queue.enter(start, None, &greedy, || who);
    }
    let now = start + 100 * MS;
    assert!(queue.enter(now, None, &greedy, || 1_000).is_err());
    for who in 2_000..2_005 {
        assert!(queue.enter(now, None, &honest, || who).is_ok());
    }
    // Its own calls wait for long by now, but they are few.
    let later = now + 101 * MS;
    for who in 2_005..2_008 {
        assert!(queue.enter(later, None, &honest, || who).is_ok());
    }
    assert!(queue.enter(later, None, &honest, || 2_008).is_err());
}

/// A user of few calls is refused neither for a queue that others made a moment ago, nor after long waiting for them; a
/// user who was alone is.
#[test]
fn few_calls_wait_for_what_others_did() {
    let standing = |other: &User| {
        let (mut queue, start) = (Queue::new(1, 100 * MS), Instant::now());
        for who in 0..200 {
            // Some are refused.
            let _ = queue.enter(start, None, other, || who);
        }
        let now = start + 101 * MS;
        assert!(queue.enter(now, None, other, || 200).is_err(), "it stands");
        let mut worker = Some(0);
        while worker.is_some() {
            worker = finish(&mut queue, now);
        }
        (queue, now)
    };
    let honest = user("honest", 1);
    for (other, is_taken) in [(user("greedy", 1), true), (honest.clone(), false)] {
        let (mut queue, now) = standing(&other);
        assert!(matches!(queue.enter(now, None, &honest, || 201), Ok(Entry::Begun { .. })));
        let second = queue.enter(now, None, &honest, || 202);
        let waits = matches!(second, Ok(Entry::Waits { until: None, .. }));
        assert_eq!((waits, second.is_err()), (is_taken, !is_taken), "{}", other.name);
    }
}

#[test]
fn waiting_users_take_turns_by_weight() {
    let (mut queue, start) = (Queue::new(1, 10_000 * MS), Instant::now());
    let (many, few, admin) = (user("many", 2), user("few", 2), user("admin", 8));
    queue.enter(start, None, &many, || 0).unwrap();
    for who in 1..=6 {
        queue.enter(start, None, &many, || who).unwrap();
    }
    for who in 11..=12 {
        queue.enter(start, None, &few, || who).unwrap();
    }
    queue.enter(start, None, &admin, || 21).unwrap();
    let order: Vec<u32> = std::iter::from_fn(|| finish(&mut queue, start)).collect();
    assert_eq!(order, [21, 11, 1, 12, 2, 3, 4, 5, 6]);
}

/// Calls that gave their workers up get them back when nobody else needs them.
#[test]
fn workers_come_back_to_who_gave_them_up() {
    let (mut queue, start) = (Queue::new(1, 100 * MS), Instant::now());
    let (long, short) = (user("long", 1), user("short", 1));
    queue.enter(start, None, &long, || 0).unwrap();
    let now = start + 50 * MS;
    let Ok(Entry::Begun { id }) = queue.enter(now, None, &short, || 1) else { panic!("it waits") };
    queue.finish(now, id, None);
    assert!(queue.next(now).is_none());
    assert_eq!(queue.n_busy(), 1, "the long call's");
    let Ok(Entry::Begun { id }) = queue.enter(now, None, &short, || 2) else { panic!("it waits") };
    queue.finish(now, id, None);
    // The long call ends while it has no worker of its own, or has one: either way none is lost.
    end(&mut queue, now, None);
    assert!(matches!(queue.enter(now, None, &long, || 3), Ok(Entry::Begun { .. })));
}
