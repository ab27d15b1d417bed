//! Table of what keeps the pod off nodes: one line for each thing that is missing, with what the nodes have instead.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_engine::{Rounding, StatusCode, amount_text};
use berth_proto::berth_v1::comparison::Compared;
use berth_proto::berth_v1::{Comparison, NodeRejection, NodeVerdict, ResourceComparison};

use crate::cli::output::{self, Table};

/// Number of node names that are listed as examples.
pub(super) const N_EXAMPLES: usize = 3;
/// Number of different things found that a line lists.
const N_FOUND: usize = 3;

/// Nodes that miss the same.
#[derive(Default)]
struct Group<'a> {
    nodes: Vec<&'a str>,
    /// What the nodes have instead, with the number of nodes.
    found: BTreeMap<&'a str, usize>,
    /// The node with most of the resource free, where the group is about one.
    roomiest: Option<(&'a str, &'a ResourceComparison)>,
    /// Number of nodes that every other plugin accepts.
    n_sole: usize,
    /// Number of nodes where eviction might help.
    n_evictable: usize,
}

/// The plugin, the kind of thing, and what the pod asks for.
type Missing<'a> = (&'a str, &'a str, &'a str);

/// The table; `None` where no node is refused.
pub(super) fn table(nodes: &[NodeVerdict]) -> Option<String> {
    let mut groups: BTreeMap<Missing<'_>, Group<'_>> = BTreeMap::new();
    for node in nodes {
        let Some(rejection) = &node.rejection else {
            continue;
        };
        for comparison in &rejection.comparisons {
            let missing = (&*comparison.plugin, &*comparison.kind, &*comparison.subject);
            groups.entry(missing).or_default().add(&node.node_name, rejection, Some(comparison));
        }
        // A server that sends no comparisons sends reasons.
        if rejection.comparisons.is_empty() {
            for reason in &rejection.reasons {
                let missing = (&*rejection.plugin, reason.as_str(), "");
                groups.entry(missing).or_default().add(&node.node_name, rejection, None);
            }
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.nodes.len()));
    let mut table = Table::new(&["NODES", "REFUSED BY", "EVICTION", "BECAUSE OF"]).wrapping(3);
    for ((plugin, kind, subject), group) in groups {
        let eviction = match group.n_evictable {
            0 => "no",
            n if n == group.nodes.len() => "may help",
            _ => "on some",
        };
        let because = group.because(kind, subject);
        table.add_row([&output::grouped(group.nodes.len()), plugin, eviction, &because]);
    }
    Some(table.text())
}

impl<'a> Group<'a> {
    fn add(&mut self, node: &'a str, rejection: &NodeRejection, found: Option<&'a Comparison>) {
        self.nodes.push(node);
        self.n_sole += usize::from(rejection.is_sole && rejection.comparisons.len() == 1);
        self.n_evictable += usize::from(rejection.code == StatusCode::Unschedulable.as_str());
        let Some(comparison) = found else {
            return;
        };
        if let Some(Compared::Resource(resource)) = &comparison.compared {
            if self.roomiest.is_none_or(|(_, known)| known.free < resource.free) {
                self.roomiest = Some((node, resource));
            }
        } else if !comparison.found.is_empty() {
            // Who holds the devices differs from node to node; what there is comes before.
            let found = comparison.found.split("; ").next().unwrap_or_default();
            *self.found.entry(found).or_default() += 1;
        }
    }

    /// What is missing, what is there instead, and whether that is all that is in the way.
    fn because(&self, kind: &str, subject: &str) -> String {
        let head = if subject.is_empty() { kind.to_owned() } else { format!("{kind} {subject}") };
        let alone = match self.n_sole {
            0 => String::new(),
            n if n == self.nodes.len() => " <- the only thing in the way".to_owned(),
            n => format!(" <- the only thing in the way on {}", output::grouped(n)),
        };
        format!("{head}: {}{alone}", self.instead())
    }

    fn instead(&self) -> String {
        if let Some((node, resource)) = self.roomiest {
            let amount = |amount| amount_text(&resource.resource, amount, Rounding::Down);
            let (free, all) = (amount(resource.free), amount(resource.allocatable));
            return format!("at most {free} free of {all}, on {node}");
        }
        let mut found: Vec<(&str, usize)> = self.found.iter().map(|(it, n)| (*it, *n)).collect();
        if found.is_empty() {
            return listed(self.nodes.iter().map(|node| (*node).to_owned()), N_EXAMPLES);
        }
        if let [(only, _)] = found[..] {
            return only.to_owned();
        }
        found.sort_by_key(|(_, n)| Reverse(*n));
        listed(found.iter().map(|(it, n)| format!("{it} ({n})")), N_FOUND)
    }
}

/// The first few of some texts, and how many there are more.
fn listed(texts: impl ExactSizeIterator<Item = String>, n: usize) -> String {
    let n_more = texts.len().saturating_sub(n);
    let first = texts.take(n).collect::<Vec<_>>().join(", ");
    if n_more == 0 { first } else { format!("{first} and {} more", output::grouped(n_more)) }
}
