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
const CPU: Description = Description::sum_of_seconds(
    "process_cpu_seconds_total",
    "Time that this process has used cores, user and system, in seconds.",
);
const START: Description = Description::gauge(
    "process_start_time_seconds",
    &[],
    "Unix time at which this process started, in seconds.",
)
.measured_in(Unit::Seconds);
const RESIDENT: Description = Description::gauge(
    "process_resident_memory_bytes",
    &[],
    "Memory of this process that is in RAM, in bytes.",
)
.measured_in(Unit::Bytes);
const VIRTUAL: Description = Description::gauge(
    "process_virtual_memory_bytes",
    &[],
    "Address space of this process, in bytes.",
)
.measured_in(Unit::Bytes);
const OPEN_FILES: Description =
    Description::gauge("process_open_fds", &[], "Open file descriptors, connections included.");
const MAX_FILES: Description =
    Description::gauge("process_max_fds", &[], "Most file descriptors that may be open.");
const THREADS: Description = Description::gauge("process_threads", &[], "Threads of this process.");

/// Ticks a second of the times in `/proc/self/stat` (`USER_HZ`, part of Linux' interface).
const TICKS_A_SECOND: f64 = 100.0;

/// Metrics of this process.
pub struct ProcessCounts {
    registry: Registry,
    read: OnceLock<Gauges>,
}

struct Gauges {
    cpu: Gauge,
    start: Gauge,
    resident: Gauge,
    virtual_memory: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    threads: Gauge,
}

impl Gauges {
    fn new(registry: &Registry) -> Gauges {
        let gauge = |description| registry.gauge(description, &[]);
        Gauges {
            cpu: gauge(&CPU),
            start: gauge(&START),
            resident: gauge(&RESIDENT),
            virtual_memory: gauge(&VIRTUAL),
            open_files: gauge(&OPEN_FILES),
            max_files: gauge(&MAX_FILES),
            threads: gauge(&THREADS),
        }
    }
}

impl ProcessCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&BUILD_INFO, &CPU, &START, &RESIDENT, &VIRTUAL, &OPEN_FILES, &MAX_FILES, &THREADS];

    pub(super) fn new(registry: &Registry) -> ProcessCounts {
        registry.gauge(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        ProcessCounts { registry: registry.clone(), read: OnceLock::new() }
    }

    /// Sets the gauges to the numbers of this moment.
    pub(super) fn refresh(&self) {
        let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
        let gauges = self.read.get_or_init(|| Gauges::new(&self.registry));
        let set = |gauge: &Gauge, value: Option<f64>| {
            if let Some(value) = value {
                gauge.set(value);
            }
        };
        let bytes = |name| number(&status, name).map(|kibibytes| count(kibibytes << 10));
        set(&gauges.resident, bytes("VmRSS:"));
        set(&gauges.virtual_memory, bytes("VmSize:"));
        set(&gauges.threads, number(&status, "Threads:").map(count));
        // One of the entries is the directory being read.
        let open = fs::read_dir("/proc/self/fd").ok();
        set(&gauges.open_files, open.map(|open| count(open.count().saturating_sub(1))));
        let limits = fs::read_to_string("/proc/self/limits").ok();
        set(
            &gauges.max_files,
            limits.and_then(|limits| number(&limits, "Max open files")).map(count),
        );
        let stat = fs::read_to_string("/proc/self/stat").ok();
        if let Some(times) = stat.as_deref().and_then(times) {
            gauges.cpu.set(times.cpu);
            let machine = fs::read_to_string("/proc/stat").ok();
            let boot = machine.and_then(|text| number(&text, "btime"));
            set(&gauges.start, boot.map(|boot| count(boot) + times.start));
        }
    }
}

/// Times of a process, in seconds.
#[derive(Debug, PartialEq)]
struct Times {
    /// Used on cores.
    cpu: f64,
    /// From the machine's boot to the start of the process.
    start: f64,
}

/// The times in the text of `/proc/self/stat`. The name of the program is in parentheses and may contain both spaces
/// and parentheses; behind it utime and stime are the fields 12 and 13, and starttime is field 20.
fn times(stat: &str) -> Option<Times> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let seconds = |field: usize| Some(count(fields.get(field)?.parse().ok()?) / TICKS_A_SECOND);
    Some(Times { cpu: seconds(11)? + seconds(12)?, start: seconds(19)? })
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
        let limits = "Max processes   63   63   processes\nMax open files            1024      4096      files\n";
        assert_eq!(number(limits, "Max open files"), Some(1024));
        assert_eq!(number("Max open files  unlimited  unlimited  files\n", "Max open files"), None);
    }

    #[test]
    fn times_are_read_behind_any_name() {
        let stat =
            "7 (a) (b c) R 1 1 1 0 -1 4194304 102 0 0 0 250 50 9 9 20 0 1 0 622560 3133440 418";
        assert_eq!(times(stat), Some(Times { cpu: 3.0, start: 6225.6 }));
        assert_eq!(times("7 (a) R 1 1"), None);
        assert_eq!(times(""), None);
    }
}
