//! `berth lifecycle`: shows what happens next to pods in files. One file per question; the engine decides.

mod budget;
mod conditions;
mod decide;
mod delete;
mod evict_order;
mod explain;
mod files;
mod functions;
mod gc;
pub(super) mod moment;
mod named;
mod objects;
mod phase;
mod qos;

use std::process::ExitCode;

use super::CliError;
use super::lenient::LenientArgs;

/// Exit status of all questions about pods in files.
const EXIT_STATUS: &str = "\
    Exit status: 0 when every object was read and answered for; 1 when one was refused or nothing could be answered; 2 for a \
    wrong command line.";

/// Shows what happens next to pods as `kubectl get -o yaml|json` writes them: phase, conditions, deletion, eviction
#[derive(Clone, Debug, clap::Args)]
pub struct LifecycleArgs {
    #[command(flatten)]
    lenient: LenientArgs,
    #[command(subcommand)]
    question: Question,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Question {
    /// Explain which stage of its life one pod is in, why, what happens next and when
    Explain(explain::ExplainArgs),
    /// Show which phase pods are in, which may be published, and which is to be shown
    Phase(phase::PhaseArgs),
    /// Show which conditions pods have
    Conditions(conditions::ConditionsArgs),
    /// Show which class of service pods have
    Qos(qos::QosArgs),
    /// Show what a delete of one pod does, and what follows when
    Delete(delete::DeleteArgs),
    /// Show what disruption budgets allow, and which pods may be evicted
    Budget(budget::BudgetArgs),
    /// Show which pods a run of pod garbage collection removes
    Gc(gc::GcArgs),
    /// Show in which order a node under pressure evicts its pods
    EvictOrder(evict_order::EvictOrderArgs),
    /// Call any decision function by its name
    Decide(decide::DecideArgs),
    /// List the decision functions
    Functions(functions::FunctionsArgs),
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, an object that does not fit the question, a refused request.
pub fn run(args: LifecycleArgs) -> Result<ExitCode, CliError> {
    let unknown_fields = args.lenient.unknown_fields();
    match args.question {
        Question::Explain(args) => explain::run(&args, unknown_fields),
        Question::Phase(args) => phase::run(&args, unknown_fields),
        Question::Conditions(args) => conditions::run(&args, unknown_fields),
        Question::Qos(args) => qos::run(&args, unknown_fields),
        Question::Delete(args) => delete::run(&args, unknown_fields),
        Question::Budget(args) => budget::run(&args, unknown_fields),
        Question::Gc(args) => gc::run(&args, unknown_fields),
        Question::EvictOrder(args) => evict_order::run(&args, unknown_fields),
        Question::Decide(args) => decide::run(&args, unknown_fields),
        Question::Functions(args) => functions::run(&args),
    }
}
