//! Ways: how each obstacle can be removed, with the text and the amounts of the change.

use std::sync::Arc;

use super::change::RemedyChange;
use super::obstacle::{Obstacle, TaintEffect};
use super::removal::Removals;
use super::way::{Way, chosen_ports, name_of, names_of, ports_text};
use super::{claims, relation};
use crate::account::wording;
use crate::filter::node_resources_fit::{checked, free};
use crate::model::port::HostPort;
use crate::model::resources::Resource;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::rows::NodeRow;

/// Finds ways for one pod.
pub(super) struct Ways<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    removals: Removals<'p, 'a>,
}

impl<'p, 'a> Ways<'p, 'a> {
    pub(super) fn new(plan: &'p Filtering<'p, 'a>) -> Ways<'p, 'a> {
        Ways { plan, removals: Removals::new(plan) }
    }

    /// The ways to remove an obstacle from these rows, all of which have it, or from the rows where the change is
    /// smallest.
    pub(super) fn past(&mut self, obstacle: Obstacle, rows: &[NodeRow]) -> Vec<Way> {
        let (plan, nodes) = (self.plan, names_of(self.plan, rows));
        let of_nodes = wording::nodes(&nodes);
        match obstacle {
            Obstacle::Cordon => {
                vec![Way::new(RemedyChange::Uncordon { nodes }, format!("uncordon {of_nodes}"))]
            }
            Obstacle::Fence => {
                let text = format!("lift the ledger's fence of {of_nodes}");
                vec![Way::new(RemedyChange::LiftFence { nodes }, text)]
            }
            Obstacle::Condition(key) => {
                let key = plan.names().name(key);
                let text = format!("clear the taint `{key}` of {of_nodes}");
                vec![Way::new(RemedyChange::ClearTaint { key, nodes }, text)]
            }
            Obstacle::Full => {
                let text = format!("allow one more pod on {of_nodes}");
                vec![Way::new(RemedyChange::AllowPod { nodes }, text)]
            }
            Obstacle::Taint { key, value, effect } => {
                let (key, value) = (plan.names().name(key), plan.names().name(value));
                vec![tolerate(key, value, effect)]
            }
            Obstacle::Pair(_) | Obstacle::Requirement { .. } | Obstacle::NodeConstraints { .. } => {
                ask_less_of_labels(plan, obstacle).into_iter().collect()
            }
            Obstacle::Ports(ports) => {
                let mut ways = vec![without_ports(plan, ports)];
                ways.extend(self.removals.of_ports(ports, rows));
                ways
            }
            Obstacle::Short(i) => request_less(plan, i, rows).into_iter().collect(),
            Obstacle::Skew(at) => relation::allow_skew(plan, at, rows),
            Obstacle::Unlabelled(at) => relation::soften(plan, at, rows).into_iter().collect(),
            Obstacle::Claim(at) => {
                let claims = plan.pod().volumes().map_or(&[][..], |volumes| &volumes.claims);
                claims.get(at).map(|claim| claims::provide(plan, claim)).into_iter().collect()
            }
            Obstacle::DiskInUse(at) => self.removals.of_disk(at, rows),
            Obstacle::ClaimInUse(at) => self.removals.of_claim(at).into_iter().collect(),
            Obstacle::VolumeLimit(at) => self.removals.of_volumes(at, rows),
            Obstacle::Near => relation::without_affinity(plan),
            Obstacle::Far { term, domain } => {
                let mut ways: Vec<Way> =
                    relation::without_anti_affinity(plan, term).into_iter().collect();
                let sum = plan.demand().anti_affinity[term];
                let why = "which the pod's anti-affinity refuses";
                ways.extend(self.removals.of_domain(sum, domain, why));
                ways
            }
            Obstacle::Blocked { sum, domain } => {
                let why = "whose anti-affinity refuses the pod";
                self.removals.of_domain(sum, domain, why).into_iter().collect()
            }
        }
    }
}

/// The row that needs the smallest change where amounts matter, else all rows.
pub(super) fn nearest(
    plan: &Filtering<'_, '_>,
    obstacles: &[Obstacle],
    rows: &[NodeRow],
) -> Vec<NodeRow> {
    let has_amount = |o: &Obstacle| matches!(o, Obstacle::Short(_) | Obstacle::Skew(_));
    if obstacles.len() < 2 || !obstacles.iter().any(has_amount) {
        return rows.to_vec();
    }
    let cost = |row: NodeRow| -> i128 {
        let costs = obstacles.iter().map(|obstacle| match obstacle {
            Obstacle::Short(i) => {
                let (resource, request) = checked(plan)[*i];
                share(missing(plan, resource, request, row), request)
            }
            Obstacle::Skew(at) => {
                let max_skew = i64::from(plan.shape().spread.list[*at].max_skew);
                share(
                    relation::skew(plan, *at, row).map_or(i64::MAX, |skew| skew - max_skew),
                    max_skew,
                )
            }
            _ => 0,
        });
        costs.sum()
    };
    rows.iter().copied().min_by_key(|row| (cost(*row), name_of(plan, *row))).into_iter().collect()
}

/// A share in parts per million.
fn share(part: i64, whole: i64) -> i128 {
    i128::from(part) * 1_000_000 / i128::from(whole.max(1))
}

fn tolerate(key: Arc<str>, value: Arc<str>, effect: Option<TaintEffect>) -> Way {
    let effect = effect.map(|effect| match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    });
    let pair = if value.is_empty() { key.to_string() } else { format!("{key}={value}") };
    let text = match effect {
        Some(effect) => format!("tolerate `{pair}:{effect}`"),
        None => format!("tolerate `{pair}`"),
    };
    Way::new(RemedyChange::Tolerate { key, value, effect }, text)
}

fn ask_less_of_labels(plan: &Filtering<'_, '_>, obstacle: Obstacle) -> Option<Way> {
    let (shape, names) = (plan.shape(), plan.names());
    match obstacle {
        Obstacle::Pair(i) => {
            let (key, value) = *shape.node_selector.as_deref()?.get(i)?;
            let (key, value) = (names.name(key), names.name(value));
            let text = format!("drop `{key}={value}` from the node selector");
            Some(Way::new(RemedyChange::DropNodeSelector { key, value }, text))
        }
        Obstacle::Requirement { term, requirement } => {
            let required = shape.required_affinity.as_ref()?;
            let requirement = required.terms.get(term)?.labels.get(requirement)?;
            let words = wording::requirement(requirement, names);
            let text = format!("drop `{words}` from required node affinity");
            let (key, operator, values) = wording::parts(requirement, names);
            Some(Way::new(RemedyChange::DropNodeRequirement { key, operator, values }, text))
        }
        Obstacle::NodeConstraints { node_selector, node_affinity } => {
            let text = match (node_selector, node_affinity) {
                (true, true) => "drop the node selector and required node affinity",
                (true, false) => "drop the node selector",
                (false, _) => "drop required node affinity",
            };
            let change = RemedyChange::DropNodeConstraints { node_selector, node_affinity };
            Some(Way::new(change, text.to_owned()))
        }
        _ => None,
    }
}

/// The way past a required node affinity whose terms name no common node (S-NAF-2); `None` where there is no conflict.
pub(super) fn past_conflict(plan: &Plan<'_>) -> Option<Way> {
    let is_conflict = plan.narrowing().is_some_and(<[_]>::is_empty);
    let change = RemedyChange::DropNodeConstraints { node_selector: false, node_affinity: true };
    let text = "drop required node affinity, whose terms name no common node";
    is_conflict.then(|| Way::new(change, text.to_owned()))
}

fn without_ports(plan: &Filtering<'_, '_>, ports: u64) -> Way {
    let names = plan.names();
    let change = |port: &HostPort| RemedyChange::DropHostPort {
        port: port.port,
        protocol: names.name(port.protocol),
        ip: names.name(port.ip),
    };
    let changes = chosen_ports(plan, ports).map(change).collect();
    let text = format!("do without {}", ports_text(plan, ports));
    Way { changes, text, cost: 0 }
}

/// A way to request less: by the smallest amount that is missing on one of the rows and leaves some of the request,
/// rounded up where that leaves some, too.
fn request_less(plan: &Filtering<'_, '_>, i: usize, rows: &[NodeRow]) -> Option<Way> {
    let (resource, request) = *checked(plan).get(i)?;
    let amounts = rows.iter().map(|row| missing(plan, resource, request, *row));
    let least = amounts.filter(|amount| *amount < request).min()?;
    let name = resource.name(plan.names());
    let rounded = wording::rounded_up(&name, least);
    let amount = if rounded < request { rounded } else { least };
    let text = format!("request {} less {name}", wording::quantity(&name, amount));
    Some(Way::new(RemedyChange::RequestLess { resource: name, amount }, text))
}

fn missing(plan: &Filtering<'_, '_>, resource: Resource, request: i64, row: NodeRow) -> i64 {
    let shard = &plan.snapshot().shards[row.shard()];
    request.saturating_sub(free(shard, row.row(), resource))
}
