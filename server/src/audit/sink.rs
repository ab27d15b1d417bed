//! Sink: the target that lines are written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
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

/// End of a line of which the rest was not written: the disk was full, or the process was killed.
const TORN: &[u8] = b" (torn)\n";

/// Opens the file; a line that was cut off is marked, and the next one begins anew.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // A pipe has no lines to be mended.
    if file.metadata()?.is_file() && !ends_with_a_line(path)? {
        file.write_all(TORN)?;
    }
    Ok(file)
}

fn ends_with_a_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_marked_and_the_next_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut sink = Sink::file(&path).unwrap();
        assert_eq!(sink.write(b"{\"whole\":1}\n{\"cut").unwrap(), 17);
        sink.reopen().unwrap();
        sink.reopen().unwrap();
        sink.write(b"{\"next\":1}\n").unwrap();
        let expected = "{\"whole\":1}\n{\"cut (torn)\n{\"next\":1}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }
}
