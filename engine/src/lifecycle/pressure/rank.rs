//! `RankForEviction`: the order in which a node under pressure evicts its pods.

use std::cmp::Reverse;

use berth_proto::berth_v1::{PodUsage, RankForEvictionRequest, RankForEvictionResponse, RankedPod};
use berth_proto::core_v1::Pod;
use berth_proto::{Amount, Quantity};

use super::request;
use crate::lifecycle::condition::DisruptionCause;
use crate::lifecycle::listed::refuse_duplicates;
use crate::lifecycle::reading::{self, in_list, namespace};
use crate::lifecycle::termination::{EvictionThreshold, eviction_override};
use crate::lifecycle::vocabulary::PodPhase;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Signal of node pressure: the resource that runs short. A node agent checks memory first.
    enum Signal {
        /// Memory of the node.
        MemoryAvailable = "memory.available",
        /// Memory that pods may use.
        AllocatableMemoryAvailable = "allocatableMemory.available",
        /// Bytes of the node's own disk.
        NodeFsAvailable = "nodefs.available",
        /// Files of the node's own disk.
        NodeFsInodesFree = "nodefs.inodesFree",
        /// Bytes of the images' disk.
        ImageFsAvailable = "imagefs.available",
        /// Files of the images' disk.
        ImageFsInodesFree = "imagefs.inodesFree",
        /// Bytes of the disk of containers' writable layers.
        ContainerFsAvailable = "containerfs.available",
        /// Files of the disk of containers' writable layers.
        ContainerFsInodesFree = "containerfs.inodesFree",
        /// Processes.
        PidAvailable = "pid.available",
    }

    /// Whether pods within their requests are protected, which v1.36.2 does not do (L-GEN-3, L-PRESS-11).
    enum RankingMode {
        /// Pods within their requests are never evicted.
        Strict = "Strict",
        /// Pods within their requests are evicted last.
        V1_36_2 = "v1.36.2",
    }
}

/// From this priority on, a pod is critical and is never evicted (L-PRESS-12).
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Resource of a pod that a signal is about.
#[derive(Copy, Clone, PartialEq)]
enum Figure {
    Memory,
    EphemeralStorage,
    Inodes,
    Pids,
}

/// A pod's usage against its request. Pods with unknown usage go first (L-PRESS-10).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Excess {
    Unknown,
    Exceeds,
    Within,
}

/// Order of eviction (L-PRESS-9, L-PRESS-13). Pods of equal names differ in their namespaces, so no two ranks are
/// equal.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    /// Usage against the request; the same for all pods if processes run short.
    excess: Excess,
    priority: i32,
    /// Usage minus request; `None` if usage is unknown.
    margin: Option<Reverse<Amount>>,
    name: &'a str,
    namespace: &'a str,
}

/// A pod that may be evicted.
struct Candidate<'a> {
    rank: Rank<'a>,
    pod: &'a Pod,
    is_protected: bool,
}

/// `RankForEviction`: the order in which pods are evicted, the protected pods, and the victim of this round (L-PRESS-9
/// to L-PRESS-14). Node-level reclaim comes before any pod; budgets and QoS classes have no effect (L-PRESS-15). Cost:
/// a sort of the pods.
///
/// # Errors
/// [`ModelError`] for an unknown signal or mode, a `maxPodGracePeriodSeconds` that is negative or missing for a soft
/// threshold, an invalid or negative quantity, and a pod that is missing, has no name, has ended or is a duplicate.
pub fn rank_for_eviction(
    request: &RankForEvictionRequest,
) -> Result<RankForEvictionResponse, ModelError> {
    let figure = Signal::parse(&request.signal, "signal")?.figure();
    let mode = RankingMode::parse_or(&request.mode, RankingMode::Strict, "mode")?;
    let threshold = threshold(request)?;
    let mut candidates = Vec::with_capacity(request.pods.len());
    for (index, ranked) in request.pods.iter().enumerate() {
        candidates.push(in_list("pods", index, Candidate::read(ranked, figure, mode))?);
    }
    refuse_duplicates(candidates.iter().map(|candidate| candidate.pod), "pod.metadata.name")?;
    candidates.sort_unstable_by(|left, right| left.rank.cmp(&right.rank));

    let place = |candidate: &Candidate<'_>| {
        (candidate.rank.name.to_owned(), candidate.rank.namespace.to_owned())
    };
    let protected = candidates.iter().filter(|candidate| candidate.is_protected);
    let mut protected: Vec<(String, String)> = protected.map(place).collect();
    protected.sort_unstable();
    let (protected, protected_namespaces) = protected.into_iter().unzip();
    let (order, order_namespaces) = candidates.iter().map(place).unzip();
    let answer = RankForEvictionResponse {
        order,
        order_namespaces,
        protected,
        protected_namespaces,
        ..RankForEvictionResponse::default()
    };
    let Some(victim) = candidates.iter().find(|candidate| !candidate.is_protected) else {
        return Ok(answer);
    };
    let own = reading::spec(victim.pod).termination_grace_period_seconds;
    Ok(RankForEvictionResponse {
        victim: victim.rank.name.to_owned(),
        victim_namespace: victim.rank.namespace.to_owned(),
        victim_uid: reading::meta(victim.pod).uid.clone(),
        grace_period_seconds: Some(eviction_override(threshold, own)),
        phase: PodPhase::Failed.word().to_owned(),
        reason: "Evicted".to_owned(),
        disruption_reason: DisruptionCause::NodePressure.reason().to_owned(),
        ..answer
    })
}

/// The threshold that was met; a soft one limits the grace period of a victim (L-PRESS-14).
fn threshold(request: &RankForEvictionRequest) -> Result<EvictionThreshold, ModelError> {
    let refused = |reason| Err(ModelError::new("maxPodGracePeriodSeconds", reason));
    match request.max_pod_grace_period_seconds {
        Some(most) if most < 0 => refused(format!("`{most}` is negative")),
        _ if request.hard => Ok(EvictionThreshold::Hard),
        Some(most) => Ok(EvictionThreshold::Soft(most)),
        None => refused("required for a soft threshold".to_owned()),
    }
}

impl Signal {
    const fn figure(self) -> Figure {
        match self {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Figure::Memory,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => {
                Figure::EphemeralStorage
            }
            Signal::NodeFsInodesFree
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsInodesFree => Figure::Inodes,
            Signal::PidAvailable => Figure::Pids,
        }
    }
}

impl Figure {
    /// Whether pods can request the resource (L-PRESS-11).
    const fn has_requests(self) -> bool {
        matches!(self, Figure::Memory | Figure::EphemeralStorage)
    }

    /// Usage of the pod, if it is known.
    fn usage(self, usage: Option<&PodUsage>) -> Result<Option<Amount>, ModelError> {
        let Some(usage) = usage else { return Ok(None) };
        match self {
            Figure::Memory => amount(usage.memory.as_ref(), "usage.memory"),
            Figure::EphemeralStorage => {
                amount(usage.ephemeral_storage.as_ref(), "usage.ephemeral-storage")
            }
            Figure::Inodes => amount(usage.inodes.as_ref(), "usage.inodes"),
            Figure::Pids => amount(usage.pids.as_ref(), "usage.pids"),
        }
    }

    /// The request that usage is compared with, and the request that is subtracted from usage. They differ for inodes:
    /// nothing is compared, and v1.36.2 subtracts the request for bytes of disk (L-PRESS-13).
    fn requests(self, pod: &Pod) -> Result<(Amount, Amount), ModelError> {
        let request = match self {
            Figure::Memory => requested(pod, "memory")?,
            Figure::EphemeralStorage | Figure::Inodes => requested(pod, "ephemeral-storage")?,
            Figure::Pids => Amount::ZERO,
        };
        Ok((if self.has_requests() { request } else { Amount::ZERO }, request))
    }
}

impl<'a> Candidate<'a> {
    fn read(
        ranked: &'a RankedPod,
        figure: Figure,
        mode: RankingMode,
    ) -> Result<Candidate<'a>, ModelError> {
        let pod = reading::given(ranked.pod.as_ref(), "pod")?;
        let meta = reading::meta(pod);
        let name = reading::given_text(&meta.name, "pod.metadata.name")?;
        let phase = reading::phase(pod).map_err(|error| error.under("pod"))?;
        if phase.is_terminal() {
            // A pod that has ended frees nothing, and its phase stays (L-PHASE-8).
            let reason = format!("`{}` has ended already", phase.word());
            return Err(ModelError::new("pod.status.phase", reason));
        }
        let usage = figure.usage(ranked.usage.as_ref())?;
        let (compared, taken_off) = figure.requests(pod).map_err(|error| error.under("pod"))?;
        let excess = match usage {
            _ if figure == Figure::Pids => Excess::Exceeds,
            None => Excess::Unknown,
            Some(usage) if usage > compared => Excess::Exceeds,
            Some(_) => Excess::Within,
        };
        let priority = reading::spec(pod).priority.unwrap_or_default();
        let is_promised =
            mode == RankingMode::Strict && figure.has_requests() && excess != Excess::Exceeds;
        let is_critical =
            ranked.is_static || reading::is_static(pod) || priority >= CRITICAL_PRIORITY;
        let rank = Rank {
            excess,
            priority,
            margin: usage.map(|usage| Reverse(usage + -taken_off)),
            name,
            namespace: namespace(&meta.namespace),
        };
        Ok(Candidate { rank, pod, is_protected: is_promised || is_critical })
    }
}

/// The pod's request, with its overhead if the request is not zero (L-PRESS-9).
fn requested(pod: &Pod, name: &str) -> Result<Amount, ModelError> {
    let spec = reading::spec(pod);
    let request = request::of_pod(spec, name).map_err(|error| error.under("spec"))?;
    let overhead = request::entry(&spec.overhead, name, "spec.overhead")?;
    Ok(match request.filter(|request| !request.is_zero()) {
        Some(request) => request + overhead.unwrap_or_default(),
        None => Amount::ZERO,
    })
}

/// Reads an optional amount that is not negative.
fn amount(quantity: Option<&Quantity>, field: &str) -> Result<Option<Amount>, ModelError> {
    let Some(quantity) = quantity else { return Ok(None) };
    if quantity.is_unset() {
        return Err(ModelError::new(field, reading::UNSET_QUANTITY));
    }
    let amount = quantity.parse().map_err(|error| ModelError::new(field, error.to_string()))?;
    if amount.is_negative() {
        return Err(ModelError::new(field, format!("`{}` is negative", clip(quantity.as_str()))));
    }
    Ok(Some(amount))
}

#[cfg(test)]
mod tests;
