//! History: what callers asked and were told, and when; and what of it cannot be if every reservation holds.
//!
//! Of an operation only its beginning and its end are known. A reservation holds for certain from the end of the call that
//! was told of it until the beginning of the first one that may end it. So what is said here to be wrong is wrong in every
//! order of the operations that their times allow.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// A reservation, as a caller was told of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Number of the pod, which no two requests share; those of one name are one request.
    pub(crate) pod: u64,
    pub(crate) token: u64,
    pub(crate) node: u32,
}

/// An operation that was answered, or, for a release, asked.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Since the beginning of the history.
    pub(crate) invoked: Duration,
    pub(crate) returned: Duration,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// `ttl` is `None` for a reservation that lasts until it is released.
    Reserved { pods: Vec<Reservation>, ttl: Option<Duration> },
    /// The same response to the same named request.
    Repeated { pods: Vec<Reservation> },
    /// A reservation has a new time to live; `None` for none.
    Extended { token: u64, ttl: Option<Duration> },
    /// A release was asked for; `is_certain` if it was acknowledged.
    Released { token: u64, is_certain: bool },
    /// The pod is bound to its node: it holds its room without the reservation from the moment when a feed reports it.
    Bound { token: u64 },
    /// A bound pod is deleted: its room is free as soon as a feed reports that.
    Deleted { token: u64 },
    /// Somebody was told that the reservation does not exist.
    Denied { token: u64 },
    /// All reservations, at a replica that had counted everything acknowledged before.
    Listed { pods: Vec<Reservation> },
}

/// When a reservation holds for certain.
#[derive(Copy, Clone, Debug)]
struct Held {
    pod: u64,
    node: u32,
    from: Duration,
    /// Nothing has ended it before.
    until: Duration,
    /// When its pod was bound: after that a listing may lack it.
    bound: Duration,
    /// Since when it is over for certain.
    over: Duration,
}

/// Says what cannot be, for nodes of so many pods.
pub(crate) fn violations(operations: &[Operation], n_pods_of_node: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let held = held(operations, &mut wrong);
    overfull(&held, n_pods_of_node, &mut wrong);
    shrinking_tokens(operations, &mut wrong);
    for Operation { invoked, returned, what } in operations {
        let span = (*invoked, *returned);
        match what {
            What::Denied { token } => {
                if held.get(token).is_some_and(|it| it.covers(span)) {
                    wrong.push(format!("{token} was denied at {invoked:?} while it was held"));
                }
            }
            What::Listed { pods } => changed(pods, span, &held, &mut wrong),
            What::Reserved { .. }
            | What::Repeated { .. }
            | What::Extended { .. }
            | What::Released { .. }
            | What::Bound { .. }
            | What::Deleted { .. } => {}
        }
    }
    lost(operations, &held, &mut wrong);
    wrong
}

impl Held {
    fn covers(&self, (invoked, returned): (Duration, Duration)) -> bool {
        self.from <= invoked && returned < self.until
    }
}

/// The reservations by their tokens.
fn held(operations: &[Operation], wrong: &mut Vec<String>) -> BTreeMap<u64, Held> {
    let mut held = BTreeMap::<u64, Held>::new();
    let mut token_of = HashMap::<u64, u64>::new();
    for Operation { invoked, returned, what } in operations {
        let (What::Reserved { pods, .. } | What::Repeated { pods }) = what else { continue };
        let ttl = match what {
            What::Reserved { ttl, .. } => *ttl,
            _ => None,
        };
        for &Reservation { pod, token, node } in pods {
            let until = ttl.map_or(Duration::MAX, |ttl| *invoked + ttl);
            let new = Held {
                pod,
                node,
                from: *returned,
                until,
                bound: Duration::MAX,
                over: Duration::MAX,
            };
            let before = *token_of.entry(pod).or_insert(token);
            if before != token {
                wrong.push(format!("pod {pod} was reserved twice: {before} and {token}"));
            }
            let known = held.entry(token).or_insert(new);
            if (known.pod, known.node) != (pod, node) {
                wrong.push(format!("{token} was given twice: {known:?} and {new:?}"));
            }
            known.from = known.from.min(*returned);
        }
    }
    for Operation { invoked, returned, what } in operations {
        match what {
            What::Extended { token, ttl } => {
                if let Some(held) = held.get_mut(token) {
                    let until = ttl.map_or(Duration::MAX, |ttl| *invoked + ttl);
                    held.until = held.until.max(until);
                }
            }
            What::Bound { token } => {
                if let Some(held) = held.get_mut(token) {
                    held.bound = held.bound.min(*invoked);
                }
            }
            What::Released { token, is_certain } => {
                if let Some(held) = held.get_mut(token).filter(|_| *is_certain) {
                    held.over = held.over.min(*returned);
                }
            }
            _ => {}
        }
    }
    // A release counts also for one that was extended before.
    for Operation { invoked, what, .. } in operations {
        if let What::Released { token, .. } | What::Deleted { token } = what
            && let Some(held) = held.get_mut(token)
        {
            held.until = held.until.min(*invoked);
        }
    }
    held
}

fn overfull(held: &BTreeMap<u64, Held>, n_pods_of_node: usize, wrong: &mut Vec<String>) {
    let mut changes: Vec<(Duration, i32, u32)> = Vec::with_capacity(2 * held.len());
    for it in held.values().filter(|it| it.from < it.until) {
        changes.extend([(it.from, 1, it.node), (it.until, -1, it.node)]);
    }
    // What ends at a time has ended.
    changes.sort_unstable();
    let mut n_on = BTreeMap::<u32, i32>::new();
    for (at, change, node) in changes {
        let n = n_on.entry(node).or_default();
        *n += change;
        if change > 0 && usize::try_from(*n).is_ok_and(|n| n > n_pods_of_node) {
            wrong.push(format!("node {node} has {n} pods at {at:?}"));
        }
    }
}

/// A reservation that is asked for after another one was told has a greater token.
fn shrinking_tokens(operations: &[Operation], wrong: &mut Vec<String>) {
    let reserved = operations.iter().filter_map(|it| match &it.what {
        What::Reserved { pods, .. } => {
            let tokens = || pods.iter().map(|pod| pod.token);
            Some((it.invoked, it.returned, tokens().min()?, tokens().max()?))
        }
        _ => None,
    });
    let mut by_begin: Vec<_> = reserved.collect();
    let mut by_end = by_begin.clone();
    by_begin.sort_unstable_by_key(|it| it.0);
    by_end.sort_unstable_by_key(|it| it.1);
    let mut ended = by_end.into_iter().peekable();
    let mut greatest = 0;
    for (invoked, _, least, _) in by_begin {
        while let Some((.., most)) = ended.next_if(|it| it.1 < invoked) {
            greatest = greatest.max(most);
        }
        if least <= greatest {
            wrong.push(format!("{least} was given at {invoked:?}, after {greatest}"));
        }
    }
}

/// Adds the reservations that a listing has after their release, or with another pod or node than their callers were
/// told.
fn changed(
    pods: &[Reservation],
    span: (Duration, Duration),
    held: &BTreeMap<u64, Held>,
    wrong: &mut Vec<String>,
) {
    for found in pods {
        let Some(it) = held.get(&found.token) else { continue };
        if it.over < span.0 {
            wrong.push(format!("{} is there at {:?} again: {it:?}", found.token, span.0));
        }
        if (found.pod, found.node) != (it.pod, it.node) {
            let token = found.token;
            wrong.push(format!("{token} is another one at {:?}: {found:?} {it:?}", span.0));
        }
    }
}

/// Adds the reservations that hold for certain during a listing and are not in it.
fn lost(operations: &[Operation], held: &BTreeMap<u64, Held>, wrong: &mut Vec<String>) {
    let listings = operations.iter().filter_map(|it| match &it.what {
        What::Listed { pods } => Some(((it.invoked, it.returned), pods)),
        _ => None,
    });
    let mut listings: Vec<_> = listings.collect();
    listings.sort_unstable_by_key(|(span, _)| *span);
    let mut coming: Vec<(Duration, u64)> =
        held.iter().map(|(&token, it)| (it.from, token)).collect();
    coming.sort_unstable();
    let mut coming = coming.into_iter().peekable();
    // Reservations that hold for certain when the current listing begins.
    let mut there = BTreeMap::<u64, &Held>::new();
    for (span, pods) in listings {
        while let Some((_, token)) = coming.next_if(|(from, _)| *from <= span.0) {
            there.extend(held.get(&token).map(|it| (token, it)));
        }
        there.retain(|_, it| it.until.min(it.bound) > span.0);
        let listed: HashSet<u64> = pods.iter().map(|pod| pod.token).collect();
        for (token, it) in &there {
            if it.covers(span) && span.1 < it.bound && !listed.contains(token) {
                wrong.push(format!("{token} is lost at {:?}: {it:?}", span.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(invoked: u64, returned: u64, what: What) -> Operation {
        let ms = Duration::from_millis;
        Operation { invoked: ms(invoked), returned: ms(returned), what }
    }

    fn reservation(pod: u64, token: u64) -> Reservation {
        Reservation { pod, token, node: 0 }
    }

    fn reserved(pod: u64, token: u64, ttl: Option<u64>) -> What {
        let (pods, ttl) = (vec![reservation(pod, token)], ttl.map(Duration::from_millis));
        What::Reserved { pods, ttl }
    }

    fn released(token: u64, is_certain: bool) -> What {
        What::Released { token, is_certain }
    }

    fn listed(tokens: &[(u64, u64)]) -> What {
        What::Listed { pods: tokens.iter().map(|&(pod, token)| reservation(pod, token)).collect() }
    }

    fn says(operations: &[Operation], text: &str) {
        let said = violations(operations, 1);
        let is_said = match text {
            "" => said.is_empty(),
            text => said.iter().any(|it| it.contains(text)),
        };
        assert!(is_said, "{text}: {said:?}");
    }

    #[test]
    fn a_node_is_overfull_only_if_it_is_so_in_every_order() {
        let first = at(0, 2, reserved(1, 10, None));
        let second = |invoked| at(invoked, invoked + 2, reserved(2, 11, None));
        says(&[first.clone(), second(3)], "has 2 pods");
        // The release may have been before, even if its answer came later or never.
        says(&[first.clone(), at(3, 9, released(10, false)), second(4)], "");
        says(&[first, at(7, 9, released(10, true)), second(3)], "has 2 pods");
        says(&[at(0, 2, reserved(1, 10, Some(4))), second(2)], "");
        says(&[at(0, 2, reserved(1, 10, Some(6))), second(3)], "has 2 pods");
        let extended = at(3, 4, What::Extended { token: 10, ttl: None });
        says(&[at(0, 2, reserved(1, 10, Some(4))), extended, second(7)], "has 2 pods");
    }

    #[test]
    fn a_bound_pod_is_in_no_list_and_has_its_room_until_it_is_deleted() {
        let first = at(0, 2, reserved(1, 10, None));
        let bound = at(3, 3, What::Bound { token: 10 });
        says(&[first.clone(), bound.clone(), at(4, 5, listed(&[]))], "");
        says(&[first.clone(), bound.clone(), at(1, 2, listed(&[]))], "");
        says(
            &[first.clone(), at(3, 4, listed(&[])), at(5, 5, What::Bound { token: 10 })],
            "is lost",
        );
        let second = |invoked| at(invoked, invoked + 2, reserved(2, 11, None));
        says(&[first.clone(), bound.clone(), second(4)], "has 2 pods");
        says(&[first, bound, at(4, 4, What::Deleted { token: 10 }), second(5)], "");
    }

    #[test]
    fn what_is_given_twice_or_out_of_turn_is_found() {
        let gone = at(3, 4, released(10, true));
        let first = at(0, 2, reserved(1, 10, None));
        says(&[first.clone(), gone.clone(), at(5, 6, reserved(2, 10, None))], "was given twice");
        says(&[first.clone(), gone.clone(), at(5, 6, reserved(1, 11, None))], "reserved twice");
        says(&[first.clone(), gone, at(5, 6, reserved(2, 9, None))], "after 10");
        let again = at(3, 4, What::Repeated { pods: vec![reservation(1, 10)] });
        says(&[first.clone(), again], "");
        let other = at(3, 4, What::Repeated { pods: vec![reservation(1, 12)] });
        says(&[first, other], "reserved twice");
    }

    #[test]
    fn what_is_lost_or_comes_back_is_found() {
        let first = at(0, 2, reserved(1, 10, None));
        says(&[first.clone(), at(3, 4, listed(&[(1, 10)]))], "");
        says(&[first.clone(), at(3, 4, listed(&[]))], "is lost");
        says(&[first.clone(), at(1, 4, listed(&[]))], "");
        says(&[first.clone(), at(3, 4, listed(&[(2, 10)]))], "is another one");
        says(&[first.clone(), at(3, 4, What::Denied { token: 10 })], "was denied");
        let gone = at(3, 5, released(10, true));
        says(&[first.clone(), gone.clone(), at(4, 6, listed(&[(1, 10)]))], "");
        says(&[first.clone(), gone.clone(), at(6, 7, listed(&[(1, 10)]))], "again");
        says(&[first, gone, at(6, 7, What::Denied { token: 10 })], "");
        let short = at(0, 2, reserved(1, 10, Some(5)));
        says(&[short.clone(), at(3, 6, listed(&[]))], "");
        says(&[short, at(3, 4, listed(&[]))], "is lost");
    }
}
