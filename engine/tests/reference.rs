//! The engine held against the naive scheduler of `reference/`, on random clusters, pods and policies.
//!
//! Between decisions the cluster changes (assumed and bound pods, deletions, pods relabelled and terminating, changed,
//! removed and added nodes, namespaces, services, controllers and storage), and few pod shapes come up again and again, so
//! that remembered evaluations are worked with, not around. `BERTH_CASES` multiplies the number of cases.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and uses what it needs of the shared inputs"
)]

#[path = "reference/naive.rs"]
mod naive;
#[path = "random/random.rs"]
mod random;
#[path = "reference/twin.rs"]
mod twin;
#[path = "reference/verdict.rs"]
mod verdict;

use std::ops::Range;

use berth_engine::Policy;
use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use naive::objects::AnyObject;
use random::node::Flavor;
use random::pod::PodTraits;
use random::{Json, n_cases};
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
    /// A pod on a node gets the labels of this template.
    Relabel {
        pod: usize,
        template: usize,
    },
    /// A pod on a node begins to terminate.
    Terminate {
        pod: usize,
    },
    UpsertObject {
        object: Box<AnyObject>,
    },
    DeleteObject {
        object: usize,
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
    objects: Vec<AnyObject>,
    policy: Policy,
    other_policy: Policy,
    steps: Vec<Step>,
}

/// The least and the most of what a case holds.
struct Sizes {
    nodes: Range<usize>,
    bound: Range<usize>,
    steps: Range<usize>,
    /// All about volumes.
    is_storage: bool,
}

fn cases(sizes: Sizes) -> impl Strategy<Value = Case> {
    let flavors = match sizes.is_storage {
        true => vec![Flavor::Ordinary],
        false => vec![Flavor::Odd, Flavor::Ordinary, Flavor::Ordinary, Flavor::Huge],
    };
    select(flavors).prop_flat_map(move |flavor| {
        let node = || random::node::node(flavor).prop_map(Json);
        let policies = (random::policy::policy(), random::policy::policy());
        let bound = vec(any::<(usize, usize)>(), sizes.bound.clone());
        let (objects, templates, steps) = match sizes.is_storage {
            true => (random::storage::world(), stored_templates(), storage_step(flavor)),
            false => (random::object::objects(), templates(), step(flavor)),
        };
        let things = (vec(node(), sizes.nodes.clone()), bound, templates, objects);
        (things, policies, vec(steps, sizes.steps.clone())).prop_map(
            |((nodes, bound, templates, objects), (policy, other_policy), steps)| Case {
                nodes,
                bound,
                templates,
                objects,
                policy,
                other_policy,
                steps,
            },
        )
    })
}

fn step(flavor: Flavor) -> BoxedStrategy<Step> {
    let node = move || random::node::node(flavor).prop_map(Json);
    prop_oneof![
        3 => any::<usize>().prop_map(|template| Step::Decide { template }),
        4 => any::<(usize, Option<u64>)>().prop_map(|(template, seed)| Step::Assume { template, seed }),
        3 => any::<(usize, usize)>().prop_map(|(template, node)| Step::Bind { template, node }),
        2 => any::<usize>().prop_map(|pod| Step::DeletePod { pod }),
        1 => any::<(usize, usize)>().prop_map(|(pod, template)| Step::Relabel { pod, template }),
        1 => any::<usize>().prop_map(|pod| Step::Terminate { pod }),
        1 => (any::<usize>(), node()).prop_map(|(node, object)| Step::UpsertNode { node, object }),
        1 => any::<usize>().prop_map(|node| Step::DeleteNode { node }),
        1 => node().prop_map(|object| Step::AddNode { object }),
        3 => random::object::object().prop_map(|object| Step::UpsertObject { object: object.into() }),
        1 => any::<usize>().prop_map(|object| Step::DeleteObject { object }),
    ]
    .boxed()
}

fn storage_step(flavor: Flavor) -> BoxedStrategy<Step> {
    prop_oneof![
        4 => any::<(usize, Option<u64>)>().prop_map(|(template, seed)| Step::Assume { template, seed }),
        4 => random::storage::object().prop_map(|object| Step::UpsertObject { object: object.into() }),
        8 => step(flavor),
    ]
    .boxed()
}

fn stored_templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    vec(random::pod::stored_template().prop_map(Json), 2..6).boxed()
}

/// Undemanding templates among the others keep clusters filling up.
fn templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    let traits = PodTraits { has_host_ports: true, has_node_name: true, has_volumes: true };
    let odd = || random::pod::template(traits);
    let sociable = || random::pod::sociable_template(traits);
    let plain = || random::pod::plain_template();
    let stored = || random::pod::stored_template();
    prop_oneof![
        1 => vec(odd(), 1..5),
        1 => (vec(plain(), 1..4), vec(odd(), 0..3)).prop_map(|(a, b)| a.into_iter().chain(b).collect()),
        3 => vec(sociable(), 1..6),
        2 => (vec(stored(), 1..5), vec(sociable(), 0..2)).prop_map(|(a, b)| a.into_iter().chain(b).collect()),
        1 => (vec(sociable(), 1..4), vec(odd(), 0..3)).prop_map(|(a, b)| a.into_iter().chain(b).collect()),
    ]
    .prop_map(|pods: Vec<core_v1::Pod>| pods.into_iter().map(Json).collect())
    .boxed()
}

fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: n_cases(cases),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: 10_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(200, 1))]

    /// Small clusters: every rule, every corner.
    #[test]
    fn small_clusters(
        case in cases(Sizes { nodes: 0..40, bound: 0..30, steps: 1..16, is_storage: false })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(150, 3))]

    /// Few nodes, many volumes.
    #[test]
    fn storage(
        case in cases(Sizes { nodes: 2..9, bound: 0..12, steps: 4..20, is_storage: true })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(20, 2))]

    /// Several shards, so that vector paths and what is kept for each shard are in play.
    #[test]
    fn large_clusters(
        case in cases(Sizes { nodes: 300..600, bound: 0..600, steps: 4..10, is_storage: false })
    ) {
        run(case);
    }
}

fn run(case: Case) {
    let mut twin = Twin::new(case.templates.into_iter().map(|template| template.0).collect());
    for node in case.nodes {
        twin.add_node(node.0);
    }
    for object in case.objects {
        twin.take(Step::UpsertObject { object: object.into() }, &case.policy);
    }
    for (template, node) in case.bound {
        twin.take(Step::Bind { template, node }, &case.policy);
    }
    twin.publish();
    for (number, step) in case.steps.into_iter().enumerate() {
        twin.take(step, &case.policy);
        twin.publish();
        // Templates that were decided for before, just now or some steps ago: their evaluations are remembered.
        let questions = [(0, &case.policy), (0, &case.other_policy), (number, &case.policy)];
        for (template, policy) in questions {
            twin.check(&twin.pod(twin.n_pods, template), policy);
        }
    }
}
