//! Coverage: the pods that a budget's selector matches (L-PDB-11).

use berth_proto::core_v1::Pod;
use berth_proto::policy_v1::PodDisruptionBudget;

use crate::lifecycle::reading::{meta, namespace};
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label::{self, Labels};
use crate::model::label_selector::LabelSelector;

/// Pods of the budget's namespace that its selector matches: an empty selector matches all of them, even pods without
/// labels, and an absent one none.
#[derive(Debug)]
pub(super) struct Coverage<'a> {
    namespace: &'a str,
    selector: Option<LabelSelector>,
}

impl<'a> Coverage<'a> {
    /// Compiles the selector of a budget. Errors are relative to the budget.
    pub(super) fn of(
        budget: &'a PodDisruptionBudget,
        names: &Interner,
    ) -> Result<Coverage<'a>, ModelError> {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.map(|selector| LabelSelector::compile(selector, names));
        let selector = selector.transpose().map_err(|error| error.under("spec.selector"))?;
        Ok(Coverage { namespace: namespace_of(budget), selector })
    }

    pub(super) fn covers(&self, pod: &Subject<'_>) -> bool {
        pod.namespace == self.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// The facts of a pod that selectors match: its namespace and labels.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) namespace: &'a str,
    labels: Labels,
}

impl<'a> Subject<'a> {
    /// Reads them from a pod. Errors are relative to the pod.
    pub(super) fn of(pod: &'a Pod, names: &Interner) -> Result<Subject<'a>, ModelError> {
        let metadata = meta(pod);
        let labels = label::compile(&metadata.labels, names)?;
        Ok(Subject { namespace: namespace(&metadata.namespace), labels })
    }
}

/// The namespace of a budget.
pub(super) fn namespace_of(budget: &PodDisruptionBudget) -> &str {
    namespace(budget.metadata.as_ref().map_or("", |metadata| &metadata.namespace))
}
