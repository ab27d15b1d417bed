//! Comparison of the engine with the naive scheduler on random clusters, pods and policies.
//!
//! Between decisions the cluster changes: pods are assumed, bound, deleted, relabelled and terminated; nominations come
//! and go; pods are evicted; nodes, namespaces, services, controllers, budgets and storage are added, changed and
//! removed. Few pod shapes recur, so that cached evaluations are used. `BERTH_CASES` multiplies the number of cases.

pub(crate) mod outcome;
mod promises;
mod surveyed;
mod twin;
pub(crate) mod verdict;

use std::ops::Range;

use berth_engine::Policy;
use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::naive::objects::AnyObject;
use crate::random::importance::{
    Leaving, PlacedPod, PlacedState, leaving, placed_state, places, ranked, urgent,
};
use crate::random::node::Flavor;
use crate::random::pod::PodTraits;
use crate::random::{self, Json, config};
use promises::Effect;
use twin::Twin;

/// One step of a case. Indices are taken modulo the number of existing items.
#[derive(Clone, Debug)]
enum Step {
    /// Decides a pod of this template.
    Decide {
        template: usize,
    },
    /// Decides a pod of this template and assumes it.
    Assume {
        template: usize,
        seed: Option<u64>,
    },
    /// Another scheduler binds a pod of this template to a node, whether it fits or not.
    Bind {
        template: usize,
        node: usize,
        placed_state: PlacedState,
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
        leaving: Leaving,
    },
    /// A whole attempt for a pod of this template, and how its outcome is applied.
    Preempt {
        template: usize,
        seed: Option<u64>,
        effect: Effect,
    },
    /// A pod of this template becomes pending with a nomination, in its status or only in memory.
    Promise {
        template: usize,
        node: usize,
        in_memory: bool,
    },
    /// A whole attempt for a pending pod; its nominations are applied.
    Retry {
        pending: usize,
    },
    /// The feed repeats a pending pod, with a nomination or without.
    RepeatPending {
        pending: usize,
        node: Option<usize>,
    },
    /// Another scheduler binds a pending pod to a node.
    BindPending {
        pending: usize,
        node: usize,
    },
    DeletePending {
        pending: usize,
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
    /// Initial pods on nodes: template, node and other features.
    bound: Vec<PlacedPod>,
    templates: Vec<Json<core_v1::Pod>>,
    objects: Vec<AnyObject>,
    policy: Policy,
    other_policy: Policy,
    steps: Vec<Step>,
}

/// Bounds of the numbers of objects in a case.
struct Sizes {
    nodes: Range<usize>,
    bound: Range<usize>,
    steps: Range<usize>,
    about: About,
}

/// The subject of a case.
#[derive(Copy, Clone)]
enum About {
    Everything,
    Volumes,
    /// Nodes that are nearly full.
    Crowds,
    /// Nodes that are nearly full of dozens of similar pods, whose order depends on the sort algorithm (S-PRE-11).
    Replicas,
}

fn cases(sizes: Sizes) -> impl Strategy<Value = Case> {
    let flavors = match sizes.about {
        About::Everything => vec![Flavor::Odd, Flavor::Ordinary, Flavor::Ordinary, Flavor::Huge],
        About::Volumes => vec![Flavor::Ordinary],
        About::Crowds => vec![Flavor::Small],
        About::Replicas => vec![Flavor::Roomy],
    };
    select(flavors).prop_flat_map(move |flavor| {
        let node = || random::node::node(flavor).prop_map(Json);
        let policies = (random::policy::policy(), random::policy::policy());
        let bound = places(sizes.bound.clone());
        let (objects, templates, steps) = match sizes.about {
            About::Everything => (random::object::objects(), templates(), step(flavor)),
            About::Volumes => (random::storage::world(), stored_templates(), storage_step(flavor)),
            About::Crowds => {
                (random::object::crowd_objects(), crowding_templates(), crowd_step(flavor))
            }
            About::Replicas => {
                (random::object::crowd_objects(), replica_templates(), crowd_step(flavor))
            }
        };
        let things = (vec(node(), sizes.nodes.clone()), bound, templates, objects);
        (things, policies, vec(steps, sizes.steps.clone())).prop_map(
            |((mut nodes, bound, templates, objects), (policy, other_policy), steps)| {
                if let (Some(first), true) = (nodes.first().cloned(), bound.is_mirrored) {
                    nodes = vec![first; nodes.len()];
                }
                let bound = bound.on(nodes.len().max(1));
                Case { nodes, bound, templates, objects, policy, other_policy, steps }
            },
        )
    })
}

fn step(flavor: Flavor) -> BoxedStrategy<Step> {
    let node = move || random::node::node(flavor).prop_map(Json);
    prop_oneof![
        3 => any::<usize>().prop_map(|template| Step::Decide { template }),
        4 => any::<(usize, Option<u64>)>().prop_map(|(template, seed)| Step::Assume { template, seed }),
        3 => (any::<(usize, usize)>(), placed_state())
            .prop_map(|((template, node), placed_state)| Step::Bind { template, node, placed_state }),
        2 => any::<usize>().prop_map(|pod| Step::DeletePod { pod }),
        1 => any::<(usize, usize)>().prop_map(|(pod, template)| Step::Relabel { pod, template }),
        1 => (any::<usize>(), leaving()).prop_map(|(pod, leaving)| Step::Terminate { pod, leaving }),
        4 => promise(),
        1 => (any::<usize>(), node()).prop_map(|(node, object)| Step::UpsertNode { node, object }),
        1 => any::<usize>().prop_map(|node| Step::DeleteNode { node }),
        1 => node().prop_map(|object| Step::AddNode { object }),
        3 => random::object::object().prop_map(|object| Step::UpsertObject { object: object.into() }),
        1 => any::<usize>().prop_map(|object| Step::DeleteObject { object }),
    ]
    .boxed()
}

/// Generates a step about nominations.
fn promise() -> BoxedStrategy<Step> {
    let effect = select(vec![Effect::Nothing, Effect::Nominate, Effect::Nominate, Effect::Evict]);
    prop_oneof![
        4 => (any::<(usize, Option<u64>)>(), effect)
            .prop_map(|((template, seed), effect)| Step::Preempt { template, seed, effect }),
        3 => any::<(usize, usize, bool)>()
            .prop_map(|(template, node, in_memory)| Step::Promise { template, node, in_memory }),
        2 => any::<usize>().prop_map(|pending| Step::Retry { pending }),
        1 => any::<(usize, Option<usize>)>()
            .prop_map(|(pending, node)| Step::RepeatPending { pending, node }),
        1 => any::<(usize, usize)>().prop_map(|(pending, node)| Step::BindPending { pending, node }),
        1 => any::<usize>().prop_map(|pending| Step::DeletePending { pending }),
    ]
    .boxed()
}

fn crowd_step(flavor: Flavor) -> BoxedStrategy<Step> {
    let bind = (any::<(usize, usize)>(), placed_state())
        .prop_map(|((template, node), placed_state)| Step::Bind { template, node, placed_state });
    prop_oneof![3 => promise(), 1 => bind, 2 => step(flavor)].boxed()
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
    vec(ranked(random::pod::stored_template()).prop_map(Json), 2..6).boxed()
}

fn replica_templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    vec(ranked(random::pod::replica_template()).prop_map(Json), 2..6).boxed()
}

fn crowding_templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    vec(ranked(random::pod::crowding_template()).prop_map(Json), 2..7).boxed()
}

/// Generates templates. Some request little, so that clusters keep filling up.
fn templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    let traits = PodTraits { has_host_ports: true, has_node_name: true, has_volumes: true };
    let odd = || ranked(random::pod::template(traits));
    let sociable = || ranked(random::pod::sociable_template(traits));
    let plain = || ranked(random::pod::plain_template());
    let stored = || ranked(random::pod::stored_template());
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

proptest! {
    #![proptest_config(config(200, 1))]

    /// Small clusters, with every rule and every corner case.
    #[test]
    fn small_clusters(
        case in cases(Sizes { nodes: 0..40, bound: 0..30, steps: 1..16, about: About::Everything })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(150, 3))]

    /// Few nodes, many volumes.
    #[test]
    fn storage(
        case in cases(Sizes { nodes: 2..9, bound: 0..12, steps: 4..20, about: About::Volumes })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(20, 2))]

    /// Clusters of several shards, so that vectorised code and data kept for each shard are exercised.
    #[test]
    fn large_clusters(
        case in cases(Sizes { nodes: 300..600, bound: 0..600, steps: 4..10, about: About::Everything })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(250, 4))]

    /// Few small nodes, full of pods of all priorities.
    #[test]
    fn crowds(
        case in cases(Sizes { nodes: 1..7, bound: 4..40, steps: 2..16, about: About::Crowds })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(60, 6))]

    /// Clusters with dozens of pods on each node, of few kinds.
    #[test]
    fn replicas(
        case in cases(Sizes { nodes: 1..4, bound: 30..150, steps: 2..8, about: About::Replicas })
    ) {
        run(case);
    }
}

proptest! {
    #![proptest_config(config(6, 5))]

    /// Crowds on nodes of several shards.
    #[test]
    fn large_crowds(
        case in cases(Sizes { nodes: 250..600, bound: 800..2000, steps: 2..6, about: About::Crowds })
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
    for (template, node, placed_state) in case.bound {
        twin.take(Step::Bind { template, node, placed_state }, &case.policy);
    }
    twin.publish();
    for (number, step) in case.steps.into_iter().enumerate() {
        twin.take(step, &case.policy);
        twin.publish();
        // Pods of templates that were decided just now or some steps ago, so that their evaluations are cached.
        let questions = [(0, &case.policy), (0, &case.other_policy), (number, &case.policy)];
        for (template, policy) in questions {
            twin.check(&twin.pod(twin.n_pods, template), policy);
        }
        twin.check(&urgent(twin.pod(twin.n_pods, number)), &case.policy);
    }
}
