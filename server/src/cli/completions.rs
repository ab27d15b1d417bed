//! `berth completions`: a script with which a shell completes commands, options and their values.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, CliError, output};

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

/// Runs the command.
///
/// # Errors
/// Standard output that cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    output::print(script(args.shell).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "berth", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_shell_completes_every_command() {
        let command = Cli::command();
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for subcommand in command.get_subcommands() {
                assert!(
                    script.contains(subcommand.get_name()),
                    "{shell}: {}",
                    subcommand.get_name()
                );
            }
            assert!(script.contains("scheduler-config"), "{shell}");
        }
    }
}
