//! Parses the command line and the `BERTH_*` variables.
//!
//! clap reads the variables; this module adds what clap lacks: an empty variable counts as unset, the error for a bad
//! value names the variable that holds it, and an unknown variable is reported.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::{Cli, help, output, plugin};

const PREFIX: &str = "BERTH_";
/// Variables that are read elsewhere: the filter of the log.
const NOT_FLAGS: [&str; 1] = ["BERTH_LOG"];

/// Parses `arguments`, the program's name first.
///
/// # Errors
/// clap's error for a wrong command line, and for `--help` and `--version`; to be printed with its own exit status.
pub fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = without_empty_variables(help::with_help(Cli::command()));
    command.build();
    let with_source =
        plugin::is_plugin(arguments).then(|| plugin::with_source(&command, arguments));
    let arguments = with_source.as_deref().unwrap_or(arguments);
    let parsed = command.clone().try_get_matches_from(arguments);
    let cli = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| blame_variable(&command, arguments, error))?;
    if matches!(cli.command, super::Command::Serve(_)) {
        for name in unknown(&Cli::command(), std::env::vars_os().map(|(name, _)| name)) {
            output::note(&format!("warning: no setting reads the variable `{name}`"));
        }
    }
    Ok(cli)
}

fn without_empty_variables(command: Command) -> Command {
    command.mut_subcommands(|subcommand| {
        subcommand.mut_args(|arg| {
            let value = arg.get_env().and_then(std::env::var_os);
            if value.is_some_and(|value| value.is_empty()) { arg.env(None::<&str>) } else { arg }
        })
    })
}

/// Replaces `--seed <N>` by `BERTH_SEED` in an error if the value came from the variable.
fn blame_variable(
    command: &Command,
    arguments: &[OsString],
    mut error: clap::Error,
) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return error;
    }
    let Some(ContextValue::String(blamed)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let is_given = |flag: &str| {
        let mut words = arguments.iter().filter_map(|word| word.to_str());
        words.any(|word| word == flag || word.starts_with(&format!("{flag}=")))
    };
    let args = command.get_subcommands().flat_map(Command::get_arguments);
    let variable = args.filter(|arg| arg.to_string() == *blamed).find_map(|arg| {
        let flag = format!("--{}", arg.get_long()?);
        let variable = arg.get_env()?.to_str()?;
        (std::env::var_os(variable).is_some() && !is_given(&flag)).then(|| variable.to_owned())
    });
    if let Some(variable) = variable {
        error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
    }
    error
}

/// The variables that look like settings but are unknown, sorted.
fn unknown(command: &Command, names: impl Iterator<Item = OsString>) -> Vec<String> {
    let args = command.get_subcommands().flat_map(Command::get_arguments);
    let known: Vec<&str> =
        args.filter_map(|arg| arg.get_env()?.to_str()).chain(NOT_FLAGS).collect();
    let mut unknown: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(PREFIX) && !known.contains(&name.as_str()))
        .collect();
    unknown.sort();
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_variables_are_found() {
        let names = ["BERTH_SEED", "BERTH_LOG", "BERTH_GRCP_ADDRESS", "HOME", "BERTH_A"];
        assert_eq!(
            unknown(&Cli::command(), names.into_iter().map(OsString::from)),
            ["BERTH_A", "BERTH_GRCP_ADDRESS"]
        );
    }
}
