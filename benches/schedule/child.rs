//! [`Child`]: this program again, in another role, and what that process uses.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use berth_fake_apiserver::FakeApiServer;

/// Length of a tick in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);

/// A running process, which is killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    _folder: tempfile::TempDir,
}

impl Child {
    /// Starts the role, `scheduler` or `client`, at this API server.
    pub(crate) fn start(role: &str, api: &FakeApiServer, input: &str) -> anyhow::Result<Child> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, api.kubeconfig())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["child", role]).arg(&kubeconfig).stdin(Stdio::piped());
        let mut process = command.spawn()?;
        let mut stdin = process.stdin.take().context("a pipe was asked for")?;
        stdin.write_all(input.as_bytes())?;
        Ok(Child { process, _folder: folder })
    }

    /// Processor time so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(self.file("stat"))?;
        // The name, in parentheses, may contain spaces.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks = fields.skip(11).take(2).map(str::parse::<u32>);
        Ok(TICK * ticks.sum::<Result<u32, _>>()?)
    }

    /// Maximum of its resident memory so far, in MiB.
    pub(crate) fn peak_mib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(self.file("status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?;
        Ok(kib.parse::<u64>()? / 1_024)
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.process.id()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
