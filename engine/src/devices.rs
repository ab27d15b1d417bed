//! Devices: which devices a pod's claims would get on a node. Rules: S-DRA-10 to S-DRA-26,
//! S-DRA-40 to S-DRA-62, S-DRA-70 to S-DRA-74, S-DRA-81, S-DRA-82, S-DRA-85 to S-DRA-87, S-DRA-92 to S-DRA-108.
//!
//! Read in this order: `claims` (the claims of a pod, and which of them have to be allocated), `asked` (what they ask
//! for), `sight` (the devices that a node sees), `search` (the first devices that satisfy everything, in
//! kube-scheduler's order), `fit` (the same told from bits, for the most common claims), `result` (the allocation that
//! is written), `stock` (how many devices each request could take, for people who ask). The other files each have one
//! condition on a device: `capacity`, `counters`, `constraint`.

pub(crate) mod asked;
pub(crate) mod binding;
mod capacity;
pub(crate) mod claims;
mod constraint;
pub(crate) mod counted;
mod counters;
pub(crate) mod extended;
pub(crate) mod fit;
pub(crate) mod hint;
pub(crate) mod outcome;
pub(crate) mod pre_bind;
pub(crate) mod result;
pub(crate) mod search;
pub(crate) mod sight;
pub(crate) mod stock;

/// An error that ends the whole attempt, as kube-scheduler words it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fatal(pub(crate) String);
