//! The table of filters.

use super::{
    Filter, inter_pod_affinity, node_affinity, node_declared_features, node_name, node_ports,
    node_resources_fit, node_unschedulable, node_volume_limits, pod_topology_spread,
    taint_toleration, volume_binding, volume_restrictions, volume_zone,
};
use crate::plugin::Plugin;

/// Every implemented filter. The policy decides the order in which they run.
pub(crate) const FILTERS: [Filter; 13] = [
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
    node_declared_features::FILTER,
];

impl Filter {
    /// The filter of a plugin, if it is implemented.
    pub(crate) fn of(plugin: Plugin) -> Option<&'static Filter> {
        const { &FILTERS }.iter().find(|filter| filter.plugin == plugin)
    }
}
