//! Witness: what this server's cluster shows of the pods and nodes that callers of the ledger speak of. Rules: L-GRANT-1,
//! L-GRANT-2.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Cluster, NodeSighting, PodKey, PodSighting};

use super::state::State;
use crate::clock;
use crate::feed::Freshness;
use crate::ledger::{Sight, Witness};

/// The cluster as a witness, as long as its feed is current.
pub(crate) struct ClusterWitness {
    cluster: Arc<Cluster>,
    freshness: Arc<Freshness>,
}

/// Time since the last change from files or clients after which the cluster proves nothing: both may have ended.
const MAX_SILENCE: Duration = Duration::from_secs(5 * 60);

impl ClusterWitness {
    pub(crate) fn new(state: &State) -> ClusterWitness {
        ClusterWitness { cluster: state.cluster.clone(), freshness: state.freshness.clone() }
    }

    /// Whether the cluster was fed, and its feed is heard of: each watch of the API server within its time limit, files
    /// and clients within [`MAX_SILENCE`].
    fn is_current(&self) -> bool {
        if self.freshness.check_decidable().is_err() {
            return false;
        }
        match self.freshness.watches() {
            Some(watches) => watches.report(clock::now()).is_ok(),
            None => self.freshness.staleness().is_some_and(|silence| silence <= MAX_SILENCE),
        }
    }

    fn sight<Seen>(&self, seen: impl FnOnce(&Cluster) -> Option<Seen>) -> Sight<Seen> {
        if self.is_current() { Sight::of(seen(&self.cluster)) } else { Sight::Unknown }
    }
}

impl Witness for ClusterWitness {
    fn pod(&self, namespace: &str, name: &str) -> Sight<PodSighting> {
        self.sight(|cluster| cluster.sighted_pod(&PodKey::new(namespace, name)))
    }

    fn pod_on(&self, node: &str, uid: &str) -> Sight<PodSighting> {
        let snapshot = self.cluster.snapshot();
        match self.node(node) {
            Sight::Present(_) => self.sight(|_| snapshot.sighted_pod_on(node, uid)),
            Sight::Absent | Sight::Unknown => Sight::Unknown,
        }
    }

    fn node(&self, name: &str) -> Sight<NodeSighting> {
        self.sight(|cluster| cluster.snapshot().sighted_node(name))
    }
}
