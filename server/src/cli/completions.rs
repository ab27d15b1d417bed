//! `berth completions`: a script with which a shell completes commands, options and their values.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::{CliError, output};

/// Prints what a shell needs to complete Berth's commands and options
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
    Examples:\n  \
    source <(berth completions bash)                         # this shell only\n  \
    berth completions zsh > ~/.zfunc/_berth\n  \
    berth completions fish > ~/.config/fish/completions/berth.fish\n\n\
    Exit status: 0; 2 for a wrong command line.")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script for `berth`, whose whole command line `command` is.
///
/// # Errors
/// Standard output that cannot be written.
pub fn run(args: &CompletionsArgs, command: Command) -> Result<ExitCode, CliError> {
    output::print(script(args.shell, command).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn script(shell: Shell, mut command: Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "berth", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
