//! [`Child`]: this program again, in another role.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use berth_benches::process::Process;
use berth_fake_apiserver::FakeApiServer;

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

    /// Processor time and memory of the child, to be read at any time until it is dropped.
    pub(crate) fn usage(&self) -> Process {
        Process::of(self.process.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
