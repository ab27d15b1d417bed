//! The report of an overload as one picture: calls a second, latency of accepted calls, and the server's memory over
//! time.

use super::OverloadReport;
use crate::report::svg::{self, Axis, Chart};

/// The whole SVG document.
pub fn picture(report: &OverloadReport) -> String {
    let end = report.seconds.len().max(1) as f64;
    let mut charts = vec![calls(report, end), latencies(report, end)];
    charts.extend(memory(report, end));
    svg::file("A server under overload", &charts)
}

fn time_axis(end: f64) -> Axis {
    Axis::linear("seconds since the half load began", end)
}

fn calls(report: &OverloadReport, end: f64) -> Chart<'static> {
    let line = |of: fn(&super::SecondReport) -> u64| {
        let middles = report.seconds.iter().enumerate();
        // The axis is logarithmic: less than one call a second is drawn as one.
        middles.map(|(at, second)| (at as f64 + 0.5, (of(second) as f64).max(1.0))).collect()
    };
    let most = report.seconds.iter().map(|second| second.n_offered).max().unwrap_or(1);
    let lines = vec![
        ("offered", line(|second| second.n_offered)),
        ("accepted", line(|second| second.n_accepted)),
        ("refused", line(|second| second.n_refused)),
    ];
    let least = report.highest.rate / 10.0;
    Chart {
        title: "Calls a second: offered, accepted, refused",
        x: time_axis(end),
        y: Axis::log("calls a second", least.max(1.0), (most as f64).max(10.0), |n| format!("{n}")),
        lines,
    }
}

fn latencies(report: &OverloadReport, end: f64) -> Chart<'static> {
    let line = |of: fn(&super::SecondReport) -> Option<f64>| -> Vec<(f64, f64)> {
        let seconds = report.seconds.iter().enumerate();
        seconds.filter_map(|(at, second)| Some((at as f64 + 0.5, of(second)? / 1e3))).collect()
    };
    let (p50, p99) = (line(|second| second.p50_us), line(|second| second.p99_us));
    let most = p99.iter().map(|(_, ms)| *ms).fold(1.0, f64::max);
    let least = p50.iter().map(|(_, ms)| *ms).fold(most, f64::min);
    Chart {
        title: "Latency of accepted calls from when they were due, by second",
        x: time_axis(end),
        y: Axis::log("latency of accepted calls", least, most, |ms| format!("{ms} ms")),
        lines: vec![("p50, accepted", p50), ("p99, accepted", p99)],
    }
}

fn memory(report: &OverloadReport, end: f64) -> Option<Chart<'static>> {
    let resident: Vec<(f64, f64)> = report
        .memory
        .iter()
        .filter_map(|sample| {
            let bytes = sample.resident.or(sample.reported)?;
            Some((sample.at_seconds.min(end), bytes as f64 / f64::from(1 << 20)))
        })
        .collect();
    let most = resident.iter().map(|(_, mib)| *mib).fold(0.0, f64::max);
    (!resident.is_empty()).then(|| Chart {
        title: "Resident memory of the server",
        x: time_axis(end),
        y: Axis::linear("resident memory, MiB", most * 1.05),
        lines: vec![("resident", resident)],
    })
}
