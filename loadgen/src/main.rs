//! `berth-loadgen`: puts load on a running Berth.

use std::process::ExitCode;

use berth_loadgen::command::Cli;
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("berth-loadgen: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(cli.run()).unwrap_or_else(|error| {
        // Errors name their own cause, so the chain below them is not printed again.
        eprintln!("berth-loadgen: {error}");
        error.exit_code()
    })
}

/// Help and version as the parser prints them; its errors under this program's name, as all others.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    eprintln!("berth-loadgen: {}", text.trim_end());
    std::process::exit(error.exit_code())
}
