//! What is asked of `preempt`: plain data.

use crate::model::Pod;
use crate::plan::request::TieBreak;
use crate::policy::Policy;

/// One pod, decided under one policy, evicting others where nothing else helps.
#[derive(Copy, Clone)]
pub struct PreemptRequest<'a> {
    /// The pod. Its `status.nominatedNodeName` counts, and so does a nomination that the cluster knows of.
    pub pod: &'a Pod,
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How equal totals, and candidates that are equal to the last, are told apart.
    pub tie_break: TieBreak,
    /// What to do beyond or instead of what kube-scheduler does with every node considered.
    pub options: PreemptOptions,
    /// Asked now and then, from any thread: once it answers true, the rest is left and the answer is
    /// [`crate::EngineError::Cancelled`].
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Options of preemption, all off by default.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PreemptOptions {
    /// Look at a sample of the candidate nodes, as many as the policy's [`crate::DefaultPreemptionArgs`] say, beginning at an
    /// offset drawn from this seed (S-PRE-6). `None` looks at all.
    pub sample: Option<u64>,
    /// Pass over candidates whose eviction violates a disruption budget.
    pub refuse_pdb_violations: bool,
    /// Whether to look where victims could go.
    pub victim_placement: VictimPlacement,
}

/// What becomes of victims, and whether that counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum VictimPlacement {
    /// Not looked at.
    #[default]
    Ignore,
    /// Told for each victim of the chosen candidate: where it could be placed now, one after another, the preemptor placed
    /// and the victims gone. The preemptor's profile decides for them too.
    Report,
    /// Told, and of the candidates with the fewest violations those are preferred that leave the fewest victims without a
    /// place. Of very many candidates the best 256 are compared so.
    Prefer,
}
