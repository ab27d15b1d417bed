//! The table of filters.

use super::{
    Filter, dynamic_resources, inter_pod_affinity, node_affinity, node_declared_features,
    node_name, node_ports, node_resources_fit, node_unschedulable, node_volume_limits,
    pod_topology_spread, taint_toleration, volume_binding, volume_restrictions, volume_zone,
};
use crate::plugin::Plugin;

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

impl Filter {
    /// Every filter of a plugin, in the order in which they run: all have one, but for DynamicResources.
    pub(crate) fn all_of(plugin: Plugin) -> impl Iterator<Item = &'static Filter> {
        const { &FILTERS }.iter().filter(move |filter| filter.plugin == plugin)
    }

    /// The first filter of a plugin, if it is implemented: the one with its PreFilter.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Filter> {
        const { &FILTERS }.iter().find(|filter| filter.plugin == plugin)
    }
}
