//! Share: what of a method another replica may have to answer.

use crate::service::method::{Effect, Method};

/// What of a method another replica may have to answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Share {
    Nothing,
    /// What the handler finds: changes that another replica decides, and sessions that it has.
    SomeRequests,
    /// Streams whose first request assumes, or names such a session.
    SomeStreams,
    /// Everything, as far as reservations are concerned.
    Reservations,
    /// Everything, as far as the ledger's grants are concerned.
    Grants,
}

impl Method {
    /// What of this method another replica may have to answer. Each replica is fed by itself, so `Sync` and `Apply` are not
    /// sent on, but for what `Apply` gives back.
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
