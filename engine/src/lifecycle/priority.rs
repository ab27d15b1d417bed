//! Priorities: what admission makes of pods and of the classes that name their priorities (group `priority`). A class is
//! cluster-wide; its description is for people and decides nothing (L-PRIO-14).

mod change;
mod class;
mod pod;

pub use change::{NewPodFate, PriorityClassEventType, priority_class_change};
pub use class::{ClassRefusal, admit_priority_class};
pub use pod::{PodRefusal, admit_pod};

use super::word::words;

words! {
    /// Whether a pod may make room for itself (L-PRIO-7).
    enum PreemptionPolicy {
        /// By evicting pods of lower priority.
        PreemptLowerPriority = "PreemptLowerPriority",
        /// Not at all; it still queues by its priority, and may be evicted itself.
        Never = "Never",
    }
}
