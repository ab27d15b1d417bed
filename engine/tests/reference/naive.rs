//! The naive scheduler: nested loops over the wire's structs, no bitmap, no cache, readable beside the specification.

pub(crate) mod attempt;
pub(crate) mod cluster;
mod filter;
pub(crate) mod names;
mod node_selector;
pub(crate) mod quantity;
pub(crate) mod requests;
mod score;
mod toleration;
