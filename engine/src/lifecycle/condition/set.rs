//! The conditions of a pod, derived and carried over.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Pod, PodCondition};

use super::finding::Finding;
use super::owned::OwnedType;
use super::recorded::Recorded;
use super::stated::since;
use super::text::{self};
use crate::lifecycle::condition::finding::Text;
use crate::lifecycle::reading::{self, Seconds};
use crate::lifecycle::vocabulary::ConditionStatus;

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
