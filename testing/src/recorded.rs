//! Recorded data that are not part of this repository: traces, dumps and decisions of a real control plane.
//!
//! `BERTH_SHARED` names the folder they are read from; without it they are read from `../shared` beside the repository.
//! A check whose data are absent is skipped and named. With `BERTH_SHARED=required` it fails instead.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// Returns the path of a recorded file or folder, or `None` if the check has to be skipped.
///
/// `relative` is a path inside the folder of recorded data, such as `data/cluster-dump/mid.json.gz`.
///
/// # Panics
///
/// If the data are absent and `BERTH_SHARED` is `required`.
#[must_use]
pub fn find(relative: &str) -> Option<PathBuf> {
    let recordings = Recordings::new(std::env::var_os("BERTH_SHARED"));
    let path = recordings.folder.join(relative);
    if path.exists() {
        return Some(path);
    }
    assert!(!recordings.required, "BERTH_SHARED=required, but {} is missing", path.display());
    skip(&format!("{} is missing", path.display()));
    None
}

/// Reads a recorded text file, decompressed if its name ends in `.gz`. Returns `None` if the check has to be skipped.
///
/// # Panics
///
/// If the file cannot be read, or is absent and `BERTH_SHARED` is `required`.
#[must_use]
pub fn read(relative: &str) -> Option<String> {
    let path = find(relative)?;
    Some(text(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display())))
}

/// Reads a text file, decompressed if its name ends in `.gz`.
///
/// # Errors
///
/// If the file cannot be opened, decompressed, or is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = File::open(path)?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Records that a check is skipped: prints the reason, and appends it as a line to the file that `BERTH_SKIPPED` names.
/// The gate prints that file at its end.
///
/// # Panics
///
/// If the file cannot be written.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
    let Some(file) = std::env::var_os("BERTH_SKIPPED").map(PathBuf::from) else { return };
    append(&file, reason)
        .unwrap_or_else(|error| panic!("BERTH_SKIPPED={}: {error}", file.display()));
}

fn append(file: &Path, reason: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("skipped: {reason}\n").as_bytes())
}

struct Recordings {
    folder: PathBuf,
    required: bool,
}

impl Recordings {
    /// Returns the recordings for this value of `BERTH_SHARED`.
    fn new(setting: Option<OsString>) -> Recordings {
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
        match setting {
            Some(value) if value == "required" => Recordings { folder: beside(), required: true },
            Some(folder) => Recordings { folder: PathBuf::from(folder), required: false },
            None => Recordings { folder: beside(), required: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Recordings, append, text};

    #[test]
    fn the_setting_is_a_folder_or_required() {
        let recordings = Recordings::new(Some("/recordings".into()));
        assert_eq!(
            (recordings.folder.as_path(), recordings.required),
            (Path::new("/recordings"), false)
        );
        let recordings = Recordings::new(Some("required".into()));
        assert!(recordings.folder.ends_with("shared") && recordings.required);
        let recordings = Recordings::new(None);
        assert!(recordings.folder.ends_with("shared") && !recordings.required);
    }

    #[test]
    fn each_skipped_check_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        append(&file, "one").unwrap();
        append(&file, "two").unwrap();
        assert_eq!(text(&file).unwrap(), "skipped: one\nskipped: two\n");
    }
}
