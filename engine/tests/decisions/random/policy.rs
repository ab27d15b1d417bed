//! Random policies: strategies, weights, plugins left out, orders, arguments.

use berth_engine::{
    BalancedAllocationArgs, InterPodAffinityArgs, NodeAffinityArgs, NodeResourcesFitArgs, Plugin,
    PodTopologySpreadArgs, Policy, PolicySpec, ResourceWeight, ScoringStrategy, ShapePoint,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{affinity, spread};

/// Generates the default profile or one that differs much from it.
pub(crate) fn policy() -> BoxedStrategy<Policy> {
    prop_oneof![
        1 => Just(Policy::default()),
        2 => spec().prop_map(|spec| Policy::new(spec).expect("generated policies are valid")),
    ]
    .boxed()
}

fn spec() -> BoxedStrategy<PolicySpec> {
    let filter = prop_oneof![
        Just(PolicySpec::default().filter),
        left_out_and_shuffled(PolicySpec::default().filter)
    ];
    let narrows = prop::bool::weighted(0.8);
    let args = (node_affinity_args(), fit_args(), balanced_args(), spread_args(), affinity_args());
    (filter, score(), narrows, (prop::bool::weighted(0.9), post_filter()), args)
        .prop_map(
            |(
                filter,
                score,
                narrows,
                (gates, post_filter),
                (
                    node_affinity,
                    node_resources_fit,
                    balanced_allocation,
                    pod_topology_spread,
                    inter_pod_affinity,
                ),
            )| {
                let mut spec = PolicySpec {
                    filter,
                    post_filter,
                    score,
                    node_affinity,
                    node_resources_fit,
                    balanced_allocation,
                    pod_topology_spread,
                    inter_pod_affinity,
                    ..PolicySpec::default()
                };
                spec.pre_filter.retain(|plugin| narrows || *plugin != Plugin::NodeAffinity);
                spec.pre_enqueue.retain(|plugin| gates || *plugin != Plugin::SchedulingGates);
                spec
            },
        )
        .boxed()
}

fn post_filter() -> BoxedStrategy<Vec<Plugin>> {
    let (claims, preemption) = (Plugin::DynamicResources, Plugin::DefaultPreemption);
    let lists = vec![vec![preemption], vec![preemption, claims], vec![claims], Vec::new()];
    prop_oneof![6 => Just(vec![claims, preemption]), 2 => select(lists)].boxed()
}

fn left_out_and_shuffled(plugins: Vec<Plugin>) -> BoxedStrategy<Vec<Plugin>> {
    let n = plugins.len();
    subsequence(plugins, n / 2..=n).prop_shuffle().boxed()
}

fn score() -> BoxedStrategy<Vec<(Plugin, i64)>> {
    let plugins: Vec<Plugin> =
        PolicySpec::default().score.into_iter().map(|(plugin, _)| plugin).collect();
    let n = plugins.len();
    (left_out_and_shuffled(plugins), vec(prop_oneof![1..4_i64, 1..1000_i64], n))
        .prop_map(|(plugins, weights)| plugins.into_iter().zip(weights).collect())
        .boxed()
}

fn node_affinity_args() -> BoxedStrategy<NodeAffinityArgs> {
    option::weighted(0.3, affinity::added_affinity())
        .prop_map(|added_affinity| NodeAffinityArgs { added_affinity })
        .boxed()
}

fn spread_args() -> BoxedStrategy<PodTopologySpreadArgs> {
    spread::defaulting().prop_map(|defaulting| PodTopologySpreadArgs { defaulting }).boxed()
}

fn affinity_args() -> BoxedStrategy<InterPodAffinityArgs> {
    (select(vec![0, 1, 7, 100]), any::<bool>())
        .prop_map(|(hard_pod_affinity_weight, ignore_preferred_terms_of_existing_pods)| {
            InterPodAffinityArgs {
                hard_pod_affinity_weight,
                ignore_preferred_terms_of_existing_pods,
            }
        })
        .boxed()
}

fn fit_args() -> BoxedStrategy<NodeResourcesFitArgs> {
    let resources = subsequence(vec!["example.com/gpu", "hugepages-2Mi", "cpu", "bare"], 0..=2);
    let groups = subsequence(vec!["example.com", "hugepages-2Mi"], 0..=1);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (resources, groups, scoring())
        .prop_map(move |(resources, groups, scoring)| NodeResourcesFitArgs {
            ignored_resources: owned(resources),
            ignored_resource_groups: owned(groups),
            scoring,
        })
        .boxed()
}

fn scoring() -> BoxedStrategy<ScoringStrategy> {
    prop_oneof![
        resource_weights().prop_map(|resources| ScoringStrategy::LeastAllocated { resources }),
        resource_weights().prop_map(|resources| ScoringStrategy::MostAllocated { resources }),
        (resource_weights(), shape()).prop_map(|(resources, shape)| {
            ScoringStrategy::RequestedToCapacityRatio { resources, shape }
        }),
    ]
    .boxed()
}

fn resource_weights() -> BoxedStrategy<Vec<ResourceWeight>> {
    let weight = prop_oneof![Just(1), 1..=100_i64];
    let native = prop_oneof![Just(vec!["cpu", "memory"]), Just(vec!["memory"]), resource_names()];
    (native, vec(weight, 6))
        .prop_map(|(names, weights)| {
            let named = names.into_iter().zip(weights);
            named.map(|(name, weight)| ResourceWeight { name: name.to_owned(), weight }).collect()
        })
        .boxed()
}

fn resource_names() -> BoxedStrategy<Vec<&'static str>> {
    let names =
        vec!["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "bare"];
    subsequence(names, 0..=6).prop_shuffle().boxed()
}

fn shape() -> BoxedStrategy<Vec<ShapePoint>> {
    btree_map(0..=100_i64, select((0..=10).collect::<Vec<i64>>()), 1..5)
        .prop_map(|points| {
            points
                .into_iter()
                .map(|(utilization, score)| ShapePoint { utilization, score })
                .collect()
        })
        .boxed()
}

fn balanced_args() -> BoxedStrategy<BalancedAllocationArgs> {
    prop_oneof![Just(vec!["cpu", "memory"]), resource_names()]
        .prop_map(|names| BalancedAllocationArgs {
            resources: names.into_iter().map(str::to_owned).collect(),
        })
        .boxed()
}
