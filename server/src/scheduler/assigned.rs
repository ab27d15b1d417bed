//! Assigned: the pods that have a node, and which change of one may help others.

use std::collections::HashMap;

use super::hints::Changes;

/// Every pod that has a node, in 24 bytes: hashes of its name, of its uid and node, and of the properties that can help
/// other pods.
#[derive(Debug, Default)]
pub(super) struct Assigned(HashMap<u64, (u64, u64)>);

impl Assigned {
    pub(super) fn note(&mut self, key: u64, identity: u64, digest: u64) -> Changes {
        match self.0.insert(key, (identity, digest)) {
            None => Changes::POD_ASSIGNED,
            // Another pod of the name came without an event for the end of the first.
            Some((old, _)) if old != identity => {
                Changes::POD_DELETED.or(Changes::POD_ASSIGNED).or(Changes::POD_UPDATED)
            }
            Some((_, old)) if old != digest => Changes::POD_UPDATED,
            Some(_) => Changes::NONE,
        }
    }

    pub(super) fn forget(&mut self, key: u64) -> Changes {
        if self.0.remove(&key).is_some() { Changes::POD_DELETED } else { Changes::NONE }
    }
}
