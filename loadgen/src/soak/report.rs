//! Report of a soak: a table for people, JSON for programs, and a picture.

mod picture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::SoakSpec;
use super::process::Usage;
use super::slope::{Judgement, Trend, judge};
use super::tally::{Differences, Done, Failures, Latency, Tally};
use crate::report::number::grouped;
use crate::report::table::table;

/// Result of one recount.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_seconds: f64,
    /// Usage of the server's process; absent if no process was given.
    pub usage: Option<Usage>,
    /// Open what-if sessions; absent if no HTTP address was given.
    pub n_sessions: Option<u64>,
    /// Generation of the server's cluster.
    pub generation: u64,
    /// Nodes that the server counts.
    pub n_nodes: u64,
    /// Pods on nodes of the cluster.
    pub n_pods: u64,
    /// Assumed pods: placed and not confirmed.
    pub n_assumed: u64,
    /// Different pod specs.
    pub n_shapes: u64,
    /// Differences that the recount found.
    pub n_differences: u64,
    /// Steps that the actors had taken.
    pub n_steps: u64,
}

/// Growth over the second half of a soak up to which a quantity counts as flat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Growth of resident memory in MiB an hour.
    pub memory_mib_per_hour: f64,
    /// Growth of file descriptors, and of threads, in number an hour.
    pub fds_per_hour: f64,
}

impl Default for Bounds {
    /// 64 MiB and 12 descriptors an hour: less than the leak of one connection or pod a step at a hundred steps a
    /// second.
    fn default() -> Self {
        Self { memory_mib_per_hour: 64.0, fds_per_hour: 12.0 }
    }
}

/// Noise of the quantities: memory that the allocator takes and returns, in MiB, and descriptors that are about to be
/// closed.
const MEMORY_NOISE_MIB: f64 = 8.0;
const FDS_NOISE: f64 = 4.0;

/// Report of a soak; `-o json` prints its serialised form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SoakReport {
    /// Seconds from the first step to the last recount.
    pub elapsed_seconds: f64,
    /// Intended steps a second.
    pub rate: f64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether a signal ended the soak early.
    pub interrupted: bool,
    /// Growth up to which memory and descriptors count as flat.
    pub bounds: Bounds,
    /// Trend of resident memory in MiB.
    pub memory: Option<Trend>,
    /// Trend of open file descriptors.
    pub fds: Option<Trend>,
    /// Trend of threads.
    pub threads: Option<Trend>,
    /// Counts of completed work by its name.
    pub done: Done,
    /// Times of the actors' answered calls by method.
    pub latencies: BTreeMap<&'static str, Latency>,
    /// Failed calls by method and code. Some are expected: a soak cuts connections and reaches the limit of sessions.
    pub errors: BTreeMap<String, Failures>,
    /// Differences between the server and its own responses.
    pub differences: Differences,
    /// One sample a recount; the last is taken after all pods of the soak are deleted.
    pub samples: Vec<Sample>,
}

impl SoakReport {
    pub(super) fn new(
        spec: &SoakSpec,
        elapsed: Duration,
        samples: Vec<Sample>,
        tally: Tally,
    ) -> Self {
        let latencies = tally.latencies();
        let Tally { done, errors, mut differences, .. } = tally;
        for pair in samples.windows(2).filter(|pair| pair[1].generation < pair[0].generation) {
            differences.n += 1;
            let (before, after) = (pair[0].generation, pair[1].generation);
            differences.first.push(format!("the generation fell from {before} to {after}"));
        }
        // The last sample is of the emptied cluster.
        let loaded = &samples[..samples.len().saturating_sub(1)];
        let trend = |value: fn(&Usage) -> f64, bound, noise| {
            let points: Vec<(f64, f64)> = loaded
                .iter()
                .filter_map(|sample| Some((sample.at_seconds, value(sample.usage.as_ref()?))))
                .collect();
            judge(&points, bound, noise)
        };
        let bounds = spec.bounds;
        Self {
            elapsed_seconds: elapsed.as_secs_f64(),
            rate: spec.rate,
            seed: spec.seed,
            interrupted: false,
            memory: trend(mebibytes, bounds.memory_mib_per_hour, MEMORY_NOISE_MIB),
            fds: trend(|usage| usage.n_fds as f64, bounds.fds_per_hour, FDS_NOISE),
            threads: trend(|usage| usage.n_threads as f64, bounds.fds_per_hour, FDS_NOISE),
            bounds,
            done,
            latencies,
            errors,
            differences,
            samples,
        }
    }

    /// Whether every recount was exact and no quantity grows. A trend that is too short for a judgement counts as good.
    pub fn is_good(&self) -> bool {
        let trends = [self.memory, self.fds, self.threads];
        let grows = |trend: &Trend| trend.judgement == Judgement::Grows;
        self.differences.n == 0 && !trends.iter().flatten().any(grows)
    }

    /// The report as text for people.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let early = if self.interrupted { ", interrupted" } else { "" };
        let n_steps = self.samples.last().map_or(0, |sample| sample.n_steps);
        writeln!(
            text,
            "soak of {:.0} s, {} steps, seed {}{early}\n",
            self.elapsed_seconds,
            grouped(n_steps),
            self.seed
        )
        .ok();
        self.trends(&mut text);
        let mut done = table(&["done", "times", "p50 ms", "p99 ms", "max ms"], 1);
        for (what, n) in &self.done {
            let milliseconds = |time_us: u64| format!("{:.1}", time_us as f64 / 1_000.0);
            let times = self.latencies.get(what);
            let time = |of: fn(&Latency) -> u64| {
                times.map_or_else(String::new, |times| milliseconds(of(times)))
            };
            done.add_row([
                (*what).to_owned(),
                grouped(*n),
                time(|it| it.p50_us),
                time(|it| it.p99_us),
                time(|it| it.max_us),
            ]);
        }
        writeln!(text, "{}\n", trimmed(&done.to_string())).ok();
        for (what, failures) in &self.errors {
            writeln!(text, "error {}: {}", what.trim_end(), grouped(failures.n)).ok();
            for (message, n) in &failures.messages {
                writeln!(text, "  {} × {message}", grouped(*n)).ok();
            }
        }
        let n_recounts = self.done.get("recounts").copied().unwrap_or_default();
        match self.differences.n {
            0 => writeln!(text, "\nrecounts: {n_recounts}, all exact").ok(),
            n => writeln!(text, "\nrecounts: {n_recounts}, DIFFERENT in {}:", grouped(n)).ok(),
        };
        for difference in &self.differences.first {
            writeln!(text, "  {difference}").ok();
        }
        text
    }

    fn trends(&self, text: &mut String) {
        let mut trends =
            table(&["over the second half", "median", "growth an hour", "bound", "judgement"], 1);
        let fds = self.bounds.fds_per_hour;
        for (name, trend, bound, unit) in [
            ("memory (VmRSS)", self.memory, self.bounds.memory_mib_per_hour, " MiB"),
            ("file descriptors", self.fds, fds, ""),
            ("threads", self.threads, fds, ""),
        ] {
            let Some(trend) = trend else { continue };
            let judgement = match trend.judgement {
                Judgement::Flat => "flat",
                Judgement::Grows => "GROWS",
                Judgement::TooShort => "too short to judge",
            };
            trends.add_row([
                name.to_owned(),
                format!("{:.1}{unit}", trend.median),
                format!("{:+.1}{unit}", trend.per_hour),
                format!("{bound:.1}{unit}"),
                judgement.to_owned(),
            ]);
        }
        if self.memory.is_some() {
            writeln!(text, "{}\n", trimmed(&trends.to_string())).ok();
        }
    }
}

fn mebibytes(usage: &Usage) -> f64 {
    usage.rss_bytes as f64 / f64::from(1 << 20)
}

/// The table without the blanks that pad its last column.
fn trimmed(table: &str) -> String {
    table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use berth_client::Credentials;

    /// A report of 30 minutes in which memory grows by `growth` MiB an hour.
    pub(super) fn example(growth: f64) -> SoakReport {
        let sample = |n: u32| {
            let at_seconds = f64::from(n) * 10.0;
            let mebibytes = 200.0 + growth * at_seconds / 3_600.0;
            Sample {
                at_seconds,
                usage: Some(Usage {
                    rss_bytes: (mebibytes * f64::from(1 << 20)) as u64,
                    n_fds: 30,
                    n_threads: 9,
                }),
                n_sessions: Some(2),
                generation: u64::from(n),
                n_steps: u64::from(n) * 1_000,
                ..Sample::default()
            }
        };
        let spec = SoakSpec {
            server: "http://127.0.0.1:7420".to_owned(),
            credentials: Credentials::default(),
            http: None,
            pid: None,
            duration: Duration::from_secs(1_800),
            rate: 100.0,
            n_nodes: 10,
            n_pods: 100,
            seed: 7,
            interval: Duration::from_secs(10),
            bounds: Bounds::default(),
            n_attackers: 0,
            attacker_credentials: Credentials::default(),
        };
        let mut tally = Tally::default();
        tally.count("Place", 1_200);
        tally.count("recounts", 181);
        tally.took("Place", Duration::from_micros(1_500));
        for _ in 0..3 {
            tally.failed("Session.Open", "RESOURCE_EXHAUSTED", "2 sessions are open");
        }
        let samples = (0..=180).map(sample).collect();
        SoakReport::new(&spec, Duration::from_secs(1_800), samples, tally)
    }

    #[test]
    fn a_report_reads_like_this() {
        let report = example(0.0);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = report.render();
        let lines: Vec<String> = text.lines().map(words).filter(|line| !line.is_empty()).collect();
        let expected = [
            "soak of 1800 s, 180,000 steps, seed 7",
            "over the second half median growth an hour bound judgement",
            "memory (VmRSS) 200.0 MiB +0.0 MiB 64.0 MiB flat",
            "file descriptors 30.0 +0.0 12.0 flat",
            "threads 9.0 +0.0 12.0 flat",
            "done times p50 ms p99 ms max ms",
            "Place 1,200 1.5 1.5 1.5",
            "recounts 181",
            "error Session.Open RESOURCE_EXHAUSTED: 3",
            "3 × 2 sessions are open",
            "recounts: 181, all exact",
        ];
        assert_eq!(lines, expected);
        assert!(report.is_good());
    }

    #[test]
    fn growth_and_differences_are_not_good() {
        let grows = example(100.0);
        assert!(!grows.is_good());
        assert!(grows.render().contains("+100.0 MiB"), "{}", grows.render());
        let mut differs = example(0.0);
        differs.differences = Differences { n: 1, first: vec!["node `n` is missing".to_owned()] };
        assert!(!differs.is_good());
        assert!(differs.render().ends_with("DIFFERENT in 1:\n  node `n` is missing\n"));
    }

    #[test]
    fn a_generation_that_falls_is_a_difference() {
        let example = example(0.0);
        let mut samples = example.samples.clone();
        samples[90].generation = 5;
        let spec = SoakSpec {
            server: String::new(),
            credentials: Credentials::default(),
            http: None,
            pid: None,
            duration: Duration::ZERO,
            rate: 1.0,
            n_nodes: 1,
            n_pods: 10,
            seed: 1,
            interval: Duration::ZERO,
            bounds: Bounds::default(),
            n_attackers: 0,
            attacker_credentials: Credentials::default(),
        };
        let report = SoakReport::new(&spec, Duration::ZERO, samples, Tally::default());
        assert_eq!(report.differences.first, ["the generation fell from 89 to 5"]);
    }
}
