//! `berth conformance`: replays recorded decisions of kube-scheduler, or runs worked examples of lifecycle decisions,
//! and prints the differences.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::KubernetesVersion;

use super::CliError;
use super::output::{self, Format};
use crate::config::version;
use crate::conformance::report::{Corpus, Report, Status, SuiteReport};
use crate::conformance::tally::{Aspect, Difference, Place, Tallies, Tally};
use crate::conformance::{self, Selection};

/// Replays recorded decisions of kube-scheduler, or runs lifecycle examples; exits with 1 on any difference
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when nothing differs; 1 when anything differs or cannot be read; 2 for a wrong command line."
)]
pub struct ConformanceArgs {
    /// Directory of `SUITE.jsonl.gz` files with recorded decisions, or a JSON file of lifecycle examples
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// Only this suite, or this group of examples; repeatable
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Only every N-th case of a suite
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    every: u16,
    /// Version of Kubernetes to follow [default: the one that DIR is named after, as in `conformance-1.37`, else 1.36]
    #[arg(long, value_name = "VERSION", value_parser = version::parser())]
    kubernetes_version: Option<KubernetesVersion>,
    /// How many differences to show per suite
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    differences: usize,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command; the status is 1 when anything differs.
///
/// # Errors
/// An unreadable or empty directory or file, an unknown suite, a file that is not a suite or holds no examples.
pub fn run(args: ConformanceArgs) -> Result<ExitCode, CliError> {
    let selection = Selection {
        suites: args.suites,
        every: args.every.into(),
        kubernetes_version: args.kubernetes_version,
        n_differences: args.differences,
    };
    let report = conformance::run(&args.path, &selection)
        .map_err(|error| CliError::Request(error.to_string()))?;
    output::answer(args.output, &report.to_json(), || text(&report))?;
    Ok(if report.is_match() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(report: &Report) -> String {
    let mut sections = match report.corpus {
        Corpus::Lifecycle => vec![groups(report)],
        Corpus::Decisions => {
            let tables = [Some(suites(report)), preemption(report), scores(report)];
            tables.into_iter().flatten().collect()
        }
    };
    sections.extend(report.suites.iter().filter_map(differences));
    if report.sampled_every > 1 {
        sections.push(format!("note: only every {}th case was run", report.sampled_every));
    }
    let n_of = |status| report.suites.iter().filter(|suite| suite.status() == status).count();
    let (matched, mismatched) = (n_of(Status::Match), n_of(Status::Mismatch));
    let noun = match report.corpus {
        Corpus::Decisions => "suite",
        Corpus::Lifecycle => "group",
    };
    let n_suites = output::count(report.suites.len(), noun);
    sections.push(format!("{n_suites}: {matched} match, {mismatched} differ"));
    sections.join("\n\n")
}

fn suites(report: &Report) -> String {
    let mut table = output::Table::new(&[
        "SUITE",
        "CASES",
        "STEPS",
        "OUTCOMES",
        "REJECTIONS",
        "FEASIBLE",
        "SCORES",
        "TOTALS",
        "BEST",
        "MESSAGES",
        "VOLUMES",
        "RESULT",
    ])
    .dropping([10, 9, 8, 7, 6, 5, 4, 3]);
    for suite in &report.suites {
        let counted = |aspect| fraction(suite.tallies.of(aspect));
        table.add_row([
            suite.name.clone(),
            output::grouped(suite.n_cases),
            output::grouped(suite.n_steps),
            counted(Aspect::Outcome),
            counted(Aspect::Rejections),
            counted(Aspect::Feasible),
            fraction(suite.tallies.scores()),
            counted(Aspect::Totals),
            counted(Aspect::Best),
            counted(Aspect::Messages),
            counted(Aspect::Volumes),
            result(suite),
        ]);
    }
    table.text()
}

/// Table of the groups of lifecycle examples, a row each.
fn groups(report: &Report) -> String {
    let mut table = output::Table::new(&["GROUP", "EXAMPLES", "ANSWERS", "FIELDS", "RESULT"]);
    for suite in &report.suites {
        table.add_row([
            suite.name.clone(),
            output::grouped(suite.n_cases),
            fraction(suite.tallies.of(Aspect::Answers)),
            fraction(suite.tallies.of(Aspect::Fields)),
            result(suite),
        ]);
    }
    table.text()
}

fn result(suite: &SuiteReport) -> String {
    match suite.status() {
        Status::Match => "match".to_owned(),
        Status::Mismatch => format!("{} DIFFERENCES", output::grouped(suite.n_differences)),
    }
}

/// Table of PostFilter's results, a row for each suite with a pod that fits nowhere.
fn preemption(report: &Report) -> Option<String> {
    let mut table = output::Table::new(&[
        "PREEMPTION IN",
        "WHOLE MESSAGES",
        "POST FILTER",
        "CANDIDATES",
        "NOT HELPED",
        "BEST",
        "VICTIMS",
        "NOMINATIONS",
    ])
    .dropping([7, 6, 5, 4, 3]);
    let is_about =
        |suite: &&SuiteReport| suite.tallies.of(Aspect::WholeMessages) != Tally::default();
    let mut suites = report.suites.iter().filter(is_about).peekable();
    suites.peek()?;
    for suite in suites {
        let counted = |aspect| fraction(suite.tallies.of(aspect));
        table.add_row([
            suite.name.clone(),
            counted(Aspect::WholeMessages),
            counted(Aspect::PostFilter),
            counted(Aspect::Candidates),
            counted(Aspect::NotHelped),
            counted(Aspect::BestCandidates),
            counted(Aspect::Victims),
            counted(Aspect::Nominations),
        ]);
    }
    Some(table.text())
}

/// Table of each plugin's scores, over all suites.
fn scores(report: &Report) -> Option<String> {
    let mut by_plugin = Tallies::default();
    for suite in &report.suites {
        by_plugin.add(&suite.tallies);
    }
    by_plugin.0.retain(|aspect, _| matches!(aspect, Aspect::Score(_)));
    if by_plugin.0.is_empty() {
        return None;
    }
    let mut table = output::Table::new(&["SCORES OF", "EQUAL"]);
    for (aspect, tally) in &by_plugin.0 {
        table.add_row([aspect.name().to_owned(), fraction(*tally)]);
    }
    Some(table.text())
}

fn differences(suite: &SuiteReport) -> Option<String> {
    if suite.n_differences == 0 {
        return None;
    }
    let (shown, all) = (suite.differences.len(), suite.n_differences);
    let mut lines = vec![format!("{}: {shown} of {all} differences", suite.name)];
    for (case, difference) in &suite.differences {
        lines.push(format!("  {case}, {}", place(difference)));
        lines.push(format!("    expected: {}", difference.expected));
        lines.push(format!("    got:      {}", difference.got));
    }
    Some(lines.join("\n"))
}

fn place(difference: &Difference) -> String {
    match &difference.place {
        Place::Step { step, node } => {
            let node = node.as_ref().map(|node| format!(", node {node}")).unwrap_or_default();
            format!("step {step}{node}: {}", difference.aspect.name())
        }
        Place::Answer { function, requirements, path } => {
            let path = if path.is_empty() { "the answer" } else { path };
            format!("{function} ({}): {path}", requirements.join(", "))
        }
    }
}

/// Formats a tally: `all 12` if everything is equal, `11/12` otherwise, `-` if nothing was compared.
fn fraction(tally: Tally) -> String {
    match tally {
        Tally { compared: 0, .. } => "-".to_owned(),
        Tally { matched, compared } if matched == compared => {
            format!("all {}", output::grouped(compared))
        }
        Tally { matched, compared } => {
            format!("{}/{}", output::grouped(matched), output::grouped(compared))
        }
    }
}
