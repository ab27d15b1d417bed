//! The naive scheduler: nested loops over the wire's structs, no bitmap, no cache, readable beside the specification.

pub(crate) mod attempt;
pub(crate) mod cluster;
mod default_selector;
mod filter;
mod label_selector;
mod ln;
pub(crate) mod names;
mod node_selector;
pub(crate) mod objects;
pub(crate) mod pod;
mod pod_affinity;
mod pre_filter;
pub(crate) mod quantity;
pub(crate) mod requests;
pub(crate) mod reservations;
mod score;
mod toleration;
mod topology_spread;
pub(crate) mod volume_binding;
mod volume_limits;
mod volume_restrictions;
mod volume_zone;
