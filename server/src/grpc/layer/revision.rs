//! Revision: which commits of the shared ledger a response has counted, and which ones it has to count. Who reserves at one
//! replica sends the revision of that response to another one, and finds the reservation there.

use http::{HeaderMap, HeaderValue};

use super::within;
use crate::clock;
use crate::grpc::call::Call;
use crate::ledger::Revision;
use crate::service::{CallError, MIN_REVISION, REVISION, STALENESS};

impl Call {
    /// Waits until the commit is counted that the request names.
    pub(super) fn await_revision(
        &self,
        asked: Option<HeaderValue>,
    ) -> impl Future<Output = Result<(), CallError>> + Send + use<> {
        let (asked, until) = (asked.zip(self.state.replicas.clone()), self.until);
        async move {
            let Some((asked, replicas)) = asked else { return Ok(()) };
            let number = asked.to_str().ok().and_then(|text| text.parse().ok());
            let Some(number) = number else {
                return Err(CallError::field(MIN_REVISION.as_str(), "must be a number"));
            };
            let applied = replicas.await_applied(Revision(number));
            within(until, applied).await.ok_or(CallError::DeadlineExceeded)
        }
    }

    /// Writes into the head of a response what it has counted, unless another replica has.
    pub(super) fn tell_revision(&self, headers: &mut HeaderMap) {
        let Some(replicas) = self.state.replicas.as_ref() else { return };
        if headers.contains_key(REVISION) {
            return;
        }
        headers.insert(REVISION, replicas.applied().0.into());
        let staleness = replicas.staleness(clock::now());
        headers.extend(staleness.map(|age| (STALENESS, clock::as_millis(age).into())));
    }
}
