//! `AttachSequence`: operations applied to a volume's record, one after another.

use berth_proto::berth_v1::{
    AttachHolder, AttachOperation, AttachRecord, AttachResult, AttachSequenceRequest,
    AttachSequenceResponse, BreakAttachmentEvidence,
};

use super::{AccessModes, AttachOutcome, Attachment, BreakEvidence, Holder, Operation};
use crate::lifecycle::fence::FenceScope;
use crate::lifecycle::reading::{given, given_text, in_list};
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Type of an operation on a record.
    enum OperationType {
        /// The pod becomes a holder.
        Attach = "Attach",
        /// The pod stops being a holder.
        Detach = "Detach",
        /// The holders on a node are removed.
        BreakAttachment = "BreakAttachment",
        /// Checks whether a pod may start.
        MayStart = "MayStart",
    }

    /// Progress of a fence, as evidence.
    enum FenceProgress {
        /// The mechanism accepted the request.
        Accepted = "Accepted",
        /// The node is cut off.
        Confirmed = "Confirmed",
    }
}

/// Applies a sequence of operations; returns the record after it and the outcome of each. A failed operation changes
/// nothing, and the next one continues from there.
///
/// # Errors
/// [`ModelError`] for a record that contradicts itself (as [`Attachment::new`], under `record`), a word that is missing
/// or unknown, an operation without node, pod UID or version where it needs one, and a negative duration.
pub fn attach_sequence(
    request: &AttachSequenceRequest,
) -> Result<AttachSequenceResponse, ModelError> {
    let stored = given(request.record.as_ref(), "record")?;
    let mut record = read(stored).map_err(|error| error.under("record"))?;
    let mut results = Vec::with_capacity(request.operations.len());
    for (index, operation) in request.operations.iter().enumerate() {
        let outcome = in_list("operations", index, run(&mut record, operation))?;
        results.push(AttachResult {
            ok: outcome.ok,
            reason: outcome.reason.word().to_owned(),
            version: record.version(),
        });
    }
    let holder = |Holder { node, pod_uid }| AttachHolder { node, pod_uid };
    let record = AttachRecord {
        volume: stored.volume.clone(),
        access_modes: stored.access_modes.clone(),
        version: record.version(),
        holders: record.holders().into_iter().map(holder).collect(),
    };
    Ok(AttachSequenceResponse { results, record: Some(record) })
}

fn read(record: &AttachRecord) -> Result<Attachment, ModelError> {
    let holders = record.holders.iter();
    let holders =
        holders.map(|holder| Holder { node: holder.node.clone(), pod_uid: holder.pod_uid.clone() });
    Attachment::new(AccessModes::parse(&record.access_modes)?, record.version, holders)
}

fn run(record: &mut Attachment, operation: &AttachOperation) -> Result<AttachOutcome, ModelError> {
    let node = given_text(&operation.node, "node")?;
    let pod_uid = || given_text(&operation.pod_uid, "podUID");
    let expected_version =
        || operation.expected_version.ok_or_else(|| ModelError::new("expectedVersion", "required"));
    Ok(match OperationType::parse(&operation.op, "op")? {
        OperationType::MayStart => record.may_start(node, pod_uid()?),
        OperationType::Attach => record.apply(&Operation::Attach {
            node,
            pod_uid: pod_uid()?,
            expected_version: expected_version()?,
        }),
        OperationType::Detach => record.apply(&Operation::Detach {
            node,
            pod_uid: pod_uid()?,
            expected_version: expected_version()?,
            pod_gone: operation.pod_gone,
            // L-GEN-4: without facts the volume may be in use.
            mounted: operation.mounted.unwrap_or(true),
        }),
        OperationType::BreakAttachment => record.apply(&Operation::BreakAttachment {
            node,
            expected_version: expected_version()?,
            evidence: evidence(operation.evidence.as_ref())
                .map_err(|error| error.under("evidence"))?,
        }),
    })
}

fn evidence(known: Option<&BreakAttachmentEvidence>) -> Result<BreakEvidence, ModelError> {
    let Some(known) = known else { return Ok(BreakEvidence::default()) };
    if known.unhealthy_for_seconds.is_some_and(|seconds| seconds < 0) {
        return Err(ModelError::new("unhealthyForSeconds", "must not be negative"));
    }
    let fence = present(&known.fence, |word| FenceProgress::parse(word, "fence"))?;
    let scope = present(&known.scope, |word| FenceScope::parse(word, "scope"))?;
    Ok(BreakEvidence {
        confirmed_fence: scope.filter(|_| fence == Some(FenceProgress::Confirmed)),
        out_of_service_taint: known.out_of_service_taint,
        node_ready: present(&known.node_ready, |word| ConditionStatus::parse(word, "nodeReady"))?,
        node_object_deleted: known.node_object_deleted,
    })
}

/// Parses an optional word: absent is `None`.
fn present<T>(
    word: &str,
    parse: impl FnOnce(&str) -> Result<T, ModelError>,
) -> Result<Option<T>, ModelError> {
    if word.is_empty() { Ok(None) } else { parse(word).map(Some) }
}
