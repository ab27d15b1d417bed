//! Prepared: facts of a request that filters and scores need, computed once before the shards are visited.

pub(crate) mod devices;
pub(crate) mod volumes;

use smallvec::SmallVec;

use crate::census::Census;
use crate::census::demand::Demand;
use crate::devices::counted::count;
use crate::kernel::Kernels;
use crate::model::Pod;
use crate::model::intern::{Interner, Symbol};
use crate::model::resources::{Resource, is_extended_name};
use crate::model::selector::{NodePreferences, NodeSelector};
use crate::model::shape::ShapeFacts;
use crate::policy::Policy;
use crate::snapshot::Snapshot;
use crate::snapshot::devices::pool::Viewer;
use crate::snapshot::shard::Shard;
use devices::PreparedDevices;
use volumes::PreparedVolumes;

/// A request prepared for a snapshot.
pub(crate) struct Prepared<'a> {
    pub(crate) kernels: Kernels,
    snapshot: &'a Snapshot,
    pod: &'a Pod,
    policy: &'a Policy,
    node_name: Option<Symbol>,
    added_required: Option<NodeSelector>,
    added_preferred: Option<NodePreferences>,
    fit_resources: SmallVec<[(Resource, i64); 4]>,
    balance_resources: SmallVec<[Resource; 4]>,
    volumes: PreparedVolumes<'a>,
    devices: PreparedDevices<'a>,
    /// Requested resources that a class of devices provides where a node has none of its own (S-FIT-12).
    from_devices: SmallVec<[Symbol; 0]>,
    demand: Demand,
    census: Census,
    texts: Interner,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        (pod, policy): (&'a Pod, &'a Policy),
        now: Option<i64>,
        kernels: Kernels,
    ) -> Prepared<'a> {
        let names = snapshot.model.names();
        let spec = policy.spec();
        let added = spec.node_affinity.added_affinity.as_ref();
        let added_required = added
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|selector| NodeSelector::compile(selector, names));
        let added_preferred = added
            .map(|a| &a.preferred_during_scheduling_ignored_during_execution)
            .filter(|terms| !terms.is_empty())
            .and_then(|terms| NodePreferences::compile(terms, names).ok());
        let fit_resources = spec.node_resources_fit.scoring.resources().iter();
        let balance_resources = spec.balanced_allocation.resources.iter();
        Prepared {
            kernels,
            snapshot,
            pod,
            policy,
            // An unknown name is not the name of any node.
            node_name: pod.node_name().map(|name| names.get(name).unwrap_or(Symbol::EMPTY)),
            added_required,
            added_preferred,
            volumes: PreparedVolumes::new(snapshot, pod, policy),
            devices: PreparedDevices::new(snapshot, pod, policy, now),
            from_devices: from_devices(snapshot, pod),
            demand: Demand::of(pod, policy, snapshot),
            census: Census::default(),
            texts: names.lending(),
            fit_resources: fit_resources
                .filter_map(|r| Some((Resource::from_name(&r.name, names)?, r.weight)))
                .collect(),
            balance_resources: balance_resources
                .filter_map(|name| Resource::from_name(name, names))
                .collect(),
        }
    }

    pub(crate) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub(crate) fn pod(&self) -> &'a Pod {
        self.pod
    }

    pub(crate) fn shape(&self) -> &'a ShapeFacts {
        &self.pod.shape().facts
    }

    pub(crate) fn policy(&self) -> &'a Policy {
        self.policy
    }

    pub(crate) fn names(&self) -> &'a Interner {
        self.snapshot.model.names()
    }

    /// The symbol of a text for a reason, which is forgotten with this request.
    pub(crate) fn text(&self, text: &str) -> Symbol {
        self.texts.intern(text)
    }

    /// Number of nodes of the snapshot.
    pub(crate) fn n_nodes(&self) -> usize {
        self.snapshot.n_nodes()
    }

    /// The node names to which required node affinity narrows the search, sorted; an empty list means that the terms
    /// conflict (S-NAF-2).
    pub(crate) fn named_nodes(&self) -> Option<&'a [Symbol]> {
        self.shape().required_affinity.as_ref()?.names.as_deref()
    }

    /// The counts of other pods that the pod needs.
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The counts, after [`Prepared::count`].
    pub(crate) fn census(&self) -> &Census {
        &self.census
    }

    /// Counts what the demand needs, starting from the counts of an earlier attempt; does nothing if it is counted
    /// already. `remembered` is empty until [`Prepared::give_back`].
    pub(crate) fn count(&mut self, remembered: &mut Census) {
        if !self.demand.is_empty() && !self.census.is_taken() {
            self.census = std::mem::take(remembered);
            self.census.advance(&self.demand, self.snapshot, &self.pod.shape().facts, self.kernels);
        }
    }

    /// Returns the counts to `remembered`, for later attempts.
    pub(crate) fn give_back(&mut self, remembered: &mut Census) {
        if self.census.is_taken() {
            debug_assert!(
                !remembered.is_taken(),
                "counts are given back once, where they were taken"
            );
            *remembered = std::mem::take(&mut self.census);
        }
    }

    /// The pod's volumes, looked up in the cluster.
    pub(crate) fn volumes(&self) -> &PreparedVolumes<'a> {
        &self.volumes
    }

    /// The pod's claims for devices, looked up in the cluster.
    pub(crate) fn devices(&self) -> &PreparedDevices<'a> {
        &self.devices
    }

    /// Whether a class of devices provides a resource where a node has none of its own (S-FIT-12).
    pub(crate) fn comes_from_devices(&self, resource: Symbol) -> bool {
        self.from_devices.contains(&resource)
    }

    /// The devices that stand for a resource of which a node has none, and those of them in use; `None` where there are
    /// none (S-DRA-108).
    pub(crate) fn counted_devices(
        &self,
        shard: &Shard,
        row: usize,
        resource: Resource,
    ) -> Option<(i64, i64)> {
        let Resource::Scalar(name) = resource else { return None };
        let devices = &self.snapshot.devices;
        let class = devices.provider_of(&self.names().name(name))?;
        let node = shard.nodes.node(row)?.facts().symbol;
        let (n, n_held) = count(devices, class, Viewer { shard, row, node, names: self.names() });
        (n > 0).then_some((n, n_held))
    }

    /// Version of the devices that filters by row read and that do not belong to one node; 0 where they read none.
    pub(crate) fn devices_version(&self) -> u64 {
        let reads = self.devices.found().is_some() || self.shape().extended.is_some();
        if reads { self.snapshot.devices.shared_version() } else { 0 }
    }

    /// `spec.nodeName`.
    pub(crate) fn node_name(&self) -> Option<Symbol> {
        self.node_name
    }

    /// The required part of the policy's added affinity (S-NAF-3).
    pub(crate) fn added_required(&self) -> Option<&NodeSelector> {
        self.added_required.as_ref()
    }

    /// Preferred terms: the policy's first, then the pod's (S-NA-2).
    pub(crate) fn preferences(&self) -> impl Iterator<Item = &NodePreferences> {
        self.added_preferred.iter().chain(&self.shape().preferred_affinity)
    }

    /// Tracked resources of NodeResourcesFit's score with their weights, in configured order.
    pub(crate) fn fit_resources(&self) -> &[(Resource, i64)] {
        &self.fit_resources
    }

    /// Tracked resources of NodeResourcesBalancedAllocation, in configured order.
    pub(crate) fn balance_resources(&self) -> &[Resource] {
        &self.balance_resources
    }

    /// Whether the policy leaves an extended resource out of the fit (S-FIT-11).
    pub(crate) fn is_ignored(&self, name: Symbol) -> bool {
        let args = &self.policy.spec().node_resources_fit;
        if args.ignored_resources.is_empty() && args.ignored_resource_groups.is_empty() {
            return false;
        }
        is_ignored(&self.names().name(name), &args.ignored_resources, &args.ignored_resource_groups)
    }
}

/// The resources that a pod requests and a class of devices provides.
fn from_devices(snapshot: &Snapshot, pod: &Pod) -> SmallVec<[Symbol; 0]> {
    let Some(extended) = &pod.shape().facts.extended else { return SmallVec::new() };
    let provided =
        extended.names.iter().filter(|(name, _)| snapshot.devices.provider_of(name).is_some());
    provided.map(|(_, symbol)| *symbol).collect()
}

/// Whether an extended resource is left out by its name or by the group before `/` (S-FIT-11).
fn is_ignored(name: &str, resources: &[String], groups: &[String]) -> bool {
    is_extended_name(name)
        && (resources.iter().any(|ignored| ignored == name)
            || name
                .split_once('/')
                .is_some_and(|(group, _)| groups.iter().any(|ignored| ignored == group)))
}
