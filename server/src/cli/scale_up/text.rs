//! The answer for people: a row for each group, what each leaves, and the pods that no group helps.

use berth_proto::berth_v1::{
    ScaleUpLeft, ScaleUpLimit, ScaleUpOption, ScaleUpStop, SimulateScaleUpResponse, scale_up_left,
};

use crate::cli::output::{self, Table, count};
use crate::feed::handed::Member;

/// Number of pods that a line names.
const MAX_NAMED: usize = 3;

/// The sections, to be separated by empty lines. `members` are the pods by position.
pub(super) fn sections(simulated: &SimulateScaleUpResponse, members: &[Member]) -> Vec<String> {
    let named = |pods: &[u32]| named(pods, members);
    let mut sections = Vec::new();
    let n_waiting = members.len() - simulated.existing.len() - simulated.errors.len();
    if n_waiting > 0 {
        sections.push(of_options(&simulated.options));
    }
    let mut lines: Vec<String> = simulated
        .options
        .iter()
        .flat_map(|option| option.left.iter().map(move |left| (option, left)))
        .map(|(option, left)| {
            format!("{} leaves {}: {}", option.node_group_id, named(&left.pods), why(left))
        })
        .collect();
    lines.extend(simulated.options.iter().filter(|option| !option.split.is_empty()).map(
        |option| {
            let shares = option
                .split
                .iter()
                .map(|share| format!("{} {}", share.node_group_id, share.n_nodes));
            format!("{} balanced: {}", option.node_group_id, shares.collect::<Vec<_>>().join(", "))
        },
    ));
    if !lines.is_empty() {
        sections.push(lines.join("\n"));
    }
    let mut last: Vec<String> = Vec::new();
    if !simulated.existing.is_empty() {
        last.push(format!("nodes that are there take {}", count(simulated.existing.len(), "pod")));
    }
    let refused = simulated
        .refused
        .iter()
        .map(|left| format!("no node can take {}: {}", named(&left.pods), why(left)));
    last.extend(refused);
    if !simulated.unhelped.is_empty() {
        last.push(format!("no group helps {}", named(&simulated.unhelped)));
    }
    last.extend(simulated.errors.iter().map(|error| {
        let message = error.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        format!("refused {}: {message}", named(&[error.index]))
    }));
    if members.is_empty() {
        last.push("no pods wait for a node".to_owned());
    } else if n_waiting == 0 && simulated.errors.is_empty() {
        last.push("no new node is needed".to_owned());
    }
    if !last.is_empty() {
        sections.push(last.join("\n"));
    }
    sections
}

fn of_options(options: &[ScaleUpOption]) -> String {
    let mut table =
        Table::new(&["GROUP", "NODES", "PODS", "IDLE CPU", "IDLE MEMORY", "THEN"]).wrapping(5);
    for option in options {
        let idle = |fraction: f64| match option.n_nodes {
            0 => "-".to_owned(),
            _ => format!("{:.0}%", fraction * 100.0),
        };
        table.add_row([
            option.node_group_id.clone(),
            output::grouped(option.n_nodes),
            output::grouped(option.n_placed),
            idle(option.waste_cpu),
            idle(option.waste_memory),
            then(option).to_owned(),
        ]);
    }
    table.text()
}

/// Why no more nodes were added.
fn then(option: &ScaleUpOption) -> &'static str {
    match option.stop() {
        ScaleUpStop::AllPlaced => "every pod is placed",
        ScaleUpStop::NothingMoreFits => "more nodes do not help the rest",
        ScaleUpStop::Limit => limit(option.limit()),
        ScaleUpStop::Unspecified => "-",
    }
}

fn limit(limit: ScaleUpLimit) -> &'static str {
    match limit {
        ScaleUpLimit::Nodes => "--max-nodes is reached",
        ScaleUpLimit::TotalNodes => "--max-total-nodes is reached",
        ScaleUpLimit::Duration => "the time for the estimation is over",
        ScaleUpLimit::Cpu => "the limit of CPU is reached",
        ScaleUpLimit::Memory => "the limit of memory is reached",
        ScaleUpLimit::GroupSize => "the group has its maximum size",
        ScaleUpLimit::Unspecified => "a limit is reached",
    }
}

fn why(left: &ScaleUpLeft) -> String {
    match &left.reason {
        Some(scale_up_left::Reason::Rejection(rejection)) => rejection.reasons.join(", "),
        Some(scale_up_left::Reason::Limit(reached)) => {
            limit(ScaleUpLimit::try_from(*reached).unwrap_or_default()).to_owned()
        }
        None => "-".to_owned(),
    }
}

/// The pods at these positions: their number, and the names of the first.
fn named(pods: &[u32], members: &[Member]) -> String {
    let name = |index: &u32| {
        let index = usize::try_from(*index).ok()?;
        Some(&*members.get(index)?.name)
    };
    let names: Vec<&str> = pods.iter().filter_map(name).collect();
    let first = names.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    format!("{} ({first}{more})", count(names.len(), "pod"))
}
