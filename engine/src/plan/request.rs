//! Request of a placement: plain data.

use crate::model::Pod;
use crate::policy::Policy;

/// A request to place one pod under one policy.
#[derive(Copy, Clone, Debug)]
pub struct PlaceRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How ties between equal total scores are broken.
    pub tie_break: TieBreak,
    /// The present time in seconds since 1970, for conditions that devices wait for (S-DRA-98); without it none is
    /// overdue.
    pub now: Option<i64>,
}

/// How one of several nodes with the highest total is chosen (S-SEL-4, policy).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The largest hash of (seed, pod uid, node name): one result for one input, while different pods spread over the
    /// nodes.
    Seeded(u64),
    /// The node whose name sorts first.
    Lexicographic,
}
