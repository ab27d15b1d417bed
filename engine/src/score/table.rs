//! The table of scores.

use super::{
    Score, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_resources_balanced_allocation, node_resources_fit, pod_topology_spread, taint_toleration,
};
use crate::plugin::Plugin;

/// Every implemented score.
pub(crate) const SCORES: [Score; 8] = [
    taint_toleration::SCORE,
    node_affinity::SCORE,
    node_resources_fit::SCORE,
    pod_topology_spread::SCORE,
    inter_pod_affinity::SCORE,
    dynamic_resources::SCORE,
    node_resources_balanced_allocation::SCORE,
    image_locality::SCORE,
];

impl Score {
    /// The score of a plugin, if it is implemented.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Score> {
        const { &SCORES }.iter().find(|score| score.plugin == plugin)
    }
}
