//! Files: those that a question names, by position or with `-f`, and how they are read.

use std::path::PathBuf;

use super::objects::Objects;
use crate::cli::CliError;
use crate::cli::input::InputArgs;
use crate::feed::file::{Dump, UnknownFields};

/// Flags for the files of a question.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct FileArgs {
    /// A file or folder of objects, or `-` for standard input; repeatable
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
}

impl FileArgs {
    /// The namespace of `-n`.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.input.namespace()
    }

    #[cfg(test)]
    pub(super) fn in_namespace(name: &str) -> FileArgs {
        FileArgs { input: InputArgs::in_namespace(name), ..FileArgs::default() }
    }

    /// Reads the objects of `files`, then those of `-f`. A bad object is reported and left out.
    ///
    /// # Errors
    /// A file that cannot be read as a whole, a folder without files of objects.
    pub(super) fn read(
        &self,
        files: &[PathBuf],
        unknown_fields: UnknownFields,
    ) -> Result<Objects, CliError> {
        let (mut dump, mut names) = (Dump::default(), Vec::new());
        for file in files.iter().chain(&self.filename) {
            for part in self.input.read(file, unknown_fields)? {
                dump.append(part);
            }
            names.push(format!("`{}`", file.display()));
        }
        Ok(Objects::of(dump, &names))
    }
}
