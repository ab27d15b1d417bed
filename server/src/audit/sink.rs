//! Sink: where lines are written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where lines are written.
pub(super) enum Sink {
    /// A file, appended to.
    File {
        path: PathBuf,
        file: File,
    },
    StandardError,
    /// The log of this process.
    Log,
}

impl Sink {
    /// Opens the file at `path`, or makes it, for this user alone.
    pub(super) fn file(path: &Path) -> io::Result<Sink> {
        Ok(Sink::File { path: path.to_owned(), file: open(path)? })
    }

    /// Opens the file anew; the one that is open stays where that fails.
    ///
    /// # Errors
    /// What the operating system said.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File { path, file } = self {
            *file = open(path)?;
        }
        Ok(())
    }

    /// Writes some of `bytes`, at least one; gives how many.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Sink::File { file, .. } => file.write(bytes),
            Sink::StandardError => io::stderr().lock().write(bytes),
            Sink::Log => return Ok(bytes.len()),
        };
        match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            other => other,
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        match self {
            Sink::File { path, .. } => format!("`{}`", path.display()),
            Sink::StandardError => "on standard error".to_owned(),
            Sink::Log => "in the log".to_owned(),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
