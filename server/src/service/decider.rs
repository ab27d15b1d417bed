//! Decider: has room reserved and released by whoever decides that, this server or the replica that commits.

use std::sync::Arc;

use berth_proto::berth_v1::{ReleaseRequest, ReserveRequest, ReserveResponse};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::context::{REQUEST_ID, REVISION};
use super::delivery::Delivery;
use super::held_bytes::HeldBytes;
use super::placement::{assumed, reserve};
use super::{Access, CallContext, CallError, Deadline, State};
use crate::ledger::Revision;
use crate::replicas::Sender;

/// In whose name something is asked, and until when.
pub(crate) struct Decider<'a> {
    pub(crate) state: &'a Arc<State>,
    pub(crate) access: &'a Access,
    pub(crate) deadline: Deadline,
    /// Name of the request at another replica, which carries it out once; `None` for one without a name.
    pub(crate) request_id: Option<&'a str>,
}

impl Decider<'_> {
    /// Has decisions carried out; returns the response with the commit that has them at another replica.
    ///
    /// # Errors
    /// Those of [`reserve::reserve`]; [`CallError::AtCommitter`], and [`CallError::NotCommitter`] without an answer.
    pub(crate) async fn reserve(
        &self,
        request: ReserveRequest,
    ) -> Result<(ReserveResponse, Revision), CallError> {
        if self.state.assumptions.are_made_here() {
            let reserved = reserve::reserve(self.state, self.context(), request).await?;
            return Ok((reserved, Revision(0)));
        }
        let (sender, channel) = self.elsewhere()?;
        let reserved = self.answered(sender.reserve(channel, request).await)?;
        let revision = revision(reserved.metadata());
        Ok((reserved.into_inner(), revision))
    }

    /// Has a reservation released.
    ///
    /// # Errors
    /// Those of [`assumed::release`], and those of [`Decider::reserve`] of another replica.
    pub(crate) async fn release(&self, request: ReleaseRequest) -> Result<(), CallError> {
        if self.state.assumptions.are_made_here() {
            return assumed::release(self.state, self.context(), request).await.map(drop);
        }
        let (sender, channel) = self.elsewhere()?;
        self.answered(sender.release(channel, request).await).map(drop)
    }

    fn context(&self) -> CallContext {
        CallContext {
            access: self.access.clone(),
            deadline: self.deadline,
            delivery: Delivery::default(),
            held: HeldBytes::default(),
            supposed: None,
        }
    }

    fn elsewhere(&self) -> Result<(Sender<'_>, Channel), CallError> {
        let committer = self.state.replicas.as_ref().and_then(|it| Some((it, it.committer()?)));
        let Some((replicas, committer)) = committer else {
            return Err(CallError::NotCommitter { committer: None });
        };
        let sender = Sender {
            caller: self.access.caller(),
            replica: replicas.name(),
            request_id: self.request_id.map(|id| (REQUEST_ID, id)),
            until: self.deadline.0,
        };
        let channel = self.state.peers.channel(&committer.address).map_err(|reason| {
            tracing::warn!(replica = committer.name, reason, "a replica cannot be reached");
            CallError::NotCommitter { committer: Some(committer.name) }
        })?;
        Ok((sender, channel))
    }

    /// Counts an answer. `UNAVAILABLE` is none: the replica is gone, or does not decide any more.
    fn answered<T>(&self, answered: Result<T, Status>) -> Result<T, CallError> {
        self.state.metrics.ledger().count_forwarded(answered.is_ok());
        answered.map_err(|status| match status.code() {
            Code::Unavailable => {
                let committer = self.state.replicas.as_ref().and_then(|it| it.committer());
                CallError::NotCommitter { committer: committer.map(|it| it.name) }
            }
            _ => status.into(),
        })
    }
}

/// The commit that a response has counted.
fn revision(headers: &MetadataMap) -> Revision {
    let revision = headers.get(REVISION.as_str());
    Revision(revision.and_then(|it| it.to_str().ok()?.parse().ok()).unwrap_or_default())
}
