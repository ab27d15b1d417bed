//! The conditions of a pod, derived and carried over.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Pod, PodCondition};

use super::recorded::Recorded;
use super::text::{self, Text};
use super::{POD_COMPLETED, POD_FAILED};
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::{ConditionStatus, PodPhase};
use crate::lifecycle::word::words;

words! {
    /// Types of conditions that are derived (L-COND-15), in the order of listings.
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
    const ALL: [OwnedType; 8] = [
        OwnedType::PodReadyToStartContainers,
        OwnedType::Initialized,
        OwnedType::Ready,
        OwnedType::ContainersReady,
        OwnedType::PodScheduled,
        OwnedType::AllContainersRestarting,
        OwnedType::PodResizePending,
        OwnedType::PodResizeInProgress,
    ];
    /// Number of owned types; the position of each is its ordinal.
    pub(super) const N: usize = OwnedType::ALL.len();

    /// The owned type of this name. All names differ in length, so at most one text is compared.
    pub(super) fn named(name: &str) -> Option<OwnedType> {
        OwnedType::ALL.into_iter().find(|owned| owned.word() == name)
    }

    /// The observed generation of a condition of this type; 0 for an in-place restart (L-COND-1).
    fn observed(self, generation: i64) -> i64 {
        match self {
            OwnedType::AllContainersRestarting => 0,
            _ => generation,
        }
    }
}

/// Derived status, reason and message of a condition, before it has a time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: ConditionStatus,
    pub(super) reason: &'static str,
    pub(super) text: Text,
}

impl Finding {
    /// A finding without a reason, True or False.
    pub(super) const fn plain(holds: bool) -> Finding {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        Finding { status, reason: "", text: Text::None }
    }

    /// A finding that is False, with its reason.
    pub(super) const fn not(reason: &'static str, text: Text) -> Finding {
        Finding { status: ConditionStatus::False, reason, text }
    }

    /// A finding that is False because the pod is terminal; `None` for a pod that is not.
    pub(super) const fn over(phase: PodPhase) -> Option<Finding> {
        match phase {
            PodPhase::Succeeded => Some(Finding::not(POD_COMPLETED, Text::None)),
            PodPhase::Failed => Some(Finding::not(POD_FAILED, Text::None)),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => None,
        }
    }
}

/// Decision about the condition of an owned type.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Slot {
    /// The recorded condition stays, if there is one.
    Keep,
    /// The condition is removed.
    Drop,
    /// The condition is this finding, since this time.
    Set(Finding, Option<Seconds>),
    /// The recorded condition, if there is one, gets this status as of now.
    SetStatus(ConditionStatus),
}

/// The conditions of a pod: at most one of each type. Derived ones come first, in a fixed order; the others follow as
/// recorded.
#[derive(Clone, Debug)]
pub struct ConditionSet<'a> {
    pod: &'a Pod,
    recorded: Recorded<'a>,
    now: Seconds,
    slots: [Slot; OwnedType::N],
}

/// One condition of a [`ConditionSet`].
#[derive(Copy, Clone, Debug)]
pub struct ConditionView<'a> {
    /// Type of the condition.
    pub r#type: &'a str,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason; empty if there is none.
    pub reason: &'a str,
    /// Time of the last change, in seconds since the epoch; `None` if it was not recorded (L-COND-2).
    pub last_transition_time: Option<Seconds>,
    /// Generation of the pod that the condition was derived from; 0 if it has none (L-COND-1).
    pub observed_generation: i64,
    pod: &'a Pod,
    origin: Origin<'a>,
}

/// Source of the remaining fields of a condition.
#[derive(Copy, Clone, Debug)]
enum Origin<'a> {
    Derived(Text),
    Recorded(&'a PodCondition),
}

impl<'a> ConditionSet<'a> {
    /// A set with all conditions as recorded.
    pub(super) fn new(pod: &'a Pod, recorded: Recorded<'a>, now: Seconds) -> ConditionSet<'a> {
        ConditionSet { pod, recorded, now, slots: [Slot::Keep; OwnedType::N] }
    }

    /// Sets a condition. Its time is `now` if the type is new or its status changes, else the recorded one (L-COND-2).
    pub(super) fn put(&mut self, r#type: OwnedType, finding: Finding) {
        let recorded = self.recorded.owned(r#type);
        let since = since(recorded, finding.status, Some(self.now));
        self.slots[r#type as usize] = Slot::Set(finding, since);
    }

    /// Changes the status of a recorded condition, and no other field but its time.
    pub(super) fn set_status(&mut self, r#type: OwnedType, status: ConditionStatus) {
        self.slots[r#type as usize] = Slot::SetStatus(status);
    }

    /// Removes a condition.
    pub(super) fn drop(&mut self, r#type: OwnedType) {
        self.slots[r#type as usize] = Slot::Drop;
    }

    /// The condition of a type, if the pod has one.
    #[must_use]
    pub fn get(&self, r#type: &str) -> Option<ConditionView<'a>> {
        match OwnedType::named(r#type) {
            Some(owned) => self.owned(owned),
            None => self.recorded.find(r#type).map(|condition| self.view(condition)),
        }
    }

    /// All conditions.
    pub fn iter(&self) -> impl Iterator<Item = ConditionView<'a>> {
        let owned = OwnedType::ALL.into_iter().filter_map(|owned| self.owned(owned));
        owned.chain(self.recorded.foreign().map(|condition| self.view(condition)))
    }

    /// All conditions by type, with their messages.
    #[must_use]
    pub fn to_wire(&self) -> BTreeMap<String, PodCondition> {
        self.iter().map(|view| (view.r#type.to_owned(), view.to_wire())).collect()
    }

    fn owned(&self, r#type: OwnedType) -> Option<ConditionView<'a>> {
        match self.slots[r#type as usize] {
            Slot::Drop => None,
            Slot::Keep => self.recorded.owned(r#type).map(|condition| self.view(condition)),
            Slot::SetStatus(status) => self.recorded.owned(r#type).map(|condition| {
                let view = self.view(condition);
                if view.status == status {
                    return view;
                }
                let observed_generation = r#type.observed(reading::meta(self.pod).generation);
                let last_transition_time = Some(self.now);
                ConditionView { status, last_transition_time, observed_generation, ..view }
            }),
            Slot::Set(finding, last_transition_time) => Some(ConditionView {
                r#type: r#type.word(),
                status: finding.status,
                reason: finding.reason,
                last_transition_time,
                observed_generation: r#type.observed(reading::meta(self.pod).generation),
                pod: self.pod,
                origin: Origin::Derived(finding.text),
            }),
        }
    }

    fn view(&self, condition: &'a PodCondition) -> ConditionView<'a> {
        ConditionView {
            r#type: &condition.r#type,
            status: super::recorded::status(condition).unwrap_or(ConditionStatus::Unknown),
            reason: &condition.reason,
            last_transition_time: reading::optional(condition.last_transition_time.as_ref()),
            observed_generation: condition.observed_generation,
            pod: self.pod,
            origin: Origin::Recorded(condition),
        }
    }
}

impl ConditionView<'_> {
    /// The condition with its message; a carried-over one is as recorded in every field (L-COND-15).
    #[must_use]
    pub fn to_wire(&self) -> PodCondition {
        match self.origin {
            Origin::Recorded(condition) if condition.status == self.status.word() => {
                condition.clone()
            }
            Origin::Recorded(condition) => PodCondition {
                status: self.status.word().to_owned(),
                last_transition_time: self.last_transition_time.map(reading::time),
                observed_generation: self.observed_generation,
                ..condition.clone()
            },
            Origin::Derived(text) => PodCondition {
                r#type: self.r#type.to_owned(),
                status: self.status.word().to_owned(),
                last_probe_time: None,
                last_transition_time: self.last_transition_time.map(reading::time),
                reason: self.reason.to_owned(),
                message: text::write(text, self.pod),
                observed_generation: self.observed_generation,
            },
        }
    }
}

/// Time since which a condition has this status, given the recorded condition (L-COND-2).
pub(super) fn since(
    recorded: Option<&PodCondition>,
    status: ConditionStatus,
    now: Option<Seconds>,
) -> Option<Seconds> {
    match recorded {
        Some(recorded) if recorded.status == status.word() => {
            reading::optional(recorded.last_transition_time.as_ref())
        }
        _ => now,
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
