//! The table of scores.

use super::{
    Score, dynamic_resources, image_locality, inter_pod_affinity, node_affinity,
    node_resources_balanced_allocation, node_resources_fit, pod_topology_spread, taint_toleration,
    volume_binding,
};
use crate::plugin::{self, Plugin, Ranges};

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

/// Where the scores of each plugin are in the table.
const RANGES: Ranges = {
    let (mut ranges, mut at) = (plugin::NO_RANGES, 0);
    while at < SCORES.len() {
        ranges = plugin::widened(ranges, SCORES[at].plugin, at);
        at += 1;
    }
    ranges
};

impl Score {
    /// The scores of a plugin, at most one of which applies to a request.
    pub(crate) fn all_of(plugin: Plugin) -> &'static [Score] {
        let (from, to) = RANGES[plugin as usize];
        &(const { &SCORES })[from..to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scores_of_a_plugin_stand_together() {
        for plugin in Plugin::ALL {
            let all = SCORES.iter().filter(|it| it.plugin == plugin).count();
            let found = Score::all_of(plugin);
            assert!(found.len() == all && found.iter().all(|it| it.plugin == plugin), "{plugin:?}");
        }
    }
}
