//! Method: the facts about an RPC that are known before its message is read. Authorization, admission, metrics and the
//! audit log read this one table. For Berth's own services and cluster-autoscaler's it is made from the `.proto` files.

use std::collections::HashMap;
use std::sync::LazyLock;

use berth_proto::access::{self, METHODS};
use berth_proto::layout::{self, Layout};

use crate::admission::Lane;
use crate::auth::Role;

/// A method of this server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// Path as in HTTP/2's `:path`.
    pub(crate) path: &'static str,
    /// The role that a caller needs; `None` where anybody may call. The handler checks any role that depends on the
    /// request.
    pub(crate) role: Option<Role>,
    pub(crate) lane: Lane,
    pub(crate) effect: Effect,
    /// Layout of the requests; `None` for the standard services.
    pub(crate) request: Option<&'static Layout>,
}

/// Whether a method changes anything that others see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The method never changes anything.
    Reads,
    /// The request decides: the handler calls [`super::Access::to_change`] before a change.
    ByRequest,
    /// The method always changes something.
    Changes,
}

/// Stand-in for every method that this server does not have.
pub(crate) const OTHER: Method =
    Method { path: "other", role: None, lane: Lane::Probe, effect: Effect::Reads, request: None };

/// The methods of the standard services, whose `.proto` files are not Berth's: health and reflection, which need no
/// role. Together with [`METHODS`] these are all methods of the server, so that no caller can add entries to a table
/// keyed by method.
const STANDARD: [Method; 4] = [
    standard("/grpc.health.v1.Health/Check", Lane::Probe),
    standard("/grpc.health.v1.Health/Watch", Lane::Watch),
    standard("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Lane::Watch),
    standard("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Lane::Watch),
];

const fn standard(path: &'static str, lane: Lane) -> Method {
    Method { path, role: None, lane, effect: Effect::Reads, request: None }
}

static TABLE: LazyLock<HashMap<&'static str, Method>> =
    LazyLock::new(|| all().map(|method| (method.path, method)).collect());

fn all() -> impl Iterator<Item = Method> {
    METHODS.iter().map(Method::declared).chain(STANDARD)
}

/// The paths of all methods that this server has.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    all().map(|method| method.path)
}

/// The method at `path`, or [`OTHER`].
pub(crate) fn find(path: &str) -> &'static Method {
    TABLE.get(path).unwrap_or(&OTHER)
}

impl Method {
    fn declared(method: &access::Method) -> Method {
        let role = match method.role {
            access::Role::Reader => Role::Reader,
            access::Role::Scheduler => Role::Scheduler,
            access::Role::Feeder => Role::Feeder,
            access::Role::Lifecycle => Role::Lifecycle,
            access::Role::Admin => Role::Admin,
        };
        let lane = match method.lane {
            access::Lane::Quick => Lane::Quick,
            access::Lane::Decision => Lane::Decision,
            access::Lane::Simulation => Lane::Simulation,
            access::Lane::Ledger => Lane::Ledger,
            access::Lane::Stream => Lane::Stream,
        };
        let effect = match method.effect {
            access::Effect::Reads => Effect::Reads,
            access::Effect::ByRequest => Effect::ByRequest,
            access::Effect::Changes => Effect::Changes,
        };
        let request = layout::of_request(method.path);
        Method { path: method.path, role: Some(role), lane, effect, request }
    }

    /// Whether the method is one of cluster-autoscaler's expander.
    pub(crate) fn is_of_expander(&self) -> bool {
        self.path.starts_with("/grpcplugin.Expander/")
    }

    /// Whether the method belongs to a standard service, such as health or reflection.
    pub(crate) fn is_standard(&self) -> bool {
        STANDARD.contains(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost_reflect::DescriptorPool;

    use super::*;

    #[test]
    fn declared_methods_need_a_role_and_standard_ones_none() {
        for method in METHODS {
            let found = find(method.path);
            assert!(found.role.is_some() && !found.is_standard(), "{found:?}");
            assert_eq!(found.path, method.path);
        }
        for method in STANDARD {
            assert_eq!(find(method.path), &method);
            assert!(method.role.is_none() && method.is_standard(), "{method:?}");
        }
        assert_eq!(find("/berth.v2.Nothing/There"), &OTHER);
        assert!(!OTHER.is_standard());
    }

    #[test]
    fn every_method_of_the_standard_services_is_listed() {
        let sets = [
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut served = BTreeSet::new();
        for set in sets {
            for service in DescriptorPool::decode(set).unwrap().services() {
                let path = |name: &str| format!("/{}/{name}", service.full_name());
                served.extend(service.methods().map(|method| path(method.name())));
            }
        }
        assert_eq!(served, BTreeSet::from(STANDARD.map(|method| method.path.to_owned())));
    }
}
