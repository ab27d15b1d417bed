//! `berth lifecycle`: what happens next to pods in files? A question a file; the answers are the engine's.

mod budget;
mod conditions;
mod decide;
mod delete;
mod evict_order;
mod explain;
mod functions;
mod gc;
pub(super) mod moment;
mod objects;
mod phase;
mod qos;

use std::process::ExitCode;

use super::CliError;

/// Why every question about pods in files ends as it does.
const EXIT_STATUS: &str = "\
    Exit status: 0 when every object was read and answered for; 1 when one was refused or nothing could be answered; 2 for a \
    wrong command line.";

/// Says what happens next to pods as `kubectl get -o yaml|json` writes them: phase, conditions, deletion, eviction
#[derive(Clone, Debug, clap::Args)]
pub struct LifecycleArgs {
    #[command(subcommand)]
    question: Question,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Question {
    /// Tell where one pod is in its life, why, what happens next and when
    Explain(explain::ExplainArgs),
    /// Say which phase pods are in, which may be published, and which is to be shown
    Phase(phase::PhaseArgs),
    /// Say which conditions pods have
    Conditions(conditions::ConditionsArgs),
    /// Say which class of service pods have
    Qos(qos::QosArgs),
    /// Say what a delete of one pod does, and what follows when
    Delete(delete::DeleteArgs),
    /// Say what disruption budgets allow, and which pods may be evicted
    Budget(budget::BudgetArgs),
    /// Say which pods a run of pod garbage collection removes
    Gc(gc::GcArgs),
    /// Say in which order a node under pressure evicts its pods
    EvictOrder(evict_order::EvictOrderArgs),
    /// Put a request to any decision function by its name
    Decide(decide::DecideArgs),
    /// List the decision functions
    Functions(functions::FunctionsArgs),
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, an object that is not what the question is about, a request that is refused.
pub fn run(args: LifecycleArgs) -> Result<ExitCode, CliError> {
    match args.question {
        Question::Explain(args) => explain::run(&args),
        Question::Phase(args) => phase::run(&args),
        Question::Conditions(args) => conditions::run(&args),
        Question::Qos(args) => qos::run(&args),
        Question::Delete(args) => delete::run(&args),
        Question::Budget(args) => budget::run(&args),
        Question::Gc(args) => gc::run(&args),
        Question::EvictOrder(args) => evict_order::run(&args),
        Question::Decide(args) => decide::run(&args),
        Question::Functions(args) => functions::run(&args),
    }
}
