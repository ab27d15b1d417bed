//! `AdmitPriorityClass`: whether a priority class may be stored.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    AdmitPriorityClassRequest, AdmitPriorityClassResponse, StoredPriorityClass,
};
use berth_proto::scheduling_v1::PriorityClass;

use super::PreemptionPolicy;
use crate::lifecycle::reading::{self, in_list};
use crate::lifecycle::vocabulary::AdmissionOperation;
use crate::lifecycle::word::words;
use crate::model::ModelError;
use crate::model::label::clip;

words! {
    /// Reason why a class is refused.
    enum ClassRefusal {
        /// The name is reserved for the system (L-PRIO-8).
        ReservedPrefix = "ReservedPrefix",
        /// The value is reserved for the system (L-PRIO-6).
        ValueAboveUserMaximum = "ValueAboveUserMaximum",
        /// The update changes the value (L-PRIO-10).
        ValueImmutable = "ValueImmutable",
        /// The update changes the preemption policy (L-PRIO-10).
        PreemptionPolicyImmutable = "PreemptionPolicyImmutable",
        /// Another class is the default (L-PRIO-9).
        DefaultAlreadyExists = "DefaultAlreadyExists",
    }
}

/// The highest value of a user's class (L-PRIO-6).
const HIGHEST_USER_VALUE: i32 = 1_000_000_000;

/// Prefix of names that are reserved for the system (L-PRIO-8).
const SYSTEM_PREFIX: &str = "system-";

/// The system's classes and their values (L-PRIO-8).
pub(crate) const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The fields of a class that decide.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Class<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: i32,
    pub(crate) is_default: bool,
    pub(crate) policy: PreemptionPolicy,
}

impl<'a> Class<'a> {
    /// Reads a class; an absent policy is `PreemptLowerPriority` (L-PRIO-7).
    ///
    /// # Errors
    /// [`ModelError`] relative to the class for a missing name and an unknown policy.
    pub(super) fn read(class: &'a PriorityClass) -> Result<Class<'a>, ModelError> {
        let name = class.metadata.as_ref().map_or("", |meta| meta.name.as_str());
        let policy = class.preemption_policy.as_deref().unwrap_or_default();
        let default = PreemptionPolicy::PreemptLowerPriority;
        Ok(Class {
            name: reading::given_text(name, "metadata.name")?,
            value: class.value,
            is_default: class.global_default,
            policy: PreemptionPolicy::parse_or(policy, default, "preemptionPolicy")?,
        })
    }

    /// Reads a stored class.
    ///
    /// # Errors
    /// [`ModelError`] as [`Class::read`], and for a class that cannot be stored.
    pub(super) fn stored(class: &'a PriorityClass) -> Result<Class<'a>, ModelError> {
        let class = Class::read(class)?;
        match class.refusal() {
            None => Ok(class),
            Some(refusal) => {
                let reason = format!("`{}` cannot be stored: {}", clip(class.name), refusal.word());
                Err(ModelError::new("", reason))
            }
        }
    }

    /// The reason why the class cannot be stored, if there is one (L-PRIO-6, L-PRIO-8).
    pub(super) fn refusal(&self) -> Option<ClassRefusal> {
        if self.name.starts_with(SYSTEM_PREFIX) {
            let is_known = SYSTEM_CLASSES.contains(&(self.name, self.value)) && !self.is_default;
            (!is_known).then_some(ClassRefusal::ReservedPrefix)
        } else {
            (self.value > HIGHEST_USER_VALUE).then_some(ClassRefusal::ValueAboveUserMaximum)
        }
    }
}

/// Reads classes, by name.
///
/// # Errors
/// [`ModelError`] at `field[i]` as [`Class::read`], and for a duplicate name.
pub(super) fn by_name<'a>(
    classes: &'a [PriorityClass],
    field: &str,
) -> Result<BTreeMap<&'a str, Class<'a>>, ModelError> {
    let mut by_name = BTreeMap::new();
    for (index, class) in classes.iter().enumerate() {
        let class = in_list(field, index, Class::stored(class))?;
        if by_name.insert(class.name, class).is_some() {
            let reason = format!("duplicate `{}`", clip(class.name));
            return Err(ModelError::new(format!("{field}[{index}].metadata.name"), reason));
        }
    }
    Ok(by_name)
}

/// The default class; if a race left several, the one with the lowest value, then by name (L-PRIO-4).
pub(crate) fn default_of<'a>(classes: impl Iterator<Item = Class<'a>>) -> Option<Class<'a>> {
    let defaults = classes.filter(|class| class.is_default);
    defaults.min_by_key(|class| (class.value, class.name))
}

/// `AdmitPriorityClass`: whether a class may be stored, and in which form (L-PRIO-6 to L-PRIO-10). For an update, a
/// change of an immutable field is reported before a forbidden value.
///
/// # Errors
/// [`ModelError`] for an unknown operation or policy, a missing class, name or `old`, an `old` of another name, and a
/// duplicate existing class.
pub fn admit_priority_class(
    request: &AdmitPriorityClassRequest,
) -> Result<AdmitPriorityClassResponse, ModelError> {
    let operation = AdmissionOperation::parse(&request.operation, "operation")?;
    let wire = reading::given(request.priority_class.as_ref(), "priorityClass")?;
    let class = Class::read(wire).map_err(|error| error.under("priorityClass"))?;
    let existing = by_name(&request.existing, "existing")?;
    let change = match operation {
        AdmissionOperation::Create => None,
        AdmissionOperation::Update => {
            let old = reading::given(request.old.as_ref(), "old")?;
            let old = Class::read(old).map_err(|error| error.under("old"))?;
            if old.name != class.name {
                let reason = format!("`{}` is another class", clip(old.name));
                return Err(ModelError::new("old.metadata.name", reason));
            }
            changed(&class, &old)
        }
    };
    let second = || {
        let other = default_of(existing.values().copied())
            .filter(|other| operation == AdmissionOperation::Create || other.name != class.name);
        other.filter(|_| class.is_default).map(|_| ClassRefusal::DefaultAlreadyExists)
    };
    Ok(match change.or_else(|| class.refusal()).or_else(second) {
        Some(refusal) => AdmitPriorityClassResponse {
            allowed: false,
            reason: refusal.word().to_owned(),
            stored: None,
        },
        None => AdmitPriorityClassResponse {
            allowed: true,
            reason: String::new(),
            stored: Some(StoredPriorityClass {
                metadata: wire.metadata.clone(),
                value: class.value,
                global_default: class.is_default,
                description: wire.description.clone(),
                preemption_policy: class.policy.word().to_owned(),
            }),
        },
    })
}

/// The first immutable field of a class that an update changes (L-PRIO-10).
fn changed(class: &Class<'_>, old: &Class<'_>) -> Option<ClassRefusal> {
    if class.value != old.value {
        Some(ClassRefusal::ValueImmutable)
    } else if class.policy != old.policy {
        Some(ClassRefusal::PreemptionPolicyImmutable)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admit(request: Value) -> Result<AdmitPriorityClassResponse, ModelError> {
        admit_priority_class(&serde_json::from_value(request).unwrap())
    }

    fn class(name: &str, value: i32, is_default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default})
    }

    fn check(request: Value, reason: &str) {
        let answer = admit(request).unwrap();
        assert_eq!((answer.allowed, &*answer.reason), (reason.is_empty(), reason));
        assert_eq!(answer.stored.is_some(), answer.allowed);
    }

    /// L-PRIO-6, L-PRIO-8: every rule about names and values.
    #[test]
    fn names_and_values() {
        let create = |class: Value| json!({"operation": "Create", "priorityClass": class});
        for (name, value, is_default, reason) in [
            ("a", i32::MIN, true, ""),
            ("a", 1_000_000_000, false, ""),
            ("a", 1_000_000_001, false, "ValueAboveUserMaximum"),
            ("systems", 7, false, ""),
            ("system-", 7, false, "ReservedPrefix"),
            ("system-node-critical", 2_000_001_000, false, ""),
            ("system-node-critical", 2_000_001_000, true, "ReservedPrefix"),
            ("system-node-critical", 2_000_000_000, false, "ReservedPrefix"),
        ] {
            check(create(class(name, value, is_default)), reason);
        }
    }

    /// L-PRIO-9: an update that makes a second default, and two defaults left by a race.
    #[test]
    fn one_default() {
        let update = |new: Value, old: Value, existing: Value| {
            json!({
                "operation": "Update", "priorityClass": new, "old": old, "existing": existing,
            })
        };
        let (a, b) = (class("a", 1, true), class("b", 2, true));
        let plain = class("b", 2, false);
        check(update(b.clone(), plain.clone(), json!([a, plain])), "DefaultAlreadyExists");
        check(update(plain.clone(), b.clone(), json!([a, b])), "");
        check(update(a.clone(), a.clone(), json!([a, b])), "");
        check(update(b.clone(), b.clone(), json!([a, b])), "DefaultAlreadyExists");
        let again = json!({"operation": "Create", "priorityClass": a, "existing": [a]});
        check(again, "DefaultAlreadyExists");
    }

    /// L-PRIO-7, L-PRIO-10: an absent policy is the default one, in the old class too; a changed field is reported
    /// first.
    #[test]
    fn immutable_fields() {
        let update = |new: Value, old: Value| json!({"operation": "Update", "priorityClass": new, "old": old});
        let with = |mut class: Value, policy: &str| {
            class["preemptionPolicy"] = json!(policy);
            class
        };
        let a = class("a", 1, false);
        check(update(a.clone(), with(a.clone(), "PreemptLowerPriority")), "");
        check(update(a.clone(), with(a.clone(), "Never")), "PreemptionPolicyImmutable");
        check(update(with(class("a", 2, false), "Never"), a.clone()), "ValueImmutable");
        check(update(class("a", 1_000_000_001, false), a), "ValueImmutable");
        let critical = |is_default| class("system-cluster-critical", 2_000_000_000, is_default);
        check(update(critical(true), critical(false)), "ReservedPrefix");
    }

    /// L-PRIO-14: a description is stored as it is.
    #[test]
    fn the_stored_class() {
        let mut given = class("a", 5, false);
        given["description"] = json!("for batch");
        let answer = admit(json!({"operation": "Create", "priorityClass": given})).unwrap();
        let stored = answer.stored.unwrap();
        assert_eq!((stored.value, &*stored.description), (5, "for batch"));
        assert_eq!(stored.preemption_policy, "PreemptLowerPriority");
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |request| admit(request).unwrap_err().to_string();
        let a = class("a", 1, false);
        assert_eq!(
            refused(json!({"operation": "Delete", "priorityClass": a})),
            "`operation`: unknown value `Delete`: not one of `Create`, `Update`"
        );
        assert_eq!(refused(json!({"operation": "Create"})), "`priorityClass`: required");
        assert_eq!(
            refused(json!({"operation": "Create", "priorityClass": {"value": 1}})),
            "`priorityClass.metadata.name`: required"
        );
        assert_eq!(refused(json!({"operation": "Update", "priorityClass": a})), "`old`: required");
        let other = class("b", 1, false);
        assert_eq!(
            refused(json!({"operation": "Update", "priorityClass": a, "old": other})),
            "`old.metadata.name`: `b` is another class"
        );
        assert_eq!(
            refused(json!({"operation": "Create", "priorityClass": a, "existing": [other, other]})),
            "`existing[1].metadata.name`: duplicate `b`"
        );
        let mut odd = a;
        odd["preemptionPolicy"] = json!("Sometimes");
        assert!(
            refused(json!({"operation": "Create", "priorityClass": odd}))
                .starts_with("`priorityClass.preemptionPolicy`: unknown value `Sometimes`")
        );
    }
}
