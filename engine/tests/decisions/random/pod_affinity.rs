//! Random pod affinity and anti-affinity.

use berth_proto::core_v1::{
    PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::labels::{NAMESPACES, namespace_selector, pod_selector};
use super::spread::topology_key;

/// Generates pod affinity and anti-affinity; each may be absent or empty.
pub(crate) fn pod_affinity() -> BoxedStrategy<(Option<PodAffinity>, Option<PodAntiAffinity>)> {
    let near = (required(), preferred()).prop_map(|(required, preferred)| PodAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    });
    let far = (required(), preferred()).prop_map(|(required, preferred)| PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    });
    (option::weighted(0.4, near), option::weighted(0.5, far)).boxed()
}

fn required() -> BoxedStrategy<Vec<PodAffinityTerm>> {
    prop_oneof![2 => Just(Vec::new()), 2 => vec(term(), 1..2), 1 => vec(term(), 2..3)].boxed()
}

fn preferred() -> BoxedStrategy<Vec<WeightedPodAffinityTerm>> {
    // A term may be absent: then it matches nothing.
    let one = (select(vec![0, 1, 5, 50, 100]), option::weighted(0.95, term()));
    let one = one.prop_map(|(weight, pod_affinity_term)| WeightedPodAffinityTerm {
        weight,
        pod_affinity_term,
    });
    prop_oneof![1 => Just(Vec::new()), 1 => vec(one, 1..3)].boxed()
}

fn term() -> BoxedStrategy<PodAffinityTerm> {
    let namespaces =
        prop_oneof![3 => Just(Vec::new()), 1 => vec(select(NAMESPACES.to_vec()), 1..3)];
    (pod_selector(), namespaces, namespace_selector(), topology_key(), any::<bool>())
        .prop_map(|(label_selector, namespaces, namespace_selector, topology_key, has_keys)| {
            // The API server has merged these keys into the selector, so they are not read here (S-IPA-1).
            let keys = if has_keys { vec!["revision".to_owned()] } else { Vec::new() };
            PodAffinityTerm {
                label_selector,
                namespaces: namespaces.into_iter().map(str::to_owned).collect(),
                topology_key,
                namespace_selector,
                match_label_keys: keys.clone(),
                mismatch_label_keys: keys,
            }
        })
        .boxed()
}
