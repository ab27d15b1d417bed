//! Tables that the compilation of objects shares.

use super::ModelError;
use super::drainability::DrainabilityTable;
use super::intern::{self, Interner};
use super::pod_affinity::TermTable;
use super::population::{Population, PopulationFacts};
use super::reported::PatternTable;
use super::shape::ShapeTable;
use super::table::Table;

/// Shared tables of names, shapes, populations, drainabilities, terms and patterns of reported pods. Usable from any
/// number of threads.
#[derive(Debug)]
pub(crate) struct Model {
    names: Interner,
    shapes: ShapeTable,
    populations: Table<PopulationFacts, Population>,
    drainabilities: DrainabilityTable,
    terms: TermTable,
    patterns: PatternTable,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            names: Interner::new(),
            shapes: ShapeTable::default(),
            populations: Table::default(),
            drainabilities: DrainabilityTable::default(),
            terms: TermTable::default(),
            patterns: PatternTable::default(),
        }
    }

    pub(crate) fn names(&self) -> &Interner {
        &self.names
    }

    pub(crate) fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    pub(crate) fn populations(&self) -> &Table<PopulationFacts, Population> {
        &self.populations
    }

    pub(crate) fn drainabilities(&self) -> &DrainabilityTable {
        &self.drainabilities
    }

    pub(crate) fn terms(&self) -> &TermTable {
        &self.terms
    }

    pub(crate) fn patterns(&self) -> &PatternTable {
        &self.patterns
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
