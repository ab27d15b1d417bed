//! Removals: ways to remove the only pod that is an obstacle.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::change::RemedyChange;
use super::way::{Way, chosen_ports, name_of, ports_text};
use crate::domain::DomainId;
use crate::model::Pod;
use crate::model::port::HostPort;
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;

/// Rows of each domain with pods that count.
type Holders = FxHashMap<DomainId, SmallVec<[NodeRow; 2]>>;

/// Finds pods to remove; caches what it looks up.
pub(super) struct Removals<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    /// Holders by position of the sum.
    holders: FxHashMap<usize, Holders>,
}

impl<'p, 'a> Removals<'p, 'a> {
    pub(super) fn new(plan: &'p Filtering<'p, 'a>) -> Removals<'p, 'a> {
        Removals { plan, holders: FxHashMap::default() }
    }

    /// For each row where a single pod holds all conflicting ports, the way to remove that pod.
    pub(super) fn of_ports(&self, ports: u64, rows: &[NodeRow]) -> Vec<Way> {
        let wanted: Vec<&HostPort> = chosen_ports(self.plan, ports).collect();
        let holds = |pod: &Pod| {
            let mut held = pod.shape().facts.host_ports.iter();
            held.any(|held| wanted.iter().any(|wanted| held.conflicts_with(wanted)))
        };
        let why = format!("which holds {}", ports_text(self.plan, ports));
        let on_rows = rows.iter().filter_map(|row| self.only_pod([*row], &holds));
        on_rows.map(|(row, pod)| self.removal(row, pod, &why)).collect()
    }

    /// For each row where a single pod uses a disk of the pod, the way to remove that pod.
    pub(super) fn of_disk(&self, at: usize, rows: &[NodeRow]) -> Vec<Way> {
        let volumes = self.plan.pod().volumes();
        let Some(disk) = volumes.and_then(|volumes| volumes.disks.get(at)) else {
            return Vec::new();
        };
        let uses = |pod: &Pod| pod.uses_disk(disk);
        let why = format!("which uses the disk {disk}");
        let on_rows = rows.iter().filter_map(|row| self.only_pod([*row], &uses));
        on_rows.map(|(row, pod)| self.removal(row, pod, &why)).collect()
    }

    /// The way to remove the only pod that uses an exclusive claim of the pod, on whatever node.
    pub(super) fn of_claim(&self, at: usize) -> Option<Way> {
        let claim = &self.plan.pod().volumes()?.claims.get(at)?.key;
        let users = self.plan.snapshot().storage.claims.users_of(claim);
        let rows: Vec<NodeRow> =
            users.filter(|user| user.owner.is_none()).map(|user| user.row).collect();
        let (row, pod) = self.only_pod(rows, &|pod| pod.names_claim(claim))?;
        Some(self.removal(row, pod, &format!("which uses the claim `{}`", claim.name)))
    }

    /// For each row, the way to remove a pod with as many volumes of a driver as are too many: the one of the lowest
    /// priority, then by name.
    pub(super) fn of_volumes(&self, at: usize, rows: &[NodeRow]) -> Vec<Way> {
        let (plan, storage) = (self.plan, &self.plan.snapshot().storage);
        let found = plan.volumes().found();
        let Some(demand) = found.and_then(|found| found.limits.demands.get(at)) else {
            return Vec::new();
        };
        let why = format!("which uses volumes of {}", plan.names().name(demand.driver));
        let on_row = |row: &NodeRow| {
            let excess = demand.on_row(storage, *row).excess();
            let is_enough = |pod: &&Pod| {
                let volumes = storage.volumes_of(pod, *row);
                let of_driver = volumes.iter().filter(|volume| volume.driver == demand.driver);
                of_driver.count() as i64 >= excess
            };
            let shard = &plan.snapshot().shards[row.shard()];
            let pods = shard.pods.of(row.row()).iter().map(|placed| &placed.pod);
            let with_volumes = pods.filter(|pod| pod.volumes().is_some()).filter(is_enough);
            let least = with_volumes.min_by_key(|pod| (pod.priority(), pod.key()))?;
            Some(self.removal(*row, least, &why))
        };
        rows.iter().filter_map(on_row).collect()
    }

    /// The way to remove the only pod that counts for a sum in a domain.
    pub(super) fn of_domain(&mut self, sum: usize, domain: DomainId, why: &str) -> Option<Way> {
        let plan = self.plan;
        let holders = self.holders.entry(sum).or_insert_with(|| holders(plan, sum));
        let rows = holders.get(&domain)?.clone();
        let demand = plan.demand();
        let subject = &demand.subjects[demand.sums[sum].subject];
        let counts = |pod: &Pod| subject.counts(pod, &demand.terms);
        let (row, pod) = self.only_pod(rows, &counts)?;
        Some(self.removal(row, pod, why))
    }

    /// The matching pod on these rows, if there is exactly one.
    fn only_pod(
        &self,
        rows: impl IntoIterator<Item = NodeRow>,
        matches: &dyn Fn(&Pod) -> bool,
    ) -> Option<(NodeRow, &'p Pod)> {
        let shards = &self.plan.snapshot().shards;
        let on_rows = rows.into_iter().flat_map(|row| {
            shards[row.shard()].pods.of(row.row()).iter().map(move |placed| (row, &placed.pod))
        });
        let mut matching = on_rows.filter(|(_, pod)| matches(pod));
        matching.next().filter(|_| matching.next().is_none())
    }

    /// The way to remove a pod; pods of the lowest priority are tried first.
    fn removal(&self, row: NodeRow, pod: &Pod, why: &str) -> Way {
        let node = name_of(self.plan, row);
        let key = pod.key().clone();
        let text = if pod.population().facts.is_terminating {
            format!("wait until `{key}` is gone from `{node}`, {why}")
        } else {
            format!("remove `{key}` from `{node}`, {why}")
        };
        let change = RemedyChange::RemovePod { pod: key, node };
        Way { cost: i64::from(pod.priority()), ..Way::new(change, text) }
    }
}

fn holders(plan: &Filtering<'_, '_>, sum: usize) -> Holders {
    let mut found = Holders::default();
    let by = &plan.demand().sums[sum];
    for shard in &plan.snapshot().shards {
        let Some(label) = shard.nodes.labels.get(&by.key) else {
            continue;
        };
        let weights = plan.census().on_shard(by.subject, shard).iter().enumerate();
        for (row, _) in weights.filter(|(row, weight)| **weight > 0 && label.rows.contains(*row)) {
            found.entry(label.domains[row]).or_default().push(NodeRow::new(shard.index, row));
        }
    }
    found
}
