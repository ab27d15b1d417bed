//! The `berth` binary: parses the command line, runs the command, prints errors.

mod allocator;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use berth_server::cli::{self, environment};
use berth_server::{escape, telemetry};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let text = error.to_string();
            if !telemetry::log_failure(&escape::printable_lines(&text)) {
                // If stderr is closed the message is lost; the exit status still reports the failure.
                drop(writeln!(std::io::stderr(), "berth: {}", escape::printable_lines(&text)));
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match environment::parse(&arguments) {
        Ok(cli) => {
            if cli.runs_for_long() {
                allocator::give_pages_back_at_once();
            }
            Ok(cli::run(cli)?)
        }
        Err(error) => Ok(answer(&error)?),
    }
}

/// Prints help and version, which are output like any other, or the error in the command line, with its own status.
fn answer(error: &clap::Error) -> io::Result<ExitCode> {
    let status = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX));
    match error.print().and_then(|()| io::stdout().flush()) {
        Err(cause) if !error.use_stderr() && cause.kind() != ErrorKind::BrokenPipe => {
            Err(io::Error::new(cause.kind(), format!("cannot write the output: {cause}")))
        }
        Ok(()) | Err(_) => Ok(status),
    }
}
