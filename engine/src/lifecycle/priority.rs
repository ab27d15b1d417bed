//! Priorities: admission of pods and of priority classes (group `priority`). A class is cluster-wide; its description
//! is for people and has no effect (L-PRIO-14).

mod change;
mod class;
mod pod;

pub(crate) use class::{Class, SYSTEM_CLASSES, default_of};
pub(crate) use pod::{Terms, created};

pub use change::{NewPodFate, PriorityClassEventType, priority_class_change};
pub use class::{ClassRefusal, admit_priority_class};
pub use pod::{PodRefusal, admit_pod};

use super::word::words;

words! {
    /// Policy of a pod about preempting others (L-PRIO-7).
    enum PreemptionPolicy {
        /// The pod may evict pods of lower priority.
        PreemptLowerPriority = "PreemptLowerPriority",
        /// The pod evicts no other; it still queues by its priority, and may be evicted itself.
        Never = "Never",
    }
}
