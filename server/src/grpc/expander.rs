//! `grpcplugin.Expander`: cluster-autoscaler asks which of its node groups to grow. Rules: S-CAE-1 to S-CAE-7.

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
use crate::service::{CallError, Cancel, Deadline, State};
pub(crate) use service::ExpanderService;

/// How long cluster-autoscaler waits (S-CAE-3); for callers that do not say.
const USUAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Of the time that is left, what is kept for the strategies behind one that takes too long, and for the way back.
const MARGIN: f64 = 0.2;
/// And what is kept for the way back alone.
const LAST_MARGIN: f64 = 0.05;
/// Most options of an answer that say what they were kept for, and most characters of that.
const MAX_EXPLAINED: usize = 1_000;
const MAX_DEBUG_CHARS: usize = 200;

async fn best_options(
    state: Arc<State>,
    request: tonic::Request<Bytes>,
) -> Result<Response<BestOptionsResponse>, Status> {
    let (deadline, shared) = (Deadline::of(request.extensions()), state.clone());
    let now = clock::now();
    let (patience, last_call) = (until(deadline, now, MARGIN), until(deadline, now, LAST_MARGIN));
    let request = request.into_inner();
    let answering = state
        .pool
        .run(deadline, move |cancel| choose(&shared, request, (patience, last_call), cancel));
    Ok(Response::new(answering.await??))
}

/// Until when only so much of the time there is remains.
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

/// The option as cluster-autoscaler reads it back: of all this only the id counts (S-CAE-4), so the pods stay here.
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
