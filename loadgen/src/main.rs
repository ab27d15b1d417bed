//! `berth-loadgen`: puts load on a running Berth.

use std::io::Write as _;
use std::process::ExitCode;

use berth_loadgen::command::{Cli, tell};
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            tell(format_args!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(cli.run()).unwrap_or_else(|error| {
        // Errors name their own cause, so the chain below them is not printed again.
        tell(format_args!("{error}"));
        error.exit_code()
    })
}

/// Help and version as the parser prints them; its errors under this program's name, as all others.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        // Help and version are output like any other.
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        if let Err(cause) = printed.as_ref().map_err(std::io::Error::kind)
            && cause != std::io::ErrorKind::BrokenPipe
        {
            tell(format_args!("cannot write the output: {cause}"));
            std::process::exit(1);
        }
        std::process::exit(error.exit_code());
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    tell(format_args!("{}", text.trim_end()));
    std::process::exit(error.exit_code())
}
