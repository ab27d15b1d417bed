//! ResourceQuota: what the pods of a namespace may use together, and what they use. Rules: A-QUO-1, A-QUO-2.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Amount, Quantity, core_v1, meta_v1};

use super::key::ObjectKey;
use super::label::clip;
use super::object::Compile;
use super::requests::parse_amount;
use super::{Model, ModelError};

/// Facts of a quota.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceQuota {
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// `status.hard`, or `spec.hard` where there is no status yet.
    pub(crate) hard: BTreeMap<String, Amount>,
    /// `status.used`.
    pub(crate) used: BTreeMap<String, Amount>,
    /// Requirements that a pod must meet to count; all must hold.
    pub(crate) scopes: Box<[ScopeRequirement]>,
}

/// One of `spec.scopes`, or one of `spec.scopeSelector.matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeRequirement {
    pub(crate) scope: Scope,
    pub(crate) operator: ScopeOperator,
    pub(crate) values: Box<[String]>,
}

/// Scope of a quota.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Terminating,
    NotTerminating,
    BestEffort,
    NotBestEffort,
    PriorityClass,
    CrossNamespacePodAffinity,
    /// A scope of claims: no pod is in it.
    VolumeAttributesClass,
}

/// Operator of a scope's requirement.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScopeOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Compile for core_v1::ResourceQuota {
    type Facts = ResourceQuota;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        _: &Model,
    ) -> Result<ResourceQuota, ModelError> {
        let spec = self.spec.clone().unwrap_or_default();
        let limits = amounts(&spec.hard, "spec.hard")?;
        let (hard, used) = match &self.status {
            Some(status) if !status.hard.is_empty() => {
                (amounts(&status.hard, "status.hard")?, amounts(&status.used, "status.used")?)
            }
            Some(_) | None => (limits, BTreeMap::new()),
        };
        let mut scopes = Vec::new();
        for (index, scope) in spec.scopes.iter().enumerate() {
            let scope = Scope::parse(scope, &format!("spec.scopes[{index}]"))?;
            let operator = ScopeOperator::Exists;
            scopes.push(ScopeRequirement { scope, operator, values: Box::default() });
        }
        let selector = spec.scope_selector.unwrap_or_default();
        for (index, term) in selector.match_expressions.into_iter().enumerate() {
            let at = format!("spec.scopeSelector.matchExpressions[{index}]");
            let scope = Scope::parse(&term.scope_name, &format!("{at}.scopeName"))?;
            let operator = ScopeOperator::parse(&term.operator, &format!("{at}.operator"))?;
            scopes.push(ScopeRequirement { scope, operator, values: term.values.into() });
        }
        let name = format!("{}/{}", key.namespace, key.name).into();
        Ok(ResourceQuota { name, hard, used, scopes: scopes.into() })
    }
}

impl Scope {
    fn parse(word: &str, field: &str) -> Result<Scope, ModelError> {
        Ok(match word {
            "Terminating" => Scope::Terminating,
            "NotTerminating" => Scope::NotTerminating,
            "BestEffort" => Scope::BestEffort,
            "NotBestEffort" => Scope::NotBestEffort,
            "PriorityClass" => Scope::PriorityClass,
            "CrossNamespacePodAffinity" => Scope::CrossNamespacePodAffinity,
            "VolumeAttributesClass" => Scope::VolumeAttributesClass,
            other => {
                return Err(ModelError::new(field, format!("`{}` is not a scope", clip(other))));
            }
        })
    }
}

impl ScopeOperator {
    fn parse(word: &str, field: &str) -> Result<ScopeOperator, ModelError> {
        Ok(match word {
            "In" => ScopeOperator::In,
            "NotIn" => ScopeOperator::NotIn,
            "Exists" => ScopeOperator::Exists,
            "DoesNotExist" => ScopeOperator::DoesNotExist,
            other => {
                let reason = format!("`{}` is not a scope selector operator", clip(other));
                return Err(ModelError::new(field, reason));
            }
        })
    }
}

fn amounts(
    list: &BTreeMap<String, Quantity>,
    field: &str,
) -> Result<BTreeMap<String, Amount>, ModelError> {
    let parse = |(name, quantity): (&String, &Quantity)| {
        Ok((name.clone(), parse_amount(quantity, name, field)?))
    };
    list.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    fn compile(json: &str) -> Result<ResourceQuota, ModelError> {
        let quota: core_v1::ResourceQuota = serde_json::from_str(json).unwrap();
        let key = ObjectKey::new(ObjectKind::ResourceQuota, "shop", "q");
        quota.compile(&meta_v1::ObjectMeta::default(), &key, &Model::new())
    }

    /// A-QUO-1: the status holds once there is one.
    #[test]
    fn limits_and_use() {
        let quota = compile(r#"{"spec": {"hard": {"pods": "3"}}}"#).unwrap();
        assert_eq!((quota.hard["pods"], quota.used.len()), (Amount::from_value(3), 0));
        let quota = compile(
            r#"{"spec": {"hard": {"pods": "3"}, "scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [
                 {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}},
                "status": {"hard": {"pods": "2"}, "used": {"pods": "1"}}}"#,
        );
        let quota = quota.unwrap();
        assert_eq!(quota.hard["pods"], Amount::from_value(2));
        assert_eq!(quota.used["pods"], Amount::from_value(1));
        let [first, second] = &quota.scopes[..] else { panic!("{quota:?}") };
        assert_eq!((first.scope, first.operator), (Scope::BestEffort, ScopeOperator::Exists));
        assert_eq!(
            (second.scope, &*second.values),
            (Scope::PriorityClass, &["high".to_owned()][..])
        );
    }

    #[test]
    fn an_unreadable_quota_is_refused_with_its_field() {
        let refused = |json: &str| compile(json).unwrap_err().field;
        assert_eq!(refused(r#"{"spec": {"hard": {"cpu": "x"}}}"#), "spec.hard[cpu]");
        assert_eq!(refused(r#"{"spec": {"scopes": ["All"]}}"#), "spec.scopes[0]");
        assert_eq!(
            refused(
                r#"{"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}}}"#
            ),
            "spec.scopeSelector.matchExpressions[0].operator"
        );
    }
}
