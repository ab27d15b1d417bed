//! Change: what the writer does to a cluster, in its order and with no choice left. An observer is told
//! of each, and another cluster can do the same (see `history`).

use std::sync::Arc;

use super::delta::{ClusterState, Delta};
use super::recollection::Recollection;
use super::reservation::Reservation;
use super::step::Step;
use crate::model::{Pod, PodKey};

/// One change of a cluster.
#[derive(Clone, Debug)]
pub enum Change {
    /// A delta, also one that was rejected.
    Delta(Delta),
    /// All that feeds had reported was replaced by this.
    Replaced(Box<ClusterState>),
    /// A pod was assumed on a node.
    Assumed(Box<Reservation>),
    /// A pod was nominated to a node, which the cluster need not have.
    Nominated {
        /// The pod.
        pod: Pod,
        /// The node.
        node: Arc<str>,
    },
    /// A pod's nomination was cleared.
    NominationCleared {
        /// The pod.
        pod: PodKey,
    },
    /// The assumption or nomination of a pod was undone.
    TakenBack {
        /// The pod.
        pod: PodKey,
        /// Its uid.
        uid: Arc<str>,
    },
    /// A node was fenced, or its fence lifted.
    Fenced {
        /// The node, which the cluster need not have.
        node: Arc<str>,
        /// Whether it is fenced now.
        is_fenced: bool,
    },
    /// Something of the past, which what is there now does not tell. Only a beginning has such changes.
    Recalled(Recollection),
}

impl Change {
    /// The change that a step makes.
    pub(super) fn of(step: &Step) -> Change {
        match step {
            Step::Assume { pod, node, bindings, .. } => {
                Change::Assumed(Box::new(Reservation::of(pod, node, bindings)))
            }
            Step::Nominate { pod, node, .. } => {
                Change::Nominated { pod: pod.clone(), node: node.clone() }
            }
            Step::Clear { pod, .. } => Change::NominationCleared { pod: pod.clone() },
        }
    }
}
