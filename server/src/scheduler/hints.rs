//! Hints: which changes of a cluster can help a pod that was rejected. Other changes do not wake it.
//! Rule: S-Q-10. One line per plugin; the plugins are those that the engine's refusals name.

use berth_engine::{ObjectKind, Plugin, Unschedulable};

use super::plugin_set::PluginSet;

/// A set of kinds of change.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Changes(u32);

macro_rules! changes {
    ($($(#[doc = $doc:literal])+ $name:ident = $bit:literal, $event:literal;)+) => {
        impl Changes {
            $($(#[doc = $doc])+ pub const $name: Changes = Changes(1 << $bit);)+
            /// All kinds.
            pub const ALL: Changes = Changes($(1 << $bit)|+);
            /// Number of kinds.
            pub const N_KINDS: usize = [$($bit),+].len();
            /// kube-scheduler's name for an event of each kind, by position; the object's name if kube-scheduler
            /// distinguishes more kinds.
            pub const EVENT_NAMES: [&'static str; Changes::N_KINDS] = [$($event),+];
        }
    };
}

changes! {
    /// A node was added.
    NODE_ADDED = 0, "NodeAdd";
    /// A node was removed, and with it perhaps a domain to spread over.
    NODE_REMOVED = 1, "NodeDelete";
    /// A node's allocatable resources changed.
    NODE_ALLOCATABLE = 2, "NodeUpdateNodeAllocatable";
    /// A node's labels changed.
    NODE_LABELS = 3, "NodeUpdateNodeLabel";
    /// A node's taints changed, or whether it is cordoned.
    NODE_TAINTS = 4, "NodeUpdateNodeTaint";
    /// A node's declared features changed.
    NODE_FEATURES = 5, "NodeUpdateNodeDeclaredFeature";
    /// A pod was assigned to a node.
    POD_ASSIGNED = 6, "AssignedPodAdd";
    /// The labels or requests of a pod on a node changed.
    POD_UPDATED = 7, "AssignedPodUpdate";
    /// A pod left its node.
    POD_DELETED = 8, "AssignedPodDelete";
    /// A claim changed.
    CLAIM = 9, "PersistentVolumeClaim";
    /// A persistent volume changed.
    VOLUME = 10, "PersistentVolume";
    /// A storage class changed.
    STORAGE_CLASS = 11, "StorageClass";
    /// A CSINode changed: a driver's facts about a node.
    CSI_NODE = 12, "CSINode";
    /// A CSIDriver changed.
    CSI_DRIVER = 13, "CSIDriver";
    /// A CSIStorageCapacity changed: how much a driver can provision where.
    CSI_STORAGE_CAPACITY = 14, "CSIStorageCapacity";
    /// An attachment ended.
    VOLUME_ATTACHMENT = 15, "VolumeAttachmentDelete";
    /// A service or a controller of pods changed, by which default spread constraints select. It does not wake pods
    /// that are known to wait for something else, as in kube-scheduler.
    WORKLOAD = 16, "Workload";
    /// A namespace's labels changed.
    NAMESPACE = 17, "Namespace";
    /// A disruption budget allows more.
    DISRUPTION_BUDGET = 18, "PodDisruptionBudget";
    /// Another pod of the group was added.
    GROUP_MEMBER = 19, "PodGroupMember";
    /// A class of devices changed.
    DEVICE_CLASS = 20, "DeviceClass";
    /// A slice of devices changed.
    RESOURCE_SLICE = 21, "ResourceSlice";
    /// A claim for devices changed. For a pod that DynamicResources rejected it counts only if it helps, see
    /// [`Changes::has_claim_hint`].
    RESOURCE_CLAIM = 22, "ResourceClaim";
}

macro_rules! of_object {
    ($($kind:ident($message:ty) { upsert: $upsert:ident, wakes: $wakes:ident, $($rest:tt)* })+) => {
        impl Changes {
            /// Returns the event of a changed object of this kind.
            #[must_use]
            pub fn of_object(kind: ObjectKind) -> Changes {
                match kind { $(ObjectKind::$kind => Changes::$wakes,)+ }
            }
        }
    };
}

berth_engine::object_kinds!(of_object);

impl Changes {
    /// No kind.
    pub const NONE: Changes = Changes(0);
    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: Changes) -> Changes {
        Changes(self.0 | other.0)
    }

    /// Whether the sets have a kind in common.
    #[must_use]
    pub const fn intersects(self, other: Changes) -> bool {
        self.0 & other.0 != 0
    }

    /// The set without the kinds of the other.
    #[must_use]
    pub const fn without(self, other: Changes) -> Changes {
        Changes(self.0 & !other.0)
    }

    /// Whether a pod that waits for these changes is woken by those changes of claims for devices alone that help it
    /// (S-DRA-126): DynamicResources rejected it. A pod that waits for any change is woken by all of them.
    #[must_use]
    pub const fn has_claim_hint(self) -> bool {
        self.intersects(Changes::RESOURCE_CLAIM) && self.0 != Changes::ALL.0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds in the set, each with its position.
    pub fn each(self) -> impl Iterator<Item = (usize, Changes)> {
        (0..Changes::N_KINDS)
            .map(|kind| (kind, Changes(1 << kind)))
            .filter(move |(_, kind)| self.intersects(*kind))
    }

    /// Changes that can help a pod that this plugin rejected.
    #[must_use]
    pub fn helping(plugin: Plugin) -> Changes {
        const NODE: Changes = Changes::NODE_ADDED;
        match plugin {
            Plugin::NodeUnschedulable | Plugin::TaintToleration => NODE.or(Changes::NODE_TAINTS),
            Plugin::NodeName => NODE,
            Plugin::NodeAffinity => NODE.or(Changes::NODE_LABELS),
            Plugin::NodePorts => NODE.or(Changes::POD_DELETED),
            Plugin::NodeResourcesFit => NODE
                .or(Changes::NODE_ALLOCATABLE)
                .or(Changes::POD_DELETED)
                .or(Changes::POD_UPDATED)
                .or(Changes::DEVICE_CLASS),
            Plugin::VolumeRestrictions => NODE.or(Changes::POD_DELETED).or(Changes::CLAIM),
            // Any change of a CSINode, while kube-scheduler looks whether a limit rises (S-137-29): a driver that comes
            // without a limit helps too.
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
            // S-DRA-125, S-DRA-126
            Plugin::DynamicResources => NODE
                .or(Changes::NODE_LABELS)
                .or(Changes::NODE_ALLOCATABLE)
                .or(Changes::DEVICE_CLASS)
                .or(Changes::RESOURCE_SLICE)
                .or(Changes::RESOURCE_CLAIM),
            Plugin::NodeDeclaredFeatures => NODE.or(Changes::NODE_FEATURES),
            Plugin::DefaultPreemption => Changes::POD_DELETED.or(Changes::DISRUPTION_BUDGET),
            // These reject no pod on a node, or are not evaluated.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder => Changes::ALL,
        }
    }

    /// Changes that can help a pod that fits nowhere: those that help any of the plugins that rejected it somewhere.
    #[must_use]
    pub fn helping_rejected(unschedulable: &Unschedulable) -> Changes {
        if let Some((plugin, _, _)) = &unschedulable.pre_filter {
            return Changes::helping(*plugin).or(Changes::NODE_ADDED);
        }
        let plugins = unschedulable.reasons.iter().map(|reason| reason.plugin);
        let wanted = plugins.map(Changes::helping).fold(Changes::NONE, Changes::or);
        // Without a reason there was no node.
        if wanted.is_empty() { Changes::ALL } else { wanted }
    }
}

/// The plugins that helped to reject a pod that fits nowhere.
#[must_use]
pub fn rejecting_plugins(unschedulable: &Unschedulable) -> PluginSet {
    let pre_filter = unschedulable.pre_filter.iter().map(|(plugin, _, _)| *plugin);
    let filters = unschedulable.reasons.iter().map(|reason| reason.plugin);
    PluginSet::of(pre_filter.chain(filters))
}

#[cfg(test)]
mod tests {
    use berth_engine::{
        Cluster, CountedReason, Delta, Outcome, PlaceRequest, Policy, PolicySpec, StatusCode,
        TieBreak,
    };
    use serde_json::{Value, json};

    use super::*;

    fn rejected(plugins: &[Plugin]) -> Unschedulable {
        let reason =
            |plugin: &Plugin| CountedReason { plugin: *plugin, text: String::new(), n_nodes: 1 };
        Unschedulable {
            message: String::new(),
            reasons: plugins.iter().map(reason).collect(),
            pre_filter: None,
            n_nodes: 1,
        }
    }

    #[test]
    fn a_pod_waits_for_what_any_of_its_plugins_waits_for() {
        let wanted = Changes::helping_rejected(&rejected(&[
            Plugin::NodeResourcesFit,
            Plugin::TaintToleration,
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

    /// Rejection of a pod by two nodes, one full and one tainted.
    fn attempt(spec: &Value, policy: PolicySpec) -> Unschedulable {
        let cluster = Cluster::new();
        let node = |name: &str, cpu: &str, taints: Value| {
            let node = json!({
                "metadata": {"name": name},
                "spec": {"taints": taints},
                "status": {"allocatable": {"cpu": cpu, "pods": "9"}},
            });
            let node = serde_json::from_value(node).expect("a node");
            Delta::UpsertNode(cluster.compile_node(&node).expect("compiles"))
        };
        let taint = json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
        cluster.apply(vec![node("full", "1", json!([])), node("tainted", "8", taint)]);
        let pod = json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec});
        let pod = cluster.compile_pod(&serde_json::from_value(pod).expect("a pod"));
        let (pod, policy) = (pod.expect("compiles"), Policy::new(policy).expect("a policy"));
        let tie_break = TieBreak::Lexicographic;
        let decision =
            cluster.place(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None });
        match decision.expect("a decision").outcome {
            Outcome::Unschedulable(unschedulable) => unschedulable,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_plugins_are_those_that_the_engine_names() {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "2"}}});
        let refusal = attempt(&json!({"containers": [container]}), PolicySpec::default());
        let both = PluginSet::of([Plugin::NodeResourcesFit, Plugin::TaintToleration]);
        assert_eq!(rejecting_plugins(&refusal), both);
        assert!(Changes::helping_rejected(&refusal).intersects(Changes::NODE_TAINTS));
    }

    /// S-VLL-2: the text names the claim, but the plugin is NodeVolumeLimits all the same.
    #[test]
    fn a_claim_that_is_not_found_is_waited_for() {
        let spec = json!({
            "containers": [],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}],
        });
        let limits = vec![Plugin::NodeVolumeLimits];
        let at_nodes =
            PolicySpec { pre_filter: Vec::new(), filter: limits.clone(), ..PolicySpec::default() };
        let refusal = attempt(&spec, at_nodes);
        assert!(refusal.reasons[0].text.starts_with("looking up PVC default/none"), "{refusal:?}");
        assert_eq!(rejecting_plugins(&refusal), PluginSet::of(limits));
        let wanted = Changes::helping_rejected(&refusal);
        assert_eq!(wanted, Changes::helping(Plugin::NodeVolumeLimits));
        assert!(wanted.intersects(Changes::CLAIM) && !wanted.intersects(Changes::NODE_TAINTS));
        let as_a_whole = attempt(&spec, PolicySpec::default());
        assert_eq!(rejecting_plugins(&as_a_whole), PluginSet::of([Plugin::VolumeRestrictions]));
        assert!(Changes::helping_rejected(&as_a_whole).intersects(Changes::CLAIM));
    }

    /// S-DRA-125, S-DRA-126
    #[test]
    fn devices_are_waited_for() {
        let wanted = Changes::helping(Plugin::DynamicResources);
        let helping = [
            Changes::NODE_ADDED,
            Changes::NODE_LABELS,
            Changes::NODE_ALLOCATABLE,
            Changes::DEVICE_CLASS,
            Changes::RESOURCE_SLICE,
            Changes::RESOURCE_CLAIM,
        ];
        assert_eq!(wanted, helping.into_iter().fold(Changes::NONE, Changes::or));
        assert!(wanted.has_claim_hint() && wanted.or(Changes::POD_DELETED).has_claim_hint());
        assert!(!Changes::ALL.has_claim_hint(), "any change of a claim counts");
        assert!(!wanted.without(Changes::RESOURCE_CLAIM).has_claim_hint());
    }

    #[test]
    fn a_pod_without_a_node_waits_for_anything() {
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
