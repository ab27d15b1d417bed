//! The directory of a journal: its segments, oldest first, and how many of them are kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const EXTENSION: &str = "berthj";
/// Number of digits of a segment's name, so that names sort like numbers.
const N_DIGITS: usize = 20;

/// How much of a journal is kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Duration,
}

/// The path of the segment that was begun at this time, in microseconds since 1970.
pub(crate) fn segment(directory: &Path, unix_micros: u64) -> PathBuf {
    directory.join(format!("{unix_micros:0N_DIGITS$}.{EXTENSION}"))
}

/// When the segment of a path was begun, in microseconds since 1970.
pub(crate) fn begun(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    let is_number = stem.len() == N_DIGITS && stem.bytes().all(|it| it.is_ascii_digit());
    stem.parse().ok().filter(|_| is_number)
}

/// Locks a directory for its one writer, until the file is closed; the system does that at the end of the process, too.
///
/// # Errors
/// Somebody else has the lock, or it cannot be had here.
pub(crate) fn lock(directory: &Path) -> io::Result<File> {
    let file =
        File::options().create(true).truncate(false).write(true).open(directory.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::WouldBlock, "another server writes it"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The segments of a directory, oldest first. Other files are none.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == EXTENSION) && begun(&path).is_some() {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Removes the oldest segments, except for the last one, until the rest is as small and as young as it is to be.
/// Returns the number of bytes that are left.
///
/// # Errors
/// A segment cannot be looked at or removed.
pub(crate) fn trim(directory: &Path, keep: Keep, now: SystemTime) -> io::Result<u64> {
    let mut kept = Vec::new();
    for path in segments(directory)? {
        let metadata = fs::metadata(&path)?;
        kept.push((path, metadata.len(), metadata.modified()?));
    }
    let mut n_bytes: u64 = kept.iter().map(|(_, len, _)| len).sum();
    let (_, candidates) = kept.split_last().unzip();
    for (path, len, modified) in candidates.into_iter().flatten() {
        let age = now.duration_since(*modified).unwrap_or_default();
        if n_bytes <= keep.max_bytes && age <= keep.max_age {
            break;
        }
        fs::remove_file(path)?;
        n_bytes -= len;
    }
    Ok(n_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_writer() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(directory.path()).unwrap();
        let second = lock(directory.path()).unwrap_err();
        assert_eq!(second.to_string(), "another server writes it");
        drop(first);
        lock(directory.path()).unwrap();
    }

    #[test]
    fn the_oldest_segments_go_first_and_the_last_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for micros in [3, 20, 100] {
            fs::write(segment(path, micros), [0; 10]).unwrap();
        }
        for other in
            ["7.berthj", "notes", "x0000000000000000001.berthj", "00000000000000000001.txt"]
        {
            fs::write(path.join(other), "other").unwrap();
        }
        let keep = |max_bytes, age| Keep { max_bytes, max_age: Duration::from_secs(age) };
        let names = || -> Vec<PathBuf> { segments(path).unwrap() };
        let [first, second, third] = [3, 20, 100].map(|micros| segment(path, micros));
        assert_eq!(names(), [first, second, third.clone()]);
        let now = crate::clock::wall();
        assert_eq!(trim(path, keep(30, 60), now).unwrap(), 30);
        assert_eq!(trim(path, keep(29, 60), now).unwrap(), 20);
        let later = now + Duration::from_secs(61);
        assert_eq!(trim(path, keep(29, 60), later).unwrap(), 10);
        assert_eq!(trim(path, keep(0, 0), later).unwrap(), 10);
        assert_eq!(names(), [third]);
    }
}
