//! What is asked of `place`: plain data.

use crate::model::Pod;
use crate::policy::Policy;

/// One pod, decided under one policy.
#[derive(Copy, Clone, Debug)]
pub struct PlaceRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How equal totals are broken.
    pub tie_break: TieBreak,
}

/// How one of several nodes with the highest total is chosen (S-SEL-4, policy).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The largest hash of (seed, pod uid, node name): one answer for one input, yet callers spread out.
    Seeded(u64),
    /// The node whose name sorts first.
    Lexicographic,
}
