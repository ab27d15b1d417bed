//! Unheard: what was reserved and nominated for a caller that has not heard of it is released, whichever replica decides.

use std::sync::Arc;
use std::time::Duration;

use berth_proto::berth_v1::{CommittedPod, PodKey, ReleaseRequest};
use tokio::runtime::Handle;

use super::{Access, CallError, Deadline, Decider, State};
use crate::clock;

/// Longest time for which it is tried to release.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Ends the reservation of an assumed pod; `None` for a pod in a session, which has none.
pub(crate) fn reservation(pod: Option<PodKey>, token: Option<u64>) -> Option<ReleaseRequest> {
    Some(ReleaseRequest { pod, token: token?, nomination: false })
}

/// Withdraws a nomination.
pub(crate) fn nomination(pod: PodKey) -> ReleaseRequest {
    ReleaseRequest { pod: Some(pod), token: 0, nomination: true }
}

/// Undoes what a commit tells of.
pub(crate) fn commit(assumed: Vec<CommittedPod>, nominated: Vec<PodKey>) -> Vec<ReleaseRequest> {
    let assumed = assumed
        .into_iter()
        .filter_map(|it| reservation(it.pod, it.assumption.map(|assumption| assumption.token)));
    assumed.chain(nominated.into_iter().map(nomination)).collect()
}

/// Begins to release pods, in the name of the caller that has not heard of them.
pub(crate) fn release(state: &Arc<State>, access: &Access, pods: Vec<ReleaseRequest>) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(release_all(state.clone(), access.clone(), pods));
    }
}

async fn release_all(state: Arc<State>, access: Access, pods: Vec<ReleaseRequest>) {
    let (deadline, request_id) = (Deadline(None), None);
    let decider = Decider { state: &state, access: &access, deadline, request_id };
    let until = clock::now() + PATIENCE;
    for request in pods {
        loop {
            let released = decider.release(request.clone()).await;
            let is_final = !matches!(&released, Err(CallError::NotCommitter { .. }));
            if is_final || clock::now() >= until {
                let name = request.pod.as_ref().map_or("", |pod| &pod.name);
                tracing::debug!(pod = name, ?released, "a response did not reach its caller");
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
