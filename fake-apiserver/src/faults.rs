//! Misbehaviour on demand: what networks, load balancers and overloaded API servers do to their clients.
//!
//! Chance is seeded: a request's luck depends on the seed, its method and path, and how many like it came before, so that
//! a run with the same requests has the same faults, however they interleave.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use tokio::sync::watch;

mod luck;

pub(crate) use luck::{Luck, Mishap};

/// The faults in force. Each setter takes effect at once, also for watches that are open; probabilities are from 0 to 1.
/// Clones share them.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Mutex<Plan>,
    /// Whether the plan is all quiet, to be read without the lock.
    is_quiet: AtomicBool,
    memory: Mutex<Memory>,
    /// Counts calls of [`Faults::cut_now`].
    cuts: watch::Sender<u64>,
}

#[derive(Default)]
struct Memory {
    /// How many requests of each method and path have come.
    seen: BTreeMap<String, u64>,
    done: BTreeMap<&'static str, u64>,
}

impl Memory {
    /// How many requests like this one came before it.
    fn count_request(&mut self, path: String) -> u64 {
        let n = self.seen.entry(path).or_default();
        *n += 1;
        *n - 1
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    seed: u64,
    only: String,
    n_left: Option<u64>,
    pub(crate) cut_after: Option<RangeInclusive<u64>>,
    pub(crate) cut: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    pub(crate) gone: f64,
    gone_status: f64,
    pub(crate) skip_bookmarks: bool,
    pub(crate) stall: bool,
    pub(crate) half_close: bool,
    pub(crate) garbage: f64,
    pub(crate) slow: Duration,
    refuse: f64,
    refuse_with: u16,
    lose_answer: f64,
    latency: Duration,
}

const QUIET: Plan = Plan {
    seed: 0,
    only: String::new(),
    n_left: None,
    cut_after: None,
    cut: 0.0,
    duplicate: 0.0,
    reorder: 0.0,
    gone: 0.0,
    gone_status: 0.0,
    skip_bookmarks: false,
    stall: false,
    half_close: false,
    garbage: 0.0,
    slow: Duration::ZERO,
    refuse: 0.0,
    refuse_with: 0,
    lose_answer: 0.0,
    latency: Duration::ZERO,
};

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            shared: Arc::new(Shared {
                plan: Mutex::new(QUIET),
                is_quiet: AtomicBool::new(true),
                memory: Mutex::default(),
                cuts: watch::Sender::new(0),
            }),
        }
    }
}

/// What is to happen to one request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fate {
    pub(crate) latency: Duration,
    /// An HTTP status to refuse it with.
    pub(crate) refuse: Option<u16>,
    /// Carry it out, then cut the connection.
    pub(crate) lose_answer: bool,
    /// 410 to a watch, as HTTP status.
    pub(crate) gone: bool,
}

/// Setters.
impl Faults {
    /// Ends all faults; the seed stays. Watches that are open go on.
    pub fn none(&self) {
        self.change(|plan| *plan = Plan { seed: plan.seed, ..QUIET });
    }

    /// What chance is drawn from. Zero at first. Starts the count of requests anew.
    pub fn seed(&self, seed: u64) {
        self.memory().seen.clear();
        self.change(|plan| plan.seed = seed);
    }

    /// Faults concern only requests whose `METHOD path?query` contains this text; empty for all.
    pub fn only(&self, text: &str) {
        self.change(|plan| plan.only = text.to_owned());
    }

    /// After this many more faults there are none; `None` for no limit. Latency, slowness, silence and missing bookmarks
    /// do not count.
    pub fn at_most(&self, n_faults: impl Into<Option<u64>>) {
        let n_faults = n_faults.into();
        self.change(|plan| plan.n_left = n_faults);
    }

    /// Each watch is cut off after so many live events (drawn from the range when it begins), within the line of the
    /// next one. What a list or watch begins with is not counted.
    pub fn cut_watches_after(&self, n_events: RangeInclusive<u64>) {
        self.change(|plan| plan.cut_after = Some(n_events));
    }

    /// A watch is cut off within the line of a live event, with this probability for each.
    pub fn cut_watches(&self, probability: f64) {
        self.change(|plan| plan.cut = probability);
    }

    /// Cuts every open watch now, between lines, without the closing chunk.
    pub fn cut_now(&self) {
        self.shared.cuts.send_modify(|n| *n += 1);
        self.count("cut_now");
    }

    /// An event is sent twice.
    pub fn duplicate(&self, probability: f64) {
        self.change(|plan| plan.duplicate = probability);
    }

    /// An event changes places with the next of the same watch; without a next one within a bookmark interval it is sent.
    pub fn reorder(&self, probability: f64) {
        self.change(|plan| plan.reorder = probability);
    }

    /// Instead of an event, a watch gets an ERROR event of 410 Expired and ends.
    pub fn gone(&self, probability: f64) {
        self.change(|plan| plan.gone = probability);
    }

    /// A watch request is answered with the HTTP status 410.
    pub fn gone_status(&self, probability: f64) {
        self.change(|plan| plan.gone_status = probability);
    }

    /// No bookmarks are sent, though asked for; the one that ends the initial events is.
    pub fn skip_bookmarks(&self, on: bool) {
        self.change(|plan| plan.skip_bookmarks = on);
    }

    /// Watches stay open and say nothing, not even bookmarks; what was held back follows when this ends.
    pub fn stall(&self, on: bool) {
        self.change(|plan| plan.stall = on);
    }

    /// A watch whose time is up ends without the closing chunk.
    pub fn half_close(&self, on: bool) {
        self.change(|plan| plan.half_close = on);
    }

    /// A line that is no JSON comes before an event.
    pub fn garbage(&self, probability: f64) {
        self.change(|plan| plan.garbage = probability);
    }

    /// Before each chunk of a watch so much time passes.
    pub fn slow(&self, delay: Duration) {
        self.change(|plan| plan.slow = delay);
    }

    /// A request, of whatever kind, is refused with this status before anything is done; 429 says when to come again.
    pub fn refuse(&self, probability: f64, status: u16) {
        self.change(|plan| (plan.refuse, plan.refuse_with) = (probability, status));
    }

    /// A write is carried out, and the connection cut before its answer.
    pub fn lose_answer(&self, probability: f64) {
        self.change(|plan| plan.lose_answer = probability);
    }

    /// So much time passes before any request is looked at.
    pub fn latency(&self, latency: Duration) {
        self.change(|plan| plan.latency = latency);
    }

    /// How often each fault has happened, by its setter's name; a request that is kept waiting is counted when it comes.
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.memory().done.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan();
        change(&mut plan);
        let quiet = Plan { seed: plan.seed, only: plan.only.clone(), n_left: plan.n_left, ..QUIET };
        self.shared.is_quiet.store(*plan == quiet, Ordering::Release);
    }
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.shared.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, fault: &'static str) {
        *self.memory().done.entry(fault).or_default() += 1;
    }

    /// Whether a fault may happen once more, and that it does.
    fn spend(&self, fault: &'static str) -> bool {
        let mut plan = self.plan();
        if plan.n_left == Some(0) {
            return false;
        }
        plan.n_left = plan.n_left.map(|left| left - 1);
        drop(plan);
        self.count(fault);
        true
    }

    /// What happens to this request, and the luck of the watch that it may begin.
    pub(crate) fn fate(&self, method: &str, target: &str, is_watch: bool) -> (Fate, Luck) {
        let what = format!("{method} {target}");
        let plan = self.plan().clone();
        let path = what.split('?').next().unwrap_or(&what).to_owned();
        let mut hash = plan.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in path.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // Quiet servers need not remember every path they ever saw.
        let counts = is_watch || !self.shared.is_quiet.load(Ordering::Acquire);
        let n_before = if counts { self.memory().count_request(path) } else { 0 };
        let mut dice = ChaCha8Rng::seed_from_u64(hash);
        dice.set_stream(n_before);
        let mut luck = Luck { faults: self.clone(), what, dice, cut_after: None, n_events: 0 };
        let mut fate = Fate::default();
        if !luck.concerned(&plan) {
            return (fate, luck);
        }
        fate.latency = plan.latency;
        if !fate.latency.is_zero() {
            self.count("latency");
        }
        if luck.hit(plan.refuse, "refuse") {
            fate.refuse = Some(plan.refuse_with);
        } else if method != "GET" && luck.hit(plan.lose_answer, "lose_answer") {
            fate.lose_answer = true;
        } else if is_watch && luck.hit(plan.gone_status, "gone_status") {
            fate.gone = true;
        }
        (fate, luck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64) -> Vec<Fate> {
        let faults = Faults::default();
        faults.seed(seed);
        faults.refuse(0.3, 503);
        faults.lose_answer(0.5);
        (0..64).map(|_| faults.fate("POST", "/a/binding", false).0).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
        let refused = fates(7).iter().filter(|fate| fate.refuse == Some(503)).count();
        assert!((10..30).contains(&refused), "{refused} of 64 at 0.3");
    }

    #[test]
    fn other_requests_do_not_change_a_requests_luck() {
        let faults = Faults::default();
        faults.refuse(0.3, 503);
        faults.lose_answer(0.5);
        faults.seed(7);
        let among_others = (0..64).map(|_| {
            faults.fate("GET", "/b", false);
            faults.fate("POST", "/a/binding", false).0
        });
        assert_eq!(among_others.collect::<Vec<_>>(), fates(7));
    }

    #[test]
    fn faults_are_limited_in_reach_and_number() {
        let faults = Faults::default();
        faults.refuse(1.0, 500);
        faults.only("/binding");
        faults.at_most(2);
        assert_eq!(faults.fate("GET", "/pods", false).0, Fate::default());
        let refused =
            (0..5).filter(|_| faults.fate("POST", "/x/binding", false).0.refuse.is_some());
        assert_eq!(refused.count(), 2);
        assert_eq!(faults.done()["refuse"], 2);
        faults.at_most(None);
        assert!(faults.fate("POST", "/x/binding", false).0.refuse.is_some());
        faults.none();
        assert_eq!(faults.fate("POST", "/x/binding", false).0, Fate::default());
    }

    #[test]
    fn a_watch_is_cut_after_a_number_of_its_own() {
        let faults = Faults::default();
        faults.cut_watches_after(3..=3);
        let mut luck = faults.fate("GET", "/pods?watch=1", true).1;
        let mishaps: Vec<_> = (0..4).map(|_| luck.next()).collect();
        assert_eq!(mishaps, [Mishap::None, Mishap::None, Mishap::None, Mishap::Cut]);
    }
}
