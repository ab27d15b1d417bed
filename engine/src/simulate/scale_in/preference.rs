//! The order in which replicas are chosen: the first field of a key that differs decides.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::level::Level;
use super::replica::Replica;
use crate::domain::DomainId;
use crate::model::Pod;
use crate::model::pod::NOT_STARTED;
use crate::model::taint::Effect;
use crate::rows::NodeRow;
use crate::simulate::drain::budget::{Budgets, Covering};
use crate::simulate::scale_in::outcome::ScaleInReason;
use crate::snapshot::Snapshot;

/// Ordering key of a replica; the replica with the smallest key goes first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Preference {
    readiness: Readiness,
    /// By how much hard constraints would be violated without the replica, summed.
    excess: i64,
    /// For each level the number of pods in the replica's domain; a larger number goes first.
    crowding: SmallVec<[Reverse<i64>; 2]>,
    /// Whether the node is neither cordoned nor being removed.
    node_stays: bool,
    /// Number of other pods that keep the node from being empty.
    n_others: usize,
    exceeds_budget: bool,
    started: Reverse<i64>,
    /// Position among the replicas, which are sorted by name.
    replica: usize,
}

/// Progress of a replica's start; controllers remove those first that progressed least.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Readiness {
    NotStarted,
    NotReady,
    Ready,
}

/// A replica chosen to go.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The replica's position.
    pub(super) replica: usize,
    pub(super) decided_by: DecidedBy,
}

/// The criterion that put a replica before another, with its values; earlier criteria compare as smaller.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum DecidedBy {
    Readiness(Readiness),
    Excess,
    /// The domain of this level has so many pods.
    Crowding {
        level: usize,
        number: i64,
    },
    LeavingNode,
    EmptierNode {
        n_others: usize,
    },
    Budget,
    Younger,
    Name,
}

impl DecidedBy {
    pub(super) fn reason(self) -> ScaleInReason {
        match self {
            DecidedBy::Readiness(_) => ScaleInReason::NotReady,
            DecidedBy::Excess => ScaleInReason::Violation,
            DecidedBy::Crowding { .. } => ScaleInReason::Spread,
            DecidedBy::LeavingNode => ScaleInReason::LeavingNode,
            DecidedBy::EmptierNode { .. } => ScaleInReason::EmptierNode,
            DecidedBy::Budget => ScaleInReason::Budget,
            DecidedBy::Younger => ScaleInReason::Younger,
            DecidedBy::Name => ScaleInReason::Name,
        }
    }
}

/// Replicas of one node that differ in start time and name only.
struct Group {
    row: NodeRow,
    readiness: Readiness,
    /// The domain of the replicas at each level.
    domains: SmallVec<[Option<DomainId>; 2]>,
    covering: Covering,
    node_stays: bool,
    /// Whether the replicas keep their node from being empty.
    holds: bool,
    /// Positions of the replicas; the next to go is the last.
    members: Vec<usize>,
}

/// State of a choice of replicas.
pub(super) struct Choosing<'a, 'b> {
    snapshot: &'a Snapshot,
    replicas: &'a [Replica],
    levels: &'a mut [Level],
    budgets: &'a mut Budgets<'b>,
    groups: Vec<Group>,
    /// Number of pods that keep each node from being empty.
    holding: FxHashMap<NodeRow, usize>,
}

impl<'a, 'b> Choosing<'a, 'b> {
    pub(super) fn of(
        snapshot: &'a Snapshot,
        replicas: &'a [Replica],
        levels: &'a mut [Level],
        budgets: &'a mut Budgets<'b>,
    ) -> Choosing<'a, 'b> {
        let mut groups: Vec<Group> = Vec::new();
        let mut groups_of: FxHashMap<NodeRow, SmallVec<[usize; 1]>> = FxHashMap::default();
        let mut holding = FxHashMap::default();
        for (at, replica) in replicas.iter().enumerate() {
            let row = replica.row;
            holding.entry(row).or_insert_with(|| n_holding(snapshot, row));
            let domains = levels.iter().map(|level| level.domain_of(snapshot, replica)).collect();
            let (readiness, covering) = (readiness(&replica.pod), budgets.covering(&replica.pod));
            let holds = holds(&replica.pod);
            let of_row = groups_of.entry(row).or_default();
            let alike = of_row.iter().copied().find(|group| {
                let group: &Group = &groups[*group];
                group.readiness == readiness
                    && group.domains == domains
                    && group.covering == covering
                    && group.holds == holds
            });
            match alike {
                Some(group) => groups[group].members.push(at),
                None => {
                    of_row.push(groups.len());
                    let (node_stays, members) = (node_stays(snapshot, row), vec![at]);
                    groups.push(Group {
                        row,
                        readiness,
                        domains,
                        covering,
                        node_stays,
                        holds,
                        members,
                    });
                }
            }
        }
        for group in &mut groups {
            group.members.sort_by_key(|at| Reverse((Reverse(started(&replicas[*at])), *at)));
        }
        Choosing { snapshot, replicas, levels, budgets, groups, holding }
    }

    /// Chooses the next replica and removes it from the counts; `None` where none is left.
    pub(super) fn choose(&mut self) -> Option<Choice> {
        // Members of a group are ordered by start time and name only, so the first two suffice.
        let nth = |group: &Group, n: usize| {
            let at = group.members.len().checked_sub(n + 1)?;
            Some(self.preference(group, group.members[at]))
        };
        let groups = self.groups.iter().enumerate();
        let heads: Vec<(Preference, usize)> =
            groups.filter_map(|(at, group)| Some((nth(group, 0)?, at))).collect();
        let (best, group) = heads.iter().min()?;
        let second = nth(&self.groups[*group], 1);
        let others = heads.iter().filter(|(_, at)| at != group).map(|(head, _)| head);
        let decided = others.chain(&second).map(|other| best.decided_over(other));
        let decided_by = decided.min().unwrap_or(DecidedBy::Name);
        let choice = Choice { replica: best.replica, decided_by };
        let group = *group;
        self.remove(group);
        Some(choice)
    }

    fn preference(&self, group: &Group, replica: usize) -> Preference {
        let levels = || self.levels.iter().zip(&group.domains);
        Preference {
            readiness: group.readiness,
            excess: self.excess(&group.domains),
            crowding: levels().map(|(level, domain)| Reverse(level.number(*domain))).collect(),
            node_stays: group.node_stays,
            n_others: self.n_holding(group.row).saturating_sub(usize::from(group.holds)),
            exceeds_budget: self.budgets.exhausted(&group.covering).is_some(),
            started: Reverse(started(&self.replicas[replica])),
            replica,
        }
    }

    fn excess(&self, domains: &[Option<DomainId>]) -> i64 {
        let levels = self.levels.iter().zip(domains);
        levels.map(|(level, domain)| level.excess_without(*domain)).sum()
    }

    fn n_holding(&self, row: NodeRow) -> usize {
        self.holding.get(&row).copied().unwrap_or(0)
    }

    /// Removes the next replica of a group.
    fn remove(&mut self, group: usize) {
        let Group { row, domains, covering, holds, members, .. } = &mut self.groups[group];
        members.pop();
        for (level, domain) in self.levels.iter_mut().zip(domains.iter()) {
            if let Some(domain) = domain {
                level.remove(*domain);
            }
        }
        self.budgets.take([&*covering]);
        if let Some(n) = self.holding.get_mut(row) {
            *n = n.saturating_sub(usize::from(*holds));
        }
    }

    /// The nodes of replicas that no pod keeps from being empty any more, by name.
    pub(super) fn emptied_nodes(&self) -> Vec<Arc<str>> {
        let rows = self.groups.iter().map(|group| group.row);
        let emptied = rows.filter(|row| self.n_holding(*row) == 0);
        let name = |row| Some(self.snapshot.node(row)?.facts().name.clone());
        let mut names: Vec<Arc<str>> = emptied.filter_map(name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Preference {
    /// The criterion that puts this key before another.
    fn decided_over(&self, next: &Preference) -> DecidedBy {
        if self.readiness != next.readiness {
            return DecidedBy::Readiness(self.readiness);
        }
        if self.excess != next.excess {
            return DecidedBy::Excess;
        }
        let mut levels = self.crowding.iter().zip(&next.crowding).enumerate();
        if let Some((level, (Reverse(number), _))) = levels.find(|(_, (own, next))| own != next) {
            return DecidedBy::Crowding { level, number: *number };
        }
        if self.node_stays != next.node_stays {
            return DecidedBy::LeavingNode;
        }
        if self.n_others != next.n_others {
            return DecidedBy::EmptierNode { n_others: self.n_others };
        }
        if self.exceeds_budget != next.exceeds_budget {
            return DecidedBy::Budget;
        }
        if self.started != next.started { DecidedBy::Younger } else { DecidedBy::Name }
    }
}

fn started(replica: &Replica) -> i64 {
    replica.pod.facts().preemption.start_time
}

fn readiness(pod: &Pod) -> Readiness {
    let facts = pod.facts();
    match (facts.preemption.start_time, facts.is_ready) {
        (_, true) => Readiness::Ready,
        (NOT_STARTED, false) => Readiness::NotStarted,
        (_, false) => Readiness::NotReady,
    }
}

/// Whether a pod keeps its node from being empty: DaemonSets', mirror and terminating pods do not.
fn holds(pod: &Pod) -> bool {
    let drainability = &pod.facts().drainability;
    !drainability.is_daemon && !drainability.is_mirror && !pod.is_terminating()
}

fn n_holding(snapshot: &Snapshot, row: NodeRow) -> usize {
    let pods = snapshot.shards[row.shard()].pods.of(row.row()).iter();
    pods.filter(|placed| holds(&placed.pod)).count()
}

/// Taints with which an autoscaler marks a node that it is removing.
const LEAVING: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];

/// Whether a node is neither cordoned nor being removed.
fn node_stays(snapshot: &Snapshot, row: NodeRow) -> bool {
    let names = snapshot.model.names();
    snapshot.node(row).is_some_and(|node| {
        let mut taints = node.facts().taints.iter();
        let is_leaving = taints.any(|taint| {
            taint.effect != Effect::PreferNoSchedule && LEAVING.contains(&&*names.name(taint.key))
        });
        !node.facts().unschedulable && !is_leaving
    })
}
