//! `berth session`: what-if sessions of a server, which outlive a command.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_proto::berth_v1::{
    CommittedPod, SessionServiceCloseRequest, SessionServiceCommitRequest,
    SessionServiceCommitResponse, SessionServiceOpenRequest, SessionServiceOpenResponse,
};

use super::asked::AskedArgs;
use super::backend::{BackendArgs, SourceArgs};
use super::input::InputArgs;
use super::lenient::LenientArgs;
use super::lifecycle::moment;
use super::output::{self, Format};
use super::what_if::{Gone, SupposedPods, WhatIfArgs};
use super::{CliError, status};

/// Opens what-if sessions on a server, changes and shows them, and commits or closes them
///
/// A session is a private copy of the cluster. `place --assume`, `explain`, `preempt`, `headroom`, `drain`, `fit`, `scale-up`,
/// `status` and `get` work in one with `--session ID`; the cluster itself changes only with `commit`.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionArgs {
    #[command(subcommand)]
    step: Step,
}

/// Steps in the life of a session.
#[derive(Clone, Debug, clap::Subcommand)]
enum Step {
    /// Open a session and print its id
    Open(OpenArgs),
    /// Add objects to a session, replace or remove them
    Apply(ApplyArgs),
    /// Show the cluster of a session, and what keeps its pending pods waiting
    Show(AnswerArgs),
    /// Put the session's placements into effect, all of them or none
    Commit(AnswerArgs),
    /// Drop a session
    Close(CloseArgs),
}

const EXIT_STATUS: &str = "Exit status: 0 when the server did it; 1 when it refused or could not be asked; 2 for a wrong command line.";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct OpenArgs {
    #[command(flatten)]
    server: AskedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct ApplyArgs {
    /// The session
    id: String,
    /// File with objects to add or to replace (a folder, or `-` for standard input); repeatable
    ///
    /// A pod with `spec.nodeName` runs there; the pods of a workload such as a Deployment are placed.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Node or pod to remove, for example `node/n1` or `pod/shop/web-0`; repeatable
    #[arg(long, value_name = "KIND/NAME")]
    without: Vec<Gone>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    lenient: LenientArgs,
    #[command(flatten)]
    server: AskedArgs,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct AnswerArgs {
    /// The session
    id: String,
    #[command(flatten)]
    server: AskedArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct CloseArgs {
    /// The session
    id: String,
    #[command(flatten)]
    server: AskedArgs,
}

/// Runs the command.
///
/// # Errors
/// A server that cannot be reached or refuses, an unreadable file, an impossible supposition.
pub async fn run(args: SessionArgs) -> Result<ExitCode, CliError> {
    match args.step {
        Step::Open(args) => open(&args).await?,
        Step::Apply(args) => apply(&args).await?,
        Step::Show(args) => return show(&args).await,
        Step::Commit(args) => commit(&args).await?,
        Step::Close(args) => {
            let request = SessionServiceCloseRequest { session_id: args.id.clone() };
            let server = args.server.connect().await?;
            server.answer(server.client.session().close(request).await)?;
            output::show(&format!("session {} is closed", args.id))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(args: &OpenArgs) -> Result<(), CliError> {
    let server = args.server.connect().await?;
    let opened = server.client.session().open(SessionServiceOpenRequest {}).await;
    let opened = server.answer(opened)?;
    match output::structured(args.output, &opened)? {
        Some(text) => output::print(&text)?,
        None => {
            output::print(&opened.session_id)?;
            output::note(&terms(&opened));
        }
    }
    Ok(())
}

/// On what terms a session was opened; not part of the answer, so that a script has only the id.
fn terms(opened: &SessionServiceOpenResponse) -> String {
    format!(
        "note: a copy of generation {}; dropped after {} without a call, at most {}",
        output::grouped(opened.generation),
        moment::span(opened.idle_timeout_ms / 1_000),
        output::count(opened.max_changes, "change")
    )
}

/// The flags of a command in the session.
fn within(server: &AskedArgs, id: &str, lenient: LenientArgs) -> BackendArgs {
    let source = SourceArgs {
        server: Some(server.server.clone()),
        session: Some(id.to_owned()),
        credentials: server.credentials.clone(),
        ..SourceArgs::default()
    };
    BackendArgs { source, lenient, ..BackendArgs::default() }
}

async fn apply(args: &ApplyArgs) -> Result<(), CliError> {
    let changes = WhatIfArgs::of(args.filename.clone(), args.without.clone());
    if changes.is_empty() {
        let reason = "nothing to apply: give `-f FILE` or `--without KIND/NAME`";
        return Err(CliError::Request(reason.to_owned()));
    }
    let backend = within(&args.server, &args.id, args.lenient);
    let backend = backend.open(&changes, &args.input, SupposedPods::Placed, |_| false).await?;
    let applied = backend.what_if().map(|line| line.replacen("what if:", "applied:", 1));
    output::show(&applied.unwrap_or_default())?;
    backend.close().await;
    Ok(())
}

async fn show(args: &AnswerArgs) -> Result<ExitCode, CliError> {
    let backend = within(&args.server, &args.id, LenientArgs::default());
    let (what_if, input) = (WhatIfArgs::default(), InputArgs::default());
    let backend = backend.open(&what_if, &input, SupposedPods::Pending, |_| false).await?;
    let shown = status::show(&backend, None, args.output).await;
    backend.close().await;
    shown
}

async fn commit(args: &AnswerArgs) -> Result<(), CliError> {
    let request = SessionServiceCommitRequest { session_id: args.id.clone(), assume_ttl_ms: None };
    let server = args.server.connect().await?;
    let committed = server.client.session().commit(request).await;
    let committed = server.answer(committed)?;
    output::answer(args.output, &committed, || committed_text(&committed))?;
    Ok(())
}

fn committed_text(committed: &SessionServiceCommitResponse) -> String {
    let nominated = match committed.n_nominated_pods {
        0 => String::new(),
        n => format!(", {} nominated", output::count(n, "pod")),
    };
    let summary = format!("{} assumed{nominated}", output::count(committed.n_assumed_pods, "pod"));
    if committed.assumed_pods.is_empty() {
        return summary;
    }
    let mut table = output::Table::new(&["POD", "NODE"]);
    for CommittedPod { pod, node_name, .. } in &committed.assumed_pods {
        let key = pod.clone().unwrap_or_default();
        table.add_row([format!("{}/{}", key.namespace, key.name), node_name.clone()]);
    }
    format!("{}\n\n{summary}", table.text())
}
