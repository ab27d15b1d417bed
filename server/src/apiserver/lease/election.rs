//! Election: one request after another about the Lease, each a compare-and-swap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

use super::options::LeaseOptions;
use crate::apiserver::call::{CallFailure, call};
use crate::clock;

/// A request about the Lease that failed: its verb, as in RBAC, and the failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed {
    verb: &'static str,
    failure: CallFailure,
}

impl Failed {
    fn of(verb: &'static str) -> impl FnOnce(CallFailure) -> Failed {
        move |failure| Failed { verb, failure }
    }

    /// The failure for an operator, with the remedy if rights are missing.
    pub(super) fn text(&self, options: &LeaseOptions) -> String {
        let Failed { verb, failure } = self;
        let LeaseOptions { namespace, name, .. } = options;
        let text = format!("cannot {verb} the Lease `{namespace}/{name}`: {failure}");
        match failure.code() {
            Some(403) => format!(
                "{text}; `get`, `create`, `update` and `watch` on `leases` are needed there, as in \
                 deploy/rbac/scheduler.yaml"
            ),
            _ => text,
        }
    }
}

/// The Lease as it was last read.
struct Observed {
    spec: LeaseSpec,
    resource_version: Option<String>,
    /// Time when this version was first seen.
    at: Instant,
}

/// One instance in the election: the Lease as it last read it, and the requests with which it takes and renews it.
pub(super) struct Election {
    client: kube::Client,
    options: LeaseOptions,
    observed: Option<Observed>,
}

impl Election {
    pub(super) fn new(client: kube::Client, options: LeaseOptions) -> Election {
        Election { client, options, observed: None }
    }

    pub(super) fn options(&self) -> &LeaseOptions {
        &self.options
    }

    /// Whether the Lease belongs to this instance after the call. Compare-and-swap: what another instance wrote in
    /// between is never overwritten.
    pub(super) async fn acquire_or_renew(&mut self) -> Result<bool, Failed> {
        let api = self.api();
        // The version of an own Lease is known: a renewal is one request.
        if self.observed.as_ref().is_some_and(|observed| self.is_own(observed))
            && self.take(&api).await?
        {
            return Ok(true);
        }
        match call(api.get(&self.options.name)).await {
            Ok(lease) => self.observe(lease),
            Err(CallFailure::Refused { code: 404, .. }) => {
                self.observed = None;
                return self.create(&api).await.map_err(Failed::of("create"));
            }
            Err(failure) => return Err(Failed::of("get")(failure)),
        }
        match &self.observed {
            Some(observed) if self.is_free(observed, clock::now()) => self.take(&api).await,
            _ => Ok(false),
        }
    }

    /// Takes or renews the Lease as it was last read. `false` if another instance was faster, or it is gone.
    async fn take(&mut self, api: &Api<Lease>) -> Result<bool, Failed> {
        let Some(observed) = &self.observed else { return Ok(false) };
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
            Err(CallFailure::Refused { code: 404 | 409, .. }) => Ok(false),
            Err(failure) => Err(Failed::of("update")(failure)),
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
    pub(super) async fn release(&mut self) {
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

    /// When the Lease of another instance runs out, unless it is renewed; `None` if nothing is known of one.
    pub(super) fn runs_out(&self) -> Option<Instant> {
        let observed = self.observed.as_ref().filter(|observed| !self.is_own(observed))?;
        Some(observed.at + self.duration(observed))
    }

    fn duration(&self, observed: &Observed) -> Duration {
        let duration = observed.spec.lease_duration_seconds.and_then(|n| u64::try_from(n).ok());
        duration.filter(|&n| n > 0).map_or(self.options.lease_duration, Duration::from_secs)
    }

    /// Whether this instance may take the Lease: it is its own, has no holder, or has not been renewed for its
    /// duration.
    fn is_free(&self, observed: &Observed, now: Instant) -> bool {
        let holder = observed.spec.holder_identity.as_deref().unwrap_or_default();
        let is_over = now >= observed.at + self.duration(observed);
        holder.is_empty() || self.is_own(observed) || is_over
    }

    fn is_own(&self, observed: &Observed) -> bool {
        observed.spec.holder_identity.as_deref() == Some(&*self.options.identity)
    }

    /// The other instance that holds the Lease, as far as is known.
    pub(super) fn other_holder(&self) -> Option<Arc<str>> {
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
        let mut election = Election::new(client, options);
        assert_eq!(election.acquire_or_renew().await, Ok(false));
        tokio::time::sleep(Duration::from_millis(500)).await;
        // 1.2 s after the request, 0.5 s after it was seen.
        assert_eq!(election.acquire_or_renew().await, Ok(false));
    }

    #[tokio::test]
    async fn a_refusal_names_the_verb_and_the_rights() {
        let client = scripted::client(|request| async move {
            let is_get = request.method() == http::Method::GET;
            let (code, reason) = if is_get { (404, "NotFound") } else { (403, "Forbidden") };
            let status = format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"{reason}","code":{code}}}"#
            );
            let body = kube::client::Body::from(status.into_bytes());
            let mut answer = http::Response::new(body);
            *answer.status_mut() = http::StatusCode::from_u16(code).expect("a status");
            Ok(answer)
        });
        let mut election = Election::new(client, LeaseOptions::default());
        let failed = election.acquire_or_renew().await.unwrap_err();
        assert_eq!(
            failed.text(election.options()),
            "cannot create the Lease `berth/berth-scheduler`: the API server refused with 403: no; `get`, `create`, \
             `update` and `watch` on `leases` are needed there, as in deploy/rbac/scheduler.yaml"
        );
    }
}
