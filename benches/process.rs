//! [`Process`]: what a process uses, as Linux tells.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Length of a tick in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// A running process.
#[derive(Clone, Debug)]
pub struct Process(PathBuf);

impl Process {
    /// This process.
    pub fn own() -> Process {
        Process("/proc/self".into())
    }

    /// The process of this id.
    pub fn of(id: u32) -> Process {
        Process(format!("/proc/{id}").into())
    }

    /// Time that its threads were on cores so far, in steps of 10 ms.
    pub fn processor_time(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(self.0.join("stat"))?;
        n_ticks(&stat).map(|n| TICK * n).ok_or_else(|| io::Error::other("no times in stat"))
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.bytes("VmRSS:")
    }

    /// Maximum of the resident memory so far, in bytes.
    pub fn peak_bytes(&self) -> io::Result<u64> {
        self.bytes("VmHWM:")
    }

    fn bytes(&self, name: &str) -> io::Result<u64> {
        let status = std::fs::read_to_string(self.0.join("status"))?;
        kibibytes(&status, name)
            .map(|n| n * 1_024)
            .ok_or_else(|| io::Error::other(format!("no `{name}` in status")))
    }
}

/// Ticks in user and in kernel mode together.
fn n_ticks(stat: &str) -> Option<u32> {
    // The name, in parentheses, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_found_whatever_the_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 30 4 0 0 20 0";
        assert_eq!(n_ticks(stat), Some(34));
        assert_eq!(n_ticks("7 (a) S 1"), None);
        let status = "Name:\tVmRSS:\nVmHWM:\t  20 kB\nVmRSS:\t 10 kB\n";
        let found = ["VmHWM:", "VmRSS:", "VmSwap:"].map(|name| kibibytes(status, name));
        assert_eq!(found, [Some(20), Some(10), None]);
    }

    #[test]
    fn this_process_is_known_under_its_id() {
        for process in [Process::own(), Process::of(std::process::id())] {
            let (peak, resident) =
                (process.peak_bytes().unwrap(), process.resident_bytes().unwrap());
            assert!(peak > 0 && resident > 0 && process.processor_time().is_ok());
        }
    }
}
