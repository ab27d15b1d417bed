//! What the server says of itself meanwhile: its memory by `/proc` and by its metrics, and the calls that it counted by code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_client::Credentials;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::soak::scrape::{Http, HttpError};

/// How often memory is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Prometheus' own name for a process' resident memory.
const RESIDENT_MEMORY: &str = "process_resident_memory_bytes";
const METRICS: &str = "/metrics";
const CALLS: &str = "berth_grpc_calls_total";

/// Why a server cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No process of this id, or not one that may be looked at.
    #[error(
        "`--pid`: cannot read the memory of process {pid}: {reason}; give the server's process id, on this machine"
    )]
    Process {
        /// The id.
        pid: u32,
        /// Why not.
        reason: String,
    },
    /// Metrics that cannot be read.
    #[error("`--http`: cannot read the server's metrics: {0}")]
    Metrics(#[from] HttpError),
}

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct MemorySample {
    /// Seconds since the first load began.
    pub at_seconds: f64,
    /// Resident memory as the operating system has it (`VmRSS`).
    pub resident: Option<u64>,
    /// The same as the server's metrics have it.
    pub told: Option<u64>,
}

/// Calls of one method by the name of their code.
pub type Calls = BTreeMap<String, u64>;

/// Where a server is watched.
#[derive(Debug, Clone)]
pub struct Watch {
    pid: Option<u32>,
    http: Option<Http>,
}

/// A watch that goes on until it is asked what it saw.
#[derive(Debug)]
pub struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<MemorySample>>,
}

impl Watch {
    /// Errors when what was named cannot be read: better now than after the run.
    pub async fn open(
        pid: Option<u32>,
        url: Option<&str>,
        credentials: &Credentials,
    ) -> Result<Self, WatchError> {
        if let Some(pid) = pid {
            resident(pid).map_err(|reason| WatchError::Process { pid, reason })?;
        }
        let http = url.map(|url| Http::open(url, credentials)).transpose()?;
        if let Some(http) = &http {
            http.get(METRICS).await?;
        }
        Ok(Self { pid, http })
    }

    /// Looks at the memory now and every second; seconds count from `origin`.
    pub fn begin(&self, origin: Instant) -> Watching {
        let (watch, (stop, mut stopped)) = (self.clone(), oneshot::channel());
        let task = tokio::spawn(async move {
            let mut samples = Vec::new();
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    _ = &mut stopped => break,
                    _ = ticks.tick() => samples.push(watch.sample(origin).await),
                }
            }
            samples.push(watch.sample(origin).await);
            samples
        });
        Watching { stop, task }
    }

    async fn sample(&self, origin: Instant) -> MemorySample {
        let told = match &self.http {
            None => None,
            Some(http) => http.get(METRICS).await.ok().and_then(|text| memory(&text)),
        };
        let resident = self.pid.and_then(|pid| resident(pid).ok());
        MemorySample { at_seconds: origin.elapsed().as_secs_f64(), resident, told }
    }

    /// What the server counted so far, as its metrics have it; `None` where those are not read.
    pub async fn calls(&self) -> Option<String> {
        self.http.as_ref()?.get(METRICS).await.ok()
    }

    /// The calls of the method at `path` that the server counted since `before`.
    pub async fn calls_since(&self, before: Option<String>, path: &str) -> Option<Calls> {
        let before = calls(&before?, path);
        let mut now = calls(&self.calls().await?, path);
        for (code, n) in &mut now {
            *n -= before.get(code).copied().unwrap_or(0).min(*n);
        }
        now.retain(|_, n| *n > 0);
        Some(now)
    }
}

impl Watching {
    /// Every sample, one of now included.
    pub async fn end(self) -> Vec<MemorySample> {
        // A watch that broke has seen nothing.
        self.stop.send(()).ok();
        self.task.await.unwrap_or_default()
    }
}

/// Resident memory of a process in bytes.
fn resident(pid: u32) -> Result<u64, String> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let status = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    of_status(&status).ok_or_else(|| "it has no `VmRSS`".to_owned())
}

fn of_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn memory(metrics: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(RESIDENT_MEMORY))?;
    let bytes: f64 = line.trim().parse().ok()?;
    // The cast saturates.
    Some(bytes as u64)
}

fn calls(metrics: &str, path: &str) -> Calls {
    let mut calls = Calls::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(CALLS)) {
        let Some((labels, n)) = line.rsplit_once(' ') else { continue };
        let is_its = label(labels, "method") == Some(path);
        if let (true, Some(code), Ok(n)) = (is_its, label(labels, "code"), n.parse::<f64>()) {
            // The cast saturates.
            *calls.entry(code.to_owned()).or_default() += n as u64;
        }
    }
    calls
}

/// The value of a label, of those that need no escapes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_either_spelling() {
        let status = "Name:\tberth\nVmPeak:\t 9 kB\nVmRSS:\t  123456 kB\nThreads:\t4\n";
        assert_eq!(of_status(status), Some(123_456 * 1024));
        assert_eq!(of_status("Name:\tkthread\n"), None);
        let metrics =
            "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 1.5e8\n";
        assert_eq!(memory(metrics), Some(150_000_000));
        assert!(resident(std::process::id()).unwrap() > 0);
    }

    #[test]
    fn calls_are_those_of_the_method() {
        let metrics = concat!(
            "berth_grpc_calls_total{method=\"/a/B\",code=\"OK\"} 7\n",
            "berth_grpc_calls_total{code=\"RESOURCE_EXHAUSTED\",method=\"/a/B\"} 70\n",
            "berth_grpc_calls_total{method=\"/a/C\",code=\"OK\"} 5\n",
            "berth_grpc_calls_total\n",
        );
        let expected = [("OK".to_owned(), 7), ("RESOURCE_EXHAUSTED".to_owned(), 70)];
        assert_eq!(calls(metrics, "/a/B"), Calls::from(expected));
    }

    #[tokio::test]
    async fn what_cannot_be_watched_is_said_at_once() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody = Credentials::default();
        let (url, pid) = (format!("http://{free}"), Some(u32::MAX));
        let error = Watch::open(None, Some(&url), &nobody).await.unwrap_err().to_string();
        let expected = format!("`--http`: cannot read the server's metrics: `{url}`: ");
        assert!(error.starts_with(&expected), "{error}");
        let error = Watch::open(pid, None, &nobody).await.unwrap_err().to_string();
        assert!(
            error.starts_with("`--pid`: cannot read the memory of process 4294967295"),
            "{error}"
        );
    }
}
