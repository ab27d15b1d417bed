//! Random PodDisruptionBudgets: few names, selectors that match the pods' labels, budgets that run out.

use std::collections::BTreeMap;

use berth_proto::{Time, policy_v1};
use proptest::collection::btree_set;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::labels::{namespace, pod_selector};
use super::object::named;
use crate::naive::objects::AnyObject;

/// Number of pods, from the first on, that a budget may name as already evicted.
const N_NAMED_PODS: usize = 24;

pub(crate) fn budget() -> BoxedStrategy<AnyObject> {
    let allowed = select(vec![-1, 0, 0, 1, 1, 2, 5]);
    let disrupted = prop_oneof![
        3 => Just(Default::default()),
        1 => btree_set(0..N_NAMED_PODS, 1..6),
    ];
    let status = option::weighted(0.95, (allowed, disrupted));
    (namespace(), 0..4_usize, pod_selector(), status)
        .prop_map(|(namespace, i, selector, status)| {
            let evicted_at = Time::from_unix_seconds(1_700_000_000);
            let spec = policy_v1::PodDisruptionBudgetSpec { selector, ..Default::default() };
            let status = status.map(|(disruptions_allowed, disrupted)| {
                let name = |i| (format!("pod-{i}"), evicted_at);
                policy_v1::PodDisruptionBudgetStatus {
                    disruptions_allowed,
                    disrupted_pods: disrupted.into_iter().map(name).collect(),
                    ..Default::default()
                }
            });
            let metadata = named(&namespace, format!("budget-{i}"), BTreeMap::new());
            policy_v1::PodDisruptionBudget { metadata, spec: Some(spec), status }.into()
        })
        .boxed()
}
