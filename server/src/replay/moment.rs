//! Moment: the cluster of a journal as it was when a decision was made.

use std::path::PathBuf;

use berth_engine::{EngineError, Explanation};

use super::again::Attempted;
use super::ahead::{Ahead, Step};
use super::error::{ReplayError, check_wanted};
use super::remade::{Led, Remade};
use crate::service::recorder::record::Answer;

/// A recorded cluster at one generation.
pub(crate) struct Moment(Remade);

impl Moment {
    /// Makes the changes of some segments of a journal, oldest first, up to a generation of a run, which is told by its
    /// `Start`; `None` if they do not lead there.
    ///
    /// # Errors
    /// [`ReplayError`]: what cannot be read; [`ReplayError::Cancelled`].
    pub(crate) fn of(
        segments: Vec<PathBuf>,
        (run, generation): (u64, u64),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Moment>, ReplayError> {
        let (mut ahead, mut remade) = (Ahead::of(segments), Remade::default());
        let mut is_of_run = false;
        while let Some(step) = ahead.next(drop)? {
            check_wanted(cancelled)?;
            if let Step::Segment { start, .. } = &step {
                is_of_run = start.run == run;
            }
            match remade.make(step)? {
                Led::Generation { generation: now, .. } if is_of_run && now == generation => {
                    return Ok(Some(Moment(remade)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Makes an attempt once more.
    pub(crate) fn again(&self, attempted: &Attempted) -> Answer {
        attempted.again(&self.0.cluster, &self.0.profiles)
    }

    /// Explains the decision about one pod of an attempt; `None` where others may have been evicted before.
    pub(crate) fn explained(
        &self,
        attempted: &Attempted,
        index: usize,
        is_detailed: &dyn Fn(&str) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Result<Explanation, EngineError>> {
        attempted.explained(index, &self.0.cluster, &self.0.profiles, is_detailed, cancelled)
    }
}
