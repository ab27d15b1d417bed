//! `berth bisect`: finds where two policies part on a recorded cluster.

use std::convert::Infallible;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::Time;
use berth_proto::berth_v1::ExplainResponse;
use serde::Serialize;

use super::output::{self, Format};
use super::policies::{PolicyArg, parse_policy};
use super::{CliError, compare::nodes, explain};
use crate::compare::{self, Parting, Says};
use crate::service::convert;

/// Number of best nodes in a table.
const N_BEST: usize = 5;

/// Find the first decision at which two policies part, and explain both
///
/// DIR is what `berth serve --journal DIR` or `berth record DIR` has written. Its pods come once more at their time and are
/// placed by the first policy; the second one is asked, too, until it says something else. No server is asked.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when the policies agree on every pod; 1 when they part, or the journal cannot be \
    read; 2 for a wrong command line."
)]
pub struct BisectArgs {
    /// Directory of the journal
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// KubeSchedulerConfiguration, or `default` for kube-scheduler's own profile; given twice
    #[arg(long = "policy", value_name = "FILE", required = true, value_parser = parse_policy)]
    policies: Vec<PolicyArg>,
    /// File with the nodes to place the pods on, instead of the recorded ones
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// Another number of policies than two; a policy, a file or a journal that cannot be read.
pub fn run(args: &BisectArgs) -> Result<ExitCode, CliError> {
    let [first, second] = &args.policies[..] else {
        return Err(CliError::Request("`--policy` must be given twice".to_owned()));
    };
    let nodes = args.nodes.as_deref().map(nodes).transpose()?;
    let policies = [first.load()?, second.load()?];
    let found = compare::bisect(&args.directory, policies, nodes.as_deref());
    let (parting, n_decisions) = found.map_err(|error| CliError::Request(error.to_string()))?;
    let answer = Answer {
        n_decisions_alike: n_decisions,
        parting: parting.map(|parting| told(*parting, [first.name(), second.name()])),
    };
    output::answer(args.output, &answer, || text(&answer))?;
    Ok(if answer.parting.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    n_decisions_alike: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    parting: Option<Told>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    time: Option<Time>,
    namespace: String,
    name: String,
    policies: [ToldPolicy; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToldPolicy {
    name: String,
    account: ExplainResponse,
    #[serde(skip_serializing_if = "Option::is_none")]
    evicts: Option<ToldEviction>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToldEviction {
    node_name: String,
    victims: Vec<String>,
}

fn told(parting: Parting, names: [String; 2]) -> Told {
    let Parting { at, pod, says } = parting;
    let [first, second] = says;
    let [of_first, of_second] = names;
    Told {
        time: Time::try_from_unix_microseconds(at),
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        policies: [told_policy(of_first, first), told_policy(of_second, second)],
    }
}

fn told_policy(name: String, Says { explanation, evicts }: Says) -> ToldPolicy {
    let account = match convert::explanation(explanation, &[], || Ok::<_, Infallible>(())) {
        Ok(account) => account,
        Err(never) => match never {},
    };
    let evicts = evicts.map(|evicts| ToldEviction {
        node_name: evicts.node.to_string(),
        victims: evicts.victims.iter().map(ToString::to_string).collect(),
    });
    ToldPolicy { name, account, evicts }
}

fn text(answer: &Answer) -> String {
    let n_alike = output::count(answer.n_decisions_alike, "decision");
    let Some(Told { time, namespace, name, policies }) = &answer.parting else {
        return format!("the policies agree: {n_alike} alike");
    };
    let time = time.unwrap_or_default();
    let pod = format!("{namespace}/{name}");
    let head = format!("after {n_alike} alike, at {time}, the policies part about `{pod}`");
    let mut sections = vec![head];
    for ToldPolicy { name, account, evicts } in policies {
        let in_short = explain::in_short(&pod, account, N_BEST);
        sections.push(format!("policy `{name}`: {in_short}"));
        if let Some(ToldEviction { node_name, victims }) = evicts {
            sections.push(format!("on `{node_name}` it evicts {}", victims.join(", ")));
        }
    }
    sections.join("\n\n")
}
