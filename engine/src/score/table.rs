//! The table of scores.

use super::{
    Score, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_resources_balanced_allocation, node_resources_fit, pod_topology_spread, taint_toleration,
    volume_binding,
};
use crate::plugin::Plugin;

/// Every implemented score.
pub(crate) const SCORES: [Score; 10] = [
    taint_toleration::SCORE,
    node_affinity::SCORE,
    node_resources_fit::SCORE,
    volume_binding::SCORE,
    volume_binding::ZERO,
    pod_topology_spread::SCORE,
    inter_pod_affinity::SCORE,
    dynamic_resources::SCORE,
    node_resources_balanced_allocation::SCORE,
    image_locality::SCORE,
];

impl Score {
    /// The scores of a plugin, at most one of which applies to a request.
    pub(crate) fn all_of(plugin: Plugin) -> impl Iterator<Item = &'static Score> {
        const { &SCORES }.iter().filter(move |score| score.plugin == plugin)
    }
}
