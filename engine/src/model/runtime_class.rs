//! RuntimeClass: the overhead, the node selector and the tolerations that pods of the class get. Rule: A-RTC-1.

use std::collections::BTreeMap;

use berth_proto::{Quantity, core_v1, meta_v1, node_v1};

use super::key::ObjectKey;
use super::label;
use super::object::Compile;
use super::requests::rounded_list;
use super::taint::Tolerations;
use super::{Model, ModelError};

/// Facts of a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuntimeClass {
    /// `overhead.podFixed`; `None` where the class has no overhead.
    pub(crate) overhead: Option<BTreeMap<String, Quantity>>,
    /// `scheduling.nodeSelector`.
    pub(crate) node_selector: BTreeMap<String, String>,
    /// `scheduling.tolerations`.
    pub(crate) tolerations: Vec<core_v1::Toleration>,
}

impl Compile for node_v1::RuntimeClass {
    type Facts = RuntimeClass;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        _: &ObjectKey,
        model: &Model,
    ) -> Result<RuntimeClass, ModelError> {
        let names = model.names();
        let overhead = self.overhead.as_ref();
        let overhead = overhead
            .map(|overhead| rounded_list(&overhead.pod_fixed, "overhead.podFixed"))
            .transpose()?;
        let scheduling = self.scheduling.clone().unwrap_or_default();
        for (key, value) in &scheduling.node_selector {
            label::check(key, value).map_err(|error| {
                let field = error.field.replacen("metadata.labels", "scheduling.nodeSelector", 1);
                ModelError::new(field, error.reason)
            })?;
        }
        Tolerations::compile(&scheduling.tolerations, names).map_err(|error| {
            let field = error.field.replacen("spec.", "scheduling.", 1);
            ModelError::new(field, error.reason)
        })?;
        let node_v1::Scheduling { node_selector, tolerations } = scheduling;
        Ok(RuntimeClass { overhead, node_selector, tolerations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    /// A-RTC-1
    #[test]
    fn an_unreadable_class_is_refused_with_its_field() {
        let compile = |json: &str| {
            let class: node_v1::RuntimeClass = serde_json::from_str(json).unwrap();
            let key = ObjectKey::new(ObjectKind::RuntimeClass, "", "c");
            class.compile(&meta_v1::ObjectMeta::default(), &key, &Model::new())
        };
        let class = compile(r#"{"handler": "h", "scheduling": {"nodeSelector": {"a": "b"}}}"#);
        let class = class.unwrap();
        assert_eq!((class.overhead, class.node_selector["a"].as_str()), (None, "b"));
        let refused = |json: &str| compile(json).unwrap_err().field;
        assert_eq!(
            refused(r#"{"overhead": {"podFixed": {"cpu": "-1"}}}"#),
            "overhead.podFixed[cpu]"
        );
        assert_eq!(
            refused(r#"{"scheduling": {"tolerations": [{"operator": "Like"}]}}"#),
            "scheduling.tolerations[0].operator"
        );
    }
}
