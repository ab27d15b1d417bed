//! Samples of the server during a run: its memory by `/proc` and by its metrics, and the calls that it counted by code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_client::Credentials;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::soak::scrape::{Http, HttpError};

/// Interval of the memory samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Prometheus' standard metric of a process' resident memory.
const RESIDENT_MEMORY: &str = "process_resident_memory_bytes";
const METRICS: &str = "/metrics";
const CALLS: &str = "berth_grpc_calls_total";

/// Reason why a server cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The process does not exist, or its memory may not be read.
    #[error(
        "`--pid`: cannot read the memory of process {pid}: {reason}; give the server's process id, on this machine"
    )]
    Process {
        /// The process id.
        pid: u32,
        /// The operating system's reason.
        reason: String,
    },
    /// The metrics cannot be read.
    #[error("`--http`: cannot read the server's metrics: {0}")]
    Metrics(#[from] HttpError),
}

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct MemorySample {
    /// Seconds since the first load began.
    pub at_seconds: f64,
    /// Resident memory according to the operating system (`VmRSS`).
    pub resident: Option<u64>,
    /// Resident memory according to the server's metrics.
    #[serde(rename = "told")]
    pub reported: Option<u64>,
}

/// Calls of one method by the name of their status code.
pub type Calls = BTreeMap<String, u64>;

/// The sources of samples: a process, metrics, or both.
#[derive(Debug, Clone)]
pub struct Watch {
    pid: Option<u32>,
    http: Option<Http>,
}

/// A watch that samples in the background until it is ended.
#[derive(Debug)]
pub struct Watching {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<MemorySample>>,
}

impl Watch {
    /// Checks that the process and the metrics can be read.
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

    /// Samples the memory now and every second; seconds count from `origin`.
    pub fn begin(&self, origin: Instant) -> Watching {
        let (watch, (stop, mut stopped)) = (self.clone(), oneshot::channel());
        let task = tokio::spawn(async move {
            let mut samples = Vec::new();
            let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
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
        let reported = match &self.http {
            None => None,
            Some(http) => http.get(METRICS).await.ok().and_then(|text| memory(&text)),
        };
        let resident = self.pid.and_then(|pid| resident(pid).ok());
        MemorySample { at_seconds: origin.elapsed().as_secs_f64(), resident, reported }
    }

    /// The text of the server's metrics; `None` if they are not read.
    pub async fn calls(&self) -> Option<String> {
        self.http.as_ref()?.get(METRICS).await.ok()
    }

    /// The calls of the method at `path` that the server counted since the metrics in `before`.
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
    /// Takes a last sample and returns all samples.
    pub async fn end(self) -> Vec<MemorySample> {
        // A watch whose task panicked has no samples.
        self.stop.send(()).ok();
        self.task.await.unwrap_or_default()
    }
}

/// Resident memory of a process in bytes.
fn resident(pid: u32) -> Result<u64, String> {
    let path = PathBuf::from(format!("/proc/{pid}/status"));
    let status = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    rss_of_status(&status).ok_or_else(|| "it has no `VmRSS`".to_owned())
}

fn rss_of_status(status: &str) -> Option<u64> {
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
        let is_of_method = label(labels, "method") == Some(path);
        if let (true, Some(code), Ok(n)) = (is_of_method, label(labels, "code"), n.parse::<f64>()) {
            // The cast saturates.
            *calls.entry(code.to_owned()).or_default() += n as u64;
        }
    }
    calls
}

/// The value of a label whose value needs no escapes.
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
        assert_eq!(rss_of_status(status), Some(123_456 * 1024));
        assert_eq!(rss_of_status("Name:\tkthread\n"), None);
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
    async fn an_unreadable_process_or_port_is_refused_at_once() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let anonymous = Credentials::default();
        let (url, pid) = (format!("http://{free}"), Some(u32::MAX));
        let error = Watch::open(None, Some(&url), &anonymous).await.unwrap_err().to_string();
        let expected = format!("`--http`: cannot read the server's metrics: `{url}`: ");
        assert!(error.starts_with(&expected), "{error}");
        let error = Watch::open(pid, None, &anonymous).await.unwrap_err().to_string();
        assert!(
            error.starts_with("`--pid`: cannot read the memory of process 4294967295"),
            "{error}"
        );
    }
}
