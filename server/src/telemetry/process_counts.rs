//! The process, by the names of Prometheus' client libraries, which dashboards for any service use. The numbers are
//! read from `/proc/self` at each scrape; a system without it has no such metrics.

use std::fs;
use std::sync::OnceLock;

use metrics::{Gauge, Unit};

use super::description::Description;
use super::{Registry, count};

const BUILD_INFO: Description = Description::gauge(
    "berth_build_info",
    &["version"],
    "Always 1; the label has the version of this program.",
);
const RESIDENT: Description = Description::gauge(
    "process_resident_memory_bytes",
    &[],
    "Memory of this process that is in RAM, in bytes.",
)
.measured_in(Unit::Bytes);
const OPEN_FILES: Description =
    Description::gauge("process_open_fds", &[], "Open file descriptors, connections included.");
const THREADS: Description = Description::gauge("process_threads", &[], "Threads of this process.");

/// Metrics of this process.
pub struct ProcessCounts {
    registry: Registry,
    read: OnceLock<Gauges>,
}

struct Gauges {
    resident: Gauge,
    open_files: Gauge,
    threads: Gauge,
}

impl ProcessCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&BUILD_INFO, &RESIDENT, &OPEN_FILES, &THREADS];

    pub(super) fn new(registry: &Registry) -> ProcessCounts {
        registry.gauge(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        ProcessCounts { registry: registry.clone(), read: OnceLock::new() }
    }

    /// Sets the gauges to the numbers of this moment.
    pub(super) fn refresh(&self) {
        let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
        let gauges = self.read.get_or_init(|| Gauges {
            resident: self.registry.gauge(&RESIDENT, &[]),
            open_files: self.registry.gauge(&OPEN_FILES, &[]),
            threads: self.registry.gauge(&THREADS, &[]),
        });
        if let Some(kibibytes) = number(&status, "VmRSS:") {
            gauges.resident.set(count(kibibytes << 10));
        }
        if let Some(n) = number(&status, "Threads:") {
            gauges.threads.set(count(n));
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of the entries is the directory being read.
            gauges.open_files.set(count(open.count().saturating_sub(1)));
        }
    }
}

/// The number that follows `name`, as in `Threads: 7` or `VmRSS: 1024 kB`.
fn number(status: &str, name: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_a_status_file() {
        let status = "Name:\tberth\nVmRSS:\t  1024 kB\nThreads:\t7\n";
        assert_eq!(number(status, "VmRSS:"), Some(1024));
        assert_eq!(number(status, "Threads:"), Some(7));
        assert_eq!(number(status, "VmHWM:"), None);
    }
}
