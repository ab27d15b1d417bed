//! LimitRange: defaults and bounds of what containers, pods and claims of a namespace request. Rules: A-LIM-1, A-LIM-2.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Quantity, core_v1, meta_v1};

use super::key::ObjectKey;
use super::label::clip;
use super::object::Compile;
use super::requests::rounded_list;
use super::{Model, ModelError};

/// Facts of a limit range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LimitRange {
    /// `namespace/name`.
    pub(crate) name: Arc<str>,
    /// The limits, with the defaults that follow from their bounds.
    pub(crate) limits: Box<[Limit]>,
}

/// Bounds and defaults for one type of object. Every quantity in it is valid and ≥ 0.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub(crate) of: LimitType,
    pub(crate) min: BTreeMap<String, Quantity>,
    pub(crate) max: BTreeMap<String, Quantity>,
    /// Default limits of containers.
    pub(crate) default: BTreeMap<String, Quantity>,
    /// Default requests of containers.
    pub(crate) default_request: BTreeMap<String, Quantity>,
    pub(crate) max_limit_request_ratio: BTreeMap<String, Quantity>,
}

/// Type of object that a limit is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LimitType {
    Container,
    Pod,
    PersistentVolumeClaim,
    /// A type that no built-in rule reads: a qualified name of somebody's own.
    Other,
}

impl LimitType {
    /// The word in `spec.limits[].type` and in refusals.
    pub(crate) fn word(self) -> &'static str {
        match self {
            LimitType::Container => "Container",
            LimitType::Pod => "Pod",
            LimitType::PersistentVolumeClaim => "PersistentVolumeClaim",
            LimitType::Other => "",
        }
    }
}

impl Compile for core_v1::LimitRange {
    type Facts = LimitRange;

    fn compile(
        &self,
        _: &meta_v1::ObjectMeta,
        key: &ObjectKey,
        _: &Model,
    ) -> Result<LimitRange, ModelError> {
        let limits = self.spec.as_ref().map_or(&[][..], |spec| &spec.limits).iter().enumerate();
        let limits = limits.map(|(index, item)| {
            Limit::compile(item).map_err(|error| error.under(&format!("spec.limits[{index}]")))
        });
        let name = format!("{}/{}", key.namespace, key.name).into();
        Ok(LimitRange { name, limits: limits.collect::<Result<_, _>>()? })
    }
}

impl Limit {
    fn compile(item: &core_v1::LimitRangeItem) -> Result<Limit, ModelError> {
        let of = match item.r#type.as_str() {
            "Container" => LimitType::Container,
            "Pod" => LimitType::Pod,
            "PersistentVolumeClaim" => LimitType::PersistentVolumeClaim,
            other if other.contains('/') => LimitType::Other,
            other => {
                let reason = format!(
                    "`{}` is none of `Container`, `Pod`, `PersistentVolumeClaim`",
                    clip(other)
                );
                return Err(ModelError::new("type", reason));
            }
        };
        let mut limit = Limit {
            of,
            min: rounded_list(&item.min, "min")?,
            max: rounded_list(&item.max, "max")?,
            default: rounded_list(&item.default, "default")?,
            default_request: rounded_list(&item.default_request, "defaultRequest")?,
            max_limit_request_ratio: rounded_list(
                &item.max_limit_request_ratio,
                "maxLimitRequestRatio",
            )?,
        };
        if of == LimitType::Container {
            limit.fill_defaults();
        }
        Ok(limit)
    }

    /// Default limits follow from the maximum, default requests from the default limits and then from the minimum
    /// (A-LIM-1).
    fn fill_defaults(&mut self) {
        fill(&mut self.default, &self.max);
        fill(&mut self.default_request, &self.default);
        fill(&mut self.default_request, &self.min);
    }
}

/// Adds the entries of `from` whose names `list` lacks.
fn fill(list: &mut BTreeMap<String, Quantity>, from: &BTreeMap<String, Quantity>) {
    for (name, quantity) in from {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;

    fn compile(limits: &str) -> Result<LimitRange, ModelError> {
        let json = format!(r#"{{"spec": {{"limits": {limits}}}}}"#);
        let range: core_v1::LimitRange = serde_json::from_str(&json).unwrap();
        let key = ObjectKey::new(ObjectKind::LimitRange, "shop", "bounds");
        range.compile(&meta_v1::ObjectMeta::default(), &key, &Model::new())
    }

    /// A-LIM-1: only limits of containers have defaults.
    #[test]
    fn defaults_follow_from_bounds() {
        let range = compile(
            r#"[{"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1", "memory": "1Gi"},
                 "default": {"x.io/a": "2"}}, {"type": "Pod", "max": {"cpu": "8"}}]"#,
        );
        let range = range.unwrap();
        let text = |list: &BTreeMap<String, Quantity>| {
            let entries = list.iter().map(|(name, amount)| format!("{name}={amount}"));
            entries.collect::<Vec<_>>().join(" ")
        };
        let [container, pod] = &range.limits[..] else { panic!("{range:?}") };
        assert_eq!(text(&container.default), "cpu=4 x.io/a=2");
        assert_eq!(text(&container.default_request), "cpu=4 memory=1Gi x.io/a=2");
        assert_eq!(text(&pod.default), "");
        assert_eq!(&*range.name, "shop/bounds");
    }

    #[test]
    fn an_unreadable_limit_is_refused_with_its_field() {
        let refused = |limits: &str| compile(limits).unwrap_err().to_string();
        assert_eq!(
            refused(r#"[{"type": "Pod"}, {"type": "pod"}]"#),
            "`spec.limits[1].type`: `pod` is none of `Container`, `Pod`, `PersistentVolumeClaim`"
        );
        let error = refused(r#"[{"type": "Pod", "max": {"cpu": "much"}}]"#);
        assert!(error.starts_with("`spec.limits[0].max[cpu]`: "), "{error}");
        assert!(compile(r#"[{"type": "example.com/thing"}]"#).is_ok());
    }
}
