//! Everything known about one node: what each plugin compared, and how each score came about.

use berth_engine::{Rounding, amount_text};
use berth_proto::berth_v1::comparison::Compared;
use berth_proto::berth_v1::{
    Comparison, Holder, NodeVerdict, PluginScore, ResourceComparison, ScoreBasis,
};

use crate::cli::output::Table;

/// The verdict on a node with all comparisons.
pub(super) fn account(node: &NodeVerdict) -> String {
    let sections =
        [Some(headline(node)), resources(&node.checks), others(&node.checks), scores(&node.scores)];
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn headline(node: &NodeVerdict) -> String {
    let name = &node.node_name;
    let Some(rejection) = &node.rejection else {
        return format!("node {name}: feasible, score {}", node.total_score);
    };
    let by = match rejection.plugin.as_str() {
        "" => "left out by a PreFilter result".to_owned(),
        plugin => format!("rejected by {plugin}"),
    };
    let alone = if rejection.is_sole { "; nothing else is in the way" } else { "" };
    let reasons = rejection.reasons.join(", ");
    format!("node {name}: {by} ({}): {reasons}{alone}", rejection.code)
}

/// The resources that the pod asks for.
fn resources(checks: &[Comparison]) -> Option<String> {
    let mut table =
        Table::new(&["RESOURCE", "ASKS", "FREE", "OF", "SHORT BY", "HELD BY"]).wrapping(5);
    let mut is_any = false;
    for comparison in checks {
        let Some(Compared::Resource(resource)) = &comparison.compared else {
            continue;
        };
        is_any = true;
        table.add_row(cells(resource));
    }
    is_any.then(|| table.text())
}

fn cells(compared: &ResourceComparison) -> [String; 6] {
    let ResourceComparison { resource, asked, free, allocatable, holders, n_holders } = compared;
    let down = |amount| amount_text(resource, amount, Rounding::Down);
    let up = |amount| amount_text(resource, amount, Rounding::Up);
    let short = asked.saturating_sub(*free);
    let holder = |holder: &Holder| {
        let key = holder.pod.clone().unwrap_or_default();
        format!("{}/{} {}", key.namespace, key.name, up(holder.amount))
    };
    let listed = holders.iter().map(holder).collect::<Vec<_>>().join(", ");
    let n_more = (*n_holders as usize).saturating_sub(holders.len());
    let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
    [
        resource.clone(),
        up(*asked),
        down(*free),
        down(*allocatable),
        if short > 0 { up(short) } else { String::new() },
        format!("{listed}{more}"),
    ]
}

/// Everything but resources.
fn others(checks: &[Comparison]) -> Option<String> {
    let mut table = Table::new(&["PLUGIN", "MET", "COMPARED"]).wrapping(2);
    let mut is_any = false;
    for comparison in checks {
        if matches!(comparison.compared, Some(Compared::Resource(_))) {
            continue;
        }
        is_any = true;
        let Comparison { plugin, met, kind, subject, found, .. } = comparison;
        let asked = if subject.is_empty() { kind.clone() } else { format!("{kind} {subject}") };
        let compared = if found.is_empty() { asked } else { format!("{asked}: {found}") };
        table.add_row([plugin.as_str(), if *met { "yes" } else { "no" }, &compared]);
    }
    is_any.then(|| table.text())
}

/// How each score came about.
fn scores(scores: &[PluginScore]) -> Option<String> {
    if scores.is_empty() {
        return None;
    }
    let mut table = Table::new(&["PLUGIN", "RAW", "OF 100", "WEIGHT", "SCORE", "FROM"])
        .wrapping(5)
        .dropping([1, 3, 2]);
    for PluginScore { plugin, raw, weighted, basis } in scores {
        let of = |number: fn(&ScoreBasis) -> i64| {
            basis.as_ref().map_or_else(|| "-".to_owned(), |basis| number(basis).to_string())
        };
        let lines = basis.as_ref().map(|basis| basis.lines.join("; ")).unwrap_or_default();
        let (raw, score) = (raw.to_string(), weighted.to_string());
        let (normalized, weight) = (of(|basis| basis.normalized), of(|basis| basis.weight));
        table.add_row([plugin, &raw, &normalized, &weight, &score, &lines]);
    }
    Some(table.text())
}
