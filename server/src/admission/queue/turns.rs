//! Turns: the order in which waiting calls get a worker, and which worker a user gives up. A user's calls take their turns
//! with those of others, however many they are; and a call that takes long keeps no worker from other users.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::waiting::Waiting;
use crate::admission::user::User;

/// Time after which a call gives its worker up when other users wait: it goes on beside them.
const LONG: Duration = Duration::from_millis(20);
/// Most calls for each worker that go on beside others.
const MAX_BESIDE: usize = 4;
/// Most users whose last turns are remembered.
const MAX_USERS: usize = 1_024;

/// The calls that run, and whose turn was last.
#[derive(Debug)]
pub(super) struct Turns {
    n_workers: usize,
    running: Vec<Running>,
    next_id: u64,
    /// The last turn of each user.
    last: HashMap<Arc<str>, Turn>,
}

#[derive(Debug)]
struct Turn {
    /// Id of the call.
    id: u64,
    /// When it began, or ended.
    at: Instant,
}

#[derive(Debug)]
struct Running {
    id: u64,
    user: Arc<str>,
    since: Instant,
    /// Whether it gave its worker up.
    is_beside: bool,
}

impl Turns {
    pub(super) fn new(n_workers: usize) -> Turns {
        Turns { n_workers, running: Vec::new(), next_id: 0, last: HashMap::new() }
    }

    /// A call of `user` gets a worker; returns its id.
    pub(super) fn begin(&mut self, user: &User, now: Instant) -> u64 {
        self.next_id += 1;
        let (id, user) = (self.next_id, user.name.clone());
        if self.last.len() >= MAX_USERS {
            self.last.clear();
        }
        self.last.insert(user.clone(), Turn { id, at: now });
        self.running.push(Running { id, user, since: now, is_beside: false });
        id
    }

    /// A call is over; returns whether it had a worker.
    pub(super) fn end(&mut self, id: u64, now: Instant) -> bool {
        let Some(place) = self.running.iter().position(|running| running.id == id) else {
            return false;
        };
        let ended = self.running.swap_remove(place);
        if let Some(turn) = self.last.get_mut(&ended.user) {
            turn.at = now;
        }
        !ended.is_beside
    }

    /// Whether a call of another user ran in the last `time`.
    pub(super) fn has_others_within(&self, time: Duration, user: &User, now: Instant) -> bool {
        let is_recent = |turn: &Turn| now.saturating_duration_since(turn.at) <= time;
        self.last.iter().any(|(other, turn)| *other != user.name && is_recent(turn))
    }

    /// Number of calls of the user that run.
    pub(super) fn n_running(&self, user: &User) -> usize {
        self.running.iter().filter(|running| running.user == user.name).count()
    }

    /// Number of calls that run.
    pub(super) fn n_running_in_all(&self) -> usize {
        self.running.len()
    }

    /// Whether the user may have one more call that runs. Only who has calls that gave their worker up may not.
    pub(super) fn may_run(&self, user: &User) -> bool {
        let own = || self.running.iter().filter(|running| running.user == user.name);
        own().all(|running| !running.is_beside) || own().count() < self.n_workers
    }

    /// Takes the worker of a long call of another user, of the one with the most of them. Returns whether there is one.
    pub(super) fn give_up(&mut self, user: &User, now: Instant) -> bool {
        let n_beside = self.running.iter().filter(|running| running.is_beside).count();
        if n_beside >= self.n_workers * MAX_BESIDE {
            return false;
        }
        let n_of =
            |user: &Arc<str>| self.running.iter().filter(|running| running.user == *user).count();
        let is_long = |running: &Running| {
            !running.is_beside
                && running.user != user.name
                && now.saturating_duration_since(running.since) >= LONG
        };
        let candidates = self.running.iter().enumerate().filter(|(_, running)| is_long(running));
        let place =
            candidates.max_by_key(|(_, running)| (n_of(&running.user), now - running.since));
        let Some(place) = place.map(|(place, _)| place) else { return false };
        self.running[place].is_beside = true;
        true
    }

    /// Gives a free worker back to the call that has gone on beside others for longest. Returns whether there is one.
    pub(super) fn take_back(&mut self) -> bool {
        let beside = self.running.iter_mut().filter(|running| running.is_beside);
        match beside.min_by_key(|running| running.since) {
            Some(running) => {
                running.is_beside = false;
                true
            }
            None => false,
        }
    }

    /// Position of the waiting call whose turn is next: of the user with the fewest calls that run for its weight, and
    /// among those of the one whose last turn is longest ago, where a user with twice the weight waits half as long.
    pub(super) fn next<W>(&self, waiting: &VecDeque<Waiting<W>>) -> Option<usize> {
        let first = waiting.front()?;
        if waiting.iter().all(|other| other.user.name == first.user.name) {
            return self.may_run(&first.user).then_some(0);
        }
        // The first of each user.
        let mut heads: Vec<(usize, &User)> = Vec::new();
        for (place, call) in waiting.iter().enumerate() {
            if heads.iter().all(|(_, user)| user.name != call.user.name) {
                heads.push((place, &call.user));
            }
        }
        heads.retain(|(_, user)| self.may_run(user));
        let key = |&(place, user): &(usize, &User)| {
            let n = self.running.iter().filter(|running| running.user == user.name).count();
            let scaled = (n as u64 * 1_000) / u64::from(user.weight.max(1));
            let last = self.last.get(&user.name).map_or(0, |turn| turn.id);
            let age = self.next_id.saturating_sub(last) + 1;
            (scaled, Reverse(age.saturating_mul(u64::from(user.weight.max(1)))), place)
        };
        heads.into_iter().min_by_key(key).map(|(place, _)| place)
    }

    /// Number of waiting calls that come before another one of the user: no user has more turns than it.
    pub(super) fn n_ahead<W>(&self, user: &User, waiting: &VecDeque<Waiting<W>>) -> usize {
        let mut by_user: HashMap<&str, usize> = HashMap::new();
        for call in waiting {
            *by_user.entry(&call.user.name).or_default() += 1;
        }
        let own = by_user.get(&*user.name).copied().unwrap_or_default();
        by_user.into_values().map(|n| n.min(own + 1)).sum()
    }

    /// The call that has run for longest.
    #[cfg(test)]
    pub(super) fn oldest(&self) -> Option<u64> {
        self.running.iter().map(|running| running.id).min()
    }
}
