//! `berth-loadgen`: puts load on a running Berth.

use std::io::Write as _;
use std::process::ExitCode;

use berth_loadgen::command::{Cli, print_message};
use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_message(format_args!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(cli.run()).unwrap_or_else(|error| {
        // Errors name their own cause, so the chain below them is not printed again.
        print_message(format_args!("{error}"));
        error.exit_code()
    })
}

/// Prints help and version as the parser does, and its errors under this program's name like all others; then exits.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        // Help and version that cannot be written are an error like any other output.
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        if let Err(cause) = printed.as_ref().map_err(std::io::Error::kind)
            && cause != std::io::ErrorKind::BrokenPipe
        {
            print_message(format_args!("cannot write the output: {cause}"));
            std::process::exit(1);
        }
        std::process::exit(error.exit_code());
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    print_message(format_args!("{}", text.trim_end()));
    std::process::exit(error.exit_code())
}
