//! Report of an overload: as JSON by its fields, as Markdown by [`markdown`], as a picture by [`picture`].

mod markdown;
mod picture;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::{Client, code_name};
use hdrhistogram::Histogram;
use serde::Serialize;
use tonic::Code;

use super::Latency;
use crate::overload::OverloadSpec;
use crate::overload::assumed::Balance;
use crate::overload::search::Highest;
use crate::overload::stats::{CallStats, Second};
use crate::overload::watch::{Calls, MemorySample};
use crate::overload::work::WorkKind;

pub use markdown::markdown;
pub use picture::picture;

/// Report of one overload; `-o json` prints its serialised form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverloadReport {
    /// The RPC of the calls.
    pub kind: WorkKind,
    /// Pods a call.
    pub pods_per_call: u32,
    /// Connections to the server.
    pub n_connections: usize,
    /// Rate of the overload phase, as a multiple of the highest rate.
    pub factor: f64,
    /// Limit of calls in flight.
    pub max_in_flight: usize,
    /// Timeout of a call in seconds.
    pub timeout_seconds: f64,
    /// Whether refused calls were retried.
    pub retry: bool,
    /// Cores of the machine that the generator ran on.
    pub n_cores: usize,
    /// Whether a signal ended the phases early.
    pub interrupted: bool,
    /// The highest rate with the trials of its search.
    pub highest: Highest,
    /// The phases: half of the highest rate, several times it, half again.
    pub phases: Vec<PhaseReport>,
    /// Each second since the first phase began.
    pub seconds: Vec<SecondReport>,
    /// Samples of the server's memory.
    pub memory: Vec<MemorySample>,
    /// Calls of the run's method by code, as the server counted them; absent if its metrics were not read.
    pub server_calls: Option<Calls>,
    /// Comparison of the granted pods with the server's pods.
    pub balance: Balance,
}

/// Counts and latencies of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Name of the phase.
    pub name: &'static str,
    /// Intended calls a second.
    pub rate: f64,
    /// Seconds from the start of the first phase to the start of this one.
    pub begun_seconds: f64,
    /// Seconds from the first call of the phase to the sending of its last.
    pub elapsed_seconds: f64,
    /// Calls that were due.
    pub n_offered: u64,
    /// Calls that were not sent because the limit of calls in flight was reached.
    pub n_not_sent: u64,
    /// Calls that the server accepted.
    pub n_accepted: u64,
    /// Calls that the server refused with RESOURCE_EXHAUSTED.
    pub n_refused: u64,
    /// Calls that ended with any other code.
    pub n_failed: u64,
    /// Calls that were unanswered after their timeout and a grace period.
    pub n_unanswered: u64,
    /// Attempts beyond each call's first.
    pub n_retries: u64,
    /// Answered calls by the name of the status code.
    pub by_code: BTreeMap<&'static str, u64>,
    /// The first message of each code but `OK`.
    pub examples: BTreeMap<&'static str, String>,
    /// Latency of accepted calls, from the time they were due.
    pub accepted: Latency,
    /// Latency of accepted calls, from their sending.
    pub accepted_from_sending: Latency,
    /// Latency of refused calls, from the time they were due.
    pub refused: Latency,
    /// Latency of refused calls, from their sending.
    pub refused_from_sending: Latency,
    /// Delay of the generator: from the time a call was due to its sending.
    pub lag: Latency,
    /// Retry delays that refusals named.
    pub retry_after: Latency,
}

/// Counts and latencies of the calls that were due within one second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondReport {
    /// Calls that were due.
    pub n_offered: u64,
    /// Calls due in this second that the server accepted.
    pub n_accepted: u64,
    /// Calls due in this second that the server refused with RESOURCE_EXHAUSTED.
    pub n_refused: u64,
    /// Median latency of the accepted calls from the time they were due, in microseconds; absent without accepted
    /// calls.
    pub p50_us: Option<f64>,
    /// 99th percentile of the same latency.
    pub p99_us: Option<f64>,
}

impl SecondReport {
    fn new(second: &Second) -> Self {
        let at = |quantile| {
            let nanoseconds = second.accepted.value_at_quantile(quantile);
            (!second.accepted.is_empty()).then_some(nanoseconds as f64 / 1_000.0)
        };
        Self {
            n_offered: second.n_offered,
            n_accepted: second.n_accepted,
            n_refused: second.n_refused,
            p50_us: at(0.5),
            p99_us: at(0.99),
        }
    }
}

impl PhaseReport {
    pub(crate) fn new(
        name: &'static str,
        rate: f64,
        begun: Duration,
        elapsed: Duration,
        stats: &CallStats,
        n_unanswered: u64,
    ) -> Self {
        let n_answered: u64 = stats.by_code.values().sum();
        let (n_accepted, n_refused) = (stats.count(Code::Ok), stats.count(Code::ResourceExhausted));
        let of = |histogram: &Histogram<u64>| Latency {
            // The curves would make up most of the JSON, and no picture uses them.
            curve: Vec::new(),
            ..Latency::of(histogram)
        };
        Self {
            name,
            rate,
            begun_seconds: begun.as_secs_f64(),
            elapsed_seconds: elapsed.as_secs_f64(),
            n_offered: stats.n_offered + n_unanswered,
            n_not_sent: stats.n_not_sent,
            n_accepted,
            n_refused,
            n_failed: n_answered - n_accepted - n_refused,
            n_unanswered,
            n_retries: stats.n_retries,
            by_code: stats.by_code.clone(),
            examples: stats.examples.clone(),
            accepted: of(&stats.accepted.from_intended),
            accepted_from_sending: of(&stats.accepted.from_sending),
            refused: of(&stats.refused.from_intended),
            refused_from_sending: of(&stats.refused.from_sending),
            lag: of(&stats.lag),
            retry_after: of(&stats.retry_after),
        }
    }

    /// Calls that were due, a second.
    pub fn offered_rate(&self) -> f64 {
        self.per_second(self.n_offered)
    }

    fn per_second(&self, n: u64) -> f64 {
        if self.elapsed_seconds > 0.0 { n as f64 / self.elapsed_seconds } else { 0.0 }
    }
}

impl OverloadReport {
    #[expect(clippy::too_many_arguments, reason = "the parts of a report, each of its own type")]
    pub(crate) fn new(
        spec: &OverloadSpec,
        client: &Client,
        highest: Highest,
        phases: Vec<PhaseReport>,
        seconds: &[Second],
        memory: Vec<MemorySample>,
        server_calls: Option<Calls>,
        balance: Balance,
    ) -> Self {
        Self {
            kind: spec.kind,
            pods_per_call: spec.pods_per_call,
            n_connections: client.n_connections(),
            factor: spec.factor,
            max_in_flight: spec.max_in_flight,
            timeout_seconds: spec.timeout.as_secs_f64(),
            retry: spec.retry,
            n_cores: std::thread::available_parallelism().map_or(1, usize::from),
            interrupted: false,
            highest,
            phases,
            seconds: seconds.iter().map(SecondReport::new).collect(),
            memory,
            server_calls,
            balance,
        }
    }

    /// Whether the server holds exactly the granted pods, and every call was accepted or refused for load. Independent
    /// of the speed of the machine.
    pub fn is_sound(&self) -> bool {
        self.balance.is_exact()
            && self.phases.iter().all(|phase| phase.n_failed == 0 && phase.n_unanswered == 0)
    }

    /// The requirements of a server under overload, with the measured figures.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let phase = |name| self.phases.iter().find(|phase| phase.name == name);
        if let (Some(half), Some(overload)) = (phase("half"), phase("overload")) {
            verdicts.push(within_twice(
                "accepted calls keep their p50 within 2 × of the half load",
                half.accepted.p50_us,
                overload.accepted.p50_us,
            ));
            verdicts.push(within_twice(
                "accepted calls keep their p99 within 2 × of the half load",
                half.accepted.p99_us,
                overload.accepted.p99_us,
            ));
            let is_met = overload.n_refused > 0
                && overload.refused_from_sending.p99_us <= overload.accepted_from_sending.p50_us;
            let figure = format!(
                "p99 of a refusal {}, p50 of an accepted call {}, from the sending",
                super::table::time(overload.refused_from_sending.p99_us),
                super::table::time(overload.accepted_from_sending.p50_us)
            );
            let what = "refused calls learn of it before half of the accepted ones are answered";
            verdicts.push(Verdict { what, figure, is_met });
            verdicts.push(Verdict {
                what: "the rest is refused with RESOURCE_EXHAUSTED, and nothing else goes wrong",
                figure: others(overload),
                is_met: overload.n_failed == 0 && overload.n_unanswered == 0,
            });
            verdicts.extend(self.memory_verdict(overload));
        }
        if let (Some(half), Some(again)) = (phase("half"), phase("half again")) {
            verdicts.push(within_twice(
                "back at half load the p99 is what it was, within 2 ×",
                half.accepted.p99_us,
                again.accepted.p99_us,
            ));
        }
        let Balance { n_granted, n_held, n_lost, n_taken, n_unknown_held, .. } = self.balance;
        verdicts.push(Verdict {
            what: "nothing accepted is lost, nothing refused took room",
            figure: format!(
                "{n_granted} pods granted, {n_held} held; {n_lost} lost, {n_taken} of refused calls, {n_unknown_held} of calls without an answer"
            ),
            is_met: self.balance.is_exact(),
        });
        verdicts
    }

    /// Memory is flat if its maximum in the last third of the overload exceeds the maximum in the second third by at
    /// most a tenth. The first third is ignored: caches and assumed pods fill memory then.
    fn memory_verdict(&self, overload: &PhaseReport) -> Option<Verdict> {
        let part = |from: f64, to: f64| {
            let at = |share: f64| overload.begun_seconds + overload.elapsed_seconds * share;
            self.memory
                .iter()
                .filter(|sample| (at(from)..=at(to)).contains(&sample.at_seconds))
                .filter_map(|sample| sample.resident.or(sample.reported))
                .max()
        };
        let (middle, last) = (part(1.0 / 3.0, 2.0 / 3.0)?, part(2.0 / 3.0, 1.0)?);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Some(Verdict {
            what: "memory is flat",
            figure: format!(
                "at most {:.0} MiB in the second third of the overload, {:.0} MiB in the last",
                mib(middle),
                mib(last)
            ),
            is_met: last as f64 <= middle as f64 * 1.1,
        })
    }
}

/// One requirement with its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The requirement.
    pub what: &'static str,
    /// The measured figures.
    pub figure: String,
    /// Whether the requirement is met.
    pub is_met: bool,
}

fn within_twice(what: &'static str, before: f64, after: f64) -> Verdict {
    let time = super::table::time;
    let times = if before > 0.0 { after / before } else { f64::INFINITY };
    let figure = format!("{} before, {} then: {times:.2} ×", time(before), time(after));
    Verdict { what, figure, is_met: times <= 2.0 }
}

/// Counts of the calls that were neither accepted nor refused for load.
fn others(phase: &PhaseReport) -> String {
    let is_other =
        |code: &str| code != code_name(Code::Ok) && code != code_name(Code::ResourceExhausted);
    let others = phase.by_code.iter().filter(|(code, _)| is_other(code));
    let mut texts: Vec<String> = others.map(|(code, n)| format!("{n} {code}")).collect();
    if phase.n_unanswered > 0 {
        texts.push(format!("{} without an answer", phase.n_unanswered));
    }
    if texts.is_empty() { "no other code".to_owned() } else { texts.join(", ") }
}

#[cfg(test)]
pub(super) mod tests;
