//! Table of the best nodes, the chosen one first.

use std::cmp::Ordering;

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::{ExplainResponse, NodeVerdict, Placement};

use crate::cli::output::{self, Table};

/// The nodes with the highest totals, with each plugin's weighted score; the chosen node is marked and comes first.
///
/// `None` where no node is feasible, and where only one is, since nothing was scored to choose it; the latter is shown
/// if the caller asks for nodes.
pub(super) fn table(account: &ExplainResponse, top: usize, is_asked: bool) -> Option<String> {
    let placement = match account.decision.as_ref()?.outcome.as_ref()? {
        Outcome::Placement(placement) => placement,
        Outcome::Unschedulable(_) | Outcome::Gated(_) => return None,
    };
    if placement.total_score.is_none() && !is_asked {
        return None;
    }
    let mut feasible: Vec<&NodeVerdict> = account.nodes.iter().filter(|it| it.feasible).collect();
    feasible.sort_by(|a, b| {
        let is_other = |node: &NodeVerdict| node.node_name != placement.node_name;
        is_other(a).cmp(&is_other(b)).then_with(|| best_first(a, b))
    });
    let first = feasible.first()?;
    let plugins: Vec<&str> = first.scores.iter().map(|score| score.plugin.as_str()).collect();
    let short = plugins.iter().map(|plugin| short_name(plugin));
    let headings: Vec<&str> = ["", "NODE", "SCORE"].into_iter().chain(short).collect();
    let mut table = Table::new(&headings).dropping((3..headings.len()).rev());
    for node in feasible.iter().take(top) {
        let mark = if node.node_name == placement.node_name { "->" } else { "" };
        let score_of = |plugin: &&str| {
            let score = node.scores.iter().find(|score| score.plugin == *plugin);
            score.map_or_else(|| "-".to_owned(), |score| score.weighted.to_string())
        };
        let cells = [mark.to_owned(), node.node_name.clone(), node.total_score.to_string()];
        table.add_row(cells.into_iter().chain(plugins.iter().map(score_of)));
    }
    let more = match feasible.len().saturating_sub(top) {
        0 => String::new(),
        n => format!("\nand {} more", output::count(n, "feasible node")),
    };
    Some(format!("{}{}{more}", table.text(), drawn(placement)))
}

fn drawn(placement: &Placement) -> String {
    match placement.n_best_nodes {
        0 | 1 => String::new(),
        n => format!("\n-> was drawn among {} with the highest score", output::count(n, "node")),
    }
}

/// A plugin's name in a heading, so that a table of all scores fits 80 columns.
fn short_name(plugin: &str) -> &str {
    match plugin {
        "NodeResourcesFit" => "FIT",
        "NodeResourcesBalancedAllocation" => "BALANCED",
        "ImageLocality" => "IMAGES",
        "TaintToleration" => "TAINTS",
        "NodeAffinity" => "NODES",
        "PodTopologySpread" => "SPREAD",
        "InterPodAffinity" => "PODS",
        other => other,
    }
}

/// Keeps the `top` best of the feasible nodes, best first, and after them all rejected ones.
pub(super) fn keep_best(nodes: &mut Vec<NodeVerdict>, top: usize) {
    nodes.sort_by(|a, b| b.feasible.cmp(&a.feasible).then_with(|| best_first(a, b)));
    let mut n_feasible = 0;
    nodes.retain(|node| {
        n_feasible += usize::from(node.feasible);
        !node.feasible || n_feasible <= top
    });
}

/// Order of the output: highest total, then by name.
fn best_first(a: &NodeVerdict, b: &NodeVerdict) -> Ordering {
    b.total_score.cmp(&a.total_score).then_with(|| a.node_name.cmp(&b.node_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_nodes_are_kept_and_every_rejected_one() {
        let node = |name: &str, feasible, total_score| NodeVerdict {
            node_name: name.to_owned(),
            feasible,
            total_score,
            ..NodeVerdict::default()
        };
        let mut nodes = vec![
            node("rejected", false, 0),
            node("c", true, 7),
            node("b", true, 9),
            node("a", true, 7),
        ];
        keep_best(&mut nodes, 2);
        let names: Vec<&str> = nodes.iter().map(|node| node.node_name.as_str()).collect();
        assert_eq!(names, ["b", "a", "rejected"]);
    }
}
