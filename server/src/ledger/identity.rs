//! Records of the holders of StatefulSet pods' names: the lock of L-DEL-11 to L-DEL-13.

use berth_engine::ModelError;
use berth_engine::lifecycle::attachment::BreakEntitlement;
use berth_engine::lifecycle::identity::{IdentityLock, LockEvent, LockEventType, LockOutcome};
use berth_proto::berth_v1::{
    AcquireIdentityRequest, AcquireIdentityResponse, FenceRecord, GetIdentityRequest,
    GetIdentityResponse, IdentityRecord, LedgerRecord, RecordIdentityEventRequest,
    RecordIdentityEventResponse,
};
use prost::Message as _;

use super::fence::{NODE_FENCED, as_fence, is_cut_off};
use super::grants::{
    Call, ForceRight, GrantError, Grants, Record, Verdict, actor, name, optional_name,
};
use super::reason::STALE_TOKEN;
use super::{Entry, Key, Revision, claim};

/// Reason if the holder is bound to another node than the request names: a pod is never bound twice.
const OTHER_NODE: &str = "OtherNode";

impl Record for IdentityRecord {
    fn resolve(&mut self, granted: u64) {
        if !self.holder_uid.is_empty() && self.token == 0 {
            self.token = granted;
        }
    }
}

impl Grants {
    /// The method `AcquireIdentity` (L-DEL-11). Nothing is granted on a node that is fenced or about to be, which is
    /// read in the granting transaction; adding the node to a pod that holds its name already is not a grant.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn acquire_identity(
        &self,
        request: &AcquireIdentityRequest,
        call: &Call<'_>,
    ) -> Result<AcquireIdentityResponse, GrantError> {
        let key = key(&request.namespace, &request.name)?;
        name(&request.uid, "uid")?;
        optional_name(&request.node_name, "nodeName")?;
        actor(&request.actor)?;
        let mut keys = vec![key];
        if !request.node_name.is_empty() {
            keys.push(Key::fence(&request.node_name));
        }
        self.attempt(&keys, call, &request.actor, |entries| {
            let record = read(&keys[0], entries, &request.namespace, &request.name)?;
            let is_cut_off = match keys.get(1) {
                Some(fence) => is_cut_off(entries[1].as_ref(), fence)?,
                None => false,
            };
            acquire(&keys[0], record, is_cut_off, call, request)
        })
    }

    /// The method `RecordIdentityEvent` (L-DEL-12, L-DEL-13). Whether a fence is confirmed is read from the ledger, in
    /// the releasing transaction.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn record_identity_event(
        &self,
        request: &RecordIdentityEventRequest,
        call: &Call<'_>,
    ) -> Result<RecordIdentityEventResponse, GrantError> {
        let key = key(&request.namespace, &request.name)?;
        name(&request.uid, "uid")?;
        let r#type = LockEventType::parse(&request.r#type, "type")?;
        if r#type == LockEventType::Acquire {
            let reason = "is no event: a name is taken with AcquireIdentity";
            return Err(ModelError::new("type", reason).into());
        }
        actor(&request.actor)?;
        let node_name = match r#type {
            // The record has the pod's node, which never changes while this pod holds the name.
            LockEventType::RemovedAfterFence => self.get::<IdentityRecord>(&key)?.node_name,
            _ => String::new(),
        };
        let keys = match node_name.is_empty() {
            true => vec![key.clone()],
            false => vec![key.clone(), Key::fence(&node_name)],
        };
        self.attempt(&keys, call, &request.actor, |entries| {
            let record = read(&key, entries, &request.namespace, &request.name)?;
            let fence = match keys.get(1) {
                // Another pod took the name meanwhile, maybe on another node: this fence is irrelevant for it.
                Some(fence) if record.node_name == node_name => {
                    FenceRecord::read(fence, entries[1].as_ref())?
                }
                _ => FenceRecord::default(),
            };
            // Revision of the grant, or of the change that added the node.
            let changed = entries[0].as_ref().map_or(0, |entry| entry.revision.0);
            release(&key, record, Fenced { record: &fence, changed }, call, (r#type, request))
        })
    }

    /// The method `GetIdentity`.
    ///
    /// # Errors
    /// [`GrantError`].
    pub fn get_identity(
        &self,
        request: &GetIdentityRequest,
        _call: &Call<'_>,
    ) -> Result<GetIdentityResponse, GrantError> {
        let key = key(&request.namespace, &request.name)?;
        let record = named(self.get(&key)?, &request.namespace, &request.name);
        Ok(GetIdentityResponse { record: Some(record) })
    }
}

fn key(namespace: &str, pod: &str) -> Result<Key, ModelError> {
    name(namespace, "namespace")?;
    name(pod, "name")?;
    Ok(Key::identity(namespace, pod))
}

fn read(
    key: &Key,
    entries: &[Option<Entry>],
    namespace: &str,
    pod: &str,
) -> Result<IdentityRecord, GrantError> {
    let record = IdentityRecord::read(key, entries.first().and_then(Option::as_ref))?;
    Ok(named(record, namespace, pod))
}

fn named(record: IdentityRecord, namespace: &str, pod: &str) -> IdentityRecord {
    IdentityRecord { namespace: namespace.to_owned(), name: pod.to_owned(), ..record }
}

fn lock(record: &IdentityRecord) -> IdentityLock {
    IdentityLock {
        holder_uid: Some(record.holder_uid.clone()).filter(|uid| !uid.is_empty()),
        released_unsafely: record.released_unsafely,
    }
}

fn acquire(
    key: &Key,
    record: IdentityRecord,
    is_cut_off: bool,
    call: &Call<'_>,
    request: &AcquireIdentityRequest,
) -> Result<Verdict<AcquireIdentityResponse>, GrantError> {
    let mut lock = lock(&record);
    let outcome = lock.apply(&LockEvent {
        r#type: LockEventType::Acquire,
        uid: &request.uid,
        acknowledged: false,
        fence_confirmed: false,
    });
    let answer = |outcome: &str, record: IdentityRecord| {
        let is_holder = record.holder_uid == request.uid && outcome != OTHER_NODE;
        let token = if is_holder { record.token } else { 0 };
        let (outcome, record) = (outcome.to_owned(), Some(record));
        AcquireIdentityResponse { outcome, token, record, verified: None }
    };
    let stands = |outcome: &str, record| Ok(Verdict::Stands(answer(outcome, record)));
    let granted = match outcome {
        LockOutcome::Granted if is_cut_off => {
            return stands(NODE_FENCED, record);
        }
        LockOutcome::Granted => IdentityRecord {
            holder_uid: request.uid.clone(),
            token: 0,
            node_name: request.node_name.clone(),
            acquired_by: call.user.to_owned(),
            ..record
        },
        LockOutcome::AlreadyHeld => {
            let requested_node = &request.node_name;
            if requested_node.is_empty() || *requested_node == record.node_name {
                return stands(outcome.word(), record);
            }
            if !record.node_name.is_empty() {
                return stands(OTHER_NODE, record);
            }
            // The pod has been bound since; its grant is unchanged.
            IdentityRecord { node_name: requested_node.clone(), ..record }
        }
        _ => return stands(outcome.word(), record),
    };
    let pod = (&*request.namespace, &*request.name, &*request.uid);
    let verified = Some(claim::is_held(call.witness, pod, &request.node_name)?);
    let line = LedgerRecord {
        node_name: granted.node_name.clone(),
        verified,
        ..line(key, "AcquireIdentity", outcome, &request.uid)
    };
    let writes = vec![(key.clone(), Some(granted.encode_to_vec()))];
    let outcome = outcome.word().to_owned();
    let answer = Box::new(move |revision: Revision| {
        let mut record = granted;
        record.resolve(revision.0);
        AcquireIdentityResponse { outcome, token: record.token, record: Some(record), verified }
    });
    Ok(Verdict::Changes { writes, line, answer })
}

/// The fence of the holder's node, and the revision at which the holder's record last changed.
#[derive(Copy, Clone)]
struct Fenced<'a> {
    record: &'a FenceRecord,
    changed: u64,
}

impl Fenced<'_> {
    /// Whether the node was recorded before the fence was decided on. Nothing is granted after that, but a node may be
    /// added: then it is unknown whether the pod was started before the fence or after it, on a node that was fenced by
    /// a restart.
    fn is_covered(self) -> bool {
        self.record.token > self.changed
    }
}

fn release(
    key: &Key,
    record: IdentityRecord,
    fenced: Fenced<'_>,
    call: &Call<'_>,
    (r#type, request): (LockEventType, &RecordIdentityEventRequest),
) -> Result<Verdict<RecordIdentityEventResponse>, GrantError> {
    let fence = as_fence(fenced.record)?;
    let fence_confirmed =
        fence.is_some_and(|fence| fence.lets_remove_pods()) && fenced.is_covered();
    let mut lock = lock(&record);
    let outcome = lock.apply(&LockEvent {
        r#type,
        uid: &request.uid,
        acknowledged: request.acknowledged,
        fence_confirmed,
    });
    let stands = |outcome: &str, message: String, record: IdentityRecord| {
        let (outcome, record) = (outcome.to_owned(), Some(record));
        let verified = None;
        Ok(Verdict::Stands(RecordIdentityEventResponse { outcome, message, record, verified }))
    };
    if outcome == LockOutcome::StaleUid {
        let message = match &*record.holder_uid {
            "" => "the name is free".to_owned(),
            holder => format!("the name is held by `{holder}`"),
        };
        return stands(outcome.word(), message, record);
    }
    if request.token != 0 && request.token != record.token {
        let message = format!("the token of the grant is {}", record.token);
        return stands(STALE_TOKEN, message, record);
    }
    let by_fence = r#type == LockEventType::RemovedAfterFence;
    let entitlement = match (outcome, r#type) {
        (LockOutcome::Released, _) if by_fence => BreakEntitlement::FenceConfirmed.word(),
        (LockOutcome::Released, r#type) => r#type.word(),
        (LockOutcome::ReleasedUnsafely, _) => "AcknowledgedForceDelete",
        _ => return stands(outcome.word(), why_not(r#type, &record, fenced), record),
    };
    let verified = check_release(&record, r#type, call, request)?;
    let line = LedgerRecord {
        node_name: record.node_name.clone(),
        entitlement: entitlement.to_owned(),
        verified,
        fence_token: if by_fence { fenced.record.token } else { 0 },
        fence_scope: if by_fence { fenced.record.scope.clone() } else { String::new() },
        is_unsafe: outcome == LockOutcome::ReleasedUnsafely,
        ..line(key, "RecordIdentityEvent", outcome, &request.uid)
    };
    let released = IdentityRecord {
        namespace: record.namespace,
        name: record.name,
        released_unsafely: lock.released_unsafely,
        ..IdentityRecord::default()
    };
    // A free name needs a record only if it was released unsafely.
    let kept = released.released_unsafely.then(|| released.encode_to_vec());
    let outcome = outcome.word().to_owned();
    let answer = Box::new(move |_| RecordIdentityEventResponse {
        outcome,
        message: String::new(),
        record: Some(released),
        verified,
    });
    Ok(Verdict::Changes { writes: vec![(key.clone(), kept)], line, answer })
}

/// Checks what a release rests on: whether the user may force it (L-GRANT-5), and whether the pod is gone (L-GRANT-1).
/// Returns whether the latter is confirmed; `None` after a fence, which is the ledger's own record.
fn check_release(
    record: &IdentityRecord,
    r#type: LockEventType,
    call: &Call<'_>,
    request: &RecordIdentityEventRequest,
) -> Result<Option<bool>, GrantError> {
    let pod = (&*request.namespace, &*request.name, &*request.uid);
    match r#type {
        LockEventType::RemovedAfterFence => Ok(None),
        LockEventType::ForceDeletedByUser => {
            let is_own = !call.user.is_empty() && record.acquired_by == call.user;
            if call.force == ForceRight::Own && !is_own {
                return Err(GrantError::NotOwner { user: call.user.to_owned() });
            }
            // The event may precede the deletion that it speaks of, so a pod that is still there is no contradiction.
            Ok(Some(claim::is_gone(call.witness, pod).unwrap_or(false)))
        }
        _ => Ok(Some(claim::is_gone(call.witness, pod)?)),
    }
}

/// Reason why an event about the holder does not release its name.
fn why_not(r#type: LockEventType, record: &IdentityRecord, fenced: Fenced<'_>) -> String {
    let (node, fence) = (&record.node_name, fenced.record);
    match r#type {
        LockEventType::RemovedAfterFence if node.is_empty() => {
            "the holder's node is not recorded, so no fence can cover it".to_owned()
        }
        LockEventType::RemovedAfterFence if fence.state.is_empty() => {
            format!("no fence of node `{node}` is recorded")
        }
        LockEventType::RemovedAfterFence if !fenced.is_covered() => {
            format!(
                "the fence of node `{node}` was decided on before that node was told: renew the decision"
            )
        }
        LockEventType::RemovedAfterFence => format!(
            "the fence of node `{node}`, scope `{}`, is `{}`, which does not let pods be removed",
            fence.scope, fence.state
        ),
        LockEventType::ForceDeletedByUser => {
            "the loss of data is not acknowledged: two copies of the process may run at the same time".to_owned()
        }
        _ => format!("`{}` does not end the pod", r#type.word()),
    }
}

fn line(key: &Key, operation: &str, outcome: LockOutcome, uid: &str) -> LedgerRecord {
    LedgerRecord {
        operation: operation.to_owned(),
        subject: key.as_str().to_owned(),
        outcome: outcome.word().to_owned(),
        pod_uid: uid.to_owned(),
        ..LedgerRecord::default()
    }
}
