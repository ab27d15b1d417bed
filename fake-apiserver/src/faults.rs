//! Faults on demand, as networks, load balancers and overloaded API servers cause them.
//!
//! Faults are drawn at random with a seed. The faults of a request depend on the seed, its method and path, and the
//! number of earlier requests with the same method and path. Equal requests therefore have equal faults, however they
//! interleave.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

mod recorded;
mod state;
mod watch_faults;

use state::{FaultState, Plan, QUIET};
pub(crate) use watch_faults::{EventFault, WatchFaults};

/// The faults in force. Setters take effect immediately, also for open watches. Probabilities are from 0 to 1. Clones
/// share the faults.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<FaultState>,
}

/// The faults of one request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RequestFaults {
    /// Delay before the request is handled.
    pub(crate) latency: Duration,
    /// HTTP status of a refusal.
    pub(crate) refuse: Option<u16>,
    /// The request is carried out, then the connection is cut.
    pub(crate) lose_answer: bool,
    /// A watch is refused with the HTTP status 410.
    pub(crate) gone: bool,
}

/// Setters.
impl Faults {
    /// Ends all faults; the seed stays. Open watches continue.
    pub fn none(&self) {
        self.change(|plan| *plan = Plan { seed: plan.seed, ..QUIET });
    }

    /// Sets the seed of all random draws, initially zero, and resets the counts of requests.
    pub fn seed(&self, seed: u64) {
        self.state.counts().requests.clear();
        self.change(|plan| plan.seed = seed);
    }

    /// Limits faults to requests whose `METHOD path?query` contains this text; empty for all requests.
    pub fn only(&self, text: &str) {
        self.change(|plan| plan.only = text.to_owned());
    }

    /// Limits the number of further faults; `None` for no limit. Latency, slowness, stalls and missing bookmarks do not
    /// count.
    pub fn at_most(&self, n_faults: impl Into<Option<u64>>) {
        let n_faults = n_faults.into();
        self.change(|plan| plan.n_left = n_faults);
    }

    /// Cuts each watch after a number of live events, drawn from the range when the watch begins, within the line of
    /// the next event. Initial objects do not count.
    pub fn cut_watches_after(&self, n_events: RangeInclusive<u64>) {
        self.change(|plan| plan.cut_after = Some(n_events));
    }

    /// Cuts a watch within the line of a live event, with this probability for each event.
    pub fn cut_watches(&self, probability: f64) {
        self.change(|plan| plan.cut = probability);
    }

    /// Cuts every open watch now, between lines, without the closing chunk.
    pub fn cut_now(&self) {
        self.state.cuts.send_modify(|n| *n += 1);
        self.state.count("cut_now");
    }

    /// Sends an event twice.
    pub fn duplicate(&self, probability: f64) {
        self.change(|plan| plan.duplicate = probability);
    }

    /// Swaps an event with the next of the same watch. If none follows within a bookmark interval, the event is sent.
    pub fn reorder(&self, probability: f64) {
        self.change(|plan| plan.reorder = probability);
    }

    /// Sends an ERROR event of 410 Expired instead of an event, and ends the watch.
    pub fn gone(&self, probability: f64) {
        self.change(|plan| plan.gone = probability);
    }

    /// Refuses a watch request with the HTTP status 410.
    pub fn gone_status(&self, probability: f64) {
        self.change(|plan| plan.gone_status = probability);
    }

    /// Omits requested bookmarks, except the one that ends the initial events.
    pub fn skip_bookmarks(&self, on: bool) {
        self.change(|plan| plan.skip_bookmarks = on);
    }

    /// Stalls watches: they stay open without events or bookmarks. Events follow when the stall ends.
    pub fn stall(&self, on: bool) {
        self.change(|plan| plan.stall = on);
    }

    /// Ends a watch after its timeout without the closing chunk.
    pub fn half_close(&self, on: bool) {
        self.change(|plan| plan.half_close = on);
    }

    /// Sends a line that is not JSON before an event.
    pub fn garbage(&self, probability: f64) {
        self.change(|plan| plan.garbage = probability);
    }

    /// Delays each chunk of a watch.
    pub fn slow(&self, delay: Duration) {
        self.change(|plan| plan.slow = delay);
    }

    /// Refuses a request of any kind with this status before it is carried out; 429 has a `Retry-After` header.
    pub fn refuse(&self, probability: f64, status: u16) {
        self.change(|plan| (plan.refuse, plan.refuse_with) = (probability, status));
    }

    /// Carries a write out, and cuts the connection before the response.
    pub fn lose_answer(&self, probability: f64) {
        self.change(|plan| plan.lose_answer = probability);
    }

    /// Delays every request before it is handled.
    pub fn latency(&self, latency: Duration) {
        self.change(|plan| plan.latency = latency);
    }

    /// Delays every request as long as a recorded API server took for one of its kind, in addition to
    /// [`Faults::latency`].
    pub fn recorded_latency(&self, on: bool) {
        self.change(|plan| plan.recorded_latency = on);
    }

    /// Limits the requests that are handled at a time; the others wait in their order. `None` for no limit. A watch
    /// counts until it begins. Stays in force after [`Faults::none`].
    pub fn capacity(&self, n_requests: impl Into<Option<usize>>) {
        *self.state.slots() = n_requests.into().map(|n| Arc::new(Semaphore::new(n.max(1))));
    }

    /// Refuses every request without this bearer token with 401.
    pub fn require_token(&self, token: &str) {
        self.change(|plan| plan.token = Some(token.to_owned()));
    }

    /// Number of faults so far by their setters' names. A delayed request is counted when it arrives.
    pub fn done(&self) -> BTreeMap<&'static str, u64> {
        self.state.counts().faults.clone()
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.state.plan();
        change(&mut plan);
        let quiet = Plan { seed: plan.seed, only: plan.only.clone(), n_left: plan.n_left, ..QUIET };
        self.state.is_quiet.store(*plan == quiet, Ordering::Release);
    }
}

impl Faults {
    /// Waits for a slot of the requests that are handled at a time; `None` if these are not limited.
    pub(crate) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let slots = self.state.slots().clone()?;
        // The semaphore is never closed.
        slots.acquire_owned().await.ok()
    }

    /// Whether a token is required that these headers do not have.
    pub(crate) fn is_stranger(&self, headers: &HeaderMap) -> bool {
        let Some(token) = self.state.plan().token.clone() else { return false };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let is_stranger = given != Some(&format!("Bearer {token}"));
        if is_stranger {
            self.state.count("require_token");
        }
        is_stranger
    }

    /// Draws the faults of a request, and those of the watch that it may begin.
    pub(crate) fn request_faults(
        &self,
        method: &str,
        target: &str,
        is_watch: bool,
    ) -> (RequestFaults, WatchFaults) {
        let what = format!("{method} {target}");
        let plan = self.state.plan().clone();
        let path = what.split('?').next().unwrap_or(&what).to_owned();
        let mut hash = plan.seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in path.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // Without faults, requests other than watches need no counts, which would grow with every path.
        let counts = is_watch || !self.state.is_quiet.load(Ordering::Acquire);
        let n_before = if counts { self.state.counts().count_request(path) } else { 0 };
        let mut rng = ChaCha8Rng::seed_from_u64(hash);
        rng.set_stream(n_before);
        let mut watch_faults =
            WatchFaults { state: self.state.clone(), what, rng, cut_after: None, n_events: 0 };
        let mut request_faults = RequestFaults::default();
        if !watch_faults.applies(&plan) {
            return (request_faults, watch_faults);
        }
        request_faults.latency = plan.latency;
        if plan.recorded_latency {
            request_faults.latency += recorded::latency_of(method, target);
        }
        if !request_faults.latency.is_zero() {
            self.state.count("latency");
        }
        if watch_faults.hit(plan.refuse, "refuse") {
            request_faults.refuse = Some(plan.refuse_with);
        } else if method != "GET" && watch_faults.hit(plan.lose_answer, "lose_answer") {
            request_faults.lose_answer = true;
        } else if is_watch && watch_faults.hit(plan.gone_status, "gone_status") {
            request_faults.gone = true;
        }
        (request_faults, watch_faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> Vec<RequestFaults> {
        let faults = Faults::default();
        faults.seed(seed);
        faults.refuse(0.3, 503);
        faults.lose_answer(0.5);
        (0..64).map(|_| faults.request_faults("POST", "/a/binding", false).0).collect()
    }

    #[test]
    fn the_seed_determines_the_faults() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let refused = drawn(7).iter().filter(|faults| faults.refuse == Some(503)).count();
        assert!((10..30).contains(&refused), "{refused} of 64 at 0.3");
    }

    #[test]
    fn other_requests_do_not_change_a_requests_faults() {
        let faults = Faults::default();
        faults.refuse(0.3, 503);
        faults.lose_answer(0.5);
        faults.seed(7);
        let among_others = (0..64).map(|_| {
            faults.request_faults("GET", "/b", false);
            faults.request_faults("POST", "/a/binding", false).0
        });
        assert_eq!(among_others.collect::<Vec<_>>(), drawn(7));
    }

    #[test]
    fn faults_are_limited_by_text_and_number() {
        let faults = Faults::default();
        faults.refuse(1.0, 500);
        faults.only("/binding");
        faults.at_most(2);
        assert_eq!(faults.request_faults("GET", "/pods", false).0, RequestFaults::default());
        let refused = (0..5)
            .filter(|_| faults.request_faults("POST", "/x/binding", false).0.refuse.is_some());
        assert_eq!(refused.count(), 2);
        assert_eq!(faults.done()["refuse"], 2);
        faults.at_most(None);
        assert!(faults.request_faults("POST", "/x/binding", false).0.refuse.is_some());
        faults.none();
        assert_eq!(faults.request_faults("POST", "/x/binding", false).0, RequestFaults::default());
    }

    #[test]
    fn a_watch_is_cut_after_its_number_of_events() {
        let faults = Faults::default();
        faults.cut_watches_after(3..=3);
        let mut watch_faults = faults.request_faults("GET", "/pods?watch=1", true).1;
        let faults_of_events: Vec<_> = (0..4).map(|_| watch_faults.next()).collect();
        assert_eq!(
            faults_of_events,
            [EventFault::None, EventFault::None, EventFault::None, EventFault::Cut]
        );
    }
}
