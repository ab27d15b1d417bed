//! Replay: makes one recorded decision again, on the cluster as it was.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use berth_proto::berth_v1::ReplayDecisionResponse;

use super::fault::{failed, unreadable};
use super::found::Found;
use super::id::DecisionId;
use crate::journal::directory;
use crate::replay::Moment;
use crate::service::{CallError, Cancel, convert};

/// Makes a decision again, and explains it with everything that was compared on the nodes that are named.
///
/// # Errors
/// [`CallError::NoSuchDecision`]: it is not recorded, or the changes that led to it are not; a damaged segment, a caller that is
/// gone.
pub(super) fn again(
    directory: &Path,
    id: DecisionId,
    node_names: &[String],
    cancel: &Cancel,
) -> Result<ReplayDecisionResponse, CallError> {
    let Found { start, attempted, .. } = Found::of(directory, id, cancel)?;
    let generation = attempted.record.generation;
    let segments = leading_to(directory, id.segment, generation < start.generation)?;
    let cancelled = || cancel.is_cancelled();
    let moment = Moment::of(segments, (start.run, generation), &cancelled).map_err(failed)?;
    let moment = moment.ok_or_else(|| CallError::NoSuchDecision { id: id.to_string() })?;
    let answer = moment.again(&attempted);
    let named: HashSet<&str> = node_names.iter().map(String::as_str).collect();
    let is_detailed = |node: &str| named.contains(node);
    let explained = moment.explained(&attempted, id.index, &is_detailed, &cancelled);
    cancel.check()?;
    let explanation = explained.and_then(Result::ok);
    let explanation = explanation
        .map(|it| convert::explanation(it, node_names, || cancel.check()))
        .transpose()?;
    let same = attempted.is_answered_by(&answer);
    let result = answer.into_results().nth(id.index);
    Ok(ReplayDecisionResponse { same, result, explanation })
}

/// The segments whose changes lead to a decision in this one: a decision that was told late is one of the segment before.
fn leading_to(directory: &Path, segment: u64, is_late: bool) -> Result<Vec<PathBuf>, CallError> {
    let segments = directory::segments(directory).map_err(|error| unreadable(&error))?;
    let path = directory::segment(directory, segment);
    let at = segments.iter().position(|it| *it == path);
    let from = at.map(|at| if is_late { at.saturating_sub(1) } else { at });
    Ok(from.zip(at).map(|(from, at)| segments[from..=at].to_vec()).unwrap_or_default())
}
