//! The account of an overload: as JSON by its fields, as Markdown by [`markdown`], as a picture by [`picture`].

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
use crate::overload::account::Balance;
use crate::overload::book::{Book, Second};
use crate::overload::search::Highest;
use crate::overload::watch::{Calls, MemorySample};
use crate::overload::work::WorkKind;

pub use markdown::markdown;
pub use picture::picture;

/// The account of one overload; its serialised form is what `-o json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverloadReport {
    /// What a call asked.
    pub kind: WorkKind,
    /// Pods a call.
    pub pods_per_call: u32,
    /// Connections to the server.
    pub n_connections: usize,
    /// How many times the highest rate was offered.
    pub factor: f64,
    /// Calls under way at most.
    pub max_in_flight: usize,
    /// Seconds after which a call gave up.
    pub timeout_seconds: f64,
    /// Whether refused calls were tried again.
    pub retry: bool,
    /// Cores of the machine that the generator ran on.
    pub n_cores: usize,
    /// Whether a signal ended the loads early.
    pub interrupted: bool,
    /// The highest rate, and how it was found.
    pub highest: Highest,
    /// Half of it, many times it, half again.
    pub phases: Vec<PhaseReport>,
    /// Each second since the first load began.
    pub seconds: Vec<SecondReport>,
    /// The server's memory.
    pub memory: Vec<MemorySample>,
    /// Calls of the run's method by code as the server counted them, where its metrics were read.
    pub server_calls: Option<Calls>,
    /// What was assumed, beside what the server holds.
    pub balance: Balance,
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub name: &'static str,
    /// Calls a second aimed at.
    pub rate: f64,
    /// Seconds since the first load began.
    pub begun_seconds: f64,
    /// From its first call to the sending of its last.
    pub elapsed_seconds: f64,
    /// Calls that were due.
    pub n_offered: u64,
    /// Those that were not sent, because too many were under way.
    pub n_not_sent: u64,
    /// Calls that were carried out.
    pub n_accepted: u64,
    /// Calls that were refused for load.
    pub n_refused: u64,
    /// Calls that ended otherwise.
    pub n_failed: u64,
    /// Calls that nobody waited for any longer.
    pub n_unanswered: u64,
    /// Attempts beyond each call's first.
    pub n_retries: u64,
    /// Answered calls by the name of the code.
    pub by_code: BTreeMap<&'static str, u64>,
    /// The first message of each code but `OK`.
    pub examples: BTreeMap<&'static str, String>,
    /// Accepted calls, from when they were due.
    pub accepted: Latency,
    /// Accepted calls, from the sending.
    pub accepted_from_sending: Latency,
    /// Refused calls, from when they were due.
    pub refused: Latency,
    /// Refused calls, from the sending.
    pub refused_from_sending: Latency,
    /// From when a call was due to its sending: the generator's own delay.
    pub lag: Latency,
    /// After what time refusals say to try again; as many as said so.
    pub retry_after: Latency,
}

/// One second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SecondReport {
    /// Calls that were due.
    pub n_offered: u64,
    /// Calls due then that were carried out.
    pub n_accepted: u64,
    /// Calls due then that were refused for load.
    pub n_refused: u64,
    /// 50 % of the accepted ones took at most this from when they were due, in microseconds; absent without any.
    pub p50_us: Option<f64>,
    /// 99 % did.
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
        book: &Book,
        n_unanswered: u64,
    ) -> Self {
        let n_answered: u64 = book.by_code.values().sum();
        let (n_accepted, n_refused) = (book.count(Code::Ok), book.count(Code::ResourceExhausted));
        let of = |histogram: &Histogram<u64>| Latency {
            // The curves would make up most of the JSON, and nothing is drawn of them.
            curve: Vec::new(),
            ..Latency::of(histogram)
        };
        Self {
            name,
            rate,
            begun_seconds: begun.as_secs_f64(),
            elapsed_seconds: elapsed.as_secs_f64(),
            n_offered: book.n_offered + n_unanswered,
            n_not_sent: book.n_not_sent,
            n_accepted,
            n_refused,
            n_failed: n_answered - n_accepted - n_refused,
            n_unanswered,
            n_retries: book.n_retries,
            by_code: book.by_code.clone(),
            examples: book.examples.clone(),
            accepted: of(&book.accepted.from_intended),
            accepted_from_sending: of(&book.accepted.from_sending),
            refused: of(&book.refused.from_intended),
            refused_from_sending: of(&book.refused.from_sending),
            lag: of(&book.lag),
            retry_after: of(&book.retry_after),
        }
    }

    /// Calls a second that were due.
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

    /// Whether the server's books agree, and every call was carried out or refused for load: what does not depend on how fast the
    /// machine is.
    pub fn is_sound(&self) -> bool {
        self.balance.is_exact()
            && self.phases.iter().all(|phase| phase.n_failed == 0 && phase.n_unanswered == 0)
    }

    /// What was asked of a server under overload, and whether it was so.
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

    /// Flat: what the last third of the overload has at most is within a tenth of what its second third has at most. The first
    /// third fills caches, and what is assumed is kept.
    fn memory_verdict(&self, overload: &PhaseReport) -> Option<Verdict> {
        let part = |from: f64, to: f64| {
            let at = |share: f64| overload.begun_seconds + overload.elapsed_seconds * share;
            self.memory
                .iter()
                .filter(|sample| (at(from)..=at(to)).contains(&sample.at_seconds))
                .filter_map(|sample| sample.resident.or(sample.told))
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

/// Whether something that was asked was so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was asked.
    pub what: &'static str,
    /// What was measured.
    pub figure: String,
    /// Whether it was so.
    pub is_met: bool,
}

fn within_twice(what: &'static str, before: f64, after: f64) -> Verdict {
    let time = super::table::time;
    let times = if before > 0.0 { after / before } else { f64::INFINITY };
    let figure = format!("{} before, {} then: {times:.2} ×", time(before), time(after));
    Verdict { what, figure, is_met: times <= 2.0 }
}

/// How calls ended that were neither carried out nor refused for load.
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
