//! Hint: whether a change of a claim, or of a pod, may help a pod that DynamicResources rejected, as kube-scheduler's
//! queueing hints decide. The changed objects are in the cluster already. Rules: S-DRA-10, S-DRA-11, S-DRA-126 to
//! S-DRA-128.

use berth_proto::resource_v1;

use super::claims::named_claims;
use crate::model::device::claim::ResourceClaim;
use crate::model::key::{ClaimKey, ObjectKey};
use crate::model::{ObjectKind, Pod};
use crate::snapshot::Snapshot;
use crate::snapshot::devices::Devices;

/// How a change of a claim can help pods that DynamicResources rejected: those whose claims can all be used
/// (S-DRA-126). A change with neither effect can still make the claim usable, or unusable, for the pods that name it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimChange {
    /// The claim lost its allocation: its devices can help any pod.
    pub frees_devices: bool,
    /// The claim is new, or its status changed: that can help the pods that name it.
    pub helps_users: bool,
}

impl ClaimChange {
    /// The change of a claim that was added, or updated from `old` (S-DRA-126).
    #[must_use]
    pub fn of(
        old: Option<&resource_v1::ResourceClaim>,
        new: &resource_v1::ResourceClaim,
    ) -> ClaimChange {
        let is_allocated = |claim: &resource_v1::ResourceClaim| {
            claim.status.as_ref().is_some_and(|status| status.allocation.is_some())
        };
        ClaimChange {
            frees_devices: old.is_some_and(is_allocated) && !is_allocated(new),
            helps_users: old.is_none_or(|old| old.status != new.status),
        }
    }

    /// The change of a claim between two snapshots, which may skip versions of it; `None` if it is the same claim
    /// (S-DRA-128).
    ///
    /// Cost: a comparison of the two objects.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot, claim: &ObjectKey) -> Option<ClaimChange> {
        debug_assert_eq!(claim.kind, ObjectKind::ResourceClaim);
        let key = ClaimKey { namespace: claim.namespace.clone(), name: claim.name.clone() };
        let (old, new) = (before.devices.claim(&key), after.devices.claim(&key));
        let frees_devices = old.is_some_and(|old| has_lost_allocation(old, new.map(|new| &**new)));
        match (old, new) {
            (None, None) => None,
            (Some(_), None) => Some(ClaimChange { frees_devices, helps_users: false }),
            (Some(old), Some(new)) if old.object == new.object => None,
            (Some(old), Some(new)) if old.uid == new.uid => {
                let change = ClaimChange::of(Some(&old.object), &new.object);
                Some(ClaimChange { frees_devices, ..change })
            }
            // The claim of that name is another one.
            (_, Some(new)) => {
                Some(ClaimChange { frees_devices, ..ClaimChange::of(None, &new.object) })
            }
        }
    }
}

/// Whether a claim lost its allocation on the way to what it is now. The API server lets no allocation be replaced, and
/// no allocated claim go, so that a version without the allocation was skipped.
fn has_lost_allocation(old: &ResourceClaim, new: Option<&ResourceClaim>) -> bool {
    old.allocation.is_some() && new.is_none_or(|new| new.allocation != old.allocation)
}

/// Whether a claim that was added, or updated from `old`, may help a pod (S-DRA-126).
pub(crate) fn claim_helps(
    pod: &Pod,
    old: Option<&resource_v1::ResourceClaim>,
    new: &resource_v1::ResourceClaim,
    devices: &Devices,
) -> bool {
    let Ok(claims) = named_claims(pod, devices) else { return false };
    let change = ClaimChange::of(old, new);
    let metadata = new.metadata.as_ref();
    let is_own = metadata.is_some_and(|metadata| {
        claims.iter().any(|claim| {
            *claim.key.namespace == *metadata.namespace && *claim.key.name == *metadata.name
        })
    });
    change.frees_devices || is_own && change.helps_users
}

/// Whether an update of a pod may help it: its claims are there by now (S-DRA-127).
pub(crate) fn update_helps(pod: &Pod, updated: &Pod, devices: &Devices) -> bool {
    pod.is_same_as(updated) && has_usable_claims(updated, devices)
}

/// Whether every claim that the pod names can be used by it (S-DRA-10, S-DRA-11).
///
/// Cost: a look-up for each claim that the pod names.
pub(crate) fn has_usable_claims(pod: &Pod, devices: &Devices) -> bool {
    named_claims(pod, devices).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::model::WireObject;

    fn claim(uid: &str, status: &Value) -> Value {
        json!({"metadata": {"name": "c", "namespace": "d", "uid": uid}, "status": status})
    }

    fn allocated(device: &str) -> Value {
        let result = json!({"request": "r", "driver": "x", "pool": "p", "device": device});
        json!({"allocation": {"devices": {"results": [result]}}})
    }

    /// Returns the change between two snapshots with these versions of one claim.
    fn between(old: Option<Value>, new: Option<Value>) -> Option<ClaimChange> {
        let cluster = Cluster::new();
        let key = ObjectKey::new(ObjectKind::ResourceClaim, "d", "c");
        let mut snapshots = [old, new].into_iter().map(|claim| {
            let delta = match claim {
                None => Delta::DeleteObject(key.clone()),
                Some(claim) => {
                    let claim: resource_v1::ResourceClaim = serde_json::from_value(claim).unwrap();
                    Delta::UpsertObject(cluster.compile_object(WireObject::from(&claim)).unwrap())
                }
            };
            cluster.apply(vec![delta]);
            cluster.snapshot()
        });
        let (before, after) = (snapshots.next().unwrap(), snapshots.next().unwrap());
        ClaimChange::between(&before, &after, &key)
    }

    /// S-DRA-126, S-DRA-128
    #[test]
    fn a_change_between_snapshots_counts_what_was_skipped() {
        let neither = ClaimChange::default();
        let helps = ClaimChange { helps_users: true, ..neither };
        let frees = ClaimChange { frees_devices: true, ..neither };
        let both = ClaimChange { frees_devices: true, helps_users: true };
        let free = || claim("1", &json!({}));
        let taken = |device: &str| claim("1", &allocated(device));
        let with_label = |mut claim: Value| {
            claim["metadata"]["labels"] = json!({"a": "b"});
            claim
        };
        for (old, new, expected) in [
            (None, None, None),
            (None, Some(free()), Some(helps)),
            (None, Some(taken("a")), Some(helps)),
            (Some(free()), Some(free()), None),
            (Some(taken("a")), Some(taken("a")), None),
            (Some(free()), Some(with_label(free())), Some(neither)),
            (Some(taken("a")), Some(with_label(taken("a"))), Some(neither)),
            (Some(free()), Some(taken("a")), Some(helps)),
            (Some(taken("a")), Some(free()), Some(both)),
            // A version in between was skipped.
            (Some(taken("a")), Some(taken("b")), Some(both)),
            (Some(taken("a")), Some(claim("2", &json!({}))), Some(both)),
            (Some(free()), Some(claim("2", &json!({}))), Some(helps)),
            (Some(taken("a")), None, Some(frees)),
            (Some(free()), None, Some(neither)),
        ] {
            let text = format!("{old:?} to {new:?}");
            assert_eq!(between(old, new), expected, "{text}");
        }
    }
}
