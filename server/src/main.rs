//! The `berth` binary: parses the command line, runs the command, prints errors.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use berth_server::cli::{self, environment};
use berth_server::{escape, telemetry};

// No slower over gRPC than the system's allocator (benches/record/2026-11-22-epyc-2-cores-wire.md); batches and cold
// loads are measured with it. Without huge pages, with which it would hold a third more memory and up to a half
// (benches/record/2026-11-22-epyc-2-cores-soak.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
        Ok(cli) => Ok(cli::run(cli)?),
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
