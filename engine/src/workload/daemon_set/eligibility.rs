//! Eligibility: whether a DaemonSet has a pod on a node. Rules: S-NAF-5 to S-NAF-8, S-TNT-1, S-TNT-2, W-SEL-3.
//!
//! The controller does not ask the scheduler. It compares the node's name, labels and taints with the template, and
//! looks at nothing else: resources and ports do not matter, and neither does a cordon, which daemons tolerate.

use std::collections::BTreeMap;

use berth_proto::core_v1::{self, PodSpec};

use crate::model::ModelError;
use crate::model::intern::{Interner, Symbol};
use crate::model::label::Labels;
use crate::model::label_selector::value_of;
use crate::model::selector::{
    FieldRequirement, NodeSelector, Requirement, Rule, Term, parse_bound,
};
use crate::model::taint::{Effect, Taint, Tolerations};
use crate::snapshot::NodeView;

/// A node, as far as the DaemonSet controller reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonNode {
    /// Node name.
    pub name: String,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
    /// Taints in node order.
    pub taints: Vec<core_v1::Taint>,
}

impl DaemonNode {
    /// A node of a listing, where each taint is a text: `key=value:Effect`, or `key:Effect` without a value.
    pub fn listed<'a>(
        name: &str,
        labels: BTreeMap<String, String>,
        taints: impl IntoIterator<Item = &'a str>,
    ) -> DaemonNode {
        let taint = |text: &str| {
            let (key, effect) = text.rsplit_once(':').unwrap_or((text, ""));
            let (key, value) = key.split_once('=').unwrap_or((key, ""));
            core_v1::Taint {
                key: key.to_owned(),
                value: value.to_owned(),
                effect: effect.to_owned(),
                ..core_v1::Taint::default()
            }
        };
        DaemonNode {
            name: name.to_owned(),
            labels,
            taints: taints.into_iter().map(taint).collect(),
        }
    }
}

impl From<&NodeView> for DaemonNode {
    fn from(node: &NodeView) -> DaemonNode {
        let labels = node.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        DaemonNode::listed(&node.name, labels.collect(), node.taints.iter().map(String::as_str))
    }
}

/// Requirements of a template on a node, compiled once for all nodes.
pub(super) struct Demand {
    names: Interner,
    /// `spec.nodeName` of the template.
    node_name: String,
    /// `spec.nodeSelector`.
    pairs: Vec<(Symbol, Symbol)>,
    /// Required node affinity.
    selector: Option<NodeSelector>,
    tolerations: Tolerations,
}

impl Demand {
    /// Compiles the spec of a pod that has the controller's tolerations already.
    pub(super) fn of(spec: &PodSpec) -> Result<Demand, ModelError> {
        let names = Interner::new();
        let pairs = spec.node_selector.iter();
        let pairs = pairs.map(|(key, value)| (names.intern(key), names.intern(value))).collect();
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| {
            affinity.required_during_scheduling_ignored_during_execution.as_ref()
        });
        let selector = required.map(|selector| NodeSelector::compile(selector, &names));
        let tolerations = Tolerations::compile(&spec.tolerations, &names)?;
        let node_name = spec.node_name.clone();
        Ok(Demand { names, node_name, pairs, selector, tolerations })
    }

    /// Whether the node gets a pod.
    ///
    /// # Errors
    /// A taint of the node that Kubernetes does not have.
    pub(super) fn is_met_by(&self, node: &DaemonNode) -> Result<bool, ModelError> {
        if !self.node_name.is_empty() && self.node_name != node.name {
            return Ok(false);
        }
        let mut labels: Vec<(Symbol, Symbol)> =
            node.labels.iter().map(|(k, v)| (self.names.intern(k), self.names.intern(v))).collect();
        labels.sort_unstable();
        let labels: Labels = labels.into();
        let has_pair = |(key, value): &(Symbol, Symbol)| value_of(&labels, *key) == Some(*value);
        if !self.pairs.iter().all(has_pair) {
            return Ok(false);
        }
        if let Some(selector) = &self.selector
            && !selector.terms.iter().any(|term| self.matches(term, &labels, &node.name))
        {
            return Ok(false);
        }
        for taint in &node.taints {
            let taint = Taint::compile(taint, &self.names)?;
            if taint.effect != Effect::PreferNoSchedule && !self.tolerations.tolerates(&taint) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn matches(&self, term: &Term, labels: &Labels, name: &str) -> bool {
        let is_called = |wanted: &Symbol| *self.names.name(*wanted) == *name;
        term.labels.iter().all(|requirement| self.holds(requirement, labels))
            && term.fields.iter().all(|field| match field {
                FieldRequirement::NameIs(wanted) => is_called(wanted),
                FieldRequirement::NameIsNot(other) => !is_called(other),
                FieldRequirement::Known(result) => *result,
            })
    }

    /// Whether a node's labels meet a requirement, `Gt` and `Lt` included.
    fn holds(&self, requirement: &Requirement, labels: &Labels) -> bool {
        let number = || parse_bound(&self.names.name(value_of(labels, requirement.key)?));
        match requirement.rule {
            Rule::Gt(bound) => number().is_some_and(|number| number > bound),
            Rule::Lt(bound) => number().is_some_and(|number| number < bound),
            Rule::In(_) | Rule::NotIn(_) | Rule::Exists | Rule::DoesNotExist => {
                requirement.holds(labels)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: &[(&str, &str)], taints: &[&str]) -> DaemonNode {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        DaemonNode::listed(name, labels, taints.iter().copied())
    }

    fn check(spec: &str, node: &DaemonNode, expected: bool) {
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        assert_eq!(Demand::of(&spec).unwrap().is_met_by(node), Ok(expected), "{spec:?} {node:?}");
    }

    #[test]
    fn names_labels_and_taints_decide() {
        let n1 = node("n1", &[("zone", "a"), ("cores", "16")], &[]);
        check("{}", &n1, true);
        check(r#"{"nodeName": "n1"}"#, &n1, true);
        check(r#"{"nodeName": "n2"}"#, &n1, false);
        check(r#"{"nodeSelector": {"zone": "a"}}"#, &n1, true);
        check(r#"{"nodeSelector": {"zone": "b"}}"#, &n1, false);
        check(r#"{"nodeSelector": {"disk": ""}}"#, &n1, false);
        let tainted = node("n1", &[], &["dedicated=batch:NoSchedule"]);
        check("{}", &tainted, false);
        check(r#"{"tolerations": [{"operator": "Exists"}]}"#, &tainted, true);
        check(r#"{"tolerations": [{"key": "dedicated", "value": "web"}]}"#, &tainted, false);
        check("{}", &node("n1", &[], &["k:NoExecute"]), false);
        check("{}", &node("n1", &[], &["k:PreferNoSchedule"]), true);
    }

    #[test]
    fn required_affinity_decides_by_any_term() {
        let n1 = node("n1", &[("zone", "a"), ("cores", "16")], &[]);
        let spec = |terms: &str| {
            format!(
                r#"{{"affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution":
                    {{"nodeSelectorTerms": [{terms}]}}}}}}}}"#
            )
        };
        let expression = |key: &str, operator: &str, values: &str| {
            format!(
                r#"{{"matchExpressions": [{{"key": "{key}", "operator": "{operator}", "values": {values}}}]}}"#
            )
        };
        let name = |operator: &str, name: &str| {
            format!(
                r#"{{"matchFields": [{{"key": "metadata.name", "operator": "{operator}", "values": ["{name}"]}}]}}"#
            )
        };
        for (terms, expected) in [
            (expression("zone", "In", r#"["a"]"#), true),
            (expression("zone", "NotIn", r#"["a"]"#), false),
            (expression("disk", "NotIn", r#"["ssd"]"#), true),
            (expression("cores", "Gt", r#"["8"]"#), true),
            (expression("cores", "Lt", r#"["8"]"#), false),
            (expression("zone", "Gt", r#"["8"]"#), false),
            (name("In", "n1"), true),
            (name("NotIn", "n1"), false),
            (format!("{}, {}", name("In", "n2"), expression("zone", "Exists", "[]")), true),
            // A term that does not parse matches nothing, and no term matches nothing.
            (expression("zone", "Like", r#"["a"]"#), false),
            (String::new(), false),
        ] {
            check(&spec(&terms), &n1, expected);
        }
    }

    #[test]
    fn taints_of_a_listing_are_read_back() {
        let taints = node("n", &[], &["a=b:NoSchedule", "c:NoExecute"]).taints;
        assert_eq!((taints[0].key.as_str(), taints[0].value.as_str()), ("a", "b"));
        assert_eq!((taints[1].key.as_str(), taints[1].effect.as_str()), ("c", "NoExecute"));
    }
}
