//! `berth lifecycle budget`: shows what PodDisruptionBudgets allow, and whether pods may be evicted.

mod figures;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::ModelError;
use berth_engine::lifecycle::disruption;
use berth_proto::berth_v1::{EvictRequest, EvictResponse};
use berth_proto::policy_v1::PodDisruptionBudget;
use serde::Serialize;

use super::files::FileArgs;
use super::moment::NowArgs;
use crate::cli::CliError;
use crate::cli::output::{self, Format};
use crate::feed::file::{Located, UnknownFields};
use crate::feed::object_name;
use figures::Figures;

/// Computes the figures of PodDisruptionBudgets, and answers a request to evict each pod, one at a time
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Each pod is asked about as if nobody else were evicted. ReplicaSets, StatefulSets and ReplicationControllers in \
                  the files tell how many pods there should be, where a budget is a percentage or a `maxUnavailable`.\n\nExit \
                  status: 0 when every object was read and answered for, whoever may be evicted; 1 when one was refused or nothing \
                  could be answered; 2 for a wrong command line."
)]
pub(super) struct BudgetArgs {
    /// Files with budgets, pods and their controllers, as kubectl writes them; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    input: FileArgs,
    /// Only this pod, as `namespace/name`; repeatable
    #[arg(long = "pod", value_name = "POD")]
    pods: Vec<String>,
    #[command(flatten)]
    now: NowArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Output for programs: the answers of `PDBStatus` and `Evict`.
#[derive(Serialize)]
struct BudgetOutput<'a> {
    budgets: &'a [Figures],
    pods: Vec<Eviction<'a>>,
}

#[derive(Serialize)]
struct Eviction<'a> {
    pod: &'a str,
    #[serde(flatten)]
    answer: &'a EvictResponse,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a budget or a pod, a refused budget, a pod that no file has.
pub(super) fn run(args: &BudgetArgs, unknown_fields: UnknownFields) -> Result<ExitCode, CliError> {
    let now = args.now.get();
    let mut objects = args.input.read(&args.files, unknown_fields)?;
    if objects.budgets.is_empty() {
        return Err(objects.hold_no("PodDisruptionBudget"));
    }
    let controllers = figures::controllers(&objects.others);
    let mut figures = Vec::new();
    let mut budgets = Vec::new();
    for budget in std::mem::take(&mut objects.budgets) {
        let of_budget = loop {
            let places = figures::places(&budget.value, &objects.pods);
            match figures::of(&budget.value, &objects.pods, &places, &controllers, now) {
                Ok(of_budget) => break of_budget,
                Err(error) => {
                    let refused = objects.refuse_one(error, |index| places.get(index).copied());
                    refused.map_err(|error| of_budget_itself(&budget, error))?
                }
            };
        };
        budgets.push(of_budget.write_into(budget.value));
        figures.push(of_budget);
    }
    let mut request =
        EvictRequest { pod: None, pdbs: budgets, dry_run: true, now: Some(now), key: None };
    let mut evictions = objects.ask(|pod| {
        request.pod = Some(pod.clone());
        disruption::evict(&request)
    })?;
    if let Some(unknown) =
        args.pods.iter().find(|name| !evictions.iter().any(|(pod, _)| pod == *name))
    {
        return Err(CliError::Request(format!("no file has pod `{unknown}`")));
    }
    evictions.retain(|(pod, _)| args.pods.is_empty() || args.pods.contains(pod));
    let pods = evictions.iter().map(|(pod, answer)| Eviction { pod, answer }).collect();
    let answer = BudgetOutput { budgets: &figures, pods };
    output::answer(args.output, &answer, || table(&answer))?;
    Ok(objects.status())
}

/// Error for a refused budget. Nothing is shown then, since its pods would look unprotected.
fn of_budget_itself(budget: &Located<PodDisruptionBudget>, error: ModelError) -> CliError {
    let name = object_name("PodDisruptionBudget", budget.value.metadata.as_ref());
    let ModelError { field, reason } = error;
    let field = field.strip_prefix("pdb.").unwrap_or(&field);
    CliError::Request(format!("{}: {name}: `{field}`: {reason}", budget.location))
}

fn table(answer: &BudgetOutput<'_>) -> String {
    let mut pods = output::Table::new(&["POD", "OUTCOME", "CODE", "RETRY AFTER", "MESSAGE"])
        .wrapping(4)
        .dropping([2]);
    for Eviction { pod, answer } in &answer.pods {
        let retry = answer.retry_after_seconds;
        pods.add_row([
            (*pod).to_owned(),
            answer.outcome.clone(),
            answer.code.to_string(),
            retry.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
            if answer.message.is_empty() { "-".to_owned() } else { answer.message.clone() },
        ]);
    }
    format!("{}\n\n{}", figures::table(answer.budgets), pods.text())
}
