//! Scale-in: which replicas of a workload to remove so that the rest is spread best and nodes drain.
//!
//! Replicas are chosen one after another by one order ([`preference`]). For the first spread constraint the choice is
//! optimal: no other choice of as many equally ready replicas leaves its domains more even. The choice is also optimal
//! for a second constraint whose domains lie within those of the first, as hosts lie within zones.

mod level;
pub(crate) mod outcome;
mod preference;
pub(crate) mod replica;
mod wording;

use crate::cluster::Cluster;
use crate::error::EngineError;
use crate::model::ModelError;
use crate::model::drainability::OwnerKind;
use crate::simulate::drain::budget::{Budgets, Covering};
use crate::snapshot::Snapshot;
use level::Level;
use outcome::{ScaleIn, ScaleInPod};
use preference::{Choice, Choosing};
use replica::{Replica, Replicas};

/// A question about which replicas to remove.
#[derive(Copy, Clone)]
pub struct ScaleInRequest<'a> {
    /// The workload.
    pub replicas: Replicas<'a>,
    /// The number of replicas to remove: at least 1, and no more than there are.
    pub n: usize,
    /// Labels whose values are the domains to spread over, the most important first; empty for the workload's own
    /// constraints.
    pub topology_keys: &'a [String],
    /// Called before each choice; once it returns true, the call ends with [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Cluster {
    /// Chooses `n` replicas of a workload to remove; the cluster is not changed.
    ///
    /// Cost: one look at each pod of the workload and of its constraints; then for each choice one look at each node
    /// that has replicas. Listed pods cost a look at every pod of the cluster.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a selector that does not parse or selects everything, a listed pod that has no node
    /// or is listed twice, an invalid `n`, and topology keys that are more than 16, named twice or carried by no node;
    /// [`EngineError::Cancelled`].
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
            spread.map(|(before, after)| before.spread(after, chosen(), &snapshot)).collect();
        // The budgets before any choice: those above were charged for the choices.
        let mut budgets = Budgets::of(&snapshot);
        let covering: Vec<Covering> =
            chosen().map(|replica| budgets.covering(&replica.pod)).collect();
        let pods = choices.iter().enumerate().map(|(i, choice)| {
            let before = i32::try_from(choices.len() - i).unwrap_or(i32::MAX);
            scale_in_pod(&snapshot, &replicas, &levels, choice, -before)
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

fn scale_in_pod(
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
