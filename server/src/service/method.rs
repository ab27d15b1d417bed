//! Method: what there is to know of a method before its message is read. One table, for whoever authorises, admits, counts or
//! audits a call.

use std::collections::HashMap;
use std::sync::LazyLock;

use berth_proto::METHODS;

use crate::admission::Lane;
use crate::auth::Role;

/// A method of this server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// As in HTTP/2's `:path`.
    pub(crate) path: &'static str,
    /// The role that a caller needs; `None` where anybody may ask. What a request asks beyond that is its handler's to check.
    pub(crate) role: Option<Role>,
    pub(crate) lane: Lane,
    pub(crate) effect: Effect,
}

/// Whether a method changes anything that others see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Never.
    Reads,
    /// The request says so: the handler asks for leave with [`super::Access::to_change`].
    ByRequest,
    /// Always.
    Changes,
}

/// Stands for every method that this server does not have.
pub(crate) const OTHER: Method =
    Method { path: "other", role: None, lane: Lane::Probe, effect: Effect::Reads };

/// The methods of the standard services. Together with `berth.v1`'s these are all that this server has: a name from outside
/// would let a caller grow tables.
pub(crate) const STANDARD: [&str; 4] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

static TABLE: LazyLock<HashMap<&'static str, Method>> =
    LazyLock::new(|| paths().map(|path| (path, describe(path))).collect());

/// The paths of all methods that this server has.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    METHODS.iter().chain(&STANDARD).copied()
}

/// The method at `path`, or [`OTHER`].
pub(crate) fn find(path: &str) -> &'static Method {
    TABLE.get(path).unwrap_or(&OTHER)
}

fn describe(path: &'static str) -> Method {
    let (service, name) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let (role, lane, effect) = match service.rsplit('.').next().unwrap_or_default() {
        "ClusterService" => of_cluster(name),
        "PlacementService" => of_placement(name),
        "PreemptionService" => (Role::Reader, Lane::Decision, Effect::ByRequest),
        "SessionService" => of_session(name),
        "AutoscalerService" => (Role::Reader, Lane::Simulation, Effect::Reads),
        "Expander" => (Role::Reader, Lane::Decision, Effect::Reads),
        "LifecycleService" => of_lifecycle(name),
        _ if name == "Check" => return Method { path, ..OTHER },
        _ => return Method { path, lane: Lane::Watch, ..OTHER },
    };
    Method { path, role: Some(role), lane, effect }
}

type Described = (Role, Lane, Effect);

fn of_cluster(name: &str) -> Described {
    match name {
        "Sync" => (Role::Feeder, Lane::Stream, Effect::ByRequest),
        // A scheduler may give back what it assumed: the handler looks at the deltas.
        "Apply" => (Role::Reader, Lane::Quick, Effect::ByRequest),
        "GetCluster" => (Role::Reader, Lane::Quick, Effect::Reads),
        _ => (Role::Reader, Lane::Decision, Effect::Reads),
    }
}

fn of_placement(name: &str) -> Described {
    match name {
        "Place" => (Role::Reader, Lane::Quick, Effect::ByRequest),
        "PlaceStream" => (Role::Reader, Lane::Stream, Effect::ByRequest),
        "Explain" => (Role::Reader, Lane::Decision, Effect::Reads),
        _ => (Role::Reader, Lane::Decision, Effect::ByRequest),
    }
}

fn of_session(name: &str) -> Described {
    match name {
        "Commit" => (Role::Scheduler, Lane::Decision, Effect::Changes),
        "Apply" => (Role::Reader, Lane::Decision, Effect::Reads),
        _ => (Role::Reader, Lane::Quick, Effect::Reads),
    }
}

fn of_lifecycle(name: &str) -> Described {
    match name {
        "EvaluatePods" => (Role::Reader, Lane::Stream, Effect::Reads),
        "AcquireIdentity"
        | "RecordIdentityEvent"
        | "AttachVolume"
        | "DetachVolume"
        | "AdvanceFence" => (Role::Lifecycle, Lane::Ledger, Effect::Changes),
        "BreakAttachment" => (Role::Admin, Lane::Ledger, Effect::Changes),
        "GetIdentity" | "GetVolume" | "GetFence" | "MayStart" | "CheckToken"
        | "ListLedgerRecords" => (Role::Reader, Lane::Ledger, Effect::Reads),
        _ => (Role::Reader, Lane::Quick, Effect::Reads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_but_the_standard_ones_needs_a_role() {
        for path in METHODS {
            assert!(find(path).role.is_some(), "{path}");
            assert_eq!(find(path).path, *path);
        }
        for path in STANDARD {
            assert_eq!(find(path).role, None, "{path}");
        }
        assert_eq!(find("/berth.v2.Nothing/There"), &OTHER);
    }

    #[test]
    fn what_changes_anything_is_no_readers() {
        for method in METHODS.iter().map(|path| find(path)) {
            let is_readers = method.role == Some(Role::Reader);
            assert!(!is_readers || method.effect != Effect::Changes, "{}", method.path);
        }
    }
}
