//! CSINode: the drivers of a node (S-137-21), and how many volumes each can attach to it (S-VLL-4).

use berth_proto::{meta_v1, storage_v1};

use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKey;
use crate::model::object::Compile;
use crate::model::{Model, ModelError};

/// The drivers and attach limits of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CsiNode {
    pub(crate) node: Symbol,
    /// The drivers, sorted, without duplicates.
    pub(crate) drivers: Box<[Symbol]>,
    /// Limits by driver, without duplicates; a driver without a limit is absent.
    pub(crate) limits: Box<[(Symbol, i32)]>,
}

impl Compile for storage_v1::CsiNode {
    type Facts = CsiNode;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<CsiNode, ModelError> {
        let names = model.names();
        CsiNode::compile(self, key, names)
    }
}

impl CsiNode {
    pub(crate) fn compile(
        node: &storage_v1::CsiNode,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<CsiNode, ModelError> {
        let listed = node.spec.as_ref().map_or(&[][..], |spec| &spec.drivers);
        let mut drivers: Vec<Symbol> = Vec::with_capacity(listed.len());
        let mut limits: Vec<(Symbol, i32)> = Vec::new();
        for (i, driver) in listed.iter().enumerate() {
            if driver.name.is_empty() {
                return Err(ModelError::new(format!("spec.drivers[{i}].name"), "is missing"));
            }
            let name = names.intern(&driver.name);
            drivers.push(name);
            let Some(limit) = driver.allocatable.as_ref().and_then(|room| room.count) else {
                continue;
            };
            if limit < 0 {
                let field = format!("spec.drivers[{i}].allocatable.count");
                return Err(ModelError::new(field, format!("{limit} is negative")));
            }
            match limits.iter_mut().find(|(known, _)| *known == name) {
                // If two entries have the same name, the later one applies.
                Some((_, known)) => *known = limit,
                None => limits.push((name, limit)),
            }
        }
        drivers.sort_unstable();
        drivers.dedup();
        Ok(CsiNode {
            node: names.intern(&key.name),
            drivers: drivers.into(),
            limits: limits.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    /// S-VLL-4
    #[test]
    fn limits_by_driver() {
        let names = Interner::new();
        let compile = |json: &str| {
            let node = serde_json::from_str(json).unwrap();
            CsiNode::compile(&node, &ObjectKey::new(ObjectKind::CsiNode, "", "n"), &names)
        };
        let node = compile(
            r#"{"spec": {"drivers": [
                {"name": "a", "allocatable": {"count": 2}}, {"name": "b"}, {"name": "c", "allocatable": {}},
                {"name": "a", "allocatable": {"count": 0}}]}}"#,
        );
        let node = node.unwrap();
        assert_eq!(*node.limits, [(names.intern("a"), 0)]);
        assert_eq!(*node.drivers, ["a", "b", "c"].map(|name| names.intern(name)));
        assert!(compile("{}").unwrap().limits.is_empty());
        let error =
            compile(r#"{"spec": {"drivers": [{"name": "a", "allocatable": {"count": -1}}]}}"#);
        let expected = "`spec.drivers[0].allocatable.count`: -1 is negative";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}
