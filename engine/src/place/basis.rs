//! Basis: the state that a placement depends on. Committing the placement is sound as long as that state is unchanged.

use std::fmt;

use rustc_hash::FxHashSet;

use crate::model::Pod;
use crate::plan::Plan;
use crate::rows::{NodeRow, ROWS};
use crate::snapshot::Snapshot;
use crate::snapshot::allowance::allowances_differ;

/// The state that a placement depends on: its row, the terms that pods own, nominations, namespaces, services and
/// controllers, and further state that its filters read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    row: Option<NodeRow>,
    /// Whether terms that pods own count, since every pod must respect those that match it.
    terms: bool,
    /// Whether claims and volumes count, which other pods can take.
    storage: bool,
    /// Whether devices count that several nodes see.
    devices: bool,
    /// Whether pods on other nodes count.
    others: bool,
    /// Whether disruption budgets count.
    budgets: bool,
    /// Whether any supposition invalidates the decision, as for a search of every node.
    whole: bool,
}

/// A part of a placement's basis.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The node.
    Node,
    /// The pod: it was deleted, or another one has its name.
    Pod,
    /// The pods on the node.
    Pods,
    /// The affinity terms that pods own: a new one might keep the pod away (S-IPA-7).
    Terms,
    /// Volumes and claims.
    Storage,
    /// Devices and claims for them.
    Devices,
    /// Other nodes and the pods on them.
    OtherNodes,
    /// Namespaces, services and controllers.
    Objects,
    /// Nominations of pods (S-NOM-4).
    Nominations,
    /// Disruption budgets.
    Budgets,
}

impl fmt::Display for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ground::Node => "the node",
            Ground::Pod => "the pod itself",
            Ground::Pods => "the pods on the node",
            Ground::Terms => "the affinity terms of other pods",
            Ground::Storage => "volumes or claims",
            Ground::Devices => "devices or claims for them",
            Ground::OtherNodes => "other nodes or the pods on them",
            Ground::Objects => "namespaces, services or controllers",
            Ground::Nominations => "nominations of other pods",
            Ground::Budgets => "disruption budgets",
        })
    }
}

impl Basis {
    /// The basis for clearing a nomination because no eviction helps the pod.
    pub(crate) const WHOLE: Basis = Basis {
        row: None,
        terms: false,
        storage: false,
        devices: false,
        others: false,
        budgets: false,
        whole: true,
    };

    /// The basis of a placement on a row.
    pub(crate) fn of(plan: &Plan<'_>, row: NodeRow) -> Basis {
        Basis {
            row: Some(row),
            terms: true,
            storage: plan.volumes().storage_version().is_some(),
            devices: plan.devices().found().is_some(),
            others: plan.demand().filters(),
            budgets: false,
            whole: false,
        }
    }

    /// The basis of a nomination without its attempt: everything that the pod's filters may have read.
    pub(crate) fn of_nomination(pod: &Pod, row: Option<NodeRow>) -> Basis {
        let shape = &pod.shape().facts;
        let others = shape.pod_affinity.is_some() || !shape.spread.list.is_empty();
        let storage = pod.volumes().is_some();
        let devices = pod.facts().device_claims.is_some() || shape.extended.is_some();
        Basis { row, terms: true, storage, devices, others, budgets: true, whole: false }
    }

    /// This basis for a decision that evicts pods.
    pub(crate) fn evicting(self) -> Basis {
        Basis { budgets: true, ..self }
    }

    /// The part of the basis that changed between two points of one history, if any.
    pub(crate) fn changed(&self, then: &Snapshot, now: &Snapshot) -> Option<Ground> {
        if let Some(row) = self.row
            && version_of(then, row) != version_of(now, row)
        {
            return Some(changed_on_row(row, then, now));
        }
        let grounds = [
            (Ground::Terms, self.terms && then.terms.version != now.terms.version),
            (Ground::Nominations, then.nominations.version != now.nominations.version),
            (Ground::Storage, self.storage && then.storage.version != now.storage.version),
            (Ground::Devices, self.devices && are_devices_changed(then, now)),
            (Ground::Objects, then.objects.version != now.objects.version),
            (Ground::Budgets, self.budgets && budgets_differ(then, now)),
        ];
        let others = || self.others && then.newest_version() != now.newest_version();
        let changed = grounds.iter().find(|(_, is_changed)| *is_changed).map(|(ground, _)| *ground);
        changed.or_else(|| others().then_some(Ground::OtherNodes))
    }

    /// The part of the basis that was touched, if any.
    pub(crate) fn touched(&self, touched: &Touched) -> Option<Ground> {
        let grounds = [
            (Ground::Node, self.row.is_some_and(|row| touched.rows.contains(&row))),
            (Ground::Terms, (self.terms || self.whole) && touched.terms),
            (Ground::Nominations, touched.nominations),
            (Ground::Storage, (self.storage || self.whole) && touched.storage),
            (Ground::Devices, (self.devices || self.whole) && touched.devices),
            (Ground::Objects, touched.objects),
            (Ground::Budgets, (self.budgets || self.whole) && touched.budgets),
            (Ground::OtherNodes, (self.others || self.whole) && !touched.rows.is_empty()),
        ];
        grounds.into_iter().find(|(_, is_touched)| *is_touched).map(|(ground, _)| ground)
    }
}

/// State touched by hypothetical changes, whether or not they were undone later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    rows: FxHashSet<NodeRow>,
    terms: bool,
    storage: bool,
    devices: bool,
    objects: bool,
    budgets: bool,
    nominations: bool,
}

impl Touched {
    /// Adds the differences between two points of one history. Cost: a visit to each shard, and a pass over those that
    /// differ.
    pub(crate) fn add(&mut self, before: &Snapshot, after: &Snapshot) {
        self.terms |= before.terms.version != after.terms.version;
        self.storage |= before.storage.version != after.storage.version;
        self.devices |= before.devices.version != after.devices.version;
        self.objects |= before.objects.version != after.objects.version;
        self.budgets |= budgets_differ(before, after);
        self.nominations |= before.nominations.version != after.nominations.version;
        for (i, shard) in after.shards.iter().enumerate() {
            if before.shards.get(i).is_some_and(|before| before.version == shard.version) {
                continue;
            }
            let rows = (0..ROWS).map(|row| NodeRow::new(i, row));
            self.rows
                .extend(rows.filter(|row| version_of(before, *row) != version_of(after, *row)));
        }
    }
}

/// Whether budgets, or disruptions that are computed for them, differ between two points of one history.
fn budgets_differ(then: &Snapshot, now: &Snapshot) -> bool {
    then.objects.budgets_version != now.objects.budgets_version || allowances_differ(then, now)
}

/// Whether devices that several nodes see differ between two points of one history. Others change their node's row.
fn are_devices_changed(then: &Snapshot, now: &Snapshot) -> bool {
    then.devices.shared_version() != now.devices.shared_version()
}

/// The version of a row; 0 for a row that never held anything.
fn version_of(snapshot: &Snapshot, row: NodeRow) -> u64 {
    snapshot.shards.get(row.shard()).map_or(0, |shard| shard.usage.version[row.row()])
}

/// Whether the node or the pods of a changed row changed.
fn changed_on_row(row: NodeRow, then: &Snapshot, now: &Snapshot) -> Ground {
    let pods = |snapshot: &Snapshot| {
        let shard = snapshot.shards.get(row.shard());
        shard
            .map(|shard| shard.pods.of(row.row()).iter().map(|p| p.pod.clone()).collect::<Vec<_>>())
    };
    let is_same_pods = match (pods(then), pods(now)) {
        (Some(then), Some(now)) => {
            then.len() == now.len() && then.iter().zip(&now).all(|(a, b)| a.is_same_as(b))
        }
        _ => false,
    };
    if then.node(row) == now.node(row) && !is_same_pods { Ground::Pods } else { Ground::Node }
}
