//! `berth-loadgen`: puts load on a running Berth.

use std::process::ExitCode;

use berth_loadgen::command::Cli;
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Errors name their own cause, so the chain below them is not printed again.
    run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| anyhow::anyhow!("cannot start the runtime: {error}"))?;
    Ok(runtime.block_on(cli.run())?)
}
