//! State of [`Faults`](super::Faults): the plan, and counts of requests and faults.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

/// The faults in force with the counts of requests and faults, shared by all requests.
pub(super) struct FaultState {
    plan: Mutex<Plan>,
    /// Whether the plan has no faults, readable without the lock.
    pub(super) is_quiet: AtomicBool,
    counts: Mutex<Counts>,
    /// Number of calls of [`Faults::cut_now`](super::Faults::cut_now).
    pub(super) cuts: watch::Sender<u64>,
    /// Slots of requests that are handled at a time, if these are limited.
    slots: Mutex<Option<Arc<Semaphore>>>,
}

/// Counts of requests and faults.
#[derive(Default)]
pub(super) struct Counts {
    /// Number of requests by method and path.
    pub(super) requests: BTreeMap<String, u64>,
    /// Number of faults by name.
    pub(super) faults: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Counts a request; returns the number of earlier requests with the same method and path.
    pub(super) fn count_request(&mut self, path: String) -> u64 {
        let n = self.requests.entry(path).or_default();
        *n += 1;
        *n - 1
    }
}

/// The faults in force, as the setters of [`Faults`](super::Faults) left them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(super) seed: u64,
    pub(super) only: String,
    pub(super) n_left: Option<u64>,
    pub(crate) cut_after: Option<RangeInclusive<u64>>,
    pub(crate) cut: f64,
    pub(crate) duplicate: f64,
    pub(crate) reorder: f64,
    pub(crate) gone: f64,
    pub(super) gone_status: f64,
    pub(crate) skip_bookmarks: bool,
    pub(crate) stall: bool,
    pub(crate) half_close: bool,
    pub(crate) garbage: f64,
    pub(crate) slow: Duration,
    pub(super) refuse: f64,
    pub(super) refuse_with: u16,
    pub(super) lose_answer: f64,
    pub(super) latency: Duration,
    pub(super) recorded_latency: bool,
    pub(super) token: Option<String>,
}

/// A plan without faults.
pub(super) const QUIET: Plan = Plan {
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
    recorded_latency: false,
    token: None,
};

impl Default for FaultState {
    fn default() -> FaultState {
        FaultState {
            plan: Mutex::new(QUIET),
            is_quiet: AtomicBool::new(true),
            counts: Mutex::default(),
            cuts: watch::Sender::new(0),
            slots: Mutex::default(),
        }
    }
}

impl FaultState {
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slots(&self) -> MutexGuard<'_, Option<Arc<Semaphore>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a fault.
    pub(super) fn count(&self, fault: &'static str) {
        *self.counts().faults.entry(fault).or_default() += 1;
    }

    /// Counts a fault and returns true, unless the limit of faults is reached.
    pub(super) fn spend(&self, fault: &'static str) -> bool {
        let mut plan = self.plan();
        if plan.n_left == Some(0) {
            return false;
        }
        plan.n_left = plan.n_left.map(|left| left - 1);
        drop(plan);
        self.count(fault);
        true
    }
}
