//! Kubernetes' scheduler plugins by name, and the codes with which they refuse.
//! Rules: S-PLG-1 (the list and its order), conventions of the specification (status codes).

use std::fmt;

macro_rules! plugins {
    ($($name:ident),+ $(,)?) => {
        /// Every plugin of kube-scheduler's default profile, in its order (S-PLG-1).
        #[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum Plugin {
            $(#[doc = concat!("`", stringify!($name), "`")] $name,)+
        }

        impl Plugin {
            /// All plugins, in the order of the default profile.
            pub const ALL: [Plugin; 20] = [$(Plugin::$name),+];

            /// The name that a KubeSchedulerConfiguration uses.
            pub fn name(self) -> &'static str {
                match self { $(Plugin::$name => stringify!($name),)+ }
            }

            /// The plugin with this exact name.
            pub fn from_name(name: &str) -> Option<Plugin> {
                match name { $(stringify!($name) => Some(Plugin::$name),)+ _ => None }
            }
        }
    };
}

plugins! {
    SchedulingGates, PrioritySort, NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts,
    NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread,
    InterPodAffinity, DynamicResources, DefaultPreemption, NodeResourcesBalancedAllocation, ImageLocality,
    DefaultBinder, NodeDeclaredFeatures,
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether preemption might make a node feasible (section 1.5 of the scheduling specification).
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StatusCode {
    /// Evicting pods of lower priority might help.
    Unschedulable,
    /// Eviction cannot help.
    UnschedulableAndUnresolvable,
}

impl StatusCode {
    /// Upstream's name of the code.
    pub fn as_str(self) -> &'static str {
        match self {
            StatusCode::Unschedulable => "Unschedulable",
            StatusCode::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// For each plugin, where its entries in a table begin and end.
pub(crate) type Ranges = [(usize, usize); Plugin::ALL.len()];

/// No plugin has an entry.
pub(crate) const NO_RANGES: Ranges = [(0, 0); Plugin::ALL.len()];

/// These ranges with the next entry of the table, which stands beside the others of its plugin.
pub(crate) const fn widened(mut ranges: Ranges, plugin: Plugin, at: usize) -> Ranges {
    let (from, to) = ranges[plugin as usize];
    ranges[plugin as usize] = if to == 0 { (at, at + 1) } else { (from, at + 1) };
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::from_name(plugin.name()), Some(plugin));
        }
        assert_eq!(Plugin::from_name("nodename"), None);
    }
}
