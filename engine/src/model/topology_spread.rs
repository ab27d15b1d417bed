//! Topology spread constraints. Rules: S-PTS-1 to S-PTS-3, W-SEL-6.

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};
use super::label::{Labels, clip};
use super::label_selector::{LabelSelector, value_of};
use super::selector::{Requirement, Rule};

/// One constraint with its effective selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpreadConstraint {
    pub(crate) topology_key: Symbol,
    pub(crate) max_skew: i32,
    /// Whether the constraint is `DoNotSchedule`, as opposed to `ScheduleAnyway`.
    pub(crate) is_hard: bool,
    pub(crate) min_domains: i32,
    /// Whether nodes that the pod's node selector and node affinity refuse are left out of the count (S-PTS-4).
    pub(crate) honors_affinity: bool,
    /// Whether nodes with taints that the pod does not tolerate are left out of the count (S-PTS-4).
    pub(crate) honors_taints: bool,
    /// Selector, including the equalities from `matchLabelKeys`; `None` matches nothing (S-PTS-2).
    pub(crate) selector: Option<LabelSelector>,
}

/// A pod's constraints, in spec order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SpreadConstraints {
    pub(crate) list: SmallVec<[SpreadConstraint; 0]>,
    /// Why PreFilter fails: the selector of a hard constraint does not parse (S-PTS-1).
    pub(crate) invalid_hard: Option<String>,
    /// Why PreScore fails, if it runs: the selector of a soft constraint does not parse (S-TS-1).
    pub(crate) invalid_soft: Option<String>,
}

impl SpreadConstraints {
    /// Compiles constraints. Fails for unknown actions and policies, and for numbers that are not positive.
    pub(crate) fn compile(
        constraints: &[core_v1::TopologySpreadConstraint],
        labels: &Labels,
        names: &Interner,
    ) -> Result<SpreadConstraints, ModelError> {
        let mut compiled = SpreadConstraints::default();
        for (i, constraint) in constraints.iter().enumerate() {
            let at = format!("spec.topologySpreadConstraints[{i}]");
            let mut one = compile_one(constraint, names).map_err(|error| error.under(&at))?;
            match effective_selector(constraint, labels, names) {
                Ok(selector) => one.selector = selector,
                Err(error) => {
                    let invalid = if one.is_hard {
                        &mut compiled.invalid_hard
                    } else {
                        &mut compiled.invalid_soft
                    };
                    invalid.get_or_insert(error.under(&at).to_string());
                }
            }
            compiled.list.push(one);
        }
        Ok(compiled)
    }
}

/// Compiles a constraint except its selector.
fn compile_one(
    constraint: &core_v1::TopologySpreadConstraint,
    names: &Interner,
) -> Result<SpreadConstraint, ModelError> {
    let is_hard = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            let reason =
                format!("`{}` is neither `DoNotSchedule` nor `ScheduleAnyway`", clip(other));
            return Err(ModelError::new("whenUnsatisfiable", reason));
        }
    };
    let honors = |field: &str, policy: &Option<String>, default| match policy.as_deref() {
        None => Ok(default),
        Some("Honor") => Ok(true),
        Some("Ignore") => Ok(false),
        Some(other) => Err(ModelError::new(
            field,
            format!("`{}` is neither `Honor` nor `Ignore`", clip(other)),
        )),
    };
    let min_domains = constraint.min_domains.unwrap_or(1);
    for (field, value) in [("maxSkew", constraint.max_skew), ("minDomains", min_domains)] {
        if value <= 0 {
            return Err(ModelError::new(field, format!("{value} is not greater than 0")));
        }
    }
    Ok(SpreadConstraint {
        topology_key: names.intern(&constraint.topology_key),
        max_skew: constraint.max_skew,
        is_hard,
        min_domains,
        honors_affinity: honors("nodeAffinityPolicy", &constraint.node_affinity_policy, true)?,
        honors_taints: honors("nodeTaintsPolicy", &constraint.node_taints_policy, false)?,
        selector: None,
    })
}

/// The selector with an equality for each of `matchLabelKeys` that the pod has as a label (S-PTS-2).
fn effective_selector(
    constraint: &core_v1::TopologySpreadConstraint,
    labels: &Labels,
    names: &Interner,
) -> Result<Option<LabelSelector>, ModelError> {
    let Some(selector) = &constraint.label_selector else {
        return Ok(None);
    };
    let mut selector =
        LabelSelector::compile(selector, names).map_err(|error| error.under("labelSelector"))?;
    for key in &constraint.match_label_keys {
        let key = names.intern(key);
        if let Some(value) = value_of(labels, key) {
            let rule = Rule::In([value].into_iter().collect());
            selector.requirements.push(Requirement { key, rule });
        }
    }
    Ok(Some(selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(json: &str) -> Result<SpreadConstraints, ModelError> {
        let constraints: Vec<core_v1::TopologySpreadConstraint> =
            serde_json::from_str(json).unwrap();
        let names = Interner::new();
        let labels: Labels = [(names.intern("rev"), names.intern("7"))].into();
        SpreadConstraints::compile(&constraints, &labels, &names)
    }

    /// S-PTS-2, S-PTS-3
    #[test]
    fn defaults_and_match_label_keys() {
        let compiled = compile(
            r#"[{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["rev", "absent"]},
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev"],
                 "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}]"#,
        )
        .unwrap();
        let [hard, soft] = &compiled.list[..] else { panic!("{compiled:?}") };
        assert!(hard.is_hard && hard.honors_affinity && !hard.honors_taints);
        assert_eq!((hard.max_skew, hard.min_domains), (2, 1));
        assert_eq!(hard.selector.as_ref().map(|s| s.requirements.len()), Some(2));
        assert!(!soft.is_hard && !soft.honors_affinity && soft.honors_taints);
        assert_eq!((soft.min_domains, &soft.selector), (3, &None));
    }

    #[test]
    fn errors_name_the_field() {
        for (constraint, field) in [
            (r#"{"maxSkew": 1, "whenUnsatisfiable": "Sometimes"}"#, "whenUnsatisfiable"),
            (r#"{"maxSkew": 0, "whenUnsatisfiable": "ScheduleAnyway"}"#, "maxSkew"),
            (
                r#"{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": -2147483648}"#,
                "minDomains",
            ),
            (
                r#"{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "honor"}"#,
                "nodeTaintsPolicy",
            ),
        ] {
            let error = compile(&format!("[{constraint}]")).unwrap_err();
            assert_eq!(error.field, format!("spec.topologySpreadConstraints[0].{field}"));
        }
    }
}
