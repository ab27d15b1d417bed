//! Reload: files that may be replaced while a server runs. They are compared by content every few seconds, because files that a
//! kubelet mounts change without a sign that a watch of the directory could be trusted to tell, and at once after SIGHUP.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

/// How often files are compared.
const POLL: Duration = Duration::from_secs(5);
/// Longer files are something else.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Why a file that is needed cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system does not let it be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A pipe or a directory, of which nobody knows when it ends.
    #[error("cannot read `{}`: it is not a regular file", path.display())]
    NotAFile {
        /// What is there instead.
        path: PathBuf,
    },
    /// Nothing that makes sense here is that long.
    #[error("cannot read `{}`: it is longer than {MAX_FILE_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// The contents of a file.
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

/// The contents of several files, in their order.
///
/// # Errors
/// That of the first one that cannot be read.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, ReadError> {
    paths.iter().map(|path| read(path)).collect()
}

/// Who uses the files.
pub(crate) trait Reloads: Send + 'static {
    /// Takes new contents, in the order of the paths, or leaves everything as it was. Called once for each change, on a
    /// thread that may block.
    ///
    /// # Errors
    /// What is wrong with them, naming the file. The log says that the old ones stay.
    fn reload(&mut self, contents: &[Vec<u8>]) -> Result<(), String>;

    /// Notes that files cannot be read, once for each different reason.
    fn note_unreadable(&mut self);
}

/// Files that are used together, such as a certificate and its key.
pub(crate) struct Watched {
    /// For the log, such as `the token file`.
    what: &'static str,
    paths: Vec<PathBuf>,
    in_force: Digest,
    seen: Seen,
}

type Digest = [u8; 32];

/// What the files were when they were last looked at. Contents are kept by their digest: some are secret.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// What is in force.
    InForce,
    /// Something that was refused.
    Refused(Digest),
    /// Nothing, for this reason.
    Unreadable(String),
}

impl Watched {
    /// `contents` are those that are in force, as [`read_all`] gave them.
    pub(crate) fn new(what: &'static str, paths: Vec<PathBuf>, contents: &[Vec<u8>]) -> Watched {
        Watched { what, paths, in_force: digest(contents), seen: Seen::InForce }
    }

    /// Compares the files with what they were, and says so where that changed.
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
            }
            Err(problem) => {
                tracing::warn!("{what}: what was read before stays in force: {problem}");
                self.seen = Seen::Refused(digest);
            }
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

/// All files that a server watches. Dropping it ends that.
#[derive(Default)]
pub(crate) struct Reloader {
    told: watch::Sender<()>,
    tasks: Mutex<JoinSet<()>>,
}

impl Reloader {
    /// Watches these files from now on.
    pub(crate) fn watch(&self, watched: Watched, reloads: impl Reloads) {
        self.spawn(run(watched, reloads, self.told.subscribe()));
    }

    /// Carries out `task` for as long as files are watched.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The set stays whole even if a thread panicked while holding it.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    /// Looks at all files now, and says again what is wrong with them.
    pub(crate) fn look_now(&self) {
        self.told.send_replace(());
    }
}

async fn run(mut watched: Watched, mut reloads: impl Reloads, mut told: watch::Receiver<()>) {
    let what = watched.what;
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            asked = told.changed() => match asked {
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

    /// Takes everything but `bad`, and remembers what it was asked.
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
        // Back to what is in force: nothing to be done.
        write("ab", "");
        look(&[]);
        write("new", "2");
        look(&["new2"]);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let error = read(directory.path()).unwrap_err();
        assert!(matches!(error, ReadError::NotAFile { .. }), "{error}");
        let long = directory.path().join("long");
        File::create(&long).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read(&long).unwrap_err(), ReadError::TooLong { .. }));
    }
}
