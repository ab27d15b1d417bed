//! `berth man`: manual pages, one for each command, from the same texts as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use super::{CliError, output};

/// Writes the manual pages
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
    Examples:\n  \
    berth man | man -l -                        # the page berth(1)\n  \
    berth man ~/.local/share/man/man1           # berth.1, berth-place.1, …\n\n\
    Exit status: 0; 1 when a page could not be written; 2 for a wrong command line.")]
pub struct ManArgs {
    /// Existing folder that gets a page for each command; without it, the page of `berth` is printed
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Writes the pages of `berth`, whose whole command line `command` is.
///
/// # Errors
/// A page, or standard output, that cannot be written.
pub fn run(args: &ManArgs, mut command: Command) -> Result<ExitCode, CliError> {
    command.build();
    match &args.folder {
        None => output::print(text(&page(&command)).trim_end())?,
        Some(folder) => write(folder, &command)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands, such as `berth-lifecycle-phase.1`.
pub(super) fn write(folder: &Path, command: &Command) -> Result<(), CliError> {
    let page = page(command);
    page.generate_to(folder).map_err(|error| {
        let path = folder.join(page.get_filename());
        CliError::Request(format!("cannot write {}: {error}", path.display()))
    })?;
    let subcommands = command.get_subcommands();
    subcommands
        .filter(|command| command.get_name() != "help")
        .try_for_each(|command| write(folder, command))
}

/// The page of a command that is built.
fn page(command: &Command) -> Man {
    let source = concat!("berth ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("Berth")
}

/// The page in troff.
fn text(page: &Man) -> String {
    let mut text = Vec::new();
    // Writing to a vector does not fail.
    let _ = page.render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
