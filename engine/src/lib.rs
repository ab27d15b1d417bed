//! The decisions of Berth: pure, synchronous, without I/O, clock, randomness or global state.
//!
//! A [`Cluster`] is fed [`Delta`]s and publishes [`Snapshot`]s; a decision is a function of a snapshot, a compiled [`Pod`], a
//! [`Policy`] and a seed. Read in this order: `place` (what a decision is), `filter` and `score` (a file a plugin),
//! `snapshot` (what they read), `cluster` (how it changes), `model` (how Kubernetes objects become facts), `kernel` (the
//! loops). [`lifecycle`] stands by itself: what happens next to a pod, as functions of their arguments alone.

mod place;
mod preempt;
pub mod lifecycle;
mod dry_run;
mod filter;
mod score;
mod prepared;
mod census;
mod snapshot;
mod cluster;
mod model;
mod policy;
mod plugin;
mod kernel;
mod error;

pub use cluster::Cluster;
pub use cluster::batch::{BatchOutcome, BatchRequest, Gang, GangOutcome, GangPreemption};
pub use cluster::commit::{CommitError, Committed};
pub use cluster::delta::{Applied, ClusterState, Delta, RejectedDelta};
pub use error::EngineError;
pub use model::{ModelError, Node, Object, ObjectKey, ObjectKind, Pod, PodKey, WireObject};
pub use place::basis::Ground;
pub use place::decision::{
    Decision, Explanation, NodeVerdict, Outcome, Placement, PluginScore, Remedy, Unschedulable,
    Verdict, VolumeBindings,
};
pub use place::remedy::change::RemedyChange;
pub use place::request::{PlaceRequest, TieBreak};
pub use plugin::{Plugin, StatusCode};
pub use policy::{
    BalancedAllocationArgs, DefaultConstraint, DefaultPreemptionArgs, InterPodAffinityArgs,
    NodeAffinityArgs, NodeResourcesFitArgs, PodTopologySpreadArgs, Policy, PolicyError, PolicySpec,
    ResourceWeight, ScoringStrategy, ShapePoint, SpreadDefaulting, WhenUnsatisfiable,
};
pub use preempt::outcome::{
    Candidate, CandidateList, Elsewhere, Nomination, PostFilter, PostFilterCode, Preemption, Victim,
};
pub use preempt::request::{PreemptOptions, PreemptRequest, VictimPlacement};
pub use snapshot::{Generation, NodeView, PodView, Snapshot};
