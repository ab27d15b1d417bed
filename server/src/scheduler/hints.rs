//! Hints: which changes of a cluster can help a pod that was rejected. What cannot help does not wake it.
//! Rule: S-Q-10. One line a plugin; a reason that no line knows waits for any change.

use berth_engine::{ObjectKind, Plugin, Unschedulable};

use super::queue::Plugins;

/// A set of kinds of change.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Changes(u32);

macro_rules! changes {
    ($($(#[doc = $doc:literal])+ $name:ident = $bit:literal;)+) => {
        impl Changes {
            $($(#[doc = $doc])+ pub const $name: Changes = Changes(1 << $bit);)+
            /// Every kind.
            pub const ALL: Changes = Changes($(1 << $bit)|+);
            /// How many kinds there are.
            pub const N_KINDS: usize = [$($bit),+].len();
        }
    };
}

changes! {
    /// A node came.
    NODE_ADDED = 0;
    /// A node went: a domain less to spread over.
    NODE_REMOVED = 1;
    /// What a node can allocate changed.
    NODE_ALLOCATABLE = 2;
    /// A node's labels changed.
    NODE_LABELS = 3;
    /// A node's taints, or whether it is cordoned.
    NODE_TAINTS = 4;
    /// A node's declared features.
    NODE_FEATURES = 5;
    /// A pod came onto a node.
    POD_ASSIGNED = 6;
    /// A pod on a node changed its labels or what it requests.
    POD_UPDATED = 7;
    /// A pod left its node.
    POD_DELETED = 8;
    /// A claim.
    CLAIM = 9;
    /// A persistent volume.
    VOLUME = 10;
    /// A storage class.
    STORAGE_CLASS = 11;
    /// What a driver says of a node.
    CSI_NODE = 12;
    /// What a driver says of itself.
    CSI_DRIVER = 13;
    /// How much a driver can provision where.
    CSI_STORAGE_CAPACITY = 14;
    /// An attachment ended.
    VOLUME_ATTACHMENT = 15;
    /// What default spread constraints select by: services and the controllers of pods. It wakes nobody that is known to
    /// wait for something else, as in kube-scheduler.
    WORKLOAD = 16;
    /// A namespace's labels.
    NAMESPACE = 17;
    /// A disruption budget allows more.
    DISRUPTION_BUDGET = 18;
    /// Another pod of the group came.
    GROUP_MEMBER = 19;
}

impl Changes {
    /// No kind.
    pub const NONE: Changes = Changes(0);
    /// What kube-scheduler calls an event of each kind, by position; where it tells apart what is one kind here, the object.
    pub const EVENT_NAMES: [&'static str; Changes::N_KINDS] = [
        "NodeAdd",
        "NodeDelete",
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeDeclaredFeature",
        "AssignedPodAdd",
        "AssignedPodUpdate",
        "AssignedPodDelete",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "VolumeAttachmentDelete",
        "Workload",
        "Namespace",
        "PodDisruptionBudget",
        "PodGroupMember",
    ];

    /// Of either.
    #[must_use]
    pub const fn or(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// Whether they have a kind in common.
    #[must_use]
    pub const fn intersects(self, other: Changes) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is the empty set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds in it, each with its position.
    pub fn each(self) -> impl Iterator<Item = (usize, Changes)> {
        (0..Changes::N_KINDS)
            .map(|kind| (kind, Changes(1 << kind)))
            .filter(move |(_, kind)| self.intersects(*kind))
    }

    /// What a change of an object of this kind is.
    #[must_use]
    pub fn of_object(kind: ObjectKind) -> Changes {
        match kind {
            ObjectKind::Namespace => Changes::NAMESPACE,
            ObjectKind::PersistentVolume => Changes::VOLUME,
            ObjectKind::PersistentVolumeClaim => Changes::CLAIM,
            ObjectKind::StorageClass => Changes::STORAGE_CLASS,
            ObjectKind::CsiNode => Changes::CSI_NODE,
            ObjectKind::CsiDriver => Changes::CSI_DRIVER,
            ObjectKind::CsiStorageCapacity => Changes::CSI_STORAGE_CAPACITY,
            ObjectKind::VolumeAttachment => Changes::VOLUME_ATTACHMENT,
            ObjectKind::PodDisruptionBudget => Changes::DISRUPTION_BUDGET,
            ObjectKind::Service
            | ObjectKind::ReplicationController
            | ObjectKind::ReplicaSet
            | ObjectKind::StatefulSet => Changes::WORKLOAD,
        }
    }

    /// What can help a pod that this plugin rejected.
    #[must_use]
    pub fn helping(plugin: Plugin) -> Changes {
        const NODE: Changes = Changes::NODE_ADDED;
        match plugin {
            Plugin::NodeUnschedulable | Plugin::TaintToleration => NODE.or(Changes::NODE_TAINTS),
            Plugin::NodeName => NODE,
            Plugin::NodeAffinity => NODE.or(Changes::NODE_LABELS),
            Plugin::NodePorts => NODE.or(Changes::POD_DELETED),
            Plugin::NodeResourcesFit => {
                NODE.or(Changes::NODE_ALLOCATABLE).or(Changes::POD_DELETED).or(Changes::POD_UPDATED)
            }
            Plugin::VolumeRestrictions => NODE.or(Changes::POD_DELETED).or(Changes::CLAIM),
            Plugin::NodeVolumeLimits => NODE
                .or(Changes::CSI_NODE)
                .or(Changes::POD_DELETED)
                .or(Changes::CLAIM)
                .or(Changes::VOLUME_ATTACHMENT),
            Plugin::VolumeBinding => NODE
                .or(Changes::NODE_LABELS)
                .or(Changes::CLAIM)
                .or(Changes::VOLUME)
                .or(Changes::STORAGE_CLASS)
                .or(Changes::CSI_NODE)
                .or(Changes::CSI_DRIVER)
                .or(Changes::CSI_STORAGE_CAPACITY)
                .or(Changes::POD_DELETED),
            Plugin::VolumeZone => NODE
                .or(Changes::NODE_LABELS)
                .or(Changes::CLAIM)
                .or(Changes::VOLUME)
                .or(Changes::STORAGE_CLASS),
            Plugin::PodTopologySpread => NODE
                .or(Changes::NODE_REMOVED)
                .or(Changes::NODE_LABELS)
                .or(Changes::NODE_TAINTS)
                .or(Changes::POD_ASSIGNED)
                .or(Changes::POD_UPDATED)
                .or(Changes::POD_DELETED),
            Plugin::InterPodAffinity => NODE
                .or(Changes::NODE_LABELS)
                .or(Changes::POD_ASSIGNED)
                .or(Changes::POD_UPDATED)
                .or(Changes::POD_DELETED)
                .or(Changes::NAMESPACE),
            Plugin::NodeDeclaredFeatures => NODE.or(Changes::NODE_FEATURES),
            Plugin::DefaultPreemption => Changes::POD_DELETED.or(Changes::DISRUPTION_BUDGET),
            // They reject no pod of a node, or are not evaluated.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::DynamicResources
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder => Changes::ALL,
        }
    }

    /// What can help a pod that fits nowhere: what helps any of the plugins that rejected it somewhere.
    #[must_use]
    pub fn helping_rejected(unschedulable: &Unschedulable) -> Changes {
        if let Some((plugin, _, _)) = &unschedulable.pre_filter {
            return Changes::helping(*plugin).or(Changes::NODE_ADDED);
        }
        let reasons = unschedulable.reasons.iter();
        let wanted = reasons
            .map(|(reason, _)| rejecting_plugin(reason).map_or(Changes::ALL, Changes::helping))
            .fold(Changes::NONE, Changes::or);
        // Without a reason there was no node.
        if wanted.is_empty() { Changes::ALL } else { wanted }
    }
}

/// The plugins that had a part in rejecting a pod that fits nowhere.
#[must_use]
pub fn rejecting_plugins(unschedulable: &Unschedulable) -> Plugins {
    let pre_filter = unschedulable.pre_filter.iter().map(|(plugin, _, _)| *plugin);
    let filters = unschedulable.reasons.iter().filter_map(|(reason, _)| rejecting_plugin(reason));
    Plugins::of(pre_filter.chain(filters))
}

/// The plugin that gives this reason; the texts are kube-scheduler's and do not change within a version.
fn rejecting_plugin(reason: &str) -> Option<Plugin> {
    if reason.starts_with("Insufficient ") {
        return Some(Plugin::NodeResourcesFit);
    }
    let plugin = match reason {
        "Too many pods" => Plugin::NodeResourcesFit,
        "node(s) were unschedulable" => Plugin::NodeUnschedulable,
        "node(s) didn't match the requested node name" => Plugin::NodeName,
        "node(s) had untolerated taint(s)" => Plugin::TaintToleration,
        "node(s) didn't match scheduler-enforced node affinity"
        | "node(s) didn't match Pod's node affinity/selector"
        | "node(s) didn't satisfy plugin(s) [NodeAffinity]" => Plugin::NodeAffinity,
        "node(s) didn't have free ports for the requested pod ports" => Plugin::NodePorts,
        "node(s) had no available disk"
        | "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod" => {
            Plugin::VolumeRestrictions
        }
        "node(s) exceed max volume count" => Plugin::NodeVolumeLimits,
        "node(s) didn't match PersistentVolume's node affinity"
        | "node(s) didn't find available persistent volumes to bind"
        | "node(s) did not have enough free storage"
        | "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)" => {
            Plugin::VolumeBinding
        }
        "node(s) had no available volume zone" => Plugin::VolumeZone,
        "node(s) didn't match pod topology spread constraints (missing required label)"
        | "node(s) didn't match pod topology spread constraints" => Plugin::PodTopologySpread,
        "node(s) didn't match pod affinity rules"
        | "node(s) didn't match pod anti-affinity rules"
        | "node(s) didn't satisfy existing pods anti-affinity rules" => Plugin::InterPodAffinity,
        "node(s) didn't match Pod's required features" => Plugin::NodeDeclaredFeatures,
        _ => return None,
    };
    Some(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::StatusCode;

    fn rejected(reasons: &[&str]) -> Unschedulable {
        Unschedulable {
            message: String::new(),
            reasons: reasons.iter().map(|reason| ((*reason).to_owned(), 1)).collect(),
            pre_filter: None,
            n_nodes: 1,
        }
    }

    #[test]
    fn a_pod_waits_for_what_any_of_its_plugins_waits_for() {
        let wanted = Changes::helping_rejected(&rejected(&[
            "Insufficient nvidia.com/gpu",
            "node(s) had untolerated taint(s)",
        ]));
        for helps in [
            Changes::NODE_ADDED,
            Changes::POD_DELETED,
            Changes::NODE_ALLOCATABLE,
            Changes::NODE_TAINTS,
        ] {
            assert!(wanted.intersects(helps), "{helps:?}");
        }
        for idle in [Changes::NODE_LABELS, Changes::CLAIM, Changes::POD_ASSIGNED] {
            assert!(!wanted.intersects(idle), "{idle:?}");
        }
    }

    /// Every reason of the committed corpus that a filter gave is known for its plugin's.
    #[test]
    fn reasons_lead_to_the_plugin_that_gave_them() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance");
        let mut plugins = std::collections::BTreeSet::new();
        for file in std::fs::read_dir(directory).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    check_reasons(&serde_json::from_str(line).unwrap(), &mut plugins);
                }
            }
        }
        assert_eq!(plugins.len(), 13, "{plugins:?}");
    }

    fn check_reasons(
        value: &serde_json::Value,
        plugins: &mut std::collections::BTreeSet<&'static str>,
    ) {
        let given = value["plugin"].as_str().and_then(Plugin::from_name);
        for reason in value["reasons"].as_array().into_iter().flatten() {
            let reason = reason.as_str().unwrap();
            // Others refuse the pod as a whole, and name the plugin themselves.
            let is_of_node = ["node(s) ", "Insufficient ", "Too many "];
            if let Some(given) = given
                && is_of_node.iter().any(|start| reason.starts_with(start))
            {
                assert_eq!(rejecting_plugin(reason), Some(given), "{reason}");
                plugins.insert(given.name());
            }
        }
        match value {
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| check_reasons(item, plugins));
            }
            serde_json::Value::Object(fields) => {
                fields.values().for_each(|field| check_reasons(field, plugins));
            }
            _ => {}
        }
    }

    #[test]
    fn what_is_not_known_waits_for_anything() {
        assert_eq!(Changes::helping_rejected(&rejected(&["a new reason"])), Changes::ALL);
        assert_eq!(Changes::helping_rejected(&rejected(&[])), Changes::ALL);
    }

    #[test]
    fn a_pod_that_was_refused_as_a_whole_waits_for_the_plugin_that_did() {
        let code = StatusCode::UnschedulableAndUnresolvable;
        let pre_filter = Some((Plugin::VolumeBinding, code, Vec::new()));
        let wanted = Changes::helping_rejected(&Unschedulable { pre_filter, ..rejected(&[]) });
        assert!(wanted.intersects(Changes::CLAIM));
        assert!(!wanted.intersects(Changes::NODE_TAINTS));
    }
}
