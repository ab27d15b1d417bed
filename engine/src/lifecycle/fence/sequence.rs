//! `FenceSequence`: events applied to a fence, one after another.

use berth_proto::berth_v1::{FenceSequenceRequest, FenceSequenceResponse};

use super::{Fence, FenceEvent, FenceEventType, FenceScope};
use crate::lifecycle::reading::in_list;
use crate::model::ModelError;

/// Applies a sequence of events from the state `Detected` on; returns the state after it and the outcome of each
/// (L-FENCE-7).
///
/// # Errors
/// [`ModelError`] for a missing or unknown scope or event type.
pub fn fence_sequence(request: &FenceSequenceRequest) -> Result<FenceSequenceResponse, ModelError> {
    let mut fence = Fence::detected(FenceScope::parse(&request.scope, "scope")?);
    let mut results = Vec::with_capacity(request.events.len());
    for (index, event) in request.events.iter().enumerate() {
        let event = FenceEvent {
            r#type: in_list("events", index, FenceEventType::parse(&event.r#type, "type"))?,
            rebooted: event.rebooted,
            no_leftover_processes: event.no_leftover_processes,
        };
        results.push(fence.apply(&event).word().to_owned());
    }
    Ok(FenceSequenceResponse { results, state: fence.state.word().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::fence_sequence;
    use berth_proto::berth_v1::{FenceSequenceEvent, FenceSequenceRequest};

    #[test]
    fn errors_name_the_field() {
        let event = |r#type: &str| FenceSequenceEvent {
            r#type: r#type.to_owned(),
            ..FenceSequenceEvent::default()
        };
        let request = |scope: &str, events| FenceSequenceRequest {
            scope: scope.to_owned(),
            events,
            ..FenceSequenceRequest::default()
        };
        let error = |request| fence_sequence(&request).unwrap_err().to_string();
        assert_eq!(
            error(request("disk", vec![])),
            "`scope`: unknown value `disk`: not one of `compute`, `storage`, `network`, `network+storage`"
        );
        let events = vec![event("Decide"), event("")];
        assert!(error(request("compute", events)).starts_with("`events[1].type`: required"));
    }
}
