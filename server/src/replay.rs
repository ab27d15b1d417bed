//! Replay: makes the changes of a journal again, and on what the cluster holds then its decisions, and compares.
//!
//! A decision is a function of a generation, a pod, a policy, a seed and a time, all of which the journal has: so each has
//! to come out as it was recorded, byte for byte, on any number of threads and on any machine.

mod again;
mod ahead;
mod error;
mod moment;
mod remade;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_engine::PodKey;
use rayon::prelude::*;

use crate::clock;
use crate::service::recorder::record::Answer;
pub(crate) use again::Attempted;
pub(crate) use ahead::{Ahead, Step};
pub(crate) use error::{ReplayError, check_wanted};
pub(crate) use moment::Moment;
use remade::{Led, Remade};

/// What to make again of a journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Decisions from this time on, in microseconds since 1970.
    pub(crate) from: Option<u64>,
    /// Decisions before this time.
    pub(crate) to: Option<u64>,
    /// Decisions about this pod.
    pub(crate) pod: Option<PodKey>,
    /// How many times as fast as it was recorded; as fast as it can be without it.
    pub(crate) speed: Option<f64>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) n_segments: usize,
    pub(crate) n_changes: u64,
    pub(crate) n_generations: u64,
    /// Number of decisions that were made again, by pods.
    pub(crate) n_decisions: u64,
    /// Number of attempts that had these decisions.
    pub(crate) n_attempts: u64,
    pub(crate) n_different: u64,
    /// Number of attempts that were decided on a generation which the journal has not, or has no more when they come.
    pub(crate) n_unknown: u64,
    /// Number of places where the journal goes on without what came before.
    pub(crate) n_gaps: usize,
    /// Segments whose last block is torn, with the number of its bytes.
    pub(crate) torn: Vec<(PathBuf, u64)>,
    /// Times of the first and the last generation, in microseconds since 1970.
    pub(crate) span: Option<(u64, u64)>,
    /// The first attempt whose answer differs.
    pub(crate) first: Option<Box<Difference>>,
    /// The attempts about the pod that was asked for.
    pub(crate) of_pod: Vec<Attempted>,
}

/// An attempt whose answer is another one now.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) attempted: Attempted,
    pub(crate) now: Answer,
}

/// A journal that is made again.
struct Replay<'s> {
    selection: &'s Selection,
    remade: Remade,
    /// Attempts by the run and the generation that they were decided on.
    attempts: BTreeMap<(u64, u64), Vec<Attempted>>,
    clock: Option<(std::time::Instant, u64)>,
    report: Report,
}

/// Makes a journal again, or the part of it that is selected.
///
/// # Errors
/// [`ReplayError`]. What differs is no error.
pub(crate) fn replay(directory: &Path, selection: &Selection) -> Result<Report, ReplayError> {
    let mut ahead = Ahead::open(directory)?;
    let mut replay = Replay {
        selection,
        remade: Remade::default(),
        attempts: BTreeMap::new(),
        clock: None,
        report: Report::default(),
    };
    loop {
        let step = ahead.next(|attempted| replay.note(attempted))?;
        replay.decide_here();
        match step {
            Some(step) => replay.make(step)?,
            None => break,
        }
        if replay.is_over() {
            break;
        }
    }
    replay.forget_unknown((u64::MAX, u64::MAX));
    Ok(replay.report)
}

impl Replay<'_> {
    /// Takes an attempt, which comes before the step that leaves its generation.
    fn note(&mut self, attempted: Attempted) {
        if self.selection.has(&attempted) {
            let at = (attempted.run, attempted.record.generation);
            self.attempts.entry(at).or_default().push(attempted);
        }
    }

    fn make(&mut self, step: Step) -> Result<(), ReplayError> {
        let is_first = self.remade.run == 0;
        match self.remade.make(step)? {
            Led::Segment { goes_on, generation } => {
                self.report.n_segments += 1;
                if !goes_on {
                    self.report.n_gaps += usize::from(!is_first);
                    self.forget_unknown((self.remade.run, generation));
                }
            }
            Led::Change => self.report.n_changes += 1,
            Led::Generation { generation, unix_micros } => {
                self.wait_until(unix_micros);
                self.report.n_generations += 1;
                let first = self.report.span.map_or(unix_micros, |(first, _)| first);
                self.report.span = Some((first, unix_micros));
                self.forget_unknown((self.remade.run, generation));
            }
            Led::Torn(n_bytes) => self.report.torn.push((self.remade.path.clone(), n_bytes)),
            Led::Nothing => {}
        }
        Ok(())
    }

    /// Makes all attempts on the generation that the cluster has now.
    fn decide_here(&mut self) {
        let Some(attempts) = self.attempts.remove(&self.remade.now()) else { return };
        let Remade { cluster, profiles, .. } = &self.remade;
        let made = attempts.into_par_iter().map(|attempted| {
            let now = attempted.again(cluster, profiles);
            (attempted, now)
        });
        for (attempted, now) in made.collect::<Vec<_>>() {
            self.report.take(attempted, now, self.selection.pod.is_some());
        }
    }

    /// Counts attempts on generations before this one: they came too late, or the journal has no such generation.
    fn forget_unknown(&mut self, now: (u64, u64)) {
        let rest = self.attempts.split_off(&now);
        let unknown = std::mem::replace(&mut self.attempts, rest);
        self.report.n_unknown +=
            unknown.values().map(|attempts| attempts.len() as u64).sum::<u64>();
    }

    /// Waits, if it is to be as fast as it was or some times as fast.
    fn wait_until(&mut self, unix_micros: u64) {
        let Some(speed) = self.selection.speed else { return };
        let (began, first) = *self.clock.get_or_insert((clock::now(), unix_micros));
        let recorded = Duration::from_micros(unix_micros.saturating_sub(first));
        let due = began + recorded.div_f64(speed);
        std::thread::sleep(due.saturating_duration_since(clock::now()));
    }

    fn is_over(&self) -> bool {
        let last = self.report.span.map_or(0, |(_, last)| last);
        self.selection.to.is_some_and(|to| last >= to) && self.attempts.is_empty()
    }
}

impl Selection {
    fn has(&self, attempted: &Attempted) -> bool {
        let at = attempted.record.unix_micros;
        self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at < to)
            && self.pod.as_ref().is_none_or(|pod| attempted.names(pod))
    }
}

impl Report {
    /// Counts an attempt and its answer now.
    fn take(&mut self, attempted: Attempted, now: Answer, is_listed: bool) {
        self.n_attempts += 1;
        self.n_decisions += attempted.pods().count() as u64;
        let is_equal = attempted.is_answered_by(&now);
        if is_listed {
            self.of_pod.push(attempted.clone());
        }
        if is_equal {
            return;
        }
        self.n_different += 1;
        let is_first =
            self.first.as_ref().is_none_or(|first| attempted.sequence < first.attempted.sequence);
        if is_first {
            self.first = Some(Box::new(Difference { attempted, now }));
        }
    }
}

#[cfg(test)]
mod tests;
