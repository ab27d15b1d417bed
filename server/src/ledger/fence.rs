//! Records of node fences (L-FENCE-7 to L-FENCE-13).
//!
//! From the decision to fence a node until it has returned nothing is granted on it, so that a confirmed fence covers
//! all grants there. A fact that becomes known too late for that, or needs a wider scope, takes a further decision: a
//! renewal. Until the renewal is confirmed the earlier fence remains valid, since it has not been lifted.

use std::slice;

use berth_engine::ModelError;
use berth_engine::lifecycle::attachment::BreakEntitlement;
use berth_engine::lifecycle::fence::{
    Fence, FenceEvent, FenceEventType, FenceOutcome, FenceScope, FenceState,
};
use berth_proto::berth_v1::{
    AdvanceFenceRequest, AdvanceFenceResponse, FenceRecord, FenceRenewal, GetFenceRequest,
    GetFenceResponse, LedgerRecord,
};
use prost::Message as _;

use super::grants::{Call, GrantError, Grants, Record, Verdict, actor, damaged, name};
use super::reason::STALE_TOKEN;
use super::{Entry, Key, Revision};

impl Record for FenceRecord {
    fn resolve(&mut self, granted: u64) {
        if self.token == 0 && self.state == FenceState::Fencing.word() {
            self.token = granted;
        }
        if let Some(renewal) = self.renewal.as_mut().filter(|renewal| renewal.token == 0) {
            renewal.token = granted;
        }
    }
}

impl Grants {
    /// The method `AdvanceFence` (L-FENCE-7 to L-FENCE-13).
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn advance_fence(
        &self,
        request: &AdvanceFenceRequest,
        call: &Call<'_>,
    ) -> Result<AdvanceFenceResponse, GrantError> {
        name(&request.node_name, "nodeName")?;
        let r#type = FenceEventType::parse(&request.r#type, "type")?;
        let scope = match &*request.scope {
            "" => None,
            word => Some(FenceScope::parse(word, "scope")?),
        };
        if r#type == FenceEventType::FenceConfirmed && request.token == 0 {
            return Err(
                ModelError::new("token", "required: of the decision that is confirmed").into()
            );
        }
        actor(&request.actor)?;
        let event = FenceEvent {
            r#type,
            rebooted: request.rebooted,
            no_leftover_processes: request.no_leftover_processes,
        };
        let key = Key::fence(&request.node_name);
        self.attempt(slice::from_ref(&key), call, &request.actor, |entries| {
            advance(&key, entries, scope, event, request)
        })
    }

    /// Names of all nodes that are fenced or about to be, in order (S-FNC-1).
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn fenced_nodes(&self) -> Result<Vec<String>, GrantError> {
        let mut fenced = Vec::new();
        for (key, entry) in self.list(Key::FENCES)? {
            if is_cut_off(Some(&entry), &key)? {
                let node = key.as_str().strip_prefix(Key::FENCES).unwrap_or_default();
                fenced.push(node.to_owned());
            }
        }
        Ok(fenced)
    }

    /// Whether a node is fenced or about to be (S-FNC-1).
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn is_fenced(&self, node: &str) -> Result<bool, GrantError> {
        let key = Key::fence(node);
        let entries = self.read(slice::from_ref(&key))?;
        is_cut_off(entries.first().and_then(Option::as_ref), &key)
    }

    /// The method `GetFence`.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn get_fence(
        &self,
        request: &GetFenceRequest,
        _call: &Call<'_>,
    ) -> Result<GetFenceResponse, GrantError> {
        name(&request.node_name, "nodeName")?;
        let record: FenceRecord = self.get(&Key::fence(&request.node_name))?;
        let record = FenceRecord { node_name: request.node_name.clone(), ..record };
        Ok(GetFenceResponse { record: Some(record) })
    }
}

/// The engine's form of a record; `None` if there is no fence.
pub(super) fn as_fence(record: &FenceRecord) -> Result<Option<Fence>, GrantError> {
    if record.state.is_empty() {
        return Ok(None);
    }
    let key = Key::fence(&record.node_name);
    let parse = || -> Result<Fence, ModelError> {
        let scope = FenceScope::parse(&record.scope, "scope")?;
        Ok(Fence { scope, state: FenceState::parse(&record.state, "state")? })
    };
    parse().map(Some).map_err(|error| damaged(&key, &error))
}

/// Reason why nothing is granted on a fenced node.
pub(super) const NODE_FENCED: &str = "NodeFenced";

/// Whether the node is fenced or about to be. It may be running again before its return is reported, and a grant made
/// now would not be covered by the fence.
pub(super) fn is_cut_off(entry: Option<&Entry>, key: &Key) -> Result<bool, GrantError> {
    let fence = as_fence(&FenceRecord::read(key, entry)?)?;
    Ok(fence.is_some_and(|fence| match fence.state {
        FenceState::Fencing | FenceState::Fenced | FenceState::AttachmentsBroken => true,
        FenceState::Detected | FenceState::Recovered => false,
    }))
}

fn advance(
    key: &Key,
    entries: &[Option<Entry>],
    scope: Option<FenceScope>,
    event: FenceEvent,
    request: &AdvanceFenceRequest,
) -> Result<Verdict<AdvanceFenceResponse>, GrantError> {
    let record = FenceRecord::read(key, entries.first().and_then(Option::as_ref))?;
    let record = FenceRecord { node_name: request.node_name.clone(), ..record };
    let stands = |outcome: &str, record: FenceRecord| {
        let (outcome, record) = (outcome.to_owned(), Some(record));
        Ok(Verdict::Stands(AdvanceFenceResponse { outcome, record, verified: None }))
    };
    let is_decision = event.r#type == FenceEventType::Decide;
    let uses_entitlement = uses_entitlement(event.r#type);
    // Entitlements are checked against the confirmed fence; all other events concern the latest decision.
    let renewal = record.renewal.as_ref().filter(|_| !uses_entitlement);
    let token = renewal.map_or(record.token, |renewal| renewal.token);
    if request.token != 0 && request.token != token {
        return stands(STALE_TOKEN, record);
    }
    let mut renews = false;
    let mut fence = match (as_fence(&record)?, renewal) {
        (_, Some(renewal)) => renewing(key, renewal)?,
        // After a return the next loss of contact is a new fence; a failed one may be decided on with another scope
        // (L-FENCE-13).
        (None | Some(Fence { state: FenceState::Recovered | FenceState::Detected, .. }), None)
            if is_decision =>
        {
            Fence::detected(required(scope)?)
        }
        // The token shows that the confirmed fence is meant, and not one that was decided on before.
        (Some(confirmed), None)
            if is_decision && request.token != 0 && confirmed.state != FenceState::Fencing =>
        {
            let further = Fence::detected(required(scope)?);
            if entitles_to_less(further.scope, confirmed.scope) {
                return stands(FenceOutcome::RefusedScope.word(), record);
            }
            renews = true;
            further
        }
        (Some(fence), None) => fence,
        // There is no fence of this node: the event is refused or, for a node that returned, has no effect.
        (None, None) => {
            let outcome = Fence::detected(FenceScope::Network).apply(&event);
            return stands(outcome.word(), record);
        }
    };
    // The scope of a fence under way does not change.
    if scope.is_some_and(|scope| scope != fence.scope) {
        return stands(FenceOutcome::InvalidState.word(), record);
    }
    let before = fence.state;
    let outcome = fence.apply(&event);
    if outcome != FenceOutcome::Ok || fence.state == before && !uses_entitlement {
        return stands(outcome.word(), record);
    }
    // A decision is a grant: the permission to fence.
    let token = if is_decision { 0 } else { token };
    let verified = caller_vouches(event.r#type).then_some(false);
    let line = LedgerRecord { verified, ..line(key, request, event.r#type, fence, token) };
    let is_renewed = renewal.is_some();
    let changed = (fence.state != before).then(|| {
        let scope = fence.scope.word().to_owned();
        let state = fence.state.word().to_owned();
        match fence.state {
            _ if renews => {
                FenceRecord { renewal: Some(FenceRenewal { scope, token }), ..record.clone() }
            }
            // The renewal failed, so the earlier fence remains valid.
            FenceState::Detected if is_renewed => FenceRecord { renewal: None, ..record.clone() },
            _ if uses_entitlement => FenceRecord { state, ..record.clone() },
            _ => FenceRecord { scope, state, token, renewal: None, ..record.clone() },
        }
    });
    let writes = changed.iter().map(|record| (key.clone(), Some(record.encode_to_vec()))).collect();
    let answer = Box::new(move |revision: Revision| {
        let mut record = changed.unwrap_or(record);
        record.resolve(revision.0);
        let outcome = outcome.word().to_owned();
        AdvanceFenceResponse { outcome, record: Some(record), verified }
    });
    Ok(Verdict::Changes { writes, line, answer })
}

/// Whether the event uses an entitlement of a fence (L-FENCE-10): each such answer is in the journal (L-TEST-10).
fn uses_entitlement(r#type: FenceEventType) -> bool {
    match r#type {
        FenceEventType::BreakAttachment
        | FenceEventType::RemovePod
        | FenceEventType::ReleaseIdentity => true,
        FenceEventType::Decide
        | FenceEventType::FenceAccepted
        | FenceEventType::FenceConfirmed
        | FenceEventType::FenceFailed
        | FenceEventType::NodeReturned => false,
    }
}

/// Whether the event is a claim of the caller. What cuts a node off, and whether its processes ended, is seen outside
/// the cluster, so this server can confirm none of it (L-GRANT-2).
fn caller_vouches(r#type: FenceEventType) -> bool {
    match r#type {
        FenceEventType::FenceAccepted
        | FenceEventType::FenceConfirmed
        | FenceEventType::FenceFailed
        | FenceEventType::NodeReturned => true,
        FenceEventType::Decide
        | FenceEventType::BreakAttachment
        | FenceEventType::RemovePod
        | FenceEventType::ReleaseIdentity => false,
    }
}

/// The engine's form of a renewal, which is under way as long as it is in the record.
fn renewing(key: &Key, renewal: &FenceRenewal) -> Result<Fence, GrantError> {
    let scope = FenceScope::parse(&renewal.scope, "renewal.scope");
    let scope = scope.map_err(|error| damaged(key, &error))?;
    Ok(Fence { scope, state: FenceState::Fencing })
}

fn entitles_to_less(further: FenceScope, confirmed: FenceScope) -> bool {
    confirmed.breaks_attachments() && !further.breaks_attachments()
        || confirmed.removes_pods() && !further.removes_pods()
}

fn line(
    key: &Key,
    request: &AdvanceFenceRequest,
    r#type: FenceEventType,
    fence: Fence,
    token: u64,
) -> LedgerRecord {
    let outcome = match r#type {
        FenceEventType::RemovePod | FenceEventType::ReleaseIdentity => r#type.word(),
        _ => fence.state.word(),
    };
    let entitlement =
        if uses_entitlement(r#type) { BreakEntitlement::FenceConfirmed.word() } else { "" };
    LedgerRecord {
        operation: "AdvanceFence".to_owned(),
        subject: key.as_str().to_owned(),
        outcome: outcome.to_owned(),
        node_name: request.node_name.clone(),
        entitlement: entitlement.to_owned(),
        fence_token: token,
        fence_scope: fence.scope.word().to_owned(),
        ..LedgerRecord::default()
    }
}

fn required(scope: Option<FenceScope>) -> Result<FenceScope, ModelError> {
    let reason = || format!("required: one of `{}`", FenceScope::WORDS.join("`, `"));
    scope.ok_or_else(|| ModelError::new("scope", reason()))
}
