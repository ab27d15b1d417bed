//! The journal of decisions: what was written, what was lost, and whether it is written now.

use metrics::{Counter, Gauge, Unit};

use super::description::Description;
use super::{Registry, count};

const WRITING: Description = Description::gauge(
    "berth_journal_writing",
    &[],
    "1 while decisions are recorded; 0 if there is no journal, or it cannot be written.",
);
const BYTES: Description =
    Description::gauge("berth_journal_bytes", &[], "Bytes of the journal's segments on the disk.")
        .measured_in(Unit::Bytes);
const WAITING: Description = Description::gauge(
    "berth_journal_waiting_bytes",
    &[],
    "Bytes of changes and decisions that wait to be written to the journal.",
)
.measured_in(Unit::Bytes);
const RECORDED: Description = Description::counter(
    "berth_journal_recorded_total",
    &["what"],
    "What was written to the journal: generation, decision.",
);
const GAPS: Description = Description::counter(
    "berth_journal_gaps_total",
    &["reason"],
    "Times at which the journal began anew without what came before, by reason: disk (it could not be written), \
     overload (it was written too slowly).",
);

/// Metrics of one server's journal. Clones count together.
#[derive(Clone)]
pub struct JournalCounts {
    writing: Gauge,
    bytes: Gauge,
    waiting: Gauge,
    generations: Counter,
    decisions: Counter,
    disk: Counter,
    overload: Counter,
}

/// Reason why a journal has a gap.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum JournalGap {
    /// It could not be written.
    Disk,
    /// It was written too slowly.
    Overload,
}

impl JournalCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&WRITING, &BYTES, &WAITING, &RECORDED, &GAPS];

    pub(super) fn new(registry: &Registry) -> JournalCounts {
        let recorded = |what| registry.counter(&RECORDED, &[what]);
        let gaps = |reason| registry.counter(&GAPS, &[reason]);
        JournalCounts {
            writing: registry.gauge(&WRITING, &[]),
            bytes: registry.gauge(&BYTES, &[]),
            waiting: registry.gauge(&WAITING, &[]),
            generations: recorded("generation"),
            decisions: recorded("decision"),
            disk: gaps("disk"),
            overload: gaps("overload"),
        }
    }

    /// Sets whether decisions are recorded.
    pub fn set_writing(&self, is_writing: bool) {
        self.writing.set(f64::from(u8::from(is_writing)));
    }

    /// Sets the number of bytes on the disk.
    pub fn set_bytes(&self, n_bytes: u64) {
        self.bytes.set(count(usize::try_from(n_bytes).unwrap_or(usize::MAX)));
    }

    /// Sets the number of bytes that wait.
    pub fn set_waiting(&self, n_bytes: usize) {
        self.waiting.set(count(n_bytes));
    }

    /// Counts a generation that was written.
    pub fn count_generation(&self) {
        self.generations.increment(1);
    }

    /// Counts decisions that were written.
    pub fn count_decisions(&self, n: usize) {
        self.decisions.increment(n as u64);
    }

    /// Counts a gap.
    pub fn count_gap(&self, gap: JournalGap) {
        match gap {
            JournalGap::Disk => &self.disk,
            JournalGap::Overload => &self.overload,
        }
        .increment(1);
    }
}
