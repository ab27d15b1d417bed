//! The table of filters.

use super::{
    Filter, dynamic_resources, inter_pod_affinity, node_affinity, node_declared_features,
    node_name, node_ports, node_resources_fit, node_unschedulable, node_volume_limits,
    pod_topology_spread, taint_toleration, volume_binding, volume_restrictions, volume_zone,
};
use crate::plugin::{self, Plugin, Ranges};

/// Every implemented filter. The policy decides the order in which they run.
pub(crate) const FILTERS: [Filter; 15] = [
    node_unschedulable::FILTER,
    node_name::FILTER,
    taint_toleration::FILTER,
    node_affinity::FILTER,
    node_ports::FILTER,
    node_resources_fit::FILTER,
    volume_restrictions::FILTER,
    node_volume_limits::FILTER,
    volume_binding::FILTER,
    volume_zone::FILTER,
    pod_topology_spread::FILTER,
    inter_pod_affinity::FILTER,
    dynamic_resources::FILTER,
    dynamic_resources::CLAIMS,
    node_declared_features::FILTER,
];

/// Where the filters of each plugin are in the table.
const RANGES: Ranges = {
    let (mut ranges, mut at) = (plugin::NO_RANGES, 0);
    while at < FILTERS.len() {
        ranges = plugin::widened(ranges, FILTERS[at].plugin, at);
        at += 1;
    }
    ranges
};

impl Filter {
    /// Every filter of a plugin, in the order in which they run: all have one, but for DynamicResources.
    pub(crate) fn all_of(plugin: Plugin) -> &'static [Filter] {
        let (from, to) = RANGES[plugin as usize];
        &(const { &FILTERS })[from..to]
    }

    /// The first filter of a plugin, if it is implemented: the one with its PreFilter.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Filter> {
        Filter::all_of(plugin).first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_of_a_plugin_stand_together() {
        for plugin in Plugin::ALL {
            let all = FILTERS.iter().filter(|it| it.plugin == plugin).count();
            let found = Filter::all_of(plugin);
            assert!(found.len() == all && found.iter().all(|it| it.plugin == plugin), "{plugin:?}");
        }
    }
}
