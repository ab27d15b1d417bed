//! The engine held against the naive scheduler of `reference/`, on random clusters, pods and policies.
//!
//! Between decisions the cluster changes (assumed and bound pods, deletions, changed, removed and added nodes), and few
//! pod shapes come up again and again, so that remembered evaluations are worked with, not around.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

#[path = "reference/naive.rs"]
mod naive;
#[path = "random/random.rs"]
mod random;
#[path = "reference/twin.rs"]
mod twin;

use std::ops::Range;

use berth_engine::Policy;
use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use random::Json;
use random::node::Flavor;
use random::pod::PodTraits;
use twin::Twin;

/// One thing that happens. Indices are taken modulo what is there.
#[derive(Clone, Debug)]
enum Step {
    /// A pod of this template is decided for.
    Decide {
        template: usize,
    },
    /// … and takes its place.
    Assume {
        template: usize,
        seed: Option<u64>,
    },
    /// A pod of this template is bound to a node by somebody else, fitting or not.
    Bind {
        template: usize,
        node: usize,
    },
    DeletePod {
        pod: usize,
    },
    UpsertNode {
        node: usize,
        object: Json<core_v1::Node>,
    },
    DeleteNode {
        node: usize,
    },
    AddNode {
        object: Json<core_v1::Node>,
    },
}

#[derive(Debug)]
struct Case {
    nodes: Vec<Json<core_v1::Node>>,
    /// Pods on nodes to begin with: template and node.
    bound: Vec<(usize, usize)>,
    templates: Vec<Json<core_v1::Pod>>,
    policy: Policy,
    other_policy: Policy,
    steps: Vec<Step>,
}

/// The least and the most of what a case holds.
struct Sizes {
    nodes: Range<usize>,
    bound: Range<usize>,
    steps: Range<usize>,
}

fn cases(sizes: Sizes) -> impl Strategy<Value = Case> {
    let flavor = select(vec![Flavor::Odd, Flavor::Ordinary, Flavor::Huge]);
    flavor.prop_flat_map(move |flavor| {
        let node = || random::node::node(String::new(), flavor);
        let traits = PodTraits { has_host_ports: true, has_node_name: true };
        let templates =
            prop_oneof![vec(random::pod::template(traits), 1..5), mixed_templates(traits)];
        let policies = (random::policy::policy(), random::policy::policy());
        let bound = vec(any::<(usize, usize)>(), sizes.bound.clone());
        let objects = (vec(node(), sizes.nodes.clone()), bound, templates);
        (objects, policies, vec(step(flavor), sizes.steps.clone())).prop_map(
            |((nodes, bound, templates), (policy, other_policy), steps)| Case {
                nodes: nodes.into_iter().map(Json).collect(),
                bound,
                templates: templates.into_iter().map(Json).collect(),
                policy,
                other_policy,
                steps,
            },
        )
    })
}

fn step(flavor: Flavor) -> impl Strategy<Value = Step> {
    let node = move || random::node::node(String::new(), flavor).prop_map(Json);
    prop_oneof![
        3 => any::<usize>().prop_map(|template| Step::Decide { template }),
        4 => any::<(usize, Option<u64>)>().prop_map(|(template, seed)| Step::Assume { template, seed }),
        2 => any::<(usize, usize)>().prop_map(|(template, node)| Step::Bind { template, node }),
        2 => any::<usize>().prop_map(|pod| Step::DeletePod { pod }),
        1 => (any::<usize>(), node()).prop_map(|(node, object)| Step::UpsertNode { node, object }),
        1 => any::<usize>().prop_map(|node| Step::DeleteNode { node }),
        1 => node().prop_map(|object| Step::AddNode { object }),
    ]
}

/// Undemanding templates among the others keep clusters filling up.
fn mixed_templates(traits: PodTraits) -> impl Strategy<Value = Vec<core_v1::Pod>> {
    (vec(random::pod::plain_template(), 1..4), vec(random::pod::template(traits), 0..3))
        .prop_map(|(plain, odd)| plain.into_iter().chain(odd).collect())
}

fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: 10_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(250, 1))]

    /// Small clusters: every rule, every corner.
    #[test]
    fn small_clusters(case in cases(Sizes { nodes: 0..40, bound: 0..30, steps: 1..16 })) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(24, 2))]

    /// Several shards, so that vector paths and what is kept for each shard are in play.
    #[test]
    fn large_clusters(case in cases(Sizes { nodes: 300..600, bound: 0..600, steps: 4..10 })) {
        run(case);
    }
}

fn run(case: Case) {
    let mut twin = Twin::new(case.templates.into_iter().map(|template| template.0).collect());
    for node in case.nodes {
        twin.add_node(node.0);
    }
    for (template, node) in case.bound {
        twin.take(Step::Bind { template, node }, &case.policy);
    }
    twin.publish();
    for step in case.steps {
        twin.take(step, &case.policy);
        twin.publish();
        for policy in [&case.policy, &case.other_policy] {
            // A template that was decided for before: its evaluation is remembered.
            let pod = twin.pod(twin.n_pods, 0);
            twin.check(&pod, policy);
        }
    }
}
