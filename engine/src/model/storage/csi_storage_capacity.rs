//! CSIStorageCapacity: how much storage a class can still provision on which nodes (S-VLB-7).

use std::sync::Arc;

use berth_proto::{Quantity, meta_v1, storage_v1};

use super::anchor::anchors;
use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKey;
use crate::model::label_selector::LabelSelector;
use crate::model::object::Compile;
use crate::model::selector::Term;
use crate::model::{Model, ModelError};

/// One capacity report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CsiStorageCapacity {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) class: Symbol,
    /// Selector of the report's nodes; `None`, where it is absent, matches no node.
    pub(crate) topology: Option<Term>,
    /// The largest volume that can be provisioned, in bytes; `None` where the report has no amount.
    pub(crate) largest: Option<i64>,
    /// All that can be provisioned, in bytes, if the report says so.
    pub(crate) capacity: Option<i64>,
}

impl Compile for storage_v1::CsiStorageCapacity {
    type Facts = CsiStorageCapacity;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<CsiStorageCapacity, ModelError> {
        let names = model.names();
        CsiStorageCapacity::compile(self, key, names)
    }
}

impl CsiStorageCapacity {
    pub(crate) fn compile(
        capacity: &storage_v1::CsiStorageCapacity,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<CsiStorageCapacity, ModelError> {
        let selector = capacity.node_topology.as_ref();
        let selector = selector
            .map(|selector| LabelSelector::compile(selector, names))
            .transpose()
            .map_err(|error| error.under("nodeTopology"))?;
        let topology = selector.map(|selector| Term {
            labels: selector.requirements.into_iter().collect(),
            ..Term::default()
        });
        let available = bytes(capacity.capacity.as_ref(), "capacity")?;
        Ok(CsiStorageCapacity {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            class: names.intern(&capacity.storage_class_name),
            topology,
            largest: bytes(capacity.maximum_volume_size.as_ref(), "maximumVolumeSize")?
                .or(available),
            capacity: available,
        })
    }

    /// Namespace and name.
    pub(crate) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// A set of labels of which every node of the report has at least one; `None` where it may apply to any node.
    pub(crate) fn anchors(&self) -> Option<Vec<(Symbol, Symbol)>> {
        anchors(self.topology.as_slice())
    }
}

fn bytes(quantity: Option<&Quantity>, field: &str) -> Result<Option<i64>, ModelError> {
    let amount = quantity.map(Quantity::parse).transpose();
    let amount = amount.map_err(|error| ModelError::new(field, error.to_string()))?;
    Ok(amount.map(berth_proto::Amount::value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    /// S-VLB-7
    #[test]
    fn the_largest_volume_counts_before_the_capacity() {
        let names = Interner::new();
        let compile = |json: &str| {
            let capacity = serde_json::from_str(json).unwrap();
            let key = ObjectKey::new(ObjectKind::CsiStorageCapacity, "kube-system", "c");
            CsiStorageCapacity::compile(&capacity, &key, &names)
        };
        assert_eq!(compile("{}").unwrap().largest, None);
        assert_eq!(compile(r#"{"capacity": "1Ki"}"#).unwrap().largest, Some(1024));
        let both = compile(r#"{"capacity": "1Ki", "maximumVolumeSize": "1500m"}"#).unwrap();
        assert_eq!(both.largest, Some(2));
        assert_eq!(both.anchors(), Some(Vec::new()), "no topology, no node");
        assert_eq!(compile(r#"{"nodeTopology": {}}"#).unwrap().anchors(), None, "any node");
        for (json, field) in [
            (r#"{"capacity": "much"}"#, "capacity"),
            (r#"{"maximumVolumeSize": "1Q"}"#, "maximumVolumeSize"),
            (r#"{"nodeTopology": {"matchLabels": {"-": "x"}}}"#, "nodeTopology.matchLabels[-]"),
        ] {
            assert_eq!(compile(json).unwrap_err().field, field);
        }
    }
}
