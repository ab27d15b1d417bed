//! `berth scale-in`: which replicas of a workload to remove.

use std::process::ExitCode;

use berth_proto::berth_v1::{
    ChooseScaleInRequest, ChooseScaleInResponse, PodKey, ScaleInPod, ScaleInSpread,
};

use super::backend::{Backend, BackendArgs};
use super::given::pod_named;
use super::input::InputArgs;
use super::output::{self, Format};
use super::what_if::{SupposedPods, WhatIfArgs};
use super::{CliError, pods};
use crate::service::label_selector::LabelSelector;

/// Chooses replicas of a workload to remove, so that the rest stays spread and nodes get empty
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the replicas were chosen; 1 when they could not be; 2 for a wrong command line."
)]
pub struct ScaleInArgs {
    /// Replicas of the workload by name, `namespace/name` or with `-n`; all of them, not only those to remove
    #[arg(value_name = "POD", required_unless_present = "selector", conflicts_with = "selector")]
    pods: Vec<String>,
    /// Selector of the workload's pods, as for kubectl: `app=web`
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelSelector::parse)]
    selector: Option<LabelSelector>,
    /// How many replicas to remove
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    remove: u32,
    /// Node label to spread over, the most important first, instead of the workload's own constraints; repeatable
    #[arg(long, value_name = "LABEL")]
    topology_key: Vec<String>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    what_if: WhatIfArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// An impossible choice or supposition, a cluster that cannot be read.
pub async fn run(args: ScaleInArgs) -> Result<ExitCode, CliError> {
    let request = request(&args)?;
    let (what_if, supposed) = (&args.what_if, SupposedPods::Placed);
    let question = async |backend: &mut Backend| answer(&args, request, backend).await;
    args.backend.ask(what_if, &args.input, supposed, pods::is_pending, question).await
}

async fn answer(
    args: &ScaleInArgs,
    request: ChooseScaleInRequest,
    backend: &Backend,
) -> Result<ExitCode, CliError> {
    let chosen = backend.choose_scale_in(request).await;
    backend.tell(&backend.notes());
    let chosen = chosen.map_err(|error| error.naming("n", "--remove"))?;
    output::answer(args.output, &chosen, || {
        output::sections(backend.what_if(), sections(&chosen))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn request(args: &ScaleInArgs) -> Result<ChooseScaleInRequest, CliError> {
    let namespace = args.input.namespace().unwrap_or("default");
    let key = |pod: &String| match pod_named(pod, Some(namespace)) {
        Some((namespace, name)) => Ok(PodKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..PodKey::default()
        }),
        None => Err(CliError::Request(format!("`{pod}` is no pod's name, such as `shop/web-0`"))),
    };
    let selector = args.selector.as_ref().map(LabelSelector::to_object).transpose();
    Ok(ChooseScaleInRequest {
        namespace: namespace.to_owned(),
        selector: selector.map_err(|why| CliError::Request(format!("`--selector`: {why}")))?,
        pods: args.pods.iter().map(key).collect::<Result<_, _>>()?,
        n: args.remove,
        topology_keys: args.topology_key.clone(),
        ..ChooseScaleInRequest::default()
    })
}

fn sections(chosen: &ChooseScaleInResponse) -> Vec<String> {
    let mut sections = vec![of_pods(&chosen.pods)];
    if !chosen.spread.is_empty() {
        sections.push(of_spread(&chosen.spread));
    }
    let budgets = chosen.budgets.iter().map(|budget| {
        format!(
            "{}/{} covers {} of them and allows {}",
            budget.namespace,
            budget.name,
            output::count(budget.n_used, "pod"),
            output::count(budget.disruptions_allowed.max(0).unsigned_abs(), "disruption")
        )
    });
    let budgets: Vec<String> = budgets.collect();
    if !budgets.is_empty() {
        sections.push(format!("budgets: {}", budgets.join("; ")));
    }
    if !chosen.emptied_node_names.is_empty() {
        sections.push(format!("left empty: {}", chosen.emptied_node_names.join(", ")));
    }
    let terminating = match chosen.n_terminating {
        0 => String::new(),
        n => format!(", {} being deleted already", output::count(n, "pod")),
    };
    let n_chosen = output::grouped(chosen.pods.len());
    let all = output::count(chosen.n_replicas, "replica");
    sections.push(format!("{n_chosen} of {all}{terminating}"));
    sections
}

fn of_pods(pods: &[ScaleInPod]) -> String {
    let mut table = output::Table::new(&["POD", "NODE", "DELETION COST", "BECAUSE"]).wrapping(3);
    for ScaleInPod { pod, node_name, message, deletion_cost, .. } in pods {
        let key = pod.clone().unwrap_or_default();
        let cost = deletion_cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string());
        table.add_row([
            format!("{}/{}", key.namespace, key.name),
            node_name.clone(),
            cost,
            message.clone(),
        ]);
    }
    table.text()
}

fn of_spread(spread: &[ScaleInSpread]) -> String {
    let mut table = output::Table::new(&["SPREAD OVER", "SKEW", "THEN", "DOMAINS"]).wrapping(3);
    for ScaleInSpread { topology_key, skew_before, skew_after, domains, .. } in spread {
        let domain =
            domains.iter().map(|it| format!("{} {} -> {}", it.name, it.n_before, it.n_after));
        let domains = domain.collect::<Vec<_>>().join(", ");
        let (before, after) = (skew_before.to_string(), skew_after.to_string());
        table.add_row([topology_key, &before, &after, &domains]);
    }
    table.text()
}
