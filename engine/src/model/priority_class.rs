//! PriorityClass: the priority and the preemption policy that pods get by its name. Rules: L-PRIO-1, L-PRIO-7.

use std::sync::Arc;

use berth_proto::{meta_v1, scheduling_v1};

use super::key::ObjectKey;
use super::label::clip;
use super::object::Compile;
use super::{Model, ModelError};

/// Facts of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PriorityClass {
    pub(crate) name: Arc<str>,
    pub(crate) value: i32,
    /// `globalDefault`: whether pods without a class get this one.
    pub(crate) is_default: bool,
    /// Whether pods of the class may preempt others: `preemptionPolicy` is absent or not `Never`.
    pub(crate) may_preempt: bool,
}

impl Compile for scheduling_v1::PriorityClass {
    type Facts = PriorityClass;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        _: &Model,
    ) -> Result<PriorityClass, ModelError> {
        let may_preempt = match self.preemption_policy.as_deref() {
            None | Some("" | "PreemptLowerPriority") => true,
            Some("Never") => false,
            Some(other) => {
                let reason = format!("`{}` is not a preemption policy", clip(other));
                return Err(ModelError::new("preemptionPolicy", reason));
            }
        };
        let (value, is_default) = (self.value, self.global_default);
        Ok(PriorityClass { name: key.name.clone(), value, is_default, may_preempt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    /// L-PRIO-7
    #[test]
    fn policies() {
        let may_preempt = |policy: &str| {
            let json = format!(r#"{{"value": 5, "preemptionPolicy": "{policy}"}}"#);
            let class: scheduling_v1::PriorityClass = serde_json::from_str(&json).unwrap();
            let key = ObjectKey::new(ObjectKind::PriorityClass, "", "c");
            let facts = class.compile(&meta_v1::ObjectMeta::default(), &key, &Model::new());
            facts.map(|facts| facts.may_preempt).map_err(|error| error.to_string())
        };
        assert_eq!(may_preempt(""), Ok(true));
        assert_eq!(may_preempt("Never"), Ok(false));
        let error = "`preemptionPolicy`: `never` is not a preemption policy";
        assert_eq!(may_preempt("never"), Err(error.to_owned()));
    }
}
