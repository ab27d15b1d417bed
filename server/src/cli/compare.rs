//! `berth compare`: sets policies side by side on a recorded cluster.

mod figures;
mod html;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_proto::core_v1;
use clap::ValueEnum;

use super::output::{self, Format};
use super::policies::{PolicyArg, parse_policy};
use super::{CliError, priced};
use crate::compare::{self, Question, Rule, report};
use crate::feed::file::{self, UnknownFields};
use figures::Comparison;

/// Set policies side by side: what would have become of recorded pods under each
///
/// DIR is what `berth serve --journal DIR` or `berth record DIR` has written. Its pods come once more at their time, and
/// leave at it, on a cluster for each policy; the first column is what was recorded. No server is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareArgs {
    /// Directory of the journal
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// KubeSchedulerConfiguration to place the pods by, or `default` for kube-scheduler's own profile; repeatable
    #[arg(long = "policy", value_name = "FILE", required = true, value_parser = parse_policy)]
    policies: Vec<PolicyArg>,
    /// File with the nodes to place the pods on, instead of the recorded ones
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// File with the price of each instance type an hour: lines of `TYPE,PRICE`
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Let no pod leave, and have the recorded ones come again and again until none of them fits
    #[arg(long)]
    until_full: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: CompareFormat,
}

/// Output format of this command.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Table for people.
    #[default]
    Table,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
    /// A page with plots, which needs nothing else.
    Html,
}

/// Runs the command.
///
/// # Errors
/// A policy, a file or a journal that cannot be read.
pub fn run(args: &CompareArgs) -> Result<ExitCode, CliError> {
    let mut names = vec![report::RECORDED.to_owned()];
    let mut rules = vec![Rule::AsRecorded];
    for policy in &args.policies {
        names.push(policy.name());
        rules.push(Rule::by(policy.load()?));
    }
    if args.until_full {
        // The copies that come after the recorded pods have no recorded placement to compare with.
        (names, rules) = (names.split_off(1), rules.split_off(1));
    }
    let question = Question {
        rules,
        nodes: args.nodes.as_deref().map(nodes).transpose()?,
        prices: args.prices.as_deref().map(priced::read).transpose()?,
        until_full: args.until_full,
    };
    let compared = compare::compare(&args.directory, &question, &|| false);
    let compared = compared.map_err(|error| CliError::Request(error.to_string()))?;
    let compared = report::response(&names, &compared);
    let format = match args.output {
        CompareFormat::Html => {
            output::print(&html::page(&compared))?;
            return Ok(ExitCode::SUCCESS);
        }
        CompareFormat::Table => Format::Table,
        CompareFormat::Json => Format::Json,
        CompareFormat::Yaml => Format::Yaml,
    };
    output::answer(format, &compared, || Comparison(&compared).text())?;
    Ok(ExitCode::SUCCESS)
}

/// The nodes of a file.
///
/// # Errors
/// A file that cannot be read, a node of it that cannot, none.
pub(super) fn nodes(path: &Path) -> Result<Vec<core_v1::Node>, CliError> {
    let dump = file::read(path, UnknownFields::Refuse)?;
    if let Some(refused) = dump.refused.first() {
        return Err(CliError::Request(refused.to_string()));
    }
    if dump.nodes.is_empty() {
        return Err(CliError::Request(format!("`{}` has no node", path.display())));
    }
    Ok(dump.nodes.into_iter().map(|node| node.value).collect())
}
