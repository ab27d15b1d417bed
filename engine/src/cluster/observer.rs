//! Observer: whoever is told of each change of a cluster and of each decision, so that both can be made again elsewhere.

use std::fmt;
use std::sync::Arc;

use super::batch_request::{BatchOutcome, BatchRequest};
use super::change::Change;
use crate::error::EngineError;
use crate::place::decision::Decision;
use crate::plan::request::PlaceRequest;
use crate::preempt::outcome::Preemption;
use crate::preempt::request::PreemptRequest;
use crate::snapshot::Generation;

/// Whoever is told of all that a cluster does; of a fork nobody is told anything.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Tells of the changes that led to this generation from the one before, once it is published. Called for one
    /// generation after the other, while the writer is locked: it must be quick, and must not change the cluster.
    fn changed(&self, generation: Generation, changes: Vec<Change>);

    /// Tells of an attempt that was made on what the cluster held at this generation. Called by whoever made it, in any
    /// order, also while the writer is locked: likewise.
    fn decided(&self, generation: Generation, attempt: &Attempt<'_>);
}

/// An attempt and what came of it. Whoever makes it on a cluster that holds the same gets the same.
#[derive(Clone, Copy)]
pub enum Attempt<'a> {
    /// One pod.
    Place {
        /// The request to place one pod.
        request: &'a PlaceRequest<'a>,
        /// Whether the pod was to be assumed, and is if it has a node.
        assumes: bool,
        /// The decision.
        result: Result<&'a Decision, &'a EngineError>,
    },
    /// Many pods, each seeing those before it.
    Batch {
        /// The request to place many pods.
        request: &'a BatchRequest<'a>,
        /// Positions in the request of the pods that were decided on this generation.
        positions: &'a [usize],
        /// The decisions, by position.
        outcome: &'a BatchOutcome,
    },
    /// One pod, for which others may be evicted.
    Preempt {
        /// The request to place one pod, if need be in the place of others.
        request: &'a PreemptRequest<'a>,
        /// The decision and the pods to evict.
        result: Result<&'a Preemption, &'a EngineError>,
    },
}

/// An observer with the changes that it is not told of yet.
#[derive(Debug)]
pub(super) struct Watched {
    observer: Arc<dyn Observer>,
    changes: Vec<Change>,
}

impl Watched {
    pub(super) fn by(observer: Arc<dyn Observer>) -> Watched {
        Watched { observer, changes: Vec::new() }
    }

    pub(super) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    pub(super) fn tell(&mut self, generation: Generation) {
        self.observer.changed(generation, std::mem::take(&mut self.changes));
    }
}
