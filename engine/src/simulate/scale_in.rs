//! Scale-in: which replicas of a workload to remove so that what is left is spread best and nodes drain.
//!
//! Replicas are chosen one after another by one order ([`preference`]). For the first spread constraint that is exact: no other choice of as many
//! equally ready replicas leaves its domains more even. So it is for a second one whose domains lie within those of the first, as hosts
//! lie within zones.

mod level;
mod preference;
mod replica;
mod wording;

use std::sync::Arc;

use berth_proto::meta_v1;

use crate::cluster::Cluster;
use crate::error::EngineError;
use crate::model::drainability::OwnerKind;
use crate::model::{ModelError, PodKey};
use crate::simulate::drain::budget::{Budgets, Covering};
use crate::simulate::drain::outcome::BudgetUse;
use crate::snapshot::{Generation, Snapshot};
use level::Level;
use preference::{Choice, Choosing};
use replica::Replica;

/// Which replicas to remove.
#[derive(Copy, Clone)]
pub struct ScaleInRequest<'a> {
    /// The workload.
    pub replicas: Replicas<'a>,
    /// How many of them to remove: at least 1, and no more than there are.
    pub n: usize,
    /// Labels by whose domains they are to be spread, the most important first; empty for the workload's own constraints.
    pub topology_keys: &'a [String],
    /// Asked before each choice: once it answers true there is no answer but [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

/// The pods of a workload. Only those on nodes count.
#[derive(Copy, Clone, Debug)]
pub enum Replicas<'a> {
    /// Those of a namespace that a selector matches.
    Selected {
        /// The namespace.
        namespace: &'a str,
        /// With at least one requirement.
        selector: &'a meta_v1::LabelSelector,
    },
    /// These, each once and of one namespace.
    Listed(&'a [PodKey]),
}

/// Which replicas go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleIn {
    /// The snapshot that it was worked out on.
    pub generation: Generation,
    /// In the order in which they are to go.
    pub pods: Vec<ScaleInPod>,
    /// Replicas before, without those that are being deleted.
    pub n_replicas: usize,
    /// Those that are.
    pub n_terminating: usize,
    /// For each constraint, in the order in which it counts.
    pub spread: Vec<ScaleInSpread>,
    /// Nodes on which the chosen pods were the last, DaemonSets', mirror and terminating pods apart; by name.
    pub emptied_nodes: Vec<Arc<str>>,
    /// What the chosen pods take of disruption budgets, by namespace and name.
    pub budgets: Vec<BudgetUse>,
}

/// A pod that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInPod {
    /// The pod.
    pub pod: PodKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// The first line of the order that put it before any of the others that were left.
    pub reason: ScaleInReason,
    /// The same for people.
    pub message: String,
    /// Value of the annotation `controller.kubernetes.io/pod-deletion-cost` with which its controller chooses these pods in this
    /// order among equally ready ones; `None` where no controller reads it.
    pub deletion_cost: Option<i32>,
}

/// The first line of the order that put a pod before any of the others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ScaleInReason {
    /// It has not started, or is not ready.
    NotReady,
    /// Hard constraints are violated by less.
    Violation,
    /// Its domain has more of them.
    Spread,
    /// Its node is cordoned or being removed.
    LeavingNode,
    /// Its node has fewer other pods.
    EmptierNode,
    /// No disruption budget is exceeded.
    Budget,
    /// It started later.
    Younger,
    /// Nothing but its name.
    Name,
}

/// How evenly the pods that a constraint counts are spread, before and after (S-PTS-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleInSpread {
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// 0 where none is demanded.
    pub max_skew: i32,
    /// `DoNotSchedule`.
    pub is_hard: bool,
    /// The largest number in a domain less the smallest.
    pub skew_before: i64,
    /// The same afterwards.
    pub skew_after: i64,
    /// Domains that count.
    pub n_domains: usize,
    /// Those whose number changes, by name: how many pods before and after.
    pub domains: Vec<(Arc<str>, i64, i64)>,
}

impl Cluster {
    /// Chooses `n` replicas of a workload that are to go; nothing is changed.
    ///
    /// Cost: one look at each pod of the workload and of its constraints; then for each choice one at each node that has
    /// replicas. Listed pods cost a look at every pod of the cluster.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a selector that does not parse or selects everything, a listed pod that is on no node or stands
    /// there twice, for `n`, and for topology keys that are more than 16, named twice or labels of nothing; [`EngineError::Cancelled`].
    pub fn choose_scale_in(&self, request: &ScaleInRequest<'_>) -> Result<ScaleIn, EngineError> {
        let snapshot = self.snapshot();
        let mut budgets = Budgets::of(&snapshot);
        let (replicas, n_terminating) = replica::find(&snapshot, request.replicas)?;
        check_n(request.n, replicas.len())?;
        let mut levels = level::of(&snapshot, &replicas, request.topology_keys)?;
        let before: Vec<Level> = levels.clone();
        let mut choosing = Choosing::of(&snapshot, &replicas, &mut levels, &mut budgets);
        let mut choices = Vec::with_capacity(request.n);
        while choices.len() < request.n {
            if (request.cancelled)() {
                return Err(EngineError::Cancelled);
            }
            choices.extend(choosing.choose());
        }
        let emptied_nodes = choosing.emptied_nodes();
        let chosen = || choices.iter().map(|choice| &replicas[choice.replica]);
        let spread = before.iter().zip(&levels);
        let spread =
            spread.map(|(before, after)| before.told(after, chosen(), &snapshot)).collect();
        // As they were: the choices took from those above.
        let mut budgets = Budgets::of(&snapshot);
        let covering: Vec<Covering> =
            chosen().map(|replica| budgets.covering(&replica.pod)).collect();
        let pods = choices.iter().enumerate().map(|(i, choice)| {
            let before = i32::try_from(choices.len() - i).unwrap_or(i32::MAX);
            told(&snapshot, &replicas, &levels, choice, -before)
        });
        Ok(ScaleIn {
            generation: snapshot.generation(),
            pods: pods.collect(),
            n_replicas: replicas.len(),
            n_terminating,
            spread,
            emptied_nodes,
            budgets: budgets.uses(&covering),
        })
    }
}

fn check_n(n: usize, n_replicas: usize) -> Result<(), ModelError> {
    if n == 0 {
        return Err(ModelError::new("n", "must be greater than 0"));
    }
    if n > n_replicas {
        let reason = format!("asks to remove {n} of {n_replicas} replicas on nodes");
        return Err(ModelError::new("n", reason));
    }
    Ok(())
}

fn told(
    snapshot: &Snapshot,
    replicas: &[Replica],
    levels: &[Level],
    choice: &Choice,
    cost: i32,
) -> ScaleInPod {
    let replica = &replicas[choice.replica];
    let takes_cost = match replica.pod.facts().drainability.owner {
        OwnerKind::ReplicaSet | OwnerKind::ReplicationController => true,
        OwnerKind::None
        | OwnerKind::StatefulSet
        | OwnerKind::Job
        | OwnerKind::DaemonSet
        | OwnerKind::Other => false,
    };
    ScaleInPod {
        pod: replica.pod.key().clone(),
        uid: replica.pod.facts().uid.clone(),
        node: replica.node(snapshot),
        reason: choice.decided_by.reason(),
        message: wording::message(snapshot, replica, levels, choice),
        deletion_cost: takes_cost.then_some(cost),
    }
}
