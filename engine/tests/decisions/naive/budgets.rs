//! Pods whose eviction a PodDisruptionBudget would not allow. Rule: S-PRE-13.

use std::sync::Arc;

use berth_proto::core_v1::Pod;
use berth_proto::policy_v1::PodDisruptionBudget;

use super::cluster::NaivePod;
use super::objects::{self, Objects};
use super::{label_selector, pod};

/// Splits pods, given by falling importance, into those whose eviction violates a budget and the others.
pub(crate) fn split(
    objects: &Objects,
    pods: &[Arc<NaivePod>],
) -> (Vec<Arc<NaivePod>>, Vec<Arc<NaivePod>>) {
    let budgets: Vec<&PodDisruptionBudget> = objects.budgets().collect();
    let mut allowed: Vec<i64> = budgets
        .iter()
        .map(|budget| budget.status.as_ref().map_or(0, |s| i64::from(s.disruptions_allowed)))
        .collect();
    let (mut violating, mut others) = (Vec::new(), Vec::new());
    for pod in pods {
        let mut violates = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            if is_taken_from(budget, &pod.pod) {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        if violates { violating.push(pod.clone()) } else { others.push(pod.clone()) }
    }
    (violating, others)
}

/// Whether the budget covers the pod and has not counted its eviction yet.
fn is_taken_from(budget: &PodDisruptionBudget, of: &Pod) -> bool {
    let metadata = budget.metadata.as_ref().expect("objects have metadata");
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let Ok(selector) = label_selector::parse(selector) else {
        return false;
    };
    let is_counted = budget
        .status
        .as_ref()
        .is_some_and(|status| status.disrupted_pods.contains_key(pod::name(of)));
    objects::namespace(metadata) == pod::namespace(of)
        && !pod::labels(of).is_empty()
        && !selector.is_empty()
        && selector.matches(pod::labels(of))
        && !is_counted
}
