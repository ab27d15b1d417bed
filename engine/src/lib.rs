//! The decisions of Berth: pure, synchronous, without I/O, clock, randomness or global state.
//!
//! A [`Cluster`] is fed [`Delta`]s and publishes [`Snapshot`]s; a decision is a function of a snapshot, a compiled
//! [`Pod`], a [`Policy`] and a seed. Read in this order: `place` (how decisions are made), `filter` and `score` (a file
//! for each plugin), `snapshot` (the state they read), `cluster` (how it changes), `model` (how Kubernetes objects
//! become facts), `kernel` (the loops). [`lifecycle`] is independent: it decides what happens next to a pod, as
//! functions of their arguments only. [`workload`] makes pods of Deployments and the like.

mod place;
mod account;
mod preempt;
mod simulate;
mod admission;
pub mod lifecycle;
pub mod workload;
mod devices;
mod dry_run;
mod filter;
mod score;
mod plan;
mod prepared;
mod census;
mod snapshot;
mod cluster;
mod model;
mod policy;
pub mod cel;
mod plugin;
mod kubernetes_version;
mod kernel;
mod error;
mod rows;
mod domain;
mod hash;
mod recent;

pub use account::comparison::{
    ClaimStanding, Compared, Comparison, DeviceAccount, DeviceHolder, LabelSource, NodeAccount,
    ResourceHolder, ScoreAccount, SpreadAccount,
};
pub use account::wording::{Rounding, amount_text};
pub use admission::{
    AdmissionContext, AdmissionError, AdmissionWarning, Admitted, Charged, Filled, QuotaExcess,
    admit_claim, admit_next, admit_pod,
};
pub use cluster::Cluster;
pub use cluster::batch_request::{BatchOutcome, BatchRequest, Gang, GangOutcome, GangPreemption};
pub use cluster::change::Change;
pub use cluster::commit::{CommitError, Committed, CommittedPod, Planned};
pub use cluster::delta::{Applied, ClusterState, Delta, RejectedDelta};
pub use cluster::extender::{AssumeError, AssumedPod};
pub use cluster::history::{Beginning, RedoError};
pub use cluster::listing::PodListing;
pub use cluster::observer::{Attempt, Observer};
pub use cluster::recollection::{FreedPort, Recollection, SeenImage};
pub use cluster::release::{GivenBack, PodStanding};
pub use cluster::reservation::Reservation;
pub use cluster::reserve::{ReserveError, ReserveRequest};
pub use cluster::sighting::{NodeSighting, PodSighting};
pub use devices::hint::ClaimChange;
pub use devices::pre_bind::{
    AwaitedDevice, DELETE_PROTECTION, PreBind, PreBindError, deallocated, reserved,
    without_reservation,
};
pub use error::EngineError;
pub use kubernetes_version::KubernetesVersion;
pub use model::device::assigned::EXTENDED_CLAIM;
pub use model::device::claim::EXTENDED_CLAIM_ANNOTATION;
pub use model::{
    ModelError, Node, NodeDifference, Object, ObjectKey, ObjectKind, Pod, PodKey, WireObject,
    requested,
};
pub use place::basis::Ground;
pub use place::decision::{
    AssignedClaim, AssignedDevices, AssignedExtended, CountedReason, Decision, Explanation,
    NodeVerdict, Outcome, Placement, PluginScore, Remedy, Unschedulable, Verdict, VolumeBindings,
};
pub use place::remedy::change::RemedyChange;
pub use place::survey::{NodeRefusal, Standing, Survey, SurveyRequest};
pub use plan::request::{PlaceRequest, TieBreak};
pub use plugin::{Plugin, StatusCode};
pub use policy::shape::ShapePoint;
pub use policy::{
    BalancedAllocationArgs, DefaultConstraint, DefaultPreemptionArgs, DynamicResourcesArgs,
    InterPodAffinityArgs, NodeAffinityArgs, NodeResourcesFitArgs, PodTopologySpreadArgs, Policy,
    PolicyError, PolicySpec, ResourceWeight, ScoringStrategy, SpreadDefaulting, VolumeBindingArgs,
    WhenUnsatisfiable,
};
pub use preempt::outcome::{
    Candidate, CandidateList, Elsewhere, GivenUp, Nomination, PostFilter, PostFilterCode,
    Preemption, Victim,
};
pub use preempt::proposal::{Proposal, ProposalOutcome};
pub use preempt::request::{PreemptOptions, PreemptRequest, VictimPlacement};
pub use preempt::upstream_sort::sort as upstream_sort;
pub use simulate::consolidate::outcome::{
    Consolidation, ConsolidationEnd, ConsolidationStep, Disruption, KeptNode, Savings,
};
pub use simulate::consolidate::{ConsolidateRequest, NodePrices};
pub use simulate::drain::eligibility::NodeRules;
pub use simulate::drain::outcome::{
    BlockingReason, BudgetUse, Drain, NodeDrain, NodeOutcome, NodeUtilization, PodDrain,
    PodVerdict, UnremovableReason,
};
pub use simulate::drain::rule::DrainRules;
pub use simulate::drain::{DrainMode, DrainRequest};
pub use simulate::fit::{Fit, FitOptions, FitOutcome, FitPod, FitRefusal, FitRequest};
pub use simulate::headroom::HeadroomRequest;
pub use simulate::headroom::outcome::{
    Headroom, HeadroomEnd, HeadroomStop, NodeHeadroom, ResourceHeadroom,
};
pub use simulate::one_pass::Misfit;
pub use simulate::scale_in::ScaleInRequest;
pub use simulate::scale_in::outcome::{ScaleIn, ScaleInPod, ScaleInReason, ScaleInSpread};
pub use simulate::scale_in::replica::Replicas;
pub use simulate::scale_up::{
    LeftPods, LeftReason, NodeGroup, OptionRequest, ScaleUp, ScaleUpLimit, ScaleUpLimits,
    ScaleUpNode, ScaleUpOption, ScaleUpRequest, ScaleUpStop, Skew, TemplateSlice, Waste,
};
pub use snapshot::{
    Amounts, AssumptionStamp, BudgetFigures, Generation, NodeView, PodView, RowView, Snapshot,
};
