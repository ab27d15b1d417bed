//! Search: recorded decisions by what they are about, from the newest back.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_proto::MicroTime;
use berth_proto::berth_v1::{
    Decision, DecisionOutcome, ListDecisionsRequest, ListDecisionsResponse, PlaceResult,
    RecordedDecision, decision, place_result,
};

use super::id::DecisionId;
use super::{segment, wire};
use crate::clock;
use crate::journal::directory;
use crate::replay::Attempted;
use crate::service::{CallError, Cancel};

const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1_000;
/// Time after which a search stops at the end of a segment, and goes on with the next page.
const PATIENCE: Duration = Duration::from_secs(2);
/// A decision is in a segment that begins at most this much after it was told, in microseconds: it waits to be written for as
/// long as a journal does that falls behind.
const LATE_MICROS: u64 = 600_000_000;

/// What is searched for.
pub(super) struct Search {
    request: ListDecisionsRequest,
    outcome: DecisionOutcome,
    n_wanted: usize,
    /// Only decisions before this one.
    before: Option<DecisionId>,
    /// Only decisions of this time, in microseconds since 1970.
    from: u64,
    to: u64,
}

impl Search {
    /// # Errors
    /// A bad page token, outcome or time.
    pub(super) fn of(request: ListDecisionsRequest) -> Result<Search, CallError> {
        let n_wanted = match request.page_size {
            0 => DEFAULT_PAGE,
            n => usize::try_from(n).unwrap_or(MAX_PAGE).min(MAX_PAGE),
        };
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(DecisionId::read("page_token", token)?),
        };
        let outcome = DecisionOutcome::try_from(request.outcome)
            .map_err(|_| CallError::field("outcome", "is no outcome"))?;
        let (from, to) = (micros(request.from.as_ref()), micros(request.to.as_ref()));
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(u64::MAX));
        Ok(Search { request, outcome, n_wanted, before, from, to })
    }

    /// Searches the segments of a journal, which come oldest first.
    ///
    /// # Errors
    /// A damaged segment, a caller that is gone.
    pub(super) fn run(
        &self,
        segments: &[PathBuf],
        cancel: &Cancel,
    ) -> Result<ListDecisionsResponse, CallError> {
        let (began, mut response) = (clock::now(), ListDecisionsResponse::default());
        let mut numbered = segments.iter().filter_map(|path| Some((directory::begun(path)?, path)));
        while let Some((begun, path)) = numbered.next_back() {
            if begun > self.to.saturating_add(LATE_MICROS)
                || self.before.is_some_and(|before| before <= DecisionId::before(begun))
            {
                continue;
            }
            let n_wanted = self.n_wanted - response.decisions.len();
            let (page, goes_on) = self.search(path, begun, n_wanted, cancel)?;
            response.decisions.extend(page.into_iter().rev());
            response.searched_to = wire::time(begun);
            if goes_on {
                let last = response.decisions.last();
                response.next_page_token = last.map(|it| it.id.clone()).unwrap_or_default();
                response.searched_to = last.and_then(|it| it.time);
                break;
            }
            // Those of the segments before are older than this one's beginning.
            if begun <= self.from {
                break;
            }
            let is_full = response.decisions.len() >= self.n_wanted;
            if is_full || clock::now() - began >= PATIENCE {
                if numbered.next_back().is_some() {
                    response.next_page_token = DecisionId::before(begun).to_string();
                }
                break;
            }
        }
        Ok(response)
    }

    /// The newest decisions of a segment that are searched for, oldest first, and whether there are more.
    fn search(
        &self,
        path: &Path,
        begun: u64,
        n_wanted: usize,
        cancel: &Cancel,
    ) -> Result<(VecDeque<RecordedDecision>, bool), CallError> {
        let (mut found, mut goes_on) = (VecDeque::new(), false);
        segment::attempts(path, cancel, |_, attempted| {
            let id = |index| DecisionId { segment: begun, attempt: attempted.sequence, index };
            if self.before.is_some_and(|before| before <= id(0)) {
                return Ok(ControlFlow::Break(()));
            }
            if !self.is_of_time(&attempted) {
                return Ok(ControlFlow::Continue(()));
            }
            for (index, (pod, result)) in wire::each(&attempted)?.enumerate() {
                if self.before.is_some_and(|before| before <= id(index)) {
                    break;
                }
                if self.wants(&pod.namespace, &pod.name, &result) {
                    found.push_back(wire::recorded(&attempted, id(index), pod, result));
                }
                if found.len() > n_wanted {
                    found.pop_front();
                    goes_on = true;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((found, goes_on))
    }

    fn is_of_time(&self, attempted: &Attempted) -> bool {
        let record = &attempted.record;
        let of_profile = &self.request.scheduler_name;
        (self.from..self.to).contains(&record.unix_micros)
            && (of_profile.is_empty() || *of_profile == record.profile)
    }

    fn wants(&self, namespace: &str, name: &str, result: &PlaceResult) -> bool {
        let ListDecisionsRequest { namespace: of_namespace, pod_name, node_name, .. } =
            &self.request;
        (of_namespace.is_empty() || of_namespace == namespace)
            && name.contains(pod_name.as_str())
            && (node_name.is_empty() || node_of(result) == Some(node_name))
            && (self.outcome == DecisionOutcome::Unspecified || self.outcome == outcome_of(result))
    }
}

fn micros(time: Option<&MicroTime>) -> Option<u64> {
    // Before 1970 nothing was recorded.
    Some(u64::try_from(time?.unix_microseconds()?).unwrap_or(0))
}

fn decision_of(result: &PlaceResult) -> Option<&decision::Outcome> {
    match &result.result {
        Some(place_result::Result::Decision(Decision { outcome, .. })) => outcome.as_ref(),
        Some(place_result::Result::Error(_)) | None => None,
    }
}

fn node_of(result: &PlaceResult) -> Option<&String> {
    match decision_of(result) {
        Some(decision::Outcome::Placement(placement)) => Some(&placement.node_name),
        _ => None,
    }
}

fn outcome_of(result: &PlaceResult) -> DecisionOutcome {
    match decision_of(result) {
        Some(decision::Outcome::Placement(_)) => DecisionOutcome::Placed,
        Some(decision::Outcome::Unschedulable(_)) => DecisionOutcome::Unschedulable,
        Some(decision::Outcome::Gated(_)) => DecisionOutcome::Gated,
        None => DecisionOutcome::Error,
    }
}
