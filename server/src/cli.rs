//! The `berth` command: one file per subcommand.

mod admission;
pub mod asked;
pub mod backend;
pub mod bisect;
pub mod compare;
pub mod completions;
pub mod config;
pub mod conformance;
pub mod consolidate;
pub mod demo;
pub mod drain;
pub mod environment;
mod error;
pub mod explain;
pub mod fit;
pub mod get;
mod given;
pub mod headroom;
mod help;
pub mod input;
pub mod ledger;
pub mod lenient;
pub mod lifecycle;
pub mod man;
mod manifest;
mod outcome;
pub mod output;
pub mod place;
pub mod pods;
mod policies;
mod priced;
pub mod preempt;
mod profiles;
pub mod record;
pub mod replay;
pub mod rule;
pub mod plugin;
pub mod scale_in;
pub mod scale_up;
pub mod schedule;
pub mod serve;
pub mod session;
pub mod status;
pub mod what_if;
mod workloads;

use std::future::Future;
use std::io;
use std::process::ExitCode;

use clap::CommandFactory as _;

pub use error::CliError;

/// Decides where pods go, exactly as kube-scheduler v1.36 would, from an in-memory picture of the cluster.
#[derive(Debug, clap::Parser)]
#[command(name = "berth", version)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether the command serves others until it is stopped.
    #[must_use]
    pub fn runs_for_long(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Schedule(_) | Command::Record(_))
    }
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Serve placements over gRPC, and health and metrics over HTTP
    ///
    /// While the `--cluster` files are read, calls that decide or feed are answered with UNAVAILABLE; without such
    /// files a client feeds the cluster, and placements are UNAVAILABLE until it has.
    ///
    /// SIGTERM and SIGINT drain: calls under way are answered, then the process ends with status 0; another signal,
    /// half a second later or of the other kind, ends it at once with status 1. SIGHUP reads the `--cluster` files
    /// again: the cluster becomes what they hold then, assumed pods stay, and contradictions of a feed are forgotten.
    Serve(Box<serve::ServeArgs>),
    /// Schedule the pods that name Berth as their scheduler, and serve everything that `serve` does
    ///
    /// Fed by the API server. Pods are taken by priority and time, placed, bound, and preempt others where they must,
    /// as with kube-scheduler; conditions and events report the outcomes. Several instances elect a leader by a Lease.
    /// With `--hand-off` nothing is bound: pods are nominated to nodes, and kube-scheduler binds them.
    ///
    /// Signals are those of `serve`; before the server drains, bindings under way are ended and the Lease is given
    /// back.
    Schedule(Box<schedule::ScheduleArgs>),
    /// Record a cluster that another scheduler runs, for `compare` and `bisect`
    ///
    /// Like `berth serve --kube --journal DIR`: follows nodes, pods and the other objects of an API server and writes what
    /// changed, and which pod was bound where. It only reads there. Signals are those of `serve`.
    Record(Box<record::RecordArgs>),
    /// Start a server with a synthetic cluster, place a mixed workload through it, and show what happened
    Demo(demo::DemoArgs),
    /// Show the cluster's size and freshness, and what keeps pending pods waiting
    Status(status::StatusArgs),
    /// List nodes, pods, pending pods by cause, or assumed pods
    Get(get::GetArgs),
    /// Show where pods would be placed
    Place(place::PlaceArgs),
    /// Explain why one pod is placed where it is, or nowhere
    Explain(explain::ExplainArgs),
    /// Show which pods one pod would evict
    ///
    /// Makes a whole scheduling attempt for the pod, as kube-scheduler does when it considers every node, and if none
    /// is feasible shows which pods to evict from which node. Nothing is evicted, and the cluster stays as it is.
    Preempt(preempt::PreemptArgs),
    /// Check whether nodes can be emptied, and show where each of their pods would go
    ///
    /// For every pod of the nodes: its new node, or the reason why it cannot move, as cluster-autoscaler judges it:
    /// disruption budgets, bare pods, local storage, annotations, no room and why. Nothing is evicted, and the cluster
    /// stays as it is.
    Drain(drain::DrainArgs),
    /// Show how many more copies of one pod fit, where, and what runs out first
    ///
    /// Copies of the pod are placed one after another, each where kube-scheduler would put it with the earlier ones in
    /// place, until one fits nowhere: spread, affinity, ports and volumes count between them. The cluster stays as it
    /// is.
    Headroom(headroom::HeadroomArgs),
    /// Show which node groups would take the pods that fit nowhere, and with how many nodes
    ///
    /// Nodes of each group are added to a copy of the cluster for as long as they help, by cluster-autoscaler's rules.
    /// The cluster stays as it is.
    ScaleUp(scale_up::ScaleUpArgs),
    /// Try pods on nodes one after another, without scores
    ///
    /// Each pod goes to the first node that takes it, by cluster-autoscaler's rules, and occupies its room before the
    /// next is tried. The cluster stays as it is.
    Fit(fit::FitArgs),
    /// Plan which nodes can be removed, and where their pods go
    ///
    /// Candidates are tried one after another, the most expensive and then the emptiest first, with cluster-autoscaler's
    /// rules. Nothing is evicted, and the cluster stays as it is.
    Consolidate(consolidate::ConsolidateArgs),
    /// Choose which replicas of a workload to remove
    ///
    /// Those go first that are not ready, that keep the rest spread, and whose nodes get empty. Nothing is deleted, and
    /// the cluster stays as it is.
    ScaleIn(scale_in::ScaleInArgs),
    /// Check whether a configuration can be used, and print the result
    ///
    /// Reads the configuration of `berth serve`, flags and variables included, and the scheduling policy. Nothing else
    /// is opened, and nothing is changed.
    Config(Box<config::ConfigArgs>),
    /// Replay recorded decisions, or run lifecycle examples, and compare
    Conformance(conformance::ConformanceArgs),
    /// Make the decisions of a journal again, and compare
    Replay(replay::ReplayArgs),
    /// Set policies side by side: what would have become of recorded pods under each
    Compare(compare::CompareArgs),
    /// Find the first decision at which two policies part, and explain both
    Bisect(bisect::BisectArgs),
    /// Show what happens next to pods: phase, conditions, deletion, eviction
    ///
    /// Decides about objects as kubectl writes them, with no cluster and no server, or about pods of a cluster by name:
    /// where a pod is in its life, what a delete would do, what a budget allows. Nothing is changed anywhere.
    Lifecycle(lifecycle::LifecycleArgs),
    /// Open, change, show, commit and close what-if sessions on a server
    Session(session::SessionArgs),
    /// Show who holds pod names and volumes, and which nodes are fenced, by a server's ledger
    ///
    /// Nothing is changed: grants are made by the controllers that call the ledger.
    Ledger(ledger::LedgerArgs),
    /// Print the text of a rule that an answer names, such as L-TERM-9
    Rule(rule::RuleArgs),
    /// Print what a shell needs to complete Berth's commands and options
    Completions(completions::CompletionsArgs),
    /// Write the manual pages
    Man(man::ManArgs),
}

/// Runs the command to its end.
///
/// # Errors
/// [`CliError`], to be printed; usage errors never get here, since clap has reported them.
pub fn run(cli: Cli) -> Result<ExitCode, CliError> {
    match cli.command {
        Command::Serve(args) => {
            let config = args.resolve()?;
            block_on(config.worker_threads, serve::run(config))
        }
        Command::Schedule(args) => {
            let resolved = args.resolve()?;
            block_on(resolved.config.worker_threads, schedule::run(resolved))
        }
        Command::Record(args) => {
            let config = args.resolve()?;
            block_on(config.worker_threads, serve::run(config))
        }
        Command::Demo(args) => block_on(None, demo::run(args)),
        Command::Status(args) => block_on(None, status::run(args)),
        Command::Get(args) => block_on(None, get::run(args)),
        Command::Place(args) => block_on(None, place::run(args)),
        Command::Explain(args) => block_on(None, explain::run(args)),
        Command::Preempt(args) => block_on(None, preempt::run(args)),
        Command::Drain(args) => block_on(None, drain::run(args)),
        Command::Headroom(args) => block_on(None, headroom::run(args)),
        Command::ScaleUp(args) => block_on(None, scale_up::run(args)),
        Command::Fit(args) => block_on(None, fit::run(args)),
        Command::Consolidate(args) => block_on(None, consolidate::run(args)),
        Command::ScaleIn(args) => block_on(None, scale_in::run(args)),
        Command::Config(args) => config::run(&args),
        Command::Conformance(args) => conformance::run(args),
        Command::Lifecycle(args) => lifecycle::run(args),
        Command::Session(args) => block_on(None, session::run(args)),
        Command::Ledger(args) => block_on(None, ledger::run(args)),
        Command::Replay(args) => replay::run(args),
        Command::Compare(args) => compare::run(&args),
        Command::Bisect(args) => bisect::run(&args),
        Command::Rule(args) => rule::run(&args),
        Command::Completions(args) => completions::run(&args, help::with_help(Cli::command())),
        Command::Man(args) => man::run(&args, help::with_help(Cli::command())),
    }
}

/// Runs `command` on a runtime of `n_threads` threads, and as many for parallel loops; with `None`, one per core: fewer
/// have a lower throughput, more take turns (benches/record/2026-11-22-epyc-2-cores-wire.md).
fn block_on(
    n_threads: Option<usize>,
    command: impl Future<Output = Result<ExitCode, CliError>>,
) -> Result<ExitCode, CliError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(n_threads) = n_threads {
        builder.worker_threads(n_threads);
        rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build_global()
            .map_err(|error| CliError::Threads(io::Error::other(error)))?;
    }
    let runtime = builder.enable_all().build().map_err(CliError::Threads)?;
    let outcome = runtime.block_on(command);
    // Work without a caller must not delay the end.
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn the_command_line_is_consistent() {
        help::with_help(Cli::command()).debug_assert();
    }

    #[test]
    fn every_shell_completes_every_command() {
        let command = help::with_help(Cli::command());
        for shell in clap_complete::Shell::value_variants() {
            let script = completions::script(*shell, help::with_help(Cli::command()));
            for subcommand in command.get_subcommands() {
                let name = subcommand.get_name();
                assert!(script.contains(name), "{shell}: {name}");
            }
            assert!(script.contains("scheduler-config"), "{shell}");
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = help::with_help(Cli::command());
        command.build();
        man::write(folder.path(), &command).unwrap();
        for name in ["berth", "berth-place", "berth-man", "berth-lifecycle-phase"] {
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
            assert!(page.contains(&name.replace('-', "\\-")), "{page}");
        }
        let error = man::write(&folder.path().join("gone"), &command).unwrap_err().to_string();
        assert!(error.contains("gone/berth.1"), "{error}");
    }
}
