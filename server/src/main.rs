//! The `berth` binary: parse the command line, run the command, print what went wrong.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use berth_server::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            // A closed stderr leaves nobody to tell; the exit status still says it.
            drop(writeln!(std::io::stderr(), "berth: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    Ok(cli::run(cli)?)
}
