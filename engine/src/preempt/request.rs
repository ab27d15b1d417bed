//! Request of a preemption: plain data.

use crate::model::Pod;
use crate::plan::request::TieBreak;
use crate::policy::Policy;

/// A request to place one pod under one policy, evicting others where nothing else helps.
#[derive(Copy, Clone)]
pub struct PreemptRequest<'a> {
    /// The pod. Both its `status.nominatedNodeName` and a nomination known to the cluster count.
    pub pod: &'a Pod,
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How ties between equal total scores, and between equally good candidates, are broken.
    pub tie_break: TieBreak,
    /// Options that extend or change kube-scheduler's behaviour with every node considered.
    pub options: PreemptOptions,
    /// Called repeatedly, from any thread; once it returns true, the search stops with
    /// [`crate::EngineError::Cancelled`].
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// The present time, see [`PlaceRequest::now`](crate::PlaceRequest::now).
    pub now: Option<i64>,
}

/// Options of preemption, all off by default.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PreemptOptions {
    /// Seed for trying only a sample of the candidate nodes, as many as the policy's [`crate::DefaultPreemptionArgs`]
    /// say, beginning at an offset drawn from the seed (S-PRE-6). `None` tries all.
    pub sample: Option<u64>,
    /// Whether candidates whose eviction violates a disruption budget are left out.
    pub refuse_pdb_violations: bool,
    /// Whether to check where victims could be placed.
    pub victim_placement: VictimPlacement,
}

/// Whether the victims' new nodes are determined, and whether they influence the choice.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum VictimPlacement {
    /// The victims' new nodes are not determined.
    #[default]
    Ignore,
    /// For each victim of the chosen candidate, where it could be placed is reported: the victims are placed one after
    /// another, with the preemptor placed and the victims removed, under the preemptor's profile.
    Report,
    /// Reported like [`VictimPlacement::Report`]; in addition, among the candidates with the fewest violations those
    /// with the fewest unplaceable victims are preferred. Of very many candidates the best 256 are compared so.
    Prefer,
}
