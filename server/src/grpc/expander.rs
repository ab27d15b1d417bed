//! `grpcplugin.Expander`: chooses among cluster-autoscaler's node groups. Rules: S-CAE-1 to S-CAE-7.

mod service;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_proto::grpcplugin::{BestOptionsResponse, Option as WireOption};
use prost::bytes::Bytes;
use tonic::{Response, Status};

use crate::clock;
use crate::escape::presentable;
use crate::expander::node_group_option::{self, NodeGroupOption};
use crate::expander::{Best, World};
use crate::service::{CallError, CallParts, Cancel, Deadline, State};
pub(crate) use service::ExpanderService;

/// Time that cluster-autoscaler waits (S-CAE-3); for callers without a deadline.
const USUAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Fraction of the remaining time that is kept for the strategies after one that takes too long, and for the response.
const MARGIN: f64 = 0.2;
/// Fraction of the remaining time that is kept for the response alone.
const LAST_MARGIN: f64 = 0.05;
/// Maximum number of options in a response that have an explanation, and its maximum length in characters.
const MAX_EXPLAINED: usize = 1_000;
const MAX_DEBUG_CHARS: usize = 200;

async fn best_options(
    state: Arc<State>,
    request: tonic::Request<Bytes>,
) -> Result<Response<BestOptionsResponse>, Status> {
    let (deadline, shared) = (CallParts::of(request.extensions()).deadline, state.clone());
    let now = clock::now();
    let (patience, last_call) = (until(deadline, now, MARGIN), until(deadline, now, LAST_MARGIN));
    let request = request.into_inner();
    let answering = state
        .pool
        .run(deadline, move |cancel| choose(&shared, request, (patience, last_call), cancel));
    Ok(Response::new(answering.await??))
}

/// Time at which the fraction `margin` of the remaining time is left.
fn until(deadline: Deadline, now: Instant, margin: f64) -> Instant {
    let left = match deadline.0 {
        Some(at) => at.saturating_duration_since(now),
        None => USUAL_TIMEOUT,
    };
    now + left.mul_f64(1.0 - margin)
}

fn choose(
    state: &State,
    request: Bytes,
    (patience, last_call): (Instant, Instant),
    cancel: &Cancel,
) -> Result<BestOptionsResponse, CallError> {
    let groups = node_group_option::read(request)?;
    let is_cancelled = || cancel.is_cancelled();
    let cluster = match state.check_decidable() {
        Ok(()) => Ok(&*state.cluster),
        Err(error) => Err(error.to_string()),
    };
    let (profiles, is_cancelled) = (&state.profiles, &is_cancelled);
    let world = World { cluster, profiles, is_cancelled, patience, last_call };
    let best = state.expander.best(&groups, &world, &state.judgements);
    tracing::debug!(n_options = groups.len(), n_best = best.len(), "chose among node groups");
    let options = best.iter().enumerate();
    let options = options.map(|(rank, best)| option(best, &groups[best.index], rank));
    Ok(BestOptionsResponse { options: options.collect() })
}

/// The option for the response: cluster-autoscaler reads only its id (S-CAE-4), so the pods are left out.
fn option(best: &Best, group: &NodeGroupOption, rank: usize) -> WireOption {
    let debug = if rank < MAX_EXPLAINED { debug(best, group) } else { String::new() };
    WireOption {
        node_group_id: group.id.clone(),
        node_count: group.n_nodes,
        debug,
        ..WireOption::default()
    }
}

fn debug(best: &Best, group: &NodeGroupOption) -> String {
    let parts: Vec<String> = best.because.iter().cloned().chain(group.notes()).collect();
    let text = presentable(&parts.join("; "));
    match text.char_indices().nth(MAX_DEBUG_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_time_is_left_to_the_others() {
        let now = clock::now();
        assert_eq!(until(Deadline(None), now, MARGIN), now + Duration::from_secs(4));
        let at = now + Duration::from_millis(500);
        assert_eq!(until(Deadline(Some(at)), now, MARGIN), now + Duration::from_millis(400));
        assert_eq!(until(Deadline(Some(at)), now, LAST_MARGIN), now + Duration::from_millis(475));
        assert_eq!(until(Deadline(Some(now)), now, MARGIN), now);
    }
}
