//! Resource usage of the server's process, read from `/proc`.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// A process of this machine.
#[derive(Debug)]
pub struct Process {
    directory: PathBuf,
}

/// Resource usage of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Open file descriptors.
    pub n_fds: u64,
    /// Threads.
    pub n_threads: u64,
}

/// Reason why a process cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {reason}; `--pid` takes the server's process on this machine, run by the same user", path.display())]
pub struct ProcessError {
    path: PathBuf,
    reason: String,
}

impl Process {
    /// Opens the process with this id.
    ///
    /// # Errors
    /// The process does not exist or belongs to another user.
    pub fn open(pid: u32) -> Result<Process, ProcessError> {
        let process = Process { directory: PathBuf::from(format!("/proc/{pid}")) };
        process.read()?;
        Ok(process)
    }

    /// Reads the current usage.
    ///
    /// # Errors
    /// The process has ended.
    pub fn read(&self) -> Result<Usage, ProcessError> {
        let status = self.directory.join("status");
        let text = fs::read_to_string(&status).map_err(|error| failed(&status, &error))?;
        let field = |name: &str| {
            field(&text, name).ok_or_else(|| ProcessError {
                path: status.clone(),
                reason: format!("it has no `{name}`"),
            })
        };
        let descriptors = self.directory.join("fd");
        let n_fds =
            fs::read_dir(&descriptors).map_err(|error| failed(&descriptors, &error))?.count();
        Ok(Usage {
            rss_bytes: field("VmRSS")?.saturating_mul(1024),
            n_fds: n_fds as u64,
            n_threads: field("Threads")?,
        })
    }
}

fn failed(path: &std::path::Path, error: &io::Error) -> ProcessError {
    ProcessError { path: path.to_owned(), reason: error.to_string() }
}

/// The number of a field: kilobytes or a count.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_read_and_a_missing_one_is_named() {
        let usage = Process::open(std::process::id()).unwrap().read().unwrap();
        assert!(usage.rss_bytes > 1 << 16 && usage.n_fds >= 3 && usage.n_threads >= 1, "{usage:?}");
        let error = Process::open(u32::MAX).unwrap_err().to_string();
        assert!(error.starts_with("`/proc/4294967295/status`: "), "{error}");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "VmRSSx:\t1 kB\nVmRSS:\t   123 kB\nThreads:\t7\n";
        assert_eq!((field(text, "VmRSS"), field(text, "Threads")), (Some(123), Some(7)));
        assert_eq!(field(text, "Vm"), None);
    }
}
