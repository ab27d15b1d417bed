//! The `berth` binary: parse the command line, run the command, print what went wrong.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use berth_server::cli::{self, environment};
use berth_server::escape;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let text = error.to_string();
            // A closed stderr leaves nobody to tell; the exit status still says it.
            drop(writeln!(std::io::stderr(), "berth: {}", escape::printable_lines(&text)));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = environment::parse(&arguments).unwrap_or_else(|error| error.exit());
    Ok(cli::run(cli)?)
}
