//! Comparison: what a plugin compared for one node, as plain data.

use std::sync::Arc;

use crate::model::PodKey;
use crate::plugin::Plugin;

/// One thing that a plugin compared: what the pod asks for beside what the node has.
///
/// [`Comparison::kind`], [`Comparison::subject`] and [`Comparison::found`] make it into text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The plugin.
    pub plugin: Plugin,
    /// Whether the node has what the pod asks for.
    pub is_met: bool,
    /// The two sides of the comparison.
    pub compared: Compared,
}

/// The two sides of a comparison: the request of the pod and the state of the node. Amounts: cpu in milli-units, everything else in whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The pod's request for a resource; for `pods` the pod itself.
    Resource {
        /// Name of the resource.
        resource: Arc<str>,
        /// The pod's request.
        asked: i64,
        /// The allocatable amount less the requests of the node's pods; negative where these exceed it.
        free: i64,
        /// The node's allocatable amount.
        allocatable: i64,
        /// The pods that request most of it, largest first; at most three.
        holders: Vec<ResourceHolder>,
        /// Number of pods that request any of it.
        n_holders: u32,
    },
    /// A host port of the pod.
    HostPort {
        /// The port.
        port: i32,
        /// The protocol, such as `TCP`.
        protocol: Arc<str>,
        /// The address; `0.0.0.0` means all.
        ip: Arc<str>,
        /// The pods of the node that hold the port; at most three.
        holders: Vec<PodKey>,
    },
    /// A `NoSchedule` or `NoExecute` taint of the node.
    Taint {
        /// The taint's key.
        key: Arc<str>,
        /// The taint's value.
        value: Arc<str>,
        /// `NoSchedule` or `NoExecute`.
        effect: &'static str,
    },
    /// Whether the node is cordoned.
    Cordon,
    /// Whether the node is under a fence of the ledger.
    Fence,
    /// The nodes that the pod names; the field that names them is given by the plugin.
    NodeName {
        /// Names of nodes, sorted; at most three.
        asked: Vec<Arc<str>>,
    },
    /// A requirement on the node's labels.
    Label {
        /// Where the requirement stands.
        source: LabelSource,
        /// The label's key.
        key: Arc<str>,
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: &'static str,
        /// The values in text order.
        values: Vec<Arc<str>>,
        /// The value on the node; `None` where it lacks the label.
        found: Option<Arc<str>>,
    },
    /// A requirement on the node's fields, of which nodes have only `metadata.name`.
    Field {
        /// Where the requirement stands.
        source: LabelSource,
        /// `In` or `NotIn`.
        operator: &'static str,
        /// The value; `None` for a field that nodes do not have.
        value: Option<Arc<str>>,
    },
    /// A node affinity without any term that is valid and not empty: it matches no node.
    NoTerm {
        /// Where the affinity stands; a position means nothing.
        source: LabelSource,
    },
    /// A topology spread constraint with `DoNotSchedule`.
    Spread {
        /// The constraint, and the counts of all its domains.
        constraint: Arc<SpreadAccount>,
        /// The node's domain; `None` where it lacks the label.
        domain: Option<Arc<str>>,
        /// Number of matching pods in the domain.
        n_pods: i64,
        /// The skew with the pod on the node.
        skew: i64,
    },
    /// A term of required pod affinity.
    Affinity {
        /// Position in the list of required terms.
        term: usize,
        /// The term's topology key.
        topology_key: Arc<str>,
        /// The term's selector as text.
        selector: Arc<str>,
        /// The node's domain; `None` where it lacks the label.
        domain: Option<Arc<str>>,
        /// Number of pods in the domain that match every required term.
        n_pods: i64,
        /// Number of such pods in all domains.
        n_anywhere: i64,
    },
    /// A term of required pod anti-affinity.
    AntiAffinity {
        /// Position in the list of required terms.
        term: usize,
        /// The term's topology key.
        topology_key: Arc<str>,
        /// The term's selector as text.
        selector: Arc<str>,
        /// The node's domain; `None` where it lacks the label.
        domain: Option<Arc<str>>,
        /// Number of matching pods in the domain.
        n_pods: i64,
        /// The first of these pods by name; at most three.
        pods: Vec<PodKey>,
    },
    /// Required anti-affinity of other pods that matches this pod.
    ExistingAntiAffinity {
        /// The terms' topology key.
        topology_key: Arc<str>,
        /// The node's domain; `None` where it lacks the label.
        domain: Option<Arc<str>>,
        /// Number of such terms of pods in the domain.
        n_terms: i64,
        /// The first of their owners by name; at most three.
        pods: Vec<PodKey>,
    },
    /// A disk in the pod's spec that others must not use at the same time.
    Disk {
        /// The disk.
        disk: Arc<str>,
        /// The pods of the node that use it; at most three.
        pods: Vec<PodKey>,
    },
    /// A claim with the access mode `ReadWriteOncePod`.
    ExclusiveClaim {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
        /// The pods that use it, on any node; at most three.
        pods: Vec<PodKey>,
    },
    /// A driver that no pod may do without on its node.
    NeededDriver {
        /// The CSI driver.
        driver: Arc<str>,
    },
    /// The number of volumes that a driver can attach to the node.
    VolumeLimit {
        /// The CSI driver.
        driver: Arc<str>,
        /// Number of volumes that the pod adds.
        asked: i64,
        /// Number of volumes in use on the node.
        in_use: i64,
        /// The largest number; `None` where the node reports none.
        limit: Option<i64>,
        /// The pods with most of these volumes, largest first; at most three.
        holders: Vec<ResourceHolder>,
    },
    /// A claim of the pod whose number of volumes cannot be looked up.
    UnknownClaim {
        /// kube-scheduler's text.
        why: Arc<str>,
    },
    /// A claim of the pod, bound or to be bound.
    Claim {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
        /// Its storage class; empty where it has none.
        class: Arc<str>,
        /// Whether the claim has a volume that the node can use, or could get one there.
        standing: ClaimStanding,
    },
    /// A label of a claim's volume that names zones or regions.
    VolumeZone {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
        /// The label's key.
        key: Arc<str>,
        /// The volume's zones or regions, in text order.
        values: Vec<Arc<str>>,
        /// The value on the node; `None` where it lacks the label.
        found: Option<Arc<str>>,
    },
    /// Devices for a request of a claim.
    Devices(Box<DeviceAccount>),
    /// A constraint across devices of a claim, beside the devices that each request could take.
    DeviceConstraint {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
        /// The constraint, for example `matchAttribute numa`.
        constraint: Arc<str>,
        /// Number of devices that the constraint is about.
        asked: i64,
        /// The most devices that could satisfy it.
        found: i64,
    },
    /// All requests together, where each of them could be satisfied.
    DevicesTogether,
    /// A pool of devices that the node sees, whose slices contradict each other.
    InvalidDevicePool {
        /// The driver.
        driver: Arc<str>,
        /// The pool's name.
        pool: Arc<str>,
    },
    /// A claim of the pod that is allocated already.
    AllocatedClaim {
        /// Name of the claim, in the pod's namespace.
        claim: Arc<str>,
        /// The nodes that can use its devices, as requirements on labels; empty if that is not it.
        needs: Arc<str>,
    },
    /// The claim for extended resources that an earlier attempt left.
    LeftoverClaim,
    /// An extended resource that neither the node nor a class of devices provides.
    NoDeviceClass {
        /// Name of the resource.
        resource: Arc<str>,
    },
    /// A feature that the pod's spec needs and nodes declare.
    Feature {
        /// Name of the feature.
        name: &'static str,
    },
    /// The filters pass, but not beside the pods that are nominated to the node.
    Nominated {
        /// These pods by name; at most three.
        pods: Vec<PodKey>,
    },
}

/// The largest number of pods, nodes or domains that a comparison lists.
pub(crate) const N_LISTED: usize = 3;
/// The largest number of domains that a spread constraint lists.
pub(crate) const N_DOMAINS: usize = 20;

/// A pod and how much of a resource it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHolder {
    /// The pod.
    pub pod: PodKey,
    /// The amount: cpu in milli-units, everything else in whole units.
    pub amount: i64,
}

/// Where a requirement on labels stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// `spec.nodeSelector`
    NodeSelector,
    /// Required node affinity, whose terms are alternatives.
    NodeAffinity {
        /// Position of the term among those that are valid and not empty.
        term: usize,
        /// Number of such terms.
        n_terms: usize,
    },
    /// The affinity that the profile adds to every pod.
    AddedAffinity,
}

/// A spread constraint with the counts of its domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadAccount {
    /// Position in `spec.topologySpreadConstraints`; `None` for a default constraint of the profile.
    pub constraint: Option<usize>,
    /// The topology key.
    pub topology_key: Arc<str>,
    /// `maxSkew`
    pub max_skew: i64,
    /// `minDomains`; 1 where it is not set.
    pub min_domains: i64,
    /// The count from which skews are measured: the smallest, or 0 where there are fewer domains than `min_domains`.
    pub minimum: i64,
    /// Whether the pod matches the constraint's own selector, and so counts itself.
    pub counts_itself: bool,
    /// Number of domains with nodes that count.
    pub n_domains: usize,
    /// The domains with the fewest matching pods, and their number; at most 20.
    pub domains: Vec<(Arc<str>, i64)>,
}

/// Whether a claim has a volume that a node can use, or could get one there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimStanding {
    /// The claim's volume can be used on the node.
    Reachable {
        /// The volume.
        volume: Arc<str>,
    },
    /// The claim's volume cannot be used on the node.
    OutOfReach {
        /// The volume.
        volume: Arc<str>,
        /// The nodes that can use it, as requirements on labels; terms are joined by ` or `.
        needs: Arc<str>,
    },
    /// The claim's volume does not exist.
    MissingVolume {
        /// The volume.
        volume: Arc<str>,
    },
    /// A volume is being provisioned for another node.
    SelectedElsewhere {
        /// That node.
        node: Arc<str>,
    },
    /// An existing volume would be bound.
    WouldBind {
        /// The volume.
        volume: Arc<str>,
    },
    /// The class's provisioner would make a volume.
    WouldProvision,
    /// No existing volume suits, and the class has no provisioner.
    NoVolume,
    /// No existing volume suits, and the class provisions elsewhere only.
    NotAllowed {
        /// Where the class provisions, as requirements on labels; terms are joined by ` or `.
        needs: Arc<str>,
    },
    /// No existing volume suits, and the node's storage has too little left to provision.
    NoCapacity {
        /// The claim's request in bytes.
        asked: i64,
    },
}

/// The reasons for the verdict on one node, in numbers and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAccount {
    /// The unmet comparisons of the plugin that refuses the node, in the order in which it checks; empty for a feasible
    /// node.
    pub shortfalls: Vec<Comparison>,
    /// Whether this plugin's refusal is the only thing in the pod's way: every other filter passes.
    pub is_sole: bool,
    /// Everything that every filter compared, in the filters' order; only for nodes that were asked about in detail.
    pub checks: Vec<Comparison>,
    /// How each score came about, in the order of the verdict's scores; only for nodes that were asked about in detail.
    pub scores: Vec<ScoreAccount>,
}

/// How one plugin's score of a node came about: `weighted` is `normalized` times `weight`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreAccount {
    /// The plugin.
    pub plugin: Plugin,
    /// The score from 0 to 100, normalized over the feasible nodes.
    pub normalized: i64,
    /// The plugin's weight.
    pub weight: i64,
    /// The facts of pod and node that the raw score was computed from, a line each.
    pub basis: Vec<String>,
}

/// The devices of a node for one request, or for one alternative of it. Each number counts devices among those of the
/// number before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAccount {
    /// Name of the claim, in the pod's namespace; empty for the claim that stands for extended resources.
    pub claim: Arc<str>,
    /// `REQUEST` or `REQUEST/SUBREQUEST`.
    pub request: Arc<str>,
    /// The class of devices.
    pub class: Arc<str>,
    /// Number of devices that are needed; `None` means all that the node has.
    pub asked: Option<i64>,
    /// Devices that the node sees.
    pub n_seen: i64,
    /// Devices that the class selects.
    pub n_of_class: i64,
    /// Devices that the request selects.
    pub n_selected: i64,
    /// Devices with the capacity that is asked for, if nobody else used them.
    pub n_with_capacity: i64,
    /// Devices whose taints are tolerated.
    pub n_tolerated: i64,
    /// Devices whose pool has enough of its shared counters left.
    pub n_drawable: i64,
    /// Devices that are free, or have enough left for a further share.
    pub n_left: i64,
    /// The request's selector that refuses most devices of the class, if any refuses one.
    pub selector: Option<Arc<str>>,
    /// The first devices that others hold; at most three.
    pub holders: Vec<DeviceHolder>,
}

/// A device and the claim that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHolder {
    /// Name of the device, in its pool.
    pub device: Arc<str>,
    /// `NAMESPACE/NAME` of the claim.
    pub claim: Arc<str>,
}
