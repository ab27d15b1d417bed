//! `berth consolidate`: which nodes could be removed, and where their pods would go.

use std::collections::BTreeMap;
use std::process::ExitCode;

use berth_engine::{Rounding, amount_text};
use berth_proto::berth_v1::{
    ConsolidateRequest, ConsolidateResponse, ConsolidationStep, Disruption, KeptNode, NodePrices,
    Savings,
};

use super::CliError;
use super::backend::{self, Backend, BackendArgs};
use super::drain::rules::{NodeArgs, PodArgs};
use super::drain::text;
use super::input::InputArgs;
use super::lifecycle::moment::NowArgs;
use super::output::{self, Answered, Format};
use super::what_if::{SupposedPods, WhatIfArgs};

const EXIT_STATUS: &str = "\
    Exit status: 0 when at least one node can go; 1 when none can, or nothing could be decided; 2 for a wrong command \
    line.";

/// Plans which nodes can be removed, one after another, and where each of their pods goes
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = backend::after_help(EXIT_STATUS))]
pub struct ConsolidateArgs {
    /// Nodes that may be removed [default: all]
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// How many nodes to remove at most [default: no limit]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    max_nodes: u32,
    /// Remove all nodes at once, within what disruption budgets allow now
    #[arg(long)]
    batch: bool,
    /// Price of a node for an hour, by the value of the label of `--price-label`, for example `m5.large=0.096`; the most
    /// expensive nodes are tried first; repeatable
    #[arg(long, value_name = "VALUE=PRICE", value_parser = parse_price)]
    price: Vec<(String, f64)>,
    /// Label whose value decides what a node costs [default: node.kubernetes.io/instance-type]
    #[arg(long, value_name = "LABEL", default_value = "", hide_default_value = true)]
    price_label: String,
    #[command(flatten)]
    nodes_kept: NodeArgs,
    #[command(flatten)]
    pods_kept: PodArgs,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// The profile that decides where pods go, whatever their own scheduler [default: default-scheduler]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    scheduler_name: String,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

fn parse_price(text: &str) -> Result<(String, f64), String> {
    let expected = || "expected VALUE=PRICE with a price from 0, such as m5.large=0.096".to_owned();
    let (value, price) = text.split_once('=').ok_or_else(expected)?;
    let price: Option<f64> = price.parse().ok();
    let price = price.filter(|price| price.is_finite() && *price >= 0.0).ok_or_else(expected)?;
    Ok((value.to_owned(), price))
}

/// Runs the command: the status is 1 if no node can go.
///
/// # Errors
/// An unknown node, an impossible supposition, a cluster that cannot be read.
pub async fn run(args: ConsolidateArgs) -> Result<ExitCode, CliError> {
    let (what_if, supposed) = (&args.what_if, SupposedPods::Placed);
    let question = async |backend: &mut Backend| answer(&args, backend).await;
    args.backend.ask(what_if, &args.input, supposed, |_| false, question).await
}

async fn answer(args: &ConsolidateArgs, backend: &Backend) -> Result<ExitCode, CliError> {
    let planned = backend.consolidate(request(args)).await;
    let (what_if, notes) = (backend.what_if(), backend.notes());
    backend.tell(&notes);
    let planned = planned?;
    let answer = Answered { answer: &planned, what_if, notes: &notes };
    output::answer(args.output, &answer, || output::sections(what_if, sections(&planned)))?;
    Ok(if planned.steps.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn request(args: &ConsolidateArgs) -> ConsolidateRequest {
    let by_label_value: BTreeMap<String, f64> = args.price.iter().cloned().collect();
    ConsolidateRequest {
        candidate_node_names: args.nodes.clone(),
        node_rules: Some(args.nodes_kept.to_wire()),
        rules: Some(args.pods_kept.to_wire()),
        together: args.batch,
        max_nodes: args.max_nodes,
        prices: Some(NodePrices {
            label: args.price_label.clone(),
            by_label_value,
            by_node_name: BTreeMap::new(),
        }),
        now: Some(args.now.get()),
        scheduler_name: args.scheduler_name.clone(),
        ..ConsolidateRequest::default()
    }
}

fn sections(planned: &ConsolidateResponse) -> Vec<String> {
    let drains = planned.steps.iter().filter_map(|step| step.drain.as_ref());
    let mut sections: Vec<String> = drains.map(text::section).collect();
    if !planned.steps.is_empty() {
        sections.push(of_steps(&planned.steps));
    }
    if !planned.kept.is_empty() {
        sections.push(of_kept(&planned.kept));
    }
    let n_steps = output::count(planned.steps.len(), "node");
    let saved = planned.savings.as_ref().map(saved).unwrap_or_default();
    let moved = planned.disruption.map_or_else(String::new, |it| moved(&it));
    sections.push(match planned.steps.len() {
        0 => "no node can go".to_owned(),
        _ => format!("{n_steps} can go: saves {saved}; {moved}"),
    });
    sections
}

fn of_steps(steps: &[ConsolidationStep]) -> String {
    let mut table = output::Table::new(&["NODE", "SAVES", "MOVES"]);
    for ConsolidationStep { drain, savings, disruption } in steps {
        let node = drain.as_ref().map(|drain| drain.node_name.clone()).unwrap_or_default();
        let saved = savings.as_ref().map(saved).unwrap_or_default();
        table.add_row([node, saved, disruption.map_or_else(String::new, |it| moved(&it))]);
    }
    table.text()
}

fn of_kept(kept: &[KeptNode]) -> String {
    let mut table = output::Table::new(&["STAYS", "REASON", "MESSAGE"]).wrapping(2);
    for KeptNode { node_name, reason, message, .. } in kept {
        table.add_row([node_name, reason, message]);
    }
    table.text()
}

fn saved(savings: &Savings) -> String {
    let Savings { milli_cpu, memory_bytes, price_per_hour } = savings;
    let price = price_per_hour.map_or_else(String::new, |price| format!(", {price:.3} an hour"));
    let cpu = amount_text("cpu", *milli_cpu, Rounding::Down);
    let memory = amount_text("memory", *memory_bytes, Rounding::Down);
    format!("{cpu} cpu, {memory} memory{price}")
}

fn moved(disruption: &Disruption) -> String {
    let Disruption { n_moved, n_without_controller, n_under_budget, n_ended } = *disruption;
    let mut parts = vec![output::count(n_moved, "pod")];
    for (n, what) in [
        (n_without_controller, "without a controller"),
        (n_under_budget, "under a budget"),
        (n_ended, "end with the node"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", output::grouped(n)));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_numbers_from_0() {
        assert_eq!(parse_price("m5.large=0.096"), Ok(("m5.large".to_owned(), 0.096)));
        for bad in ["m5.large", "a=", "a=-1", "a=NaN", "a=inf"] {
            assert!(parse_price(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn savings_and_moves_in_words() {
        let savings =
            Savings { milli_cpu: 7_500, memory_bytes: 3 << 30, price_per_hour: Some(0.25) };
        assert_eq!(saved(&savings), "7.5 cpu, 3Gi memory, 0.250 an hour");
        let disruption = Disruption { n_moved: 3, n_ended: 1, ..Disruption::default() };
        assert_eq!(moved(&disruption), "3 pods, 1 end with the node");
    }
}
