//! A file that a command writes at its end and opens at its start, so that an unwritable path is reported before a long
//! run.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::CommandError;

/// An open file with its earlier content. A file that was created for this and never written is removed.
#[derive(Debug)]
pub(super) struct OutputFile {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl OutputFile {
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let is_new = !path.exists();
        // Not truncated: an earlier result stays until the new one is written.
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        let file =
            opened.map_err(|source| CommandError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, is_new })
    }

    /// Replaces the file's content with `text`.
    pub(super) fn write(mut self, text: &str) -> Result<(), CommandError> {
        self.replace(text)
            .map_err(|source| CommandError::Write { path: self.path.clone(), source })?;
        self.is_new = false;
        Ok(())
    }

    fn replace(&mut self, text: &str) -> std::io::Result<()> {
        // A pipe or a device cannot be truncated.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new {
            // If the removal fails, an empty file remains, which is harmless.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OutputFile;

    #[test]
    fn earlier_content_stays_until_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        drop(OutputFile::open(&path).unwrap());
        assert!(!path.exists(), "nothing was written, so nothing is left");
        OutputFile::open(&path).unwrap().write("a long report").unwrap();
        drop(OutputFile::open(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a long report");
        OutputFile::open(&path).unwrap().write("short").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let error = OutputFile::open("/nowhere/report.html".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("`/nowhere/report.html`: cannot write: "), "{error}");
    }
}
