//! How far the fencing of a node is (L-FENCE-7 to L-FENCE-13), kept.

use std::slice;

use berth_engine::ModelError;
use berth_engine::lifecycle::attachment::BreakEntitlement;
use berth_engine::lifecycle::fence::{
    Fence, FenceEvent, FenceEventType, FenceOutcome, FenceScope, FenceState,
};
use berth_proto::berth_v1::{
    AdvanceFenceRequest, AdvanceFenceResponse, FenceRecord, GetFenceRequest, GetFenceResponse,
    LedgerRecord,
};
use prost::Message as _;

use super::grants::{GrantError, Grants, Record, Verdict, actor, damaged, name};
use super::identity::STALE_TOKEN;
use super::{Entry, Key, Revision};

impl Record for FenceRecord {
    fn resolve(&mut self, granted: u64) {
        if self.token == 0 && self.state == FenceState::Fencing.word() {
            self.token = granted;
        }
    }
}

impl Grants {
    /// `AdvanceFence` (L-FENCE-7 to L-FENCE-13).
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn advance_fence(
        &self,
        request: &AdvanceFenceRequest,
        now: i64,
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
        self.attempt(slice::from_ref(&key), now, |entries| {
            advance(&key, entries, scope, event, request)
        })
    }

    /// `GetFence`.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn get_fence(
        &self,
        request: &GetFenceRequest,
        _now: i64,
    ) -> Result<GetFenceResponse, GrantError> {
        name(&request.node_name, "nodeName")?;
        let record: FenceRecord = self.get(&Key::fence(&request.node_name))?;
        let record = FenceRecord { node_name: request.node_name.clone(), ..record };
        Ok(GetFenceResponse { record: Some(record) })
    }
}

/// The engine's form of a record; `None` where nothing is recorded.
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
        let outcome = outcome.to_owned();
        Ok(Verdict::Stands(AdvanceFenceResponse { outcome, record: Some(record) }))
    };
    if request.token != 0 && request.token != record.token {
        return stands(STALE_TOKEN, record);
    }
    let is_decision = event.r#type == FenceEventType::Decide;
    let mut fence = match as_fence(&record)? {
        // After a return the next loss of contact is a new fence; one that failed may be decided on with another scope
        // (L-FENCE-13).
        None | Some(Fence { state: FenceState::Recovered | FenceState::Detected, .. })
            if is_decision =>
        {
            Fence::detected(required(scope)?)
        }
        // The scope of a fence under way does not change.
        Some(fence) if scope.is_some_and(|scope| scope != fence.scope) => {
            return stands(FenceOutcome::InvalidState.word(), record);
        }
        Some(fence) => fence,
        // Nothing was ever done about this node: what is asked is refused or, of a node that returned, is so already.
        None => {
            let outcome = Fence::detected(FenceScope::Network).apply(&event);
            return stands(outcome.word(), record);
        }
    };
    let outcome = fence.apply(&event);
    if outcome != FenceOutcome::Ok || fence.state.word() == record.state {
        return stands(outcome.word(), record);
    }
    let after = FenceRecord {
        scope: fence.scope.word().to_owned(),
        state: fence.state.word().to_owned(),
        // A decision is a grant: the leave to fence.
        token: if is_decision { 0 } else { record.token },
        ..record
    };
    let line = LedgerRecord {
        actor: request.actor.clone(),
        operation: "AdvanceFence".to_owned(),
        subject: key.as_str().to_owned(),
        outcome: after.state.clone(),
        node_name: request.node_name.clone(),
        fence_token: after.token,
        entitlement: match event.r#type {
            FenceEventType::BreakAttachment => BreakEntitlement::FenceConfirmed.word().to_owned(),
            _ => String::new(),
        },
        ..LedgerRecord::default()
    };
    let writes = vec![(key.clone(), Some(after.encode_to_vec()))];
    let answer = Box::new(move |revision: Revision| {
        let mut record = after;
        record.resolve(revision.0);
        AdvanceFenceResponse { outcome: outcome.word().to_owned(), record: Some(record) }
    });
    Ok(Verdict::Changes { writes, line, answer })
}

fn required(scope: Option<FenceScope>) -> Result<FenceScope, ModelError> {
    let reason = || format!("required: one of `{}`", FenceScope::WORDS.join("`, `"));
    scope.ok_or_else(|| ModelError::new("scope", reason()))
}

/// Whether a fence says anything of a grant that was made, or a record that was changed, at `revision`: only if it was decided
/// on later. A node that is fenced by a restart may be running again before anyone says that it returned; what it was granted
/// since is not cut off.
pub(super) fn covers(fence: &FenceRecord, revision: u64) -> bool {
    fence.token > revision
}
