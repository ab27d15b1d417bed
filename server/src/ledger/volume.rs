//! Records of the nodes that hold volumes (L-VOL-1 to L-VOL-16).

use std::slice;

use berth_engine::ModelError;
use berth_engine::lifecycle::attachment::{
    AccessMode, AccessModes, AttachOutcome, AttachReason, Attachment, BreakEvidence, Holder,
    Operation,
};
use berth_engine::lifecycle::fence::{Fence, FenceEvent, FenceEventType};
use berth_engine::lifecycle::vocabulary::ConditionStatus;
use berth_proto::berth_v1::{
    AttachVolumeRequest, AttachVolumeResponse, BreakAttachmentRequest, BreakAttachmentResponse,
    DetachVolumeRequest, DetachVolumeResponse, FenceRecord, GetVolumeRequest, GetVolumeResponse,
    LedgerRecord, MayStartRequest, MayStartResponse, VolumeGrant, VolumeRecord,
};
use prost::Message as _;

use super::fence::{NODE_FENCED, as_fence, is_cut_off};
use super::grants::{Call, GrantError, Grants, Record, Verdict, actor, damaged, name};
use super::reason::STALE_TOKEN;
use super::{Entry, Key, Revision, claim};

/// Maximum number of holders of a volume, since a record is read and written whole.
pub const MAX_HOLDERS: usize = 4_096;

/// Reason if the volume is held with other access modes than the request has: they never change while it is held.
const OTHER_ACCESS_MODES: &str = "OtherAccessModes";
/// Entitlement to an ordinary detach (L-VOL-8).
const POD_GONE: &str = "PodGoneAndUnmounted";

impl Record for VolumeRecord {
    fn resolve(&mut self, granted: u64) {
        for holder in self.holders.iter_mut().filter(|holder| holder.token == 0) {
            holder.token = granted;
        }
    }
}

impl Grants {
    /// The method `AttachVolume` (L-VOL-2 to L-VOL-6, L-VOL-12). A volume without access modes is exclusive, as with
    /// `ReadWriteOnce` (L-GRANT-4). Nothing is granted on a node that is fenced or about
    /// to be, which is read in the granting transaction.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn attach_volume(
        &self,
        request: &AttachVolumeRequest,
        call: &Call<'_>,
    ) -> Result<AttachVolumeResponse, GrantError> {
        let keys = [key(&request.volume)?, Key::fence(&request.node)];
        name(&request.node, "node")?;
        name(&request.pod_uid, "podUID")?;
        let modes = AccessModes::parse(&request.access_modes)?;
        actor(&request.actor)?;
        self.attempt(&keys, call, &request.actor, |entries| {
            attach(&keys, entries, modes, call, request)
        })
    }

    /// The method `DetachVolume` (L-VOL-8).
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn detach_volume(
        &self,
        request: &DetachVolumeRequest,
        call: &Call<'_>,
    ) -> Result<DetachVolumeResponse, GrantError> {
        let key = key(&request.volume)?;
        name(&request.node, "node")?;
        name(&request.pod_uid, "podUID")?;
        actor(&request.actor)?;
        self.attempt(slice::from_ref(&key), call, &request.actor, |entries| {
            detach(&key, entries, call, request)
        })
    }

    /// The method `BreakAttachment` (L-VOL-10). Whether a fence is confirmed is read from the ledger, in the breaking
    /// transaction.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn break_attachment(
        &self,
        request: &BreakAttachmentRequest,
        call: &Call<'_>,
    ) -> Result<BreakAttachmentResponse, GrantError> {
        let keys = [key(&request.volume)?, Key::fence(&request.node)];
        name(&request.node, "node")?;
        let node_ready = match &*request.node_ready {
            "" => None,
            word => Some(ConditionStatus::parse(word, "nodeReady")?),
        };
        actor(&request.actor)?;
        let stated = BreakEvidence {
            confirmed_fence: None,
            out_of_service_taint: request.out_of_service_taint,
            node_ready,
            node_object_deleted: request.node_object_deleted,
        };
        self.attempt(&keys, call, &request.actor, |entries| {
            break_off(&keys, entries, stated, call, request)
        })
    }

    /// The method `MayStart` (L-VOL-7). On a node that is fenced or about to be nothing may start: its attachments
    /// could be broken at any time.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn may_start(
        &self,
        request: &MayStartRequest,
        _call: &Call<'_>,
    ) -> Result<MayStartResponse, GrantError> {
        let keys = [key(&request.volume)?, Key::fence(&request.node)];
        name(&request.node, "node")?;
        name(&request.pod_uid, "podUID")?;
        let entries = self.read(&keys)?;
        let (record, attachment) = read(&keys[0], &entries, &request.volume)?;
        let outcome = attachment.may_start(&request.node, &request.pod_uid);
        if outcome.ok && is_cut_off(entries[1].as_ref(), &keys[1])? {
            return Ok(MayStartResponse { ok: false, reason: NODE_FENCED.to_owned(), token: 0 });
        }
        Ok(MayStartResponse {
            ok: outcome.ok,
            reason: outcome.reason.word().to_owned(),
            token: token(&record, &request.node, &request.pod_uid)
                .filter(|_| outcome.ok)
                .unwrap_or(0),
        })
    }

    /// The method `GetVolume`.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn get_volume(
        &self,
        request: &GetVolumeRequest,
        _call: &Call<'_>,
    ) -> Result<GetVolumeResponse, GrantError> {
        let record: VolumeRecord = self.get(&key(&request.volume)?)?;
        let record = VolumeRecord { volume: request.volume.clone(), ..record };
        Ok(GetVolumeResponse { record: Some(record) })
    }
}

fn key(volume: &str) -> Result<Key, ModelError> {
    name(volume, "volume")?;
    Ok(Key::volume(volume))
}

fn read(
    key: &Key,
    entries: &[Option<Entry>],
    volume: &str,
) -> Result<(VolumeRecord, Attachment), GrantError> {
    let record = VolumeRecord::read(key, entries.first().and_then(Option::as_ref))?;
    let attachment = attachment(key, &record)?;
    Ok((VolumeRecord { volume: volume.to_owned(), ..record }, attachment))
}

/// The record as an exclusive one; `None` if it has holders on several nodes, as it may from before volumes without
/// access modes were exclusive (L-GRANT-4).
fn exclusive(key: &Key, record: &VolumeRecord) -> Result<Option<Attachment>, GrantError> {
    if record.holders.iter().any(|holder| holder.node != record.holders[0].node) {
        return Ok(None);
    }
    let access_modes = vec![AccessMode::ReadWriteOnce.word().to_owned()];
    attachment(key, &VolumeRecord { access_modes, ..record.clone() }).map(Some)
}

/// The engine's form of a record.
fn attachment(key: &Key, record: &VolumeRecord) -> Result<Attachment, GrantError> {
    let holders = record
        .holders
        .iter()
        .map(|holder| Holder { node: holder.node.clone(), pod_uid: holder.pod_uid.clone() });
    AccessModes::parse(&record.access_modes)
        .and_then(|modes| Attachment::new(modes, record.version, holders))
        .map_err(|error| damaged(key, &error))
}

/// The record after an operation of the engine on `before`: remaining holders keep their tokens, new ones get that of
/// the commit.
fn kept(before: VolumeRecord, attachment: &Attachment) -> VolumeRecord {
    let modes = attachment.access_modes().words().into_iter().map(str::to_owned);
    // Holders keep their order, so the old list is walked once beside the new one.
    let mut old = before.holders.into_iter().peekable();
    let holders = attachment.holders().into_iter().map(|Holder { node, pod_uid }| {
        while old.next_if(|old| old.node != node || old.pod_uid != pod_uid).is_some() {}
        let token = old.next().map_or(0, |old| old.token);
        VolumeGrant { node, pod_uid, token }
    });
    VolumeRecord {
        holders: holders.collect(),
        version: attachment.version(),
        access_modes: modes.collect(),
        volume: before.volume,
    }
}

fn token(record: &VolumeRecord, node: &str, pod_uid: &str) -> Option<u64> {
    let mut holders = record.holders.iter();
    let holder = holders.find(|holder| holder.node == node && holder.pod_uid == pod_uid);
    holder.map(|holder| holder.token)
}

fn attach(
    keys: &[Key; 2],
    entries: &[Option<Entry>],
    modes: AccessModes,
    call: &Call<'_>,
    request: &AttachVolumeRequest,
) -> Result<Verdict<AttachVolumeResponse>, GrantError> {
    let [key, fence_key] = keys;
    let (record, mut attachment) = read(key, entries, &request.volume)?;
    let expected_version = request.expected_version.unwrap_or(record.version);
    let (node, pod_uid) = (request.node.clone(), request.pod_uid.clone());
    let answer = move |ok, reason: &str, record: VolumeRecord, verified| AttachVolumeResponse {
        ok,
        reason: reason.to_owned(),
        token: token(&record, &node, &pod_uid).filter(|_| ok).unwrap_or(0),
        record: Some(record),
        verified,
    };
    let mut takes_holders = true;
    if request.access_modes.is_empty() {
        if attachment.access_modes() == AccessModes::default() {
            match exclusive(key, &record)? {
                Some(exclusive) => attachment = exclusive,
                None => takes_holders = false,
            }
        }
    } else if modes != attachment.access_modes() {
        if !record.holders.is_empty() && expected_version == record.version {
            return Ok(Verdict::Stands(answer(false, OTHER_ACCESS_MODES, record, None)));
        }
        if record.holders.is_empty() {
            attachment = Attachment::new(modes, record.version, [])?;
        }
    }
    let AttachOutcome { ok, reason } = attachment.apply(&Operation::Attach {
        node: &request.node,
        pod_uid: &request.pod_uid,
        expected_version,
    });
    if reason == AttachReason::Attached && !takes_holders {
        let reason = AttachReason::HeldByOtherNode.word();
        return Ok(Verdict::Stands(answer(false, reason, record, None)));
    }
    if reason != AttachReason::Attached {
        return Ok(Verdict::Stands(answer(ok, reason.word(), record, None)));
    }
    if is_cut_off(entries[1].as_ref(), fence_key)? {
        return Ok(Verdict::Stands(answer(false, NODE_FENCED, record, None)));
    }
    if record.holders.len() >= MAX_HOLDERS {
        return Err(GrantError::TooManyHolders { limit: MAX_HOLDERS });
    }
    let after = kept(record, &attachment);
    let verified = Some(claim::is_on(call.witness, &request.node, &request.pod_uid));
    let line = LedgerRecord {
        pod_uid: request.pod_uid.clone(),
        verified,
        ..line(key, "AttachVolume", reason, &request.node)
    };
    let writes = vec![(key.clone(), Some(after.encode_to_vec()))];
    let answer = Box::new(move |revision: Revision| {
        let mut record = after;
        record.resolve(revision.0);
        answer(ok, reason.word(), record, verified)
    });
    Ok(Verdict::Changes { writes, line, answer })
}

fn detach(
    key: &Key,
    entries: &[Option<Entry>],
    call: &Call<'_>,
    request: &DetachVolumeRequest,
) -> Result<Verdict<DetachVolumeResponse>, GrantError> {
    let (record, mut attachment) = read(key, entries, &request.volume)?;
    let answer = |AttachOutcome { ok, reason }, record, verified| DetachVolumeResponse {
        ok,
        reason: reason.word().to_owned(),
        record: Some(record),
        verified,
    };
    let outcome = attachment.apply(&Operation::Detach {
        node: &request.node,
        pod_uid: &request.pod_uid,
        expected_version: request.expected_version.unwrap_or(record.version),
        pod_gone: request.pod_gone,
        // L-GEN-4: if the request does not say that the volume is unmounted, it counts as mounted.
        mounted: request.mounted.unwrap_or(true),
    });
    // A caller that holds nothing has nothing to lose: a repeated call after a detach, or after a break, is answered as
    // without a token (L-VOL-6).
    let is_stale = request.token != 0
        && token(&record, &request.node, &request.pod_uid)
            .is_some_and(|held| held != request.token);
    // L-VOL-2: the version is checked before everything else.
    if is_stale && outcome.reason != AttachReason::VersionConflict {
        let (ok, reason, record) = (false, STALE_TOKEN.to_owned(), Some(record));
        let verified = None;
        return Ok(Verdict::Stands(DetachVolumeResponse { ok, reason, record, verified }));
    }
    if outcome.reason != AttachReason::Detached {
        return Ok(Verdict::Stands(answer(outcome, record, None)));
    }
    let verified = Some(claim::has_left(call.witness, &request.node, &request.pod_uid)?);
    let after = kept(record, &attachment);
    let line = LedgerRecord {
        pod_uid: request.pod_uid.clone(),
        entitlement: POD_GONE.to_owned(),
        verified,
        ..line(key, "DetachVolume", outcome.reason, &request.node)
    };
    let writes = vec![(key.clone(), Some(after.encode_to_vec()))];
    let answer = Box::new(move |_| answer(outcome, after, verified));
    Ok(Verdict::Changes { writes, line, answer })
}

fn break_off(
    keys: &[Key; 2],
    entries: &[Option<Entry>],
    stated: BreakEvidence,
    call: &Call<'_>,
    request: &BreakAttachmentRequest,
) -> Result<Verdict<BreakAttachmentResponse>, GrantError> {
    let [key, fence_key] = keys;
    let (record, mut attachment) = read(key, entries, &request.volume)?;
    let mut fence_record = FenceRecord::read(fence_key, entries.get(1).and_then(Option::as_ref))?;
    // The fence covers every holder on the node: none came after the decision.
    let fence = as_fence(&fence_record)?.filter(Fence::lets_break_attachments);
    let evidence = BreakEvidence { confirmed_fence: fence.map(|fence| fence.scope), ..stated };
    let outcome = attachment.apply(&Operation::BreakAttachment {
        node: &request.node,
        expected_version: request.expected_version.unwrap_or(record.version),
        evidence,
    });
    let answer = |AttachOutcome { ok, reason }, record, verified| BreakAttachmentResponse {
        ok,
        reason: reason.word().to_owned(),
        record: Some(record),
        verified,
    };
    let (AttachReason::Broken, Some(entitlement)) = (outcome.reason, evidence.entitlement()) else {
        return Ok(Verdict::Stands(answer(outcome, record, None)));
    };
    let verified = claim::breaks(call.witness, &request.node, entitlement)?;
    let after = kept(record, &attachment);
    let mut writes = vec![(key.clone(), Some(after.encode_to_vec()))];
    let (mut fence_token, mut fence_scope) = (0, String::new());
    if let Some(mut fence) = fence {
        // L-FENCE-7: the fence records that it was used. Its entry is compared in any case, so it is still unchanged.
        (fence_token, fence_scope) = (fence_record.token, fence_record.scope.clone());
        fence.apply(&FenceEvent {
            r#type: FenceEventType::BreakAttachment,
            rebooted: false,
            no_leftover_processes: false,
        });
        if fence.state.word() != fence_record.state {
            fence_record.state = fence.state.word().to_owned();
            writes.push((fence_key.clone(), Some(fence_record.encode_to_vec())));
        }
    }
    let line = LedgerRecord {
        entitlement: entitlement.word().to_owned(),
        fence_token,
        fence_scope,
        verified,
        ..line(key, "BreakAttachment", outcome.reason, &request.node)
    };
    let answer = Box::new(move |_| answer(outcome, after, verified));
    Ok(Verdict::Changes { writes, line, answer })
}

fn line(key: &Key, operation: &str, reason: AttachReason, node: &str) -> LedgerRecord {
    LedgerRecord {
        operation: operation.to_owned(),
        subject: key.as_str().to_owned(),
        outcome: reason.word().to_owned(),
        node_name: node.to_owned(),
        ..LedgerRecord::default()
    }
}
