//! Told: what an answer tells of its body besides the response of the call.

use std::sync::Arc;

use berth_proto::berth_v1::PlaceBatchResponse;
use prost::Message as _;
use serde::Serialize;

use crate::feed::handed::{self, Member};

/// What an answer tells of the body besides the response: which pods it is about, and remarks.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The pods, in the order of the request; empty for one that was handed in as it is.
    pub(super) members: Arc<[Member]>,
    pub(super) notes: Vec<String>,
    /// Workloads that create a pod only when the one before is ready: their numbers and names.
    pub(super) ordered: Vec<(usize, String)>,
}

/// Members of an answer besides those of the response.
#[derive(Serialize)]
pub(super) struct Added {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl Told {
    /// What the answer with this response tells. That of a batch says which names were generated, and which pods got a
    /// node.
    pub(super) fn added(&self, is_batch: bool, response: &[u8]) -> Added {
        let mut members = self.members.to_vec();
        let mut notes = self.notes.clone();
        if is_batch && let Ok(response) = PlaceBatchResponse::decode(response) {
            handed::name_generated(&mut members, &response.results);
            notes.extend(handed::held_back(&self.ordered, &members, &response.results));
        }
        Added { pods: members.into_iter().map(|member| member.name).collect(), notes }
    }

    /// Remarks alone.
    pub(super) fn of_notes(notes: Vec<String>) -> Told {
        Told { notes, ..Told::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.notes.is_empty()
    }
}
