//! The lock on a pod name that a StatefulSet owns: at most one UID holds it, and only four events release it
//! (L-DEL-11 to L-DEL-13, L-DEL-16).

use berth_proto::berth_v1::{IdentityLockRequest, IdentityLockResponse, IdentityLockState};

use super::reading::{given, given_text, in_list};
use super::word::words;
use crate::model::ModelError;

words! {
    /// Type of an event that a lock reacts to.
    enum LockEventType {
        /// A pod of this UID is to be created under the name.
        Acquire = "Acquire",
        /// The node agent removed the object after confirming that its processes are dead (L-DEL-2).
        RemovedByNodeAgent = "RemovedByNodeAgent",
        /// PodGC removed the object (L-DEL-6).
        RemovedByPodGc = "RemovedByPodGC",
        /// The object was removed because its node is fenced (L-FENCE-10).
        RemovedAfterFence = "RemovedAfterFence",
        /// A person removed the object by force (L-DEL-3).
        ForceDeletedByUser = "ForceDeletedByUser",
        /// Deletion has begun.
        DeletionRequested = "DeletionRequested",
        /// Contact with the pod's node is lost.
        NodeUnreachable = "NodeUnreachable",
        /// The object of the pod's node was deleted (L-DEL-8).
        NodeObjectDeleted = "NodeObjectDeleted",
        /// The pod's phase is Succeeded or Failed.
        PhaseTerminal = "PhaseTerminal",
    }

    /// Outcome of an event.
    enum LockOutcome {
        /// The name was free and is held now.
        Granted = "Granted",
        /// This UID holds the name already.
        AlreadyHeld = "AlreadyHeld",
        /// Another UID holds the name.
        HeldByOther = "HeldByOther",
        /// The name is free.
        Released = "Released",
        /// The name is free, though the holder's processes may still run.
        ReleasedUnsafely = "ReleasedUnsafely",
        /// The holder keeps the name.
        NotReleased = "NotReleased",
        /// The event is about a UID that does not hold the name.
        StaleUid = "StaleUID",
    }
}

/// The lock on one (namespace, name).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityLock {
    /// UID of the pod that holds the name; `None` when it is free.
    pub holder_uid: Option<String>,
    /// Whether the name was ever released by force (L-DEL-10). Never reset: from then on a second copy may exist.
    pub released_unsafely: bool,
}

/// One event about the pod `uid`.
#[derive(Copy, Clone, Debug)]
pub struct LockEvent<'a> {
    /// Type of the event.
    pub r#type: LockEventType,
    /// UID of the pod. No pod has the empty UID: events about it change nothing.
    pub uid: &'a str,
    /// For `ForceDeletedByUser`: whether the loss of data was acknowledged.
    pub acknowledged: bool,
    /// For `RemovedAfterFence`: whether the fence was confirmed.
    pub fence_confirmed: bool,
}

impl IdentityLock {
    /// Applies an event. The holder changes with `Granted`, `Released` and `ReleasedUnsafely`, and only then.
    pub fn apply(&mut self, event: &LockEvent<'_>) -> LockOutcome {
        let outcome = self.outcome(event);
        match outcome {
            LockOutcome::Granted => self.holder_uid = Some(event.uid.to_owned()),
            LockOutcome::Released => self.holder_uid = None,
            LockOutcome::ReleasedUnsafely => {
                self.holder_uid = None;
                self.released_unsafely = true;
            }
            LockOutcome::AlreadyHeld
            | LockOutcome::HeldByOther
            | LockOutcome::NotReleased
            | LockOutcome::StaleUid => {}
        }
        outcome
    }

    fn outcome(&self, event: &LockEvent<'_>) -> LockOutcome {
        if event.uid.is_empty() {
            return LockOutcome::StaleUid;
        }
        let is_holder = self.holder_uid.as_deref() == Some(event.uid);
        if event.r#type == LockEventType::Acquire {
            // L-DEL-11
            return match (&self.holder_uid, is_holder) {
                (None, _) => LockOutcome::Granted,
                (Some(_), true) => LockOutcome::AlreadyHeld,
                (Some(_), false) => LockOutcome::HeldByOther,
            };
        }
        // L-DEL-16
        if is_holder { entitlement(event) } else { LockOutcome::StaleUid }
    }
}

/// Outcome of an event about the holder: L-DEL-12 lists the events that release its name, L-DEL-13 those that do not.
fn entitlement(event: &LockEvent<'_>) -> LockOutcome {
    match event.r#type {
        LockEventType::RemovedByNodeAgent | LockEventType::RemovedByPodGc => LockOutcome::Released,
        LockEventType::RemovedAfterFence if event.fence_confirmed => LockOutcome::Released,
        LockEventType::ForceDeletedByUser if event.acknowledged => LockOutcome::ReleasedUnsafely,
        LockEventType::RemovedAfterFence
        | LockEventType::ForceDeletedByUser
        | LockEventType::DeletionRequested
        | LockEventType::NodeUnreachable
        | LockEventType::NodeObjectDeleted
        | LockEventType::PhaseTerminal
        | LockEventType::Acquire => LockOutcome::NotReleased,
    }
}

/// `IdentityLock`: applies a sequence of events; returns the lock after it and the outcome of each.
///
/// # Errors
/// [`ModelError`] if the lock, its name, or an event's type or UID is missing or unknown.
pub fn identity_lock(request: &IdentityLockRequest) -> Result<IdentityLockResponse, ModelError> {
    let state = given(request.lock.as_ref(), "lock")?;
    given_text(&state.namespace, "lock.namespace")?;
    given_text(&state.name, "lock.name")?;
    let mut lock = IdentityLock {
        // Kubernetes does not tell JSON's null from the empty string.
        holder_uid: state.holder_uid.clone().filter(|uid| !uid.is_empty()),
        released_unsafely: state.released_unsafely,
    };
    let mut results = Vec::with_capacity(request.events.len());
    for (index, event) in request.events.iter().enumerate() {
        let event = LockEvent {
            r#type: in_list("events", index, LockEventType::parse(&event.r#type, "type"))?,
            uid: in_list("events", index, given_text(&event.uid, "uid"))?,
            acknowledged: event.acknowledged,
            fence_confirmed: event.fence_confirmed,
        };
        results.push(lock.apply(&event).word().to_owned());
    }
    let state = IdentityLockState {
        namespace: state.namespace.clone(),
        name: state.name.clone(),
        holder_uid: lock.holder_uid,
        released_unsafely: lock.released_unsafely,
    };
    Ok(IdentityLockResponse { results, lock: Some(state) })
}

#[cfg(test)]
mod tests {
    use super::{IdentityLock, LockEvent, LockEventType, LockOutcome, identity_lock};
    use berth_proto::berth_v1::{IdentityLockEvent, IdentityLockRequest, IdentityLockState};

    fn apply(lock: &mut IdentityLock, word: &str, uid: &str, granted: bool) -> LockOutcome {
        let r#type = LockEventType::parse(word, "type").unwrap();
        lock.apply(&LockEvent { r#type, uid, acknowledged: granted, fence_confirmed: granted })
    }

    fn held() -> IdentityLock {
        IdentityLock { holder_uid: Some("u1".to_owned()), released_unsafely: false }
    }

    #[test]
    fn only_the_four_entitlements_release() {
        // L-DEL-12, L-DEL-13: all events about the holder, with and without what they need.
        for word in LockEventType::WORDS.iter().filter(|word| **word != "Acquire") {
            for granted in [false, true] {
                let (mut lock, expected) = (
                    held(),
                    match (*word, granted) {
                        ("RemovedByNodeAgent" | "RemovedByPodGC", _)
                        | ("RemovedAfterFence", true) => LockOutcome::Released,
                        ("ForceDeletedByUser", true) => LockOutcome::ReleasedUnsafely,
                        _ => LockOutcome::NotReleased,
                    },
                );
                assert_eq!(apply(&mut lock, word, "u1", granted), expected, "{word} {granted}");
                assert_eq!(lock.holder_uid.is_some(), expected == LockOutcome::NotReleased);
            }
        }
    }

    #[test]
    fn events_about_others_change_nothing() {
        // L-DEL-16: also if the name is free, and for the empty UID.
        for word in LockEventType::WORDS.iter().filter(|word| **word != "Acquire") {
            let mut lock = held();
            assert_eq!(apply(&mut lock, word, "u2", true), LockOutcome::StaleUid, "{word}");
            assert_eq!(lock, held(), "{word}");
            let mut free = IdentityLock::default();
            assert_eq!(apply(&mut free, word, "u1", true), LockOutcome::StaleUid, "{word}");
            assert_eq!(free, IdentityLock::default(), "{word}");
        }
        let mut free = IdentityLock::default();
        assert_eq!(apply(&mut free, "Acquire", "", false), LockOutcome::StaleUid);
        assert_eq!(free, IdentityLock::default());
    }

    #[test]
    fn an_unsafe_release_is_never_forgotten() {
        // L-DEL-10
        let mut lock = held();
        apply(&mut lock, "ForceDeletedByUser", "u1", true);
        apply(&mut lock, "Acquire", "u2", false);
        assert_eq!(apply(&mut lock, "RemovedByNodeAgent", "u2", false), LockOutcome::Released);
        assert!(lock.released_unsafely);
    }

    #[test]
    fn errors_name_the_field() {
        let state = IdentityLockState {
            namespace: "default".to_owned(),
            name: "pet-2".to_owned(),
            ..IdentityLockState::default()
        };
        let event = |r#type: &str, uid: &str| IdentityLockEvent {
            r#type: r#type.to_owned(),
            uid: uid.to_owned(),
            ..IdentityLockEvent::default()
        };
        let error = |lock: Option<IdentityLockState>, events| {
            identity_lock(&IdentityLockRequest { lock, events }).unwrap_err().to_string()
        };
        assert_eq!(error(None, vec![]), "`lock`: required");
        let nameless = IdentityLockState { name: String::new(), ..state.clone() };
        assert_eq!(error(Some(nameless), vec![]), "`lock.name`: required");
        let events = vec![event("Acquire", "u1"), event("Acquire", "")];
        assert_eq!(error(Some(state.clone()), events), "`events[1].uid`: required");
        let unknown = error(Some(state), vec![event("acquire", "u1")]);
        assert!(unknown.starts_with("`events[0].type`: unknown value `acquire`: not one of"));
    }
}
