//! Sink: the target that lines are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Target that lines are written to.
pub(super) enum Sink {
    /// A file, which is appended to.
    File {
        path: PathBuf,
        file: File,
    },
    StandardError,
    /// The log of this process.
    Log,
}

impl Sink {
    /// Opens the file at `path`, or creates it with access for this user alone.
    pub(super) fn file(path: &Path) -> io::Result<Sink> {
        Ok(Sink::File { path: path.to_owned(), file: open(path)? })
    }

    /// Opens the file anew; if that fails, the open one stays.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Sink::File { path, file } = self {
            *file = open(path)?;
        }
        Ok(())
    }

    /// Writes some of `bytes`, at least one; returns how many.
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

    /// Name of the target in messages.
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
