//! The types of conditions that are derived.

use crate::lifecycle::word::words;

words! {
    /// The types of conditions that are derived (L-COND-15), in the order in which they are listed.
    enum OwnedType {
        /// The pod's sandbox is ready, with its network (L-COND-6).
        PodReadyToStartContainers = "PodReadyToStartContainers",
        /// The pod's init containers are done (L-COND-7).
        Initialized = "Initialized",
        /// The pod can serve requests (L-COND-9).
        Ready = "Ready",
        /// All containers of the pod are ready (L-COND-8).
        ContainersReady = "ContainersReady",
        /// The pod is bound to a node (L-COND-4).
        PodScheduled = "PodScheduled",
        /// All containers of the pod are being restarted in place (L-COND-18).
        AllContainersRestarting = "AllContainersRestarting",
        /// A resize is pending.
        PodResizePending = "PodResizePending",
        /// A resize is in progress.
        PodResizeInProgress = "PodResizeInProgress",
    }
}

impl OwnedType {
    pub(super) const ALL: [OwnedType; 8] = [
        OwnedType::PodReadyToStartContainers,
        OwnedType::Initialized,
        OwnedType::Ready,
        OwnedType::ContainersReady,
        OwnedType::PodScheduled,
        OwnedType::AllContainersRestarting,
        OwnedType::PodResizePending,
        OwnedType::PodResizeInProgress,
    ];
    /// Number of owned types; the index of a type is its ordinal.
    pub(super) const N: usize = OwnedType::ALL.len();

    /// The owned type of this name. No two names have the same length, so that this compares one text at most.
    pub(super) fn named(name: &str) -> Option<OwnedType> {
        OwnedType::ALL.into_iter().find(|owned| owned.word() == name)
    }

    /// The observed generation of a condition of this type for a pod of this generation; 0 for an in-place restart
    /// (L-COND-1).
    pub(super) fn observed(self, generation: i64) -> i64 {
        match self {
            OwnedType::AllContainersRestarting => 0,
            _ => generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owned_type_has_its_place() {
        let words: Vec<&str> = OwnedType::ALL.iter().map(|owned| owned.word()).collect();
        assert_eq!(words, OwnedType::WORDS);
        for (at, owned) in OwnedType::ALL.into_iter().enumerate() {
            assert_eq!(owned as usize, at);
            assert_eq!(OwnedType::named(owned.word()), Some(owned));
        }
        assert_eq!(OwnedType::named("DisruptionTarget"), None);
        let lengths: std::collections::BTreeSet<usize> = words.iter().map(|w| w.len()).collect();
        assert_eq!(lengths.len(), words.len(), "no two names are of one length");
    }
}
