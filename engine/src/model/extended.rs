//! Extended resources that a pod's containers request, as far as classes of devices may provide them. Rules: S-DRA-101,
//! S-DRA-105.

use std::sync::Arc;

use berth_proto::core_v1;

use super::intern::{Interner, Symbol};
use super::requests::parse_amount;
use super::resources::is_extended_name;

/// Prefix of the resource that a class provides under its own name (S-DRA-102).
pub(crate) const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Requests of a pod's containers for resources that classes of devices may provide.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExtendedRequests {
    /// The names that any container requests, in the order of their bytes.
    pub(crate) names: Box<[(Arc<str>, Symbol)]>,
    /// The containers with such requests, by number: init containers first.
    pub(crate) containers: Box<[ExtendedContainer]>,
}

/// A container with such requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExtendedContainer {
    /// Number over init containers, then containers.
    pub(crate) number: usize,
    pub(crate) name: Arc<str>,
    /// Whether the container ends before the pod's own ones start.
    pub(crate) is_short_lived: bool,
    pub(crate) amounts: Box<[ExtendedAmount]>,
}

/// An amount of a resource.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExtendedAmount {
    pub(crate) resource: Arc<str>,
    /// Position among all names in the container's requests.
    pub(crate) position: usize,
    /// The amount; requests that are no whole number above zero are left out.
    pub(crate) amount: i64,
}

/// Whether a class of devices may provide a resource of this name (S-DRA-101).
pub(crate) fn is_considered(name: &str) -> bool {
    is_extended_name(name) || name.starts_with(CLASS_PREFIX)
}

impl ExtendedRequests {
    /// The requests of a pod; `None` where no container has any.
    pub(crate) fn compile(
        spec: &core_v1::PodSpec,
        names: &Interner,
    ) -> Option<Arc<ExtendedRequests>> {
        let of = |container: &core_v1::Container| {
            let requests = container.resources.as_ref().map(|resources| &resources.requests);
            requests.is_some_and(|requests| requests.keys().any(|name| is_considered(name)))
        };
        if !spec.init_containers.iter().chain(&spec.containers).any(of) {
            return None;
        }
        let init = spec
            .init_containers
            .iter()
            .map(|container| (container, container.restart_policy.as_deref() != Some("Always")));
        let all = init.chain(spec.containers.iter().map(|container| (container, false)));
        let containers: Box<[ExtendedContainer]> = all
            .enumerate()
            .filter(|(_, (container, _))| of(container))
            .map(|(number, (container, is_short_lived))| ExtendedContainer {
                number,
                name: container.name.as_str().into(),
                is_short_lived,
                amounts: amounts(container),
            })
            .collect();
        let mut found: Vec<Arc<str>> = spec
            .init_containers
            .iter()
            .chain(&spec.containers)
            .filter_map(|container| container.resources.as_ref())
            .flat_map(|resources| resources.requests.keys())
            .filter(|name| is_considered(name))
            .map(|name| names.name(names.intern(name)))
            .collect();
        found.sort_unstable();
        found.dedup();
        let found = found.into_iter().map(|name| {
            let symbol = names.intern(&name);
            (name, symbol)
        });
        Some(Arc::new(ExtendedRequests { names: found.collect(), containers }))
    }
}

fn amounts(container: &core_v1::Container) -> Box<[ExtendedAmount]> {
    let requests = container.resources.iter().flat_map(|resources| &resources.requests);
    requests
        .enumerate()
        .filter(|(_, (name, _))| is_considered(name))
        .filter_map(|(position, (name, quantity))| {
            let amount = parse_amount(quantity, name, "").ok()?;
            let whole = amount
                .checked_value()
                .filter(|whole| *whole > 0 && berth_proto::Amount::from_value(*whole) == amount)?;
            Some(ExtendedAmount { resource: name.as_str().into(), position, amount: whole })
        })
        .collect()
}
