//! Parting: the first decision at which two policies say something else about the same pod on the same cluster.

use std::sync::Arc;

use berth_engine::{Cluster, Explanation, PlaceRequest, PodKey, TieBreak};

use super::answer::{Evicts, evictions, node_of};
use crate::policy::Profiles;

/// Other profiles, by which each pod is decided for, too.
#[derive(Clone, Debug)]
pub(super) struct Against {
    pub(super) profiles: Arc<Profiles>,
    pub(super) tie_break: TieBreak,
}

/// What two policies say of a pod.
#[derive(Debug)]
pub(crate) struct Parting {
    /// When, in microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) pod: PodKey,
    pub(crate) says: [Says; 2],
}

/// What one policy says.
#[derive(Debug)]
pub(crate) struct Says {
    pub(crate) explanation: Explanation,
    /// The node that the pod is nominated to, and the pods that are evicted for it there, if it fits nowhere.
    pub(crate) evicts: Option<Evicts>,
}

impl Against {
    /// What both policies say if it is not the same. Cost: a decision more for each pod, and another attempt to preempt for
    /// each that fits nowhere.
    pub(super) fn parting(
        &self,
        cluster: &Cluster,
        request: &PlaceRequest<'_>,
        at: u64,
    ) -> Option<Box<Parting>> {
        let scheduler = request.policy.spec().scheduler_name.as_str();
        let policy = self.profiles.get(scheduler)?;
        let other = PlaceRequest { policy, tie_break: self.tie_break, ..*request };
        let nodes = [request, &other].map(|request| node_of(&cluster.place(request)));
        let evictions = match &nodes {
            [None, None] => [request, &other].map(|request| evictions(cluster, request)),
            _ => [None, None],
        };
        if nodes[0] == nodes[1] && evictions[0] == evictions[1] {
            return None;
        }
        let [first, second] = evictions;
        let says = |request: &PlaceRequest<'_>, evicts| {
            let explanation = cluster.explain(request).ok()?;
            Some(Says { explanation, evicts })
        };
        let says = [says(request, first)?, says(&other, second)?];
        Some(Box::new(Parting { at, pod: request.pod.key().clone(), says }))
    }
}
