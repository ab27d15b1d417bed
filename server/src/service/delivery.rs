//! Delivery: whether a response has reached its caller. What was assumed and nominated for a response that does not is
//! undone.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use berth_engine::{AssumptionStamp, Committed, CommittedPod, Decision, Outcome, PodKey};
use berth_proto::berth_v1 as wire;
use tokio::runtime::Handle;

use super::access::Access;
use super::assumptions::{HeldPod, Holder, Written, assumption};
use super::convert::{self, Mode};
use super::error::CallError;
use super::response_cache::{self, InProgress};
use super::state::State;
use super::target::Target;

/// Number of pods up to which they are given back where the response was dropped: a hop to another thread would cost
/// more.
const MAX_INLINE_PODS: usize = 16;

/// For whom pods are assumed, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct AssumeTerms {
    user: Arc<str>,
    /// Time to live; `None` for none.
    ttl: Option<Duration>,
    /// The named request that assumes them: until its changes are undone, a retry waits.
    request: Option<Arc<InProgress>>,
}

impl AssumeTerms {
    /// The terms of a placement request.
    ///
    /// # Errors
    /// A time to live that is too long, or where nothing is assumed in the live cluster; an unknown mode.
    pub(crate) fn of(
        state: &State,
        access: &Access,
        target: &Target,
        mode: i32,
        assume_ttl_ms: Option<u64>,
    ) -> Result<AssumeTerms, CallError> {
        const FIELD: &str = "assume_ttl_ms";
        let ttl = state.assumptions.ttl(FIELD, assume_ttl_ms)?;
        if assume_ttl_ms.is_some() && convert::mode(mode)? != Mode::Assume {
            return Err(CallError::field(FIELD, "needs the mode PLACE_MODE_ASSUME"));
        }
        if assume_ttl_ms.is_some() && target.is_hypothetical() {
            let reason = "is not for a session, whose assumptions end with it: its commit has one";
            return Err(CallError::field(FIELD, reason));
        }
        Ok(AssumeTerms::with(access, ttl))
    }

    /// The terms of what commits decisions to the live cluster.
    ///
    /// # Errors
    /// A time to live that is too long.
    pub(crate) fn of_commit(
        state: &State,
        access: &Access,
        assume_ttl_ms: Option<u64>,
    ) -> Result<AssumeTerms, CallError> {
        Ok(AssumeTerms::with(access, state.assumptions.ttl("assume_ttl_ms", assume_ttl_ms)?))
    }

    fn with(access: &Access, ttl: Option<Duration>) -> AssumeTerms {
        let user = access.caller().user.clone();
        AssumeTerms { user, ttl, request: response_cache::in_progress() }
    }

    fn holder(&self) -> Holder<'_> {
        Holder { user: &self.user, ttl: self.ttl, request: self.request.as_ref() }
    }
}

/// Changes made for a response that its caller has not received: dropped before [`Undelivered::delivered`], they are
/// undone.
pub(crate) struct Undelivered {
    changes: Option<Changes>,
    /// Undoes the changes of another replica.
    elsewhere: Option<Box<dyn FnOnce() + Send>>,
    /// The caller may hear of the changes once they are written.
    written: Written,
}

/// A response, or a part of one, with the guard of what it has changed.
pub(crate) type Guarded<T> = (T, Option<Undelivered>);

struct Changes {
    state: Arc<State>,
    target: Target,
    pods: Pods,
    /// Pods that were nominated, with their uids.
    nominated: Vec<(PodKey, Arc<str>)>,
    /// Dropped last: a retry of the request begins once its changes are undone.
    request: Option<Arc<InProgress>>,
}

/// The pods that were assumed.
enum Pods {
    /// In the live cluster, with their tokens.
    Live(Vec<(PodKey, u64, AssumptionStamp)>),
    /// In a session, with their uids.
    InSession(Vec<(PodKey, Arc<str>)>),
}

/// What a request has changed: its guard, and the assumptions of its pods, in the order of its decisions.
pub(crate) struct Held {
    pub(crate) undelivered: Option<Undelivered>,
    /// Token of the next assumed pod, and what is left of its time; `None` in a session.
    next: Option<(u64, Option<Duration>)>,
}

impl Held {
    /// Records what `decisions` have assumed on `target`, and guards it together with the nominated pods.
    pub(crate) fn of<'d>(
        state: &Arc<State>,
        target: Target,
        terms: &AssumeTerms,
        decisions: impl Iterator<Item = &'d Decision>,
        nominated: Vec<(PodKey, Arc<str>)>,
        now: Instant,
    ) -> Held {
        let assumed = decisions.filter_map(|decision| match &decision.outcome {
            Outcome::Placed(placement) => Some((decision, placement, placement.stamp?)),
            Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
        });
        if target.is_hypothetical() {
            let pod =
                |(decision, ..): (&Decision, _, _)| (decision.pod.clone(), decision.uid.clone());
            let pods = Pods::InSession(assumed.map(pod).collect());
            let written = Written::default();
            return Held::guard(state, target, terms, (pods, nominated), (None, written));
        }
        let held = assumed.map(|(decision, placement, stamp)| HeldPod {
            key: decision.pod.clone(),
            stamp,
            volumes: placement.volumes.clone(),
            devices: placement.devices.clone(),
        });
        Held::of_live(state, target, terms, held.collect(), nominated, now)
    }

    /// Records and guards what a commit to the live cluster has assumed and nominated.
    pub(crate) fn of_commit(
        state: &Arc<State>,
        terms: &AssumeTerms,
        committed: &Committed,
        now: Instant,
    ) -> Held {
        let held = committed.assumed.iter().map(|pod| HeldPod {
            key: pod.key.clone(),
            stamp: committed.stamp,
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone(),
        });
        let (target, nominated) =
            (Target::Live(state.cluster.clone()), committed.nominated.clone());
        Held::of_live(state, target, terms, held.collect(), nominated, now)
    }

    fn of_live(
        state: &Arc<State>,
        target: Target,
        terms: &AssumeTerms,
        held: Vec<HeldPod>,
        nominated: Vec<(PodKey, Arc<str>)>,
        now: Instant,
    ) -> Held {
        let keys = nominated.iter().map(|(key, _)| key.clone());
        let (first, written) = state.assumptions.record_all(&held, keys, terms.holder(), now);
        let pods = held.into_iter().zip(first..);
        let pods = Pods::Live(pods.map(|(pod, token)| (pod.key, token, pod.stamp)).collect());
        let next = Some((first, terms.ttl));
        Held::guard(state, target, terms, (pods, nominated), (next, written))
    }

    fn guard(
        state: &Arc<State>,
        target: Target,
        terms: &AssumeTerms,
        (pods, nominated): (Pods, Vec<(PodKey, Arc<str>)>),
        (next, written): (Option<(u64, Option<Duration>)>, Written),
    ) -> Held {
        let (state, request) = (state.clone(), terms.request.clone());
        let changes = Changes { state, target, pods, nominated, request };
        let has_changed = changes.n_pods() > 0;
        let changes = Some(changes);
        let undelivered = has_changed.then(|| Undelivered { changes, elsewhere: None, written });
        Held { undelivered, next }
    }

    /// The assumption of the next assumed pod; `None` in a session.
    pub(crate) fn next(&mut self) -> Option<wire::Assumption> {
        let (token, ttl) = self.next.as_mut()?;
        let next = assumption(*token, *ttl);
        *token += 1;
        Some(next)
    }

    /// Writes the assumption into the decision of an assumed pod. Called for all decisions, in order.
    pub(crate) fn tell(&mut self, decision: &mut wire::Decision) {
        let Some(wire::decision::Outcome::Placement(placement)) = &mut decision.outcome else {
            return;
        };
        if placement.assumed {
            placement.assumption = self.next();
        }
    }

    /// The pods of a commit in wire form, with their assumptions.
    pub(crate) fn tell_commit(&mut self, pods: Vec<CommittedPod>) -> Vec<wire::CommittedPod> {
        let pod = |pod: CommittedPod| wire::CommittedPod {
            pod: Some(convert::pod_key(&pod.key, &pod.uid)),
            node_name: pod.node.to_string(),
            assumption: self.next(),
        };
        pods.into_iter().map(pod).collect()
    }

    /// The nominated pods of a commit in wire form.
    pub(crate) fn nominated(committed: &Committed) -> Vec<wire::PodKey> {
        committed.nominated.iter().map(|(key, uid)| convert::pod_key(key, uid)).collect()
    }

    /// Writes the assumptions into the results of many pods, in order.
    pub(crate) fn tell_all(&mut self, results: &mut [wire::PlaceResult]) {
        for result in results {
            if let Some(wire::place_result::Result::Decision(decision)) = &mut result.result {
                self.tell(decision);
            }
        }
    }
}

impl Undelivered {
    /// Changes of nominations: `changed` have or had one, and `nominated` is withdrawn if the caller does not hear of it.
    pub(crate) fn of_nominations(
        state: &Arc<State>,
        target: Target,
        terms: &AssumeTerms,
        nominated: Option<(PodKey, Arc<str>)>,
        changed: impl IntoIterator<Item = PodKey>,
    ) -> Undelivered {
        let (pods, written) = match target.is_hypothetical() {
            true => (Pods::InSession(Vec::new()), Written::default()),
            false => (Pods::Live(Vec::new()), state.assumptions.keep_nominations(changed)),
        };
        let changes = Changes {
            state: state.clone(),
            target,
            pods,
            nominated: nominated.into_iter().collect(),
            request: terms.request.clone(),
        };
        Undelivered { changes: Some(changes), elsewhere: None, written }
    }

    /// Changes that another replica has made, and written.
    pub(crate) fn elsewhere(undo: impl FnOnce() + Send + 'static) -> Undelivered {
        let (changes, written) = (None, Written::default());
        Undelivered { changes, elsewhere: Some(Box::new(undo)), written }
    }

    /// Waits until the changes are written; only then the caller may have the response.
    ///
    /// # Errors
    /// [`CallError::NotGranted`]: they are undone.
    pub(crate) async fn written(changes: Option<Self>) -> Result<Option<Self>, CallError> {
        let Some(mut changes) = changes else { return Ok(None) };
        (&mut changes.written).await?;
        Ok(Some(changes))
    }

    /// Polls like [`Undelivered::written`].
    pub(crate) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Pin::new(&mut self.written).poll(cx)
    }

    /// Records that the caller has the response: the changes stay.
    pub(crate) fn delivered(mut self) {
        (self.changes, self.elsewhere) = (None, None);
    }

    /// Undoes the changes of several responses together.
    pub(crate) fn give_back_all(unwanted: Vec<Undelivered>) {
        let changes = unwanted.into_iter().filter_map(|mut one| one.changes.take()).collect();
        give_back(changes);
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if let Some(changes) = self.changes.take() {
            give_back(vec![changes]);
        }
        if let Some(undo) = self.elsewhere.take() {
            undo();
        }
    }
}

impl Changes {
    fn n_pods(&self) -> usize {
        let n_assumed = match &self.pods {
            Pods::Live(pods) => pods.len(),
            Pods::InSession(pods) => pods.len(),
        };
        n_assumed + self.nominated.len()
    }

    /// Whether undoing the changes takes microseconds and waits for nobody.
    fn is_short(&self) -> bool {
        // A session's own calls may hold its lock for as long as they like.
        !self.target.is_hypothetical() && self.state.decides_in_microseconds(&self.target)
    }

    fn undo(self) {
        tracing::debug!(
            n_pods = self.n_pods(),
            "a response did not reach its caller: the pods assumed or nominated for it are given back"
        );
        match self.pods {
            Pods::Live(pods) => self.state.assumptions.give_back(&pods, self.request.as_ref()),
            Pods::InSession(pods) => self.target.take_back_in_session(&pods),
        }
        self.target.withdraw(&self.nominated);
        if !self.target.is_hypothetical() {
            let keys = self.nominated.into_iter().map(|(key, _)| key);
            // Nobody waits for it.
            drop(self.state.assumptions.keep_nominations(keys));
        }
    }
}

/// Undoes changes, on another thread if that takes long or has to wait: a client that goes away must not hold up other
/// connections.
fn give_back(unwanted: Vec<Changes>) {
    let n_pods: usize = unwanted.iter().map(Changes::n_pods).sum();
    let is_short = n_pods <= MAX_INLINE_PODS && unwanted.iter().all(Changes::is_short);
    match Handle::try_current() {
        Ok(runtime) if !is_short => {
            runtime.spawn_blocking(move || {
                let busy = unwanted.first().map(|changes| changes.state.clone());
                let _busy = busy.as_ref().map(|state| state.long_write());
                unwanted.into_iter().for_each(Changes::undo);
            });
        }
        // Without a runtime there are no connections to hold up.
        Ok(_) | Err(_) => unwanted.into_iter().for_each(Changes::undo),
    }
}

/// The place where a transport keeps the changes of a unary call until its response is delivered. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Delivery(Option<Arc<Mutex<Vec<Undelivered>>>>);

impl Delivery {
    /// A delivery that the transport watches. Without one, a response counts as delivered when its handler returns it.
    pub(crate) fn watched() -> Delivery {
        Delivery(Some(Arc::default()))
    }

    /// Hands the changes of a response over, before the handler returns it.
    pub(crate) fn hold(&self, undelivered: Option<Undelivered>) {
        let Some(undelivered) = undelivered else { return };
        match &self.0 {
            Some(held) => held.lock().unwrap_or_else(PoisonError::into_inner).push(undelivered),
            None => undelivered.delivered(),
        }
    }

    /// Takes the changes whose response is on its way.
    pub(crate) fn take(&self) -> Vec<Undelivered> {
        match &self.0 {
            Some(held) => std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Vec::new(),
        }
    }

    /// Whether a response has changed something.
    pub(crate) fn has_changes(&self) -> bool {
        let held = self.0.as_ref().map(|held| held.lock().unwrap_or_else(PoisonError::into_inner));
        held.is_some_and(|held| !held.is_empty())
    }

    /// Records that the response was delivered.
    pub(crate) fn delivered(&self) {
        self.take().into_iter().for_each(Undelivered::delivered);
    }
}

/// Undoes the changes of a delivery when dropped, unless they were delivered before: for one that ends before others
/// who share it.
pub(crate) struct UntilDelivered(pub(crate) Delivery);

impl Drop for UntilDelivered {
    fn drop(&mut self) {
        Undelivered::give_back_all(self.0.take());
    }
}
