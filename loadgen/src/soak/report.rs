//! What a soak found: a table for people, JSON for programs, a picture for both.

mod picture;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::SoakSpec;
use super::process::Usage;
use super::slope::{Judgement, Trend, judge};
use super::tally::{Differences, Done, Failures};
use crate::report::number::grouped;
use crate::report::table::table;

/// One recount.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Since the beginning.
    pub at_seconds: f64,
    /// Of the server's process, where it was looked at.
    pub usage: Option<Usage>,
    /// Open what-if sessions, where metrics were asked.
    pub n_sessions: Option<u64>,
    /// The server's, when nothing was under way.
    pub generation: u64,
    /// As the server counts them.
    pub n_nodes: u64,
    /// On nodes of the cluster.
    pub n_pods: u64,
    /// Placed and not confirmed.
    pub n_assumed: u64,
    /// Different specs of pods.
    pub n_shapes: u64,
    /// In which the recount differed.
    pub n_differences: u64,
    /// Steps that the actors had taken.
    pub n_steps: u64,
}

/// Up to what growth over the second half something counts as flat.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// MiB of resident memory an hour.
    pub memory_mib_per_hour: f64,
    /// File descriptors an hour; the same for threads.
    pub fds_per_hour: f64,
}

impl Default for Bounds {
    /// 64 MiB and 12 descriptors an hour: less than any leak of a connection or a pod would cost at a hundred steps a second.
    fn default() -> Self {
        Self { memory_mib_per_hour: 64.0, fds_per_hour: 12.0 }
    }
}

/// Memory that comes and goes with the allocator's pages, in MiB, and descriptors that are about to be closed.
const MEMORY_NOISE_MIB: f64 = 8.0;
const FDS_NOISE: f64 = 4.0;

/// The account of a soak; its serialised form is what `-o json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SoakReport {
    /// Seconds from the first step to the last recount.
    pub elapsed_seconds: f64,
    /// Steps a second that were aimed at.
    pub rate: f64,
    /// Chose everything.
    pub seed: u64,
    /// Whether a signal ended it early.
    pub interrupted: bool,
    /// Up to what growth memory and descriptors count as flat.
    pub bounds: Bounds,
    /// Resident memory in MiB.
    pub memory: Option<Trend>,
    /// File descriptors.
    pub fds: Option<Trend>,
    /// Threads.
    pub threads: Option<Trend>,
    /// How often each thing was done.
    pub done: Done,
    /// Calls that failed, by method and code. A soak cuts connections and fills sessions: some have to.
    pub errors: BTreeMap<String, Failures>,
    /// What the server, or a recount, was wrong about.
    pub differences: Differences,
    /// One a recount; the last is that of the end, with nothing left of the soak.
    pub samples: Vec<Sample>,
}

impl SoakReport {
    pub(super) fn new(
        spec: &SoakSpec,
        elapsed: Duration,
        samples: Vec<Sample>,
        done: Done,
        errors: BTreeMap<String, Failures>,
        mut differences: Differences,
    ) -> Self {
        for pair in samples.windows(2).filter(|pair| pair[1].generation < pair[0].generation) {
            differences.n += 1;
            let (before, after) = (pair[0].generation, pair[1].generation);
            differences.first.push(format!("the generation fell from {before} to {after}"));
        }
        // The last one is of the emptied cluster.
        let churned = &samples[..samples.len().saturating_sub(1)];
        let trend = |value: fn(&Usage) -> f64, bound, noise| {
            let points: Vec<(f64, f64)> = churned
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
            errors,
            differences,
            samples,
        }
    }

    /// Whether every recount was exact and nothing grows. What is too short to be judged does not count against it.
    pub fn is_good(&self) -> bool {
        let trends = [self.memory, self.fds, self.threads];
        let grows = |trend: &Trend| trend.judgement == Judgement::Grows;
        self.differences.n == 0 && !trends.iter().flatten().any(grows)
    }

    /// The text for people.
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
        let mut done = table(&["done", "times"], 1);
        for (what, n) in &self.done {
            done.add_row([(*what).to_owned(), grouped(*n)]);
        }
        writeln!(text, "{}\n", trimmed(&done.to_string())).ok();
        for (what, failures) in &self.errors {
            let n = grouped(failures.n);
            writeln!(text, "error {}: {n}, first: {}", what.trim_end(), failures.first).ok();
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

/// Without the blanks that pad the last column.
fn trimmed(table: &str) -> String {
    table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use berth_client::Credentials;

    /// 30 minutes in which memory grows by so many MiB an hour.
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
        };
        let done = BTreeMap::from([("Place", 1_200), ("recounts", 181)]);
        let failures = Failures { n: 3, first: "2 sessions are open".to_owned() };
        let errors = BTreeMap::from([("Session.Open RESOURCE_EXHAUSTED".to_owned(), failures)]);
        let samples = (0..=180).map(sample).collect();
        let differences = Differences::default();
        SoakReport::new(&spec, Duration::from_secs(1_800), samples, done, errors, differences)
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
            "done times",
            "Place 1,200",
            "recounts 181",
            "error Session.Open RESOURCE_EXHAUSTED: 3, first: 2 sessions are open",
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
        };
        let (done, errors) = (Done::new(), BTreeMap::new());
        let differences = Differences::default();
        let report = SoakReport::new(&spec, Duration::ZERO, samples, done, errors, differences);
        assert_eq!(report.differences.first, ["the generation fell from 89 to 5"]);
    }
}
