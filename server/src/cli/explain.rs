//! `berth explain`: why does this pod go where it goes, or nowhere?

use std::collections::BTreeMap;
use std::process::ExitCode;

use berth_proto::berth_v1::{Decision, ExplainResponse, NodeVerdict, Remedy, decision::Outcome};
use berth_proto::core_v1::Pod;

use super::backend::BackendArgs;
use super::output::{self, Format};
use super::{CliError, pods};

/// How many node names stand for a group.
const N_EXAMPLES: usize = 3;

/// Explains the decision for one pod: rejections, scores, and the nearest remedies
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// A file with one pod (`-` for standard input), or `namespace/name` of a pod of the dump
    #[arg(value_name = "POD")]
    pod: String,
    #[command(flatten)]
    backend: BackendArgs,
    /// Only this node, with everything known about it; repeatable
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// How many of the best nodes to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Form of the answer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// An unreadable file, not exactly one pod, a pod that is refused, an unknown node, a server that is not there.
pub async fn run(args: ExplainArgs) -> Result<ExitCode, CliError> {
    let backend = args.backend.open().await?;
    let (pods, n_refused) = pods::find(std::slice::from_ref(&args.pod), &backend)?;
    let [pod] = <[Pod; 1]>::try_from(pods).map_err(|pods| {
        let n_pods = pods.len();
        CliError::Request(format!(
            "`{}` holds {n_pods} pods ({n_refused} refused), one is explained at a time",
            args.pod
        ))
    })?;
    let metadata = pod.metadata.clone().unwrap_or_default();
    let name = format!("{}/{}", metadata.namespace, metadata.name);
    let account = backend.explain(pod, args.nodes.clone()).await?;
    if let Some(unknown) = unknown_node(&args.nodes, &account) {
        return Err(CliError::Request(format!("the cluster has no node `{unknown}`")));
    }
    match output::structured(args.output, &account)? {
        Some(text) => output::print(&text)?,
        None => output::print(&text(&name, &account, &args))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A node that was asked for and that the account should hold but does not.
fn unknown_node<'a>(asked: &'a [String], account: &ExplainResponse) -> Option<&'a String> {
    let nodes_were_filtered =
        match account.decision.as_ref().and_then(|decision| decision.outcome.as_ref()) {
            Some(Outcome::Placement(_)) => true,
            Some(Outcome::Unschedulable(unschedulable)) => {
                unschedulable.pre_filter_plugin.is_empty()
            }
            Some(Outcome::Gated(_)) | None => false,
        };
    asked.iter().find(|name| {
        nodes_were_filtered && !account.nodes.iter().any(|node| node.node_name == **name)
    })
}

fn text(name: &str, account: &ExplainResponse, args: &ExplainArgs) -> String {
    let mut sections = vec![summary(name, account.decision.as_ref())];
    if args.nodes.is_empty() {
        sections.extend(best_nodes(&account.nodes, args.top));
        sections.extend(rejections(&account.nodes));
        sections.extend(remedies(&account.remedies));
    } else {
        sections.extend(account.nodes.iter().map(one_node));
    }
    sections.join("\n\n")
}

fn summary(name: &str, decision: Option<&Decision>) -> String {
    match decision.and_then(|decision| decision.outcome.as_ref()) {
        Some(Outcome::Placement(placement)) => {
            let feasible = output::count(placement.n_feasible_nodes.into(), "feasible node");
            let score = match placement.total_score {
                Some(total) if placement.n_best_nodes > 1 => {
                    format!(
                        "score {total}, shared by {} nodes, of {feasible}",
                        placement.n_best_nodes
                    )
                }
                Some(total) => format!("score {total}, the best of {feasible}"),
                None => "the only feasible node, so nothing is scored".to_owned(),
            };
            format!("{name} goes to {}: {score}", placement.node_name)
        }
        Some(Outcome::Unschedulable(unschedulable)) => {
            let by = match unschedulable.pre_filter_plugin.as_str() {
                "" => String::new(),
                plugin => {
                    format!("\nrefused as a whole by {plugin}, before any node was looked at")
                }
            };
            format!("{name} is pending: {}{by}", unschedulable.message)
        }
        Some(Outcome::Gated(gated)) => {
            format!("{name} is held back by {}: {}", gated.plugin, gated.reasons.join(", "))
        }
        None => format!("{name}: the answer holds no decision"),
    }
}

/// The nodes of the highest totals with what each plugin gave them, times its weight.
fn best_nodes(nodes: &[NodeVerdict], top: usize) -> Option<String> {
    let mut feasible: Vec<&NodeVerdict> = nodes.iter().filter(|node| node.feasible).collect();
    feasible.sort_by(|a, b| {
        b.total_score.cmp(&a.total_score).then_with(|| a.node_name.cmp(&b.node_name))
    });
    let first = feasible.first()?;
    let plugins: Vec<&str> = first.scores.iter().map(|score| score.plugin.as_str()).collect();
    let headings: Vec<&str> =
        ["NODE", "SCORE"].into_iter().chain(plugins.iter().copied()).collect();
    let mut table = output::table(&headings);
    for node in feasible.iter().take(top) {
        let score_of = |plugin: &&str| {
            let score = node.scores.iter().find(|score| score.plugin == *plugin);
            score.map_or_else(|| "-".to_owned(), |score| score.weighted.to_string())
        };
        let cells = [node.node_name.clone(), node.total_score.to_string()];
        table.add_row(cells.into_iter().chain(plugins.iter().map(score_of)));
    }
    let more = match feasible.len().saturating_sub(top) {
        0 => String::new(),
        n => format!(
            "\nand {} more",
            output::count(u64::try_from(n).unwrap_or(u64::MAX), "feasible node")
        ),
    };
    Some(format!("{}{more}", output::table_text(&table)))
}

/// Rejected nodes by plugin and reason, most nodes first.
fn rejections(nodes: &[NodeVerdict]) -> Option<String> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let Some(rejection) = &node.rejection else {
            continue;
        };
        let plugin =
            if rejection.plugin.is_empty() { "(left out by PreFilter)" } else { &rejection.plugin };
        for reason in &rejection.reasons {
            groups.entry((plugin, reason, &rejection.code)).or_default().push(&node.node_name);
        }
    }
    if groups.is_empty() {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let mut table =
        output::table(&["REJECTED BY", "REASON", "NODES", "EVICTION MAY HELP", "FOR EXAMPLE"]);
    for ((plugin, reason, code), nodes) in groups {
        let helps = if code == "Unschedulable" { "yes" } else { "no" };
        let examples = nodes.iter().take(N_EXAMPLES).copied().collect::<Vec<_>>().join(", ");
        table.add_row([plugin, reason, &nodes.len().to_string(), helps, &examples]);
    }
    Some(output::table_text(&table))
}

fn remedies(remedies: &[Remedy]) -> Option<String> {
    if remedies.is_empty() {
        return None;
    }
    let mut table = output::table(&["NEAREST REMEDY", "NODES", "FOR EXAMPLE"]);
    for remedy in remedies {
        let examples = remedy
            .example_node_names
            .iter()
            .take(N_EXAMPLES)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        table.add_row([remedy.change.clone(), remedy.n_nodes.to_string(), examples]);
    }
    Some(output::table_text(&table))
}

fn one_node(node: &NodeVerdict) -> String {
    let name = &node.node_name;
    if let Some(rejection) = &node.rejection {
        let by = match rejection.plugin.as_str() {
            "" => "left out by a PreFilter result".to_owned(),
            plugin => format!("rejected by {plugin}"),
        };
        return format!("node {name}: {by} ({}): {}", rejection.code, rejection.reasons.join(", "));
    }
    let mut table = output::table(&["PLUGIN", "RAW", "WEIGHTED"]);
    for score in &node.scores {
        table.add_row([score.plugin.clone(), score.raw.to_string(), score.weighted.to_string()]);
    }
    format!("node {name}: feasible, score {}\n{}", node.total_score, output::table_text(&table))
}
