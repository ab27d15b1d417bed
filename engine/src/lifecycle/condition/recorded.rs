//! The recorded conditions of a pod.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Pod, PodCondition};

use crate::lifecycle::condition::owned::OwnedType;
use crate::lifecycle::container_state::ByName;
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::ConditionStatus;
use crate::model::ModelError;

/// `status.conditions`, with unique types and known statuses.
///
/// Cost: no allocation for up to 64 conditions.
#[derive(Clone, Debug)]
pub(super) struct Recorded<'a> {
    by_type: ByName<'a, PodCondition>,
    owned: [Option<&'a PodCondition>; OwnedType::N],
}

impl<'a> Recorded<'a> {
    /// # Errors
    /// [`ModelError`] relative to the pod, for a duplicate type and for an unknown status (L-COND-19).
    pub(super) fn read(pod: &'a Pod) -> Result<Recorded<'a>, ModelError> {
        let conditions = &reading::status(pod).conditions;
        let by_type = ByName::new(conditions).map_err(|at| {
            let reason = format!("duplicate `{}`", conditions[at].r#type);
            ModelError::new(format!("status.conditions[{at}].type"), reason)
        })?;
        let mut owned = [None; OwnedType::N];
        for (at, condition) in conditions.iter().enumerate() {
            reading::in_list("status.conditions", at, status(condition))?;
            if let Some(r#type) = OwnedType::named(&condition.r#type) {
                owned[r#type as usize] = Some(condition);
            }
        }
        Ok(Recorded { by_type, owned })
    }

    /// The condition of an owned type.
    pub(super) fn owned(&self, r#type: OwnedType) -> Option<&'a PodCondition> {
        self.owned[r#type as usize]
    }

    /// The condition of any type.
    pub(super) fn find(&self, r#type: &str) -> Option<&'a PodCondition> {
        self.by_type.position(r#type).map(|at| &self.by_type.items()[at])
    }

    /// Whether the condition of an owned type is True.
    pub(super) fn is_true(&self, r#type: OwnedType) -> bool {
        self.owned(r#type).is_some_and(is_true)
    }

    /// The conditions of other types, in order (L-COND-15).
    pub(super) fn foreign(&self) -> impl Iterator<Item = &'a PodCondition> {
        let conditions = self.by_type.items().iter();
        conditions.filter(|condition| OwnedType::named(&condition.r#type).is_none())
    }

    /// A copy of all conditions, by type.
    pub(super) fn to_wire(&self) -> BTreeMap<String, PodCondition> {
        let conditions = self.by_type.items().iter();
        conditions.map(|condition| (condition.r#type.clone(), condition.clone())).collect()
    }
}

/// The recorded condition of a type, with its status.
///
/// # Errors
/// Errors of [`Recorded::read`].
pub(crate) fn recorded<'a>(
    pod: &'a Pod,
    r#type: &str,
) -> Result<Option<(&'a PodCondition, ConditionStatus)>, ModelError> {
    let found = Recorded::read(pod)?.find(r#type);
    found.map(|condition| Ok((condition, status(condition)?))).transpose()
}

/// Whether a condition holds; Unknown is not True (L-COND-10).
pub(super) fn is_true(condition: &PodCondition) -> bool {
    condition.status == ConditionStatus::True.word()
}

/// The status of a condition (L-COND-19).
pub(super) fn status(condition: &PodCondition) -> Result<ConditionStatus, ModelError> {
    ConditionStatus::parse(&condition.status, "status")
}
