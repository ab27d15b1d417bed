//! Reload: files that may be replaced while a server runs. They are compared by content every few seconds, because a
//! watch of the directory does not reliably report changes of files that a kubelet mounts, and at once after SIGHUP.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

/// Interval of the comparisons, unless a user of the files needs them sooner.
const POLL: Duration = Duration::from_secs(5);
/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Reason why a required file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refuses to read the file.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The path is a pipe or a directory, which may have no end.
    #[error("cannot read `{}`: it is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is longer than any valid one.
    #[error("cannot read `{}`: it is longer than {MAX_FILE_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the contents of a file.
///
/// # Errors
/// [`ReadError`] with the file's name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    let failed = |source| ReadError::Read { path: path.to_owned(), source };
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ReadError::NotAFile { path: path.to_owned() });
    }
    let mut contents = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let n_read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut contents).map_err(failed)?;
    if n_read as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLong { path: path.to_owned() });
    }
    Ok(contents)
}

/// Reads the contents of several files, in their order.
///
/// # Errors
/// The error of the first file that cannot be read.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, ReadError> {
    paths.iter().map(|path| read(path)).collect()
}

/// User of watched files.
pub(crate) trait Reloads: Send + 'static {
    /// Takes new contents, in the order of the paths, or leaves everything unchanged. Called once for each change, on a
    /// thread that may block.
    ///
    /// # Errors
    /// The error in the contents, naming the file. The log says that the old ones stay in force.
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String>;

    /// Notes that files cannot be read, once for each different reason.
    fn note_unreadable(&mut self);

    /// The files from now on, if the contents of some name others.
    fn files(&self) -> Option<&[PathBuf]> {
        None
    }
}

/// Files that are used together, such as a certificate and its key.
pub(crate) struct Watched {
    /// Name in the log, such as `the token file`.
    what: &'static str,
    paths: Vec<PathBuf>,
    in_force: Digest,
    seen: Seen,
    interval: Duration,
}

type Digest = [u8; 32];

/// State of the files at the last comparison. Contents are kept by their digest, since some are secret.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// The contents that are in force.
    InForce,
    /// Contents that were refused.
    Refused(Digest),
    /// The files could not be read, for this reason.
    Unreadable(String),
}

impl Watched {
    /// Creates a watch; `contents` are those in force, as [`read_all`] returned them.
    pub(crate) fn new(what: &'static str, paths: Vec<PathBuf>, contents: &[Vec<u8>]) -> Watched {
        let in_force = digest(contents);
        Watched { what, paths, in_force, seen: Seen::InForce, interval: POLL }
    }

    /// Compares the files at this interval.
    pub(crate) fn every(self, interval: Duration) -> Watched {
        Watched { interval, ..self }
    }

    /// Compares the files with their last state, and reloads them or logs the error if that changed.
    fn look(&mut self, reloads: &mut impl Reloads) {
        let what = self.what;
        let contents = match read_all(&self.paths) {
            Ok(contents) => contents,
            Err(error) => {
                let seen = Seen::Unreadable(error.to_string());
                if self.seen != seen {
                    tracing::warn!("{what}: what was read before stays in force: {error}");
                    reloads.note_unreadable();
                    self.seen = seen;
                }
                return;
            }
        };
        let digest = digest(&contents);
        if digest == self.in_force {
            if self.seen != Seen::InForce {
                tracing::info!("{what}: what is in force is what can be read again");
                self.seen = Seen::InForce;
            }
            return;
        }
        if self.seen == Seen::Refused(digest) {
            return;
        }
        match reloads.reload(&contents) {
            Ok(()) => {
                tracing::info!("{what}: read again, and in force");
                (self.in_force, self.seen) = (digest, Seen::InForce);
                self.follow(reloads.files());
            }
            Err(problem) => {
                tracing::warn!("{what}: what was read before stays in force: {problem}");
                self.seen = Seen::Refused(digest);
            }
        }
    }

    /// Watches these files instead. If they cannot be read now, the next comparison says so.
    fn follow(&mut self, files: Option<&[PathBuf]>) {
        let Some(files) = files.filter(|files| **files != *self.paths) else { return };
        self.paths = files.to_vec();
        if let Ok(contents) = read_all(&self.paths) {
            self.in_force = digest(&contents);
        }
    }
}

fn digest(contents: &[Vec<u8>]) -> Digest {
    let mut context = Context::new(&SHA256);
    for contents in contents {
        context.update(&contents.len().to_le_bytes());
        context.update(contents);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// All files that a server watches. Dropping it ends the watch.
#[derive(Default)]
pub(crate) struct Reloader {
    signal: watch::Sender<()>,
    tasks: Mutex<JoinSet<()>>,
}

impl Reloader {
    /// Watches these files from now on.
    pub(crate) fn watch(&self, watched: Watched, reloads: impl Reloads) {
        self.spawn(run(watched, reloads, self.signal.subscribe()));
    }

    /// Runs `task` for as long as files are watched.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The set stays valid even if a thread panicked while holding the lock.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    /// Checks all files now, and logs their errors again.
    pub(crate) fn look_now(&self) {
        self.signal.send_replace(());
    }
}

async fn run(mut watched: Watched, mut reloads: impl Reloads, mut signal: watch::Receiver<()>) {
    let what = watched.what;
    loop {
        tokio::select! {
            () = tokio::time::sleep(watched.interval) => {}
            changed = signal.changed() => match changed {
                Ok(()) => watched.seen = Seen::InForce,
                Err(_) => return,
            },
        }
        let looking = spawn_blocking(move || {
            watched.look(&mut reloads);
            (watched, reloads)
        });
        match looking.await {
            Ok(back) => (watched, reloads) = back,
            Err(error) => {
                tracing::error!("{what}: no longer watched, restart to have changes read: {error}");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts all contents but `bad`, and remembers the calls.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Reloads for Log {
        fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String> {
            let text = String::from_utf8(contents.concat()).unwrap();
            let is_bad = text.contains("bad");
            self.0.push(text);
            if is_bad { Err("it is bad".to_owned()) } else { Ok(()) }
        }

        fn note_unreadable(&mut self) {
            self.0.push("unreadable".to_owned());
        }
    }

    #[test]
    fn every_change_is_tried_once() {
        let directory = tempfile::tempdir().unwrap();
        let paths = vec![directory.path().join("a"), directory.path().join("b")];
        let write = |a: &str, b: &str| {
            std::fs::write(&paths[0], a).unwrap();
            std::fs::write(&paths[1], b).unwrap();
        };
        write("a", "b");
        let mut watched = Watched::new("files", paths.clone(), &read_all(&paths).unwrap());
        let mut log = Log::default();
        let mut look = |expected: &[&str]| {
            watched.look(&mut log);
            watched.look(&mut log);
            assert_eq!(std::mem::take(&mut log.0), expected);
        };
        look(&[]);
        write("ab", "");
        look(&["ab"]);
        write("bad", "1");
        look(&["bad1"]);
        write("bad", "2");
        look(&["bad2"]);
        std::fs::remove_file(&paths[1]).unwrap();
        look(&["unreadable"]);
        write("bad", "2");
        look(&["bad2"]);
        // The contents in force again: nothing is to be done.
        write("ab", "");
        look(&[]);
        write("new", "2");
        look(&["new2"]);
    }

    #[test]
    fn a_path_that_is_no_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path()).unwrap_err();
        assert!(matches!(error, ReadError::NotAFile { .. }), "{error}");
        let long = directory.path().join("long");
        File::create(&long).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read(&long).unwrap_err(), ReadError::TooLong { .. }));
    }
}
