//! Place: whether the path of the ledger still leads to the file that was opened. A file that was moved away, or in whose
//! place another was put, may have another server on its path: nothing is answered from it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The path of an open ledger, and the file that it led to when the ledger was opened.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    file: FileId,
}

/// Device and inode of a file. Other systems than Unix do not let an open file be moved.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt as _;
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> FileId {
        FileId { device: 0, inode: 0 }
    }
}

impl Place {
    /// The place of `file`, which was opened at `path`.
    pub(super) fn of(path: &Path, file: &File) -> io::Result<Place> {
        Ok(Place { path: path.to_owned(), file: FileId::of(&file.metadata()?) })
    }

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// The path leads to another file now, or to none.
    pub(super) fn check(&self) -> io::Result<u64> {
        let shown = self.path.display();
        let metadata = fs::metadata(&self.path).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "it was moved or deleted".to_owned(),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("`{shown}` is not in its place: {reason}"))
        })?;
        if FileId::of(&metadata) != self.file {
            let reason = format!("`{shown}` is another file than the one that was opened");
            return Err(io::Error::other(reason));
        }
        Ok(metadata.len())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_moved_or_replaced_is_noticed_until_it_is_back() {
        let directory = tempfile::tempdir().unwrap();
        let (path, aside) = (directory.path().join("ledger"), directory.path().join("aside"));
        fs::write(&path, "12345").unwrap();
        let place = Place::of(&path, &File::open(&path).unwrap()).unwrap();
        assert_eq!(place.check().unwrap(), 5);
        fs::rename(&path, &aside).unwrap();
        assert!(place.check().unwrap_err().to_string().ends_with("it was moved or deleted"));
        fs::copy(&aside, &path).unwrap();
        assert!(place.check().unwrap_err().to_string().ends_with("the one that was opened"));
        fs::rename(&aside, &path).unwrap();
        assert_eq!(place.check().unwrap(), 5);
    }
}
