//! Share: which calls of a method may be for another replica.

use crate::service::method::{Effect, Method};

/// Which calls of a method may be for another replica.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Share {
    Nothing,
    /// Some, as the handler of each request finds: those that the committer decides, or in a session of another replica.
    SomeRequests,
    /// Streams whose first request assumes, or names a session of another replica.
    SomeStreams,
    /// Everything, as far as reservations are concerned.
    Reservations,
    /// Everything, as far as the ledger's grants are concerned.
    Grants,
}

impl Method {
    /// Which calls of this method may be for another replica. Each replica is fed by itself, so changes of the cluster with
    /// `Sync` and `Apply` are not; an `Apply` that gives assumed pods back is.
    pub(in super::super) fn share(&self) -> Share {
        let service = self.path.rsplit_once('/').map_or("", |(service, _)| service);
        let has_session = self.request.is_some_and(|layout| layout.has_field("sessionId"));
        match (service, self.effect, self.lane.is_unary()) {
            ("/berth.v1.PlacementService", Effect::Changes, true) => Share::Reservations,
            ("/berth.v1.LifecycleService", Effect::Changes, true) => Share::Grants,
            (_, Effect::ByRequest, true) => Share::SomeRequests,
            (_, _, true) if has_session => Share::SomeRequests,
            ("/berth.v1.PlacementService", Effect::ByRequest, false) => Share::SomeStreams,
            _ => Share::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::method;

    #[test]
    fn what_changes_or_has_a_session_is_shared() {
        for (path, expected) in [
            ("PlacementService/Place", Share::SomeRequests),
            ("PlacementService/PlaceStream", Share::SomeStreams),
            ("PlacementService/Confirm", Share::Reservations),
            ("PlacementService/ListAssumed", Share::Nothing),
            ("PlacementService/Explain", Share::SomeRequests),
            ("PreemptionService/Preempt", Share::SomeRequests),
            ("LifecycleService/AcquireIdentity", Share::Grants),
            ("LifecycleService/GetIdentity", Share::Nothing),
            ("SessionService/Open", Share::Nothing),
            ("SessionService/Commit", Share::SomeRequests),
            ("SessionService/Close", Share::SomeRequests),
            ("ClusterService/Sync", Share::Nothing),
            ("ClusterService/GetCluster", Share::SomeRequests),
        ] {
            assert_eq!(method::find(&format!("/berth.v1.{path}")).share(), expected, "{path}");
        }
    }
}
