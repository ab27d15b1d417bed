//! StorageClass: when its claims are bound, by whom volumes are provisioned, and where (S-VLB-2, S-VLB-7).

use berth_proto::{core_v1, meta_v1, storage_v1};

use super::in_tree;
use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKey;
use crate::model::label::{clip, is_label_value, is_qualified_name};
use crate::model::object::Compile;
use crate::model::selector::{NodeSelector, Requirement, Rule, Term};
use crate::model::{Model, ModelError};

/// Facts of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StorageClass {
    pub(crate) name: Symbol,
    /// When claims are bound; `None` where it is absent, which is an error for pods that use the class.
    pub(crate) binding_mode: Option<BindingMode>,
    /// The provisioner; `None` where the class has none.
    pub(crate) provisioner: Option<Symbol>,
    /// The driver that counts volumes of claims that are not bound yet (S-VLL-3).
    pub(crate) counted_by: Option<Symbol>,
    /// Where volumes can be provisioned; `None` means anywhere.
    pub(crate) allowed_topologies: Option<NodeSelector>,
    /// When the class was created, in seconds since 1970, if it is a default class (A-SC-1).
    pub(crate) default_since: Option<i64>,
}

/// When claims are bound.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum BindingMode {
    Immediate,
    WaitForFirstConsumer,
}

/// Annotations of a default class, today's and the older one.
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

impl Compile for storage_v1::StorageClass {
    type Facts = StorageClass;

    fn compile(
        &self,
        metadata: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        model: &Model,
    ) -> Result<StorageClass, ModelError> {
        let names = model.names();
        let is_default = DEFAULT_CLASS.iter().any(|annotation| {
            metadata.annotations.get(*annotation).is_some_and(|value| value == "true")
        });
        let created = metadata.creation_timestamp.and_then(|time| time.unix_seconds());
        let default_since = is_default.then(|| created.unwrap_or(i64::MIN));
        Ok(StorageClass { default_since, ..StorageClass::compile(self, key, names)? })
    }
}

impl StorageClass {
    pub(crate) fn compile(
        class: &storage_v1::StorageClass,
        key: &ObjectKey,
        names: &Interner,
    ) -> Result<StorageClass, ModelError> {
        let binding_mode = match class.volume_binding_mode.as_deref() {
            None => None,
            Some("Immediate") => Some(BindingMode::Immediate),
            Some("WaitForFirstConsumer") => Some(BindingMode::WaitForFirstConsumer),
            Some(other) => {
                let reason = format!("`{}` is not a volume binding mode", clip(other));
                return Err(ModelError::new("volumeBindingMode", reason));
            }
        };
        let provisioner = class.provisioner.as_str();
        Ok(StorageClass {
            name: names.intern(&key.name),
            binding_mode,
            provisioner: (!matches!(provisioner, "" | "kubernetes.io/no-provisioner"))
                .then(|| names.intern(provisioner)),
            counted_by: in_tree::driver_of(provisioner, names),
            allowed_topologies: compile_topologies(&class.allowed_topologies, names),
            default_since: None,
        })
    }
}

/// Compiles topologies. A term that is empty or does not parse matches nothing (S-VLB-7).
fn compile_topologies(
    terms: &[core_v1::TopologySelectorTerm],
    names: &Interner,
) -> Option<NodeSelector> {
    if terms.is_empty() {
        return None;
    }
    let is_valid = |r: &core_v1::TopologySelectorLabelRequirement| {
        is_qualified_name(&r.key)
            && !r.values.is_empty()
            && r.values.iter().all(|value| is_label_value(value))
    };
    let compile = |r: &core_v1::TopologySelectorLabelRequirement| Requirement {
        key: names.intern(&r.key),
        rule: Rule::In(r.values.iter().map(|value| names.intern(value)).collect()),
    };
    let terms = terms.iter().map(|term| &term.match_label_expressions);
    let terms = terms.filter(|list| !list.is_empty() && list.iter().all(is_valid));
    let compiled =
        terms.map(|list| Term { labels: list.iter().map(compile).collect(), ..Term::default() });
    Some(NodeSelector { terms: compiled.collect(), names: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    fn compile(json: &str, names: &Interner) -> Result<StorageClass, ModelError> {
        let class = serde_json::from_str(json).unwrap();
        StorageClass::compile(&class, &ObjectKey::new(ObjectKind::StorageClass, "", "c"), names)
    }

    /// S-VLB-2, S-VLB-7
    #[test]
    fn modes_and_provisioners() {
        let names = Interner::new();
        let class = compile(r#"{"provisioner": "kubernetes.io/no-provisioner"}"#, &names).unwrap();
        assert_eq!((class.binding_mode, class.provisioner), (None, None));
        let json = r#"{"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}"#;
        let class = compile(json, &names).unwrap();
        assert_eq!(class.binding_mode, Some(BindingMode::WaitForFirstConsumer));
        assert_eq!(class.provisioner, Some(names.intern("d")));
        let error = compile(r#"{"provisioner": "d", "volumeBindingMode": "Later"}"#, &names);
        let expected = "`volumeBindingMode`: `Later` is not a volume binding mode";
        assert_eq!(error.unwrap_err().to_string(), expected);
    }

    /// S-VLB-7
    #[test]
    fn empty_and_illegal_topology_terms_match_nothing() {
        let names = Interner::new();
        let n_terms = |json: &str| {
            let json = format!(r#"{{"provisioner": "d", "allowedTopologies": {json}}}"#);
            let topologies = compile(&json, &names).unwrap().allowed_topologies;
            topologies.map(|selector| selector.terms.len())
        };
        assert_eq!(n_terms("[]"), None);
        assert_eq!(n_terms("[{}]"), Some(0));
        let term = |key: &str, values: &str| {
            format!(r#"[{{"matchLabelExpressions": [{{"key": "{key}", "values": {values}}}]}}]"#)
        };
        assert_eq!(n_terms(&term("zone", r#"["a"]"#)), Some(1));
        assert_eq!(n_terms(&term("zone", "[]")), Some(0));
        assert_eq!(n_terms(&term("/", r#"["a"]"#)), Some(0));
        assert_eq!(n_terms(&term("zone", r#"["-"]"#)), Some(0));
    }
}
