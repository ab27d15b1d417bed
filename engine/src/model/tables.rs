//! Tables that the compilation of objects shares.

use std::sync::Arc;

use super::ModelError;
use super::device::selector::SelectorTable;
use super::device::shape::ClaimShapeTable;
use super::drainability::DrainabilityTable;
use super::intern::{self, Interner};
use super::kept::{PatternTable, RequestedTable};
use super::pod_affinity::TermTable;
use super::population::PopulationTable;
use super::shape::{Shape, ShapeTable};
use crate::recent::Recent;

/// Shared tables of names, shapes, populations, drainabilities, terms, patterns of kept pods, pods of requests, and of
/// selectors and shapes of claims for devices. Usable from any number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    names: Interner,
    tables: Arc<Tables>,
    /// Whether every compiled object keeps what it was compiled from.
    keeps_objects: bool,
}

#[derive(Debug, Default)]
struct Tables {
    shapes: ShapeTable,
    populations: PopulationTable,
    drainabilities: DrainabilityTable,
    terms: TermTable,
    patterns: PatternTable,
    requested: RequestedTable,
    recent_shapes: Recent<Arc<Shape>>,
    selectors: SelectorTable,
    claim_shapes: ClaimShapeTable,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { names: Interner::new(), tables: Arc::default(), keeps_objects: false }
    }

    /// Tables for a cluster of which every object can be written down: each keeps what it was compiled from.
    pub(crate) fn keeping_objects() -> Model {
        Model { keeps_objects: true, ..Model::new() }
    }

    pub(crate) fn keeps_objects(&self) -> bool {
        self.keeps_objects
    }

    /// A view of these tables that lends names to what is compiled with it.
    pub(crate) fn lending(&self) -> Model {
        Model { names: self.names.lending(), ..self.clone() }
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

    pub(crate) fn shapes(&self) -> &ShapeTable {
        &self.tables.shapes
    }

    pub(crate) fn populations(&self) -> &PopulationTable {
        &self.tables.populations
    }

    pub(crate) fn drainabilities(&self) -> &DrainabilityTable {
        &self.tables.drainabilities
    }

    pub(crate) fn terms(&self) -> &TermTable {
        &self.tables.terms
    }

    pub(crate) fn patterns(&self) -> &PatternTable {
        &self.tables.patterns
    }

    pub(crate) fn requested(&self) -> &RequestedTable {
        &self.tables.requested
    }

    /// Shapes of pods that came last, by the encodings of their specs.
    pub(crate) fn recent_shapes(&self) -> &Recent<Arc<Shape>> {
        &self.tables.recent_shapes
    }

    pub(crate) fn selectors(&self) -> &SelectorTable {
        &self.tables.selectors
    }

    pub(crate) fn claim_shapes(&self) -> &ClaimShapeTable {
        &self.tables.claim_shapes
    }

    /// Checks that the interner accepts names of another object.
    pub(crate) fn check_room(&self) -> Result<(), ModelError> {
        if self.names.has_room() {
            return Ok(());
        }
        Err(ModelError::new(
            "metadata",
            format!("more than {} distinct names were seen", intern::MAX_SYMBOLS),
        ))
    }
}
