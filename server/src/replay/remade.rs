//! Remade: a cluster that does what the recorded one did, step by step.

use std::path::{Path, PathBuf};

use berth_engine::{Cluster, Generation, KubernetesVersion};

use super::ahead::Step;
use super::error::ReplayError;
use crate::policy::Profiles;
use crate::service::recorder::decode::{Changes, RecordError};
use crate::service::recorder::record::Start;

/// A cluster that does what the recorded one did.
#[derive(Default)]
pub(super) struct Remade {
    pub(super) cluster: Cluster,
    /// The profiles that are decided by now.
    pub(super) profiles: Profiles,
    /// The segment of the last step.
    pub(super) path: PathBuf,
    /// Number of the run that is made; 0 before the first.
    pub(super) run: u64,
    changes: Changes,
    /// Whether the changes up to the next generation are those that the cluster has already.
    skips: bool,
}

/// What a step has led to.
pub(super) enum Led {
    /// A segment has begun. It goes on from the last one, or the cluster is empty now.
    Segment { goes_on: bool, generation: u64 },
    /// A change is known, and made with its generation.
    Change,
    /// The cluster has this generation now.
    Generation { generation: u64, unix_micros: u64 },
    /// The segment ends with so many bytes that are no block.
    Torn(u64),
    /// The cluster was there already.
    Nothing,
}

impl Remade {
    /// Makes a step.
    ///
    /// # Errors
    /// [`ReplayError`]: it cannot be read, or does not follow from those before.
    pub(super) fn make(&mut self, step: Step) -> Result<Led, ReplayError> {
        match step {
            Step::Segment { path, run, start, dictionary } => {
                self.path = path;
                let goes_on = self.begin(run, &start)?;
                self.changes = Changes::of(dictionary);
                Ok(Led::Segment { goes_on, generation: start.generation })
            }
            Step::Change(_) if self.skips => Ok(Led::Nothing),
            Step::Change(kind) => {
                let taken = self.changes.take(*kind, &self.cluster);
                taken.map_err(|error| self.malformed(&error))?;
                Ok(Led::Change)
            }
            Step::Published { generation, unix_micros } => {
                if std::mem::take(&mut self.skips) {
                    return Ok(Led::Nothing);
                }
                self.publish(generation)?;
                Ok(Led::Generation { generation, unix_micros })
            }
            Step::Torn(n_bytes) => Ok(Led::Torn(n_bytes)),
        }
    }

    /// The run and the generation that the cluster has now.
    pub(super) fn now(&self) -> (u64, u64) {
        (self.run, self.cluster.snapshot().generation().get())
    }

    /// Begins a segment: goes on from the last one, or begins anew with what it says that the cluster holds.
    fn begin(&mut self, run: u64, start: &Start) -> Result<bool, ReplayError> {
        self.skips = self.now() == (run, start.generation);
        if !self.skips {
            self.cluster = Cluster::new();
        }
        self.run = run;
        self.profiles = profiles(&self.path, start)?;
        Ok(self.skips)
    }

    fn publish(&mut self, generation: u64) -> Result<(), ReplayError> {
        let changes = self.changes.take_changes();
        // An empty cluster begins with generation 0, which nothing leads to.
        if generation == 0 {
            return Ok(());
        }
        let redone = self.cluster.redo(Generation::from(generation), changes);
        let path = &self.path;
        redone.map_err(|source| ReplayError::Redo { path: path.clone(), generation, source })
    }

    fn malformed(&self, error: &RecordError) -> ReplayError {
        ReplayError::Record { path: self.path.clone(), reason: error.to_string() }
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
