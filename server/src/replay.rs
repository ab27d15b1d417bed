//! Replay: makes the changes of a journal again, and on what the cluster holds then its decisions, and compares.
//!
//! A decision is a function of a generation, a pod, a policy, a seed and a time, all of which the journal has: so each has
//! to come out as it was recorded, byte for byte, on any number of threads and on any machine.

mod again;
mod ahead;
mod error;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_engine::{Cluster, Generation, KubernetesVersion, PodKey};
use rayon::prelude::*;

use crate::clock;
use crate::policy::Profiles;
use crate::service::recorder::decode::{Changes, RecordError};
use crate::service::recorder::record::{Answer, Start};
pub(crate) use again::Attempted;
pub(crate) use ahead::{Ahead, Step};
pub(crate) use error::ReplayError;

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

/// A cluster that does what the recorded one did.
struct Replay<'s> {
    selection: &'s Selection,
    cluster: Cluster,
    profiles: Profiles,
    path: PathBuf,
    /// Number of the run that is made; 0 before the first.
    run: u64,
    changes: Changes,
    /// Whether the changes up to the next generation are those that the cluster has already.
    skips: bool,
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
        cluster: Cluster::new(),
        profiles: Profiles::default(),
        path: directory.to_owned(),
        run: 0,
        changes: Changes::default(),
        skips: false,
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
        match step {
            Step::Segment { path, run, start, dictionary } => {
                self.path = path;
                self.begin(run, &start)?;
                self.changes = Changes::of(dictionary);
            }
            Step::Change(_) if self.skips => {}
            Step::Change(kind) => {
                let taken = self.changes.take(*kind, &self.cluster);
                taken.map_err(|error| self.malformed(&error))?;
                self.report.n_changes += 1;
            }
            Step::Published { generation, unix_micros } => self.publish(generation, unix_micros)?,
            Step::Torn(n_bytes) => self.report.torn.push((self.path.clone(), n_bytes)),
        }
        Ok(())
    }

    /// Begins a segment: goes on from the last one, or begins anew with what it says that the cluster holds.
    fn begin(&mut self, run: u64, start: &Start) -> Result<(), ReplayError> {
        self.report.n_segments += 1;
        let now = self.cluster.snapshot().generation().get();
        let goes_on = self.run == run && start.generation == now;
        self.skips = goes_on;
        if !goes_on {
            self.report.n_gaps += usize::from(self.run > 0);
            self.cluster = Cluster::new();
            self.forget_unknown((run, start.generation));
        }
        self.run = run;
        self.profiles = profiles(&self.path, start)?;
        Ok(())
    }

    fn publish(&mut self, generation: u64, unix_micros: u64) -> Result<(), ReplayError> {
        if std::mem::take(&mut self.skips) {
            return Ok(());
        }
        self.wait_until(unix_micros);
        let changes = self.changes.take_changes();
        // An empty cluster begins with generation 0, which nothing leads to.
        if generation > 0 {
            let redone = self.cluster.redo(Generation::from(generation), changes);
            let path = self.path.clone();
            redone.map_err(|source| ReplayError::Redo { path, generation, source })?;
        }
        self.report.n_generations += 1;
        let first = self.report.span.map_or(unix_micros, |(first, _)| first);
        self.report.span = Some((first, unix_micros));
        self.forget_unknown((self.run, generation));
        Ok(())
    }

    /// Makes all attempts on the generation that the cluster has now.
    fn decide_here(&mut self) {
        let generation = self.cluster.snapshot().generation().get();
        let Some(attempts) = self.attempts.remove(&(self.run, generation)) else { return };
        let (cluster, profiles) = (&self.cluster, &self.profiles);
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

    fn malformed(&self, error: &RecordError) -> ReplayError {
        ReplayError::Record { path: self.path.clone(), reason: error.to_string() }
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

/// The profiles that a segment was decided by.
fn profiles(path: &Path, start: &Start) -> Result<Profiles, ReplayError> {
    let Start { kubernetes, policy, scheduler_name, .. } = start;
    let version = KubernetesVersion::from_name(kubernetes).ok_or_else(|| {
        ReplayError::Kubernetes { path: path.to_owned(), version: kubernetes.clone() }
    })?;
    if policy.is_empty() {
        return Ok(Profiles::of_version(scheduler_name, version));
    }
    let origin = format!("{}: policy", path.display());
    Profiles::read(&origin, policy, version)
        .map_err(|source| ReplayError::Policy { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
