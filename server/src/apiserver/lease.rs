//! Lease: leader election. One of several instances holds a Lease and renews it; the others watch how long it is
//! unchanged.
//!
//! Only the instance's own monotonic clock decides: a Lease is free once this instance has not seen it change for its
//! duration, and the holder stops before that, counted from when it *sent* its last successful renewal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::call::{CallFailure, call};
use super::leadership::{Leadership, Term};
use crate::clock;

/// Name of the Lease, identity of the instance, and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this instance; no two may share it.
    pub identity: String,
    /// How long a Lease that is not renewed keeps other instances out; whole seconds.
    pub lease_duration: Duration,
    /// How long a holder continues without a successful renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Interval of renewals, or checks; less than `renew_deadline`.
    pub retry_period: Duration,
}

impl Default for LeaseOptions {
    /// Lease `berth-scheduler` in `berth`, without an identity, with kube-scheduler's times: 15 s, 10 s, 2 s.
    fn default() -> LeaseOptions {
        LeaseOptions {
            namespace: "berth".to_owned(),
            name: "berth-scheduler".to_owned(),
            identity: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// An instance that takes part in the election. Dropped without [`Candidate::resign`] it lets the Lease expire.
pub struct Candidate {
    task: JoinHandle<()>,
    resigned: watch::Sender<bool>,
}

impl Candidate {
    /// Takes part in the election from now on.
    #[must_use]
    pub fn stand(client: kube::Client, options: LeaseOptions) -> (Candidate, Leadership) {
        let (terms, term) = watch::channel(Term::Elsewhere { holder: None });
        let (resigned, resigning) = watch::channel(false);
        let election = Election { client, options, observed: None };
        let task = tokio::spawn(run(election, terms, resigning));
        (Candidate { task, resigned }, Leadership(term))
    }

    /// Stops and, if this instance leads, releases the Lease, so that another need not wait for it to expire. To be
    /// called when nothing that needs the leadership is under way any more.
    pub async fn resign(mut self) {
        self.resigned.send_replace(true);
        drop((&mut self.task).await);
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    mut election: Election,
    terms: watch::Sender<Term>,
    mut resigning: watch::Receiver<bool>,
) {
    let LeaseOptions { renew_deadline, retry_period, .. } = election.options;
    let mut held_until: Option<Instant> = None;
    let mut number = 0;
    let mut trouble = Trouble::default();
    loop {
        let sent = clock::now();
        // A connection that is silently lost must leave time for another one.
        let asking = tokio::time::timeout(renew_deadline / 3, election.acquire_or_renew());
        let outcome = tokio::select! {
            outcome = asking => outcome,
            _ = resigning.wait_for(|&resigning| resigning) => break,
        };
        let is_known = matches!(outcome, Ok(Ok(_)));
        match outcome {
            Ok(Ok(true)) => {
                // A term that expired, even for a moment, is over.
                let goes_on = held_until.is_some_and(|until| clock::now() < until);
                number += u64::from(!goes_on);
                held_until = Some(sent + renew_deadline);
            }
            Ok(Ok(false)) => held_until = None,
            Ok(Err(failure)) => trouble.note(failure.to_string()),
            Err(_) => trouble.note("the API server is silent".to_owned()),
        }
        if is_known {
            trouble = Trouble::default();
        }
        let term = match held_until {
            Some(until) if clock::now() < until => Term::Held { until, number },
            _ => Term::Elsewhere { holder: election.other_holder() },
        };
        let is_urgent = !is_known && matches!(term, Term::Held { .. });
        tell(&terms, &term);
        tokio::select! {
            () = tokio::time::sleep(if is_urgent { retry_period / 4 } else { retry_period }) => {}
            _ = resigning.wait_for(|&resigning| resigning) => break,
        }
    }
    terms.send_replace(Term::Elsewhere { holder: None });
    if held_until.is_some()
        && tokio::time::timeout(renew_deadline, election.release()).await.is_err()
    {
        tracing::warn!("the Lease runs out by itself: the API server is silent");
    }
}

/// Reason why the Lease cannot be read or renewed, logged when it changes.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn note(&mut self, reason: String) {
        if self.0.as_ref() != Some(&reason) {
            tracing::warn!("the Lease cannot be asked for: {reason}");
            self.0 = Some(reason);
        }
    }
}

/// Updates the state, and logs the leader when it changes.
fn tell(terms: &watch::Sender<Term>, term: &Term) {
    let leads = |term: &Term| matches!(term, Term::Always | Term::Held { .. });
    let old = terms.send_replace(term.clone());
    match (leads(&old), term) {
        (false, Term::Always | Term::Held { .. }) => tracing::info!("leading"),
        (true, Term::Elsewhere { .. }) => tracing::warn!("no longer leading"),
        (_, Term::Elsewhere { holder: Some(holder) }) if old != *term => {
            tracing::info!(holder = &*crate::escape::printable(holder), "another instance leads");
        }
        _ => {}
    }
}

/// The Lease as it was last read.
struct Observed {
    spec: LeaseSpec,
    resource_version: Option<String>,
    /// Time when this version was first seen.
    at: Instant,
}

struct Election {
    client: kube::Client,
    options: LeaseOptions,
    observed: Option<Observed>,
}

impl Election {
    /// Whether the Lease belongs to this instance after the call. Compare-and-swap: what another instance wrote in
    /// between is never overwritten.
    async fn acquire_or_renew(&mut self) -> Result<bool, CallFailure> {
        let api = self.api();
        match call(api.get(&self.options.name)).await {
            Ok(lease) => self.observe(lease),
            Err(CallFailure::Refused { code: 404, .. }) => {
                self.observed = None;
                return self.create(&api).await;
            }
            Err(failure) => return Err(failure),
        }
        let Some(observed) = &self.observed else { return Ok(false) };
        if !self.is_free(observed, clock::now()) {
            return Ok(false);
        }
        let is_own = self.is_own(observed);
        let acquired = observed.spec.acquire_time.clone().filter(|_| is_own);
        let transitions = observed.spec.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            acquire_time: Some(acquired.unwrap_or_else(moment)),
            lease_transitions: Some(transitions.saturating_add(i32::from(!is_own))),
            ..self.record()
        };
        let lease = self.lease(spec, observed.resource_version.clone());
        match call(api.replace(&self.options.name, &PostParams::default(), &lease)).await {
            Ok(lease) => {
                self.observe(lease);
                Ok(true)
            }
            // Another instance was faster.
            Err(CallFailure::Refused { code: 409, .. }) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    async fn create(&mut self, api: &Api<Lease>) -> Result<bool, CallFailure> {
        let spec =
            LeaseSpec { acquire_time: Some(moment()), lease_transitions: Some(0), ..self.record() };
        let lease = self.lease(spec, None);
        match call(api.create(&PostParams::default(), &lease)).await {
            Ok(lease) => {
                self.observe(lease);
                Ok(true)
            }
            Err(CallFailure::Refused { code: 409, .. }) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Releases the Lease: it has no holder and expires at once.
    async fn release(&mut self) {
        let Some(observed) = &self.observed else { return };
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(moment()),
            lease_transitions: observed.spec.lease_transitions,
            ..self.record()
        };
        let lease = self.lease(spec, observed.resource_version.clone());
        let params = PostParams::default();
        match call(self.api().replace(&self.options.name, &params, &lease)).await {
            Ok(_) => tracing::info!("gave the leadership back"),
            Err(failure) => tracing::warn!("the Lease runs out by itself: {failure}"),
        }
    }

    /// Records the Lease, when the answer is in: the holder counts from the time of its request, so an observer counts
    /// from the time of the answer, or both might lead.
    fn observe(&mut self, lease: Lease) {
        let resource_version = lease.metadata.resource_version;
        let spec = lease.spec.unwrap_or_default();
        let at = match &self.observed {
            Some(observed) if observed.resource_version == resource_version => observed.at,
            _ => clock::now(),
        };
        self.observed = Some(Observed { spec, resource_version, at });
    }

    /// Whether this instance may take the Lease: it is its own, has no holder, or has not been renewed for its
    /// duration.
    fn is_free(&self, observed: &Observed, now: Instant) -> bool {
        let own = self.options.lease_duration;
        let duration = observed.spec.lease_duration_seconds.and_then(|n| u64::try_from(n).ok());
        let duration = duration.filter(|&n| n > 0).map_or(own, Duration::from_secs);
        let holder = observed.spec.holder_identity.as_deref().unwrap_or_default();
        holder.is_empty() || self.is_own(observed) || now >= observed.at + duration
    }

    fn is_own(&self, observed: &Observed) -> bool {
        observed.spec.holder_identity.as_deref() == Some(&*self.options.identity)
    }

    fn other_holder(&self) -> Option<Arc<str>> {
        let observed = self.observed.as_ref().filter(|observed| !self.is_own(observed))?;
        let holder = observed.spec.holder_identity.as_deref()?;
        (!holder.is_empty()).then(|| holder.into())
    }

    fn record(&self) -> LeaseSpec {
        let seconds = self.options.lease_duration.as_secs().max(1);
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            renew_time: Some(moment()),
            ..LeaseSpec::default()
        }
    }

    fn lease(&self, spec: LeaseSpec, resource_version: Option<String>) -> Lease {
        let metadata = ObjectMeta {
            namespace: Some(self.options.namespace.clone()),
            name: Some(self.options.name.clone()),
            resource_version,
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.options.namespace)
    }
}

/// The wall clock's time, for people: it decides nothing.
fn moment() -> MicroTime {
    let micros = i64::try_from(clock::unix_micros()).unwrap_or(i64::MAX);
    MicroTime(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::scripted;

    /// A client that answers the first GET after `delay` and the others at once: another instance's Lease that never
    /// changes.
    fn slow_at_first(delay: Duration) -> kube::Client {
        let mut n = 0;
        scripted::client(move |request| {
            n += 1;
            let wait = if n == 1 { delay } else { Duration::ZERO };
            async move {
                assert_eq!(request.method(), http::Method::GET, "the Lease is another one's");
                tokio::time::sleep(wait).await;
                let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","resourceVersion":"7"},
                    "spec":{"holderIdentity":"other","leaseDurationSeconds":1}}"#;
                let body = kube::client::Body::from(lease.as_bytes().to_vec());
                Ok(http::Response::new(body))
            }
        })
    }

    #[tokio::test]
    async fn a_lease_lasts_from_when_it_was_seen_and_not_from_when_it_was_asked_for() {
        let options = LeaseOptions { identity: "own".to_owned(), ..LeaseOptions::default() };
        let client = slow_at_first(Duration::from_millis(700));
        let mut election = Election { client, options, observed: None };
        assert_eq!(election.acquire_or_renew().await, Ok(false));
        tokio::time::sleep(Duration::from_millis(500)).await;
        // 1.2 s after the request, 0.5 s after it was seen.
        assert_eq!(election.acquire_or_renew().await, Ok(false));
    }
}
