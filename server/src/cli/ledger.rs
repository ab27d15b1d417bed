//! `berth ledger`: what a server's ledger holds, who changed it, and whether its journal and its records agree.

mod journal;
mod subject;
mod verify;

use std::process::ExitCode;

use berth_proto::berth_v1::{FenceRecord, IdentityRecord, LedgerRecord, VolumeGrant, VolumeRecord};

use super::CliError;
use super::asked::AskedArgs;
use super::output::{self, Format};
use subject::{Record, Subject};

/// Shows who holds pod names and volumes and which nodes are fenced, by a server's ledger
#[derive(Clone, Debug, clap::Args)]
pub struct LedgerArgs {
    #[command(subcommand)]
    question: Question,
}

/// Questions to the ledger.
#[derive(Clone, Debug, clap::Subcommand)]
enum Question {
    /// List the changes of the ledger, the oldest first
    List(ListArgs),
    /// Show who holds a pod's name or a volume now, or how a node is fenced
    Holder(SubjectArgs),
    /// List the changes of one name, volume or fence
    History(SubjectArgs),
    /// Check that the journal has no gap, and that every record is what its last changes say
    Verify(VerifyArgs),
}

const EXIT_STATUS: &str = "Exit status: 0 when the server answered; 1 when it could not be asked; 2 for a wrong command line.";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct ListArgs {
    /// Only changes after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    after: u64,
    /// How many of the latest changes to list [default: all]
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    #[command(flatten)]
    server: AskedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct SubjectArgs {
    /// `identity/NAMESPACE/POD`, `volume/NAME` or `fence/NODE`
    #[arg(value_name = "SUBJECT", value_parser = Subject::parse)]
    subject: Subject,
    #[command(flatten)]
    server: AskedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 when journal and records agree; 1 when they do not, or the server could not be asked; \
                  2 for a wrong command line."
)]
struct VerifyArgs {
    #[command(flatten)]
    server: AskedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A server that cannot be reached or refuses to answer.
pub async fn run(args: LedgerArgs) -> Result<ExitCode, CliError> {
    match args.question {
        Question::List(args) => {
            let mut records = journal::after(&args.server.connect().await?, args.after).await?;
            if let Some(last) = args.last {
                records.drain(..records.len().saturating_sub(last));
            }
            print_journal(&records, args.output)
        }
        Question::History(args) => {
            let mut records = journal::after(&args.server.connect().await?, 0).await?;
            records.retain(|record| record.subject == args.subject.to_string());
            print_journal(&records, args.output)
        }
        Question::Holder(args) => {
            let record = args.subject.record(&args.server.connect().await?).await?;
            output::answer(args.output, &record, || holder(&record))?;
            Ok(ExitCode::SUCCESS)
        }
        Question::Verify(args) => {
            let report = verify::verify(&args.server.connect().await?).await?;
            output::answer(args.output, &report, || report.text())?;
            Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn print_journal(records: &[LedgerRecord], format: Format) -> Result<ExitCode, CliError> {
    output::answer(format, &records, || {
        if records.is_empty() {
            "no change is recorded".to_owned()
        } else {
            journal::table(records)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The present state of a subject in words.
fn holder(record: &Record) -> String {
    match record {
        Record::Identity(identity) => of_identity(identity),
        Record::Volume(volume) => of_volume(volume),
        Record::Fence(fence) => of_fence(fence),
    }
}

fn of_identity(record: &IdentityRecord) -> String {
    let name = format!("{}/{}", record.namespace, record.name);
    let unsafely =
        if record.released_unsafely { "; a force delete once released it unsafely" } else { "" };
    if record.holder_uid.is_empty() {
        return format!("{name} is free{unsafely}");
    }
    let on = if record.node_name.is_empty() { "no known node" } else { &record.node_name };
    let IdentityRecord { holder_uid, token, acquired_by, .. } = record;
    let by = if acquired_by.is_empty() { String::new() } else { format!(", for {acquired_by}") };
    format!("{name} is held by uid {holder_uid} on {on}{by}, token {token}{unsafely}")
}

fn of_volume(record: &VolumeRecord) -> String {
    let modes = match &record.access_modes[..] {
        [] => "no access modes named".to_owned(),
        modes => modes.join(", "),
    };
    let head = format!("{} ({modes}), version {}", record.volume, record.version);
    if record.holders.is_empty() {
        return format!("{head}: nobody holds it");
    }
    let mut table = output::Table::new(&["NODE", "POD UID", "TOKEN"]);
    for VolumeGrant { node, pod_uid, token } in &record.holders {
        table.add_row([node.as_str(), pod_uid, &token.to_string()]);
    }
    format!("{head}\n{}", table.text())
}

fn of_fence(record: &FenceRecord) -> String {
    let FenceRecord { node_name, scope, state, token, renewal } = record;
    if state.is_empty() {
        return format!("{node_name} was never fenced");
    }
    let renewal = renewal.as_ref().map_or_else(String::new, |renewal| {
        format!("; a renewal of scope {} is under way, token {}", renewal.scope, renewal.token)
    });
    format!("{node_name}: {state}, scope {scope}, token {token}{renewal}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_as_sentences() {
        let free = IdentityRecord {
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            ..IdentityRecord::default()
        };
        assert_eq!(of_identity(&free), "shop/db-0 is free");
        let held = IdentityRecord {
            holder_uid: "u".to_owned(),
            token: 7,
            node_name: "n1".to_owned(),
            released_unsafely: true,
            acquired_by: "ann".to_owned(),
            ..free
        };
        let expected = "shop/db-0 is held by uid u on n1, for ann, token 7; a force delete once released it unsafely";
        assert_eq!(of_identity(&held), expected);
        let never = FenceRecord { node_name: "n1".to_owned(), ..FenceRecord::default() };
        assert_eq!(of_fence(&never), "n1 was never fenced");
        let volume = VolumeRecord { volume: "v".to_owned(), ..VolumeRecord::default() };
        assert_eq!(of_volume(&volume), "v (no access modes named), version 0: nobody holds it");
    }
}
