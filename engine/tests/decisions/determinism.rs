//! Equal inputs lead to equal decisions, whatever the number of threads, the order of arrival and earlier requests.
//!
//! Rules: S-SEL-4 (ties, policy), S-SNP-2.

mod batches;
mod evictions;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::thread;

use berth_engine::{
    BatchRequest, Cluster, Decision, Delta, EngineError, Generation, Outcome, PlaceRequest, Pod,
    Policy, TieBreak,
};
use berth_proto::core_v1;
use berth_testing::object;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rayon::ThreadPoolBuilder;

use crate::naive::objects::AnyObject;
use crate::random::importance::ranked;
use crate::random::node::{Flavor, named};
use crate::random::pod::PodTraits;
use crate::random::{self, Json, config};

#[derive(Debug)]
struct Case {
    nodes: Vec<Json<core_v1::Node>>,
    objects: Vec<AnyObject>,
    templates: Vec<Json<core_v1::Pod>>,
    policy: Policy,
    tie_break: TieBreak,
}

fn cases(n_nodes: std::ops::Range<usize>) -> impl Strategy<Value = Case> {
    let traits = PodTraits { has_host_ports: true, has_node_name: true, has_volumes: true };
    let templates = (
        vec(ranked(random::pod::plain_template()), 1..3),
        vec(ranked(random::pod::template(traits)), 1..3),
        vec(ranked(random::pod::sociable_template(traits)), 1..4),
        vec(ranked(random::pod::stored_template()), 0..3),
    );
    let flavor = select(vec![Flavor::Odd, Flavor::Ordinary]);
    let nodes = flavor.prop_flat_map(move |flavor| {
        vec(random::node::node(flavor).prop_map(Json), n_nodes.clone())
    });
    let objects = random::object::objects();
    let tie_break =
        prop_oneof![Just(TieBreak::Lexicographic), any::<u64>().prop_map(TieBreak::Seeded)];
    (nodes, objects, templates, random::policy::policy(), tie_break).prop_map(
        |(nodes, objects, (plain, odd, sociable, stored), policy, tie_break)| {
            let named =
                |(i, node): (usize, Json<core_v1::Node>)| Json(named(node.0, &format!("node-{i}")));
            Case {
                nodes: nodes.into_iter().enumerate().map(named).collect(),
                objects,
                templates: plain
                    .into_iter()
                    .chain(odd)
                    .chain(sociable)
                    .chain(stored)
                    .map(Json)
                    .collect(),
                policy,
                tie_break,
            }
        },
    )
}

fn cluster_of(case: &Case) -> Cluster {
    let cluster = of_nodes(&case.nodes);
    let objects = case.objects.iter().map(|object| upsert_object(&cluster, object));
    assert_eq!(cluster.apply(objects.collect()).rejected, []);
    cluster
}

fn of_nodes(nodes: &[Json<core_v1::Node>]) -> Cluster {
    let cluster = Cluster::new();
    let nodes = nodes
        .iter()
        .map(|node| Delta::UpsertNode(cluster.compile_node(&node.0).unwrap()))
        .collect();
    assert_eq!(cluster.apply(nodes).rejected, []);
    cluster
}

fn upsert_object(cluster: &Cluster, object: &AnyObject) -> Delta {
    Delta::UpsertObject(cluster.compile_object(object.wire()).unwrap())
}

/// Returns pods of the templates in rotation, named by number.
fn pods(cluster: &Cluster, templates: &[Json<core_v1::Pod>], n: usize) -> Vec<Pod> {
    let of = |i: usize| {
        let mut pod = templates[i % templates.len()].0.clone();
        let metadata = pod.metadata.get_or_insert_default();
        (metadata.name, metadata.uid) = (format!("pod-{i}"), format!("uid-{i}"));
        cluster.compile_pod(&pod).unwrap()
    };
    (0..n).map(of).collect()
}

fn batch(
    case: &Case,
    cluster: &Cluster,
    pods: &[Pod],
    assume: bool,
) -> Vec<Result<Decision, EngineError>> {
    let Case { policy, tie_break, .. } = case;
    let request = BatchRequest {
        pods,
        policy,
        tie_break: *tie_break,
        assume,
        gang: None,
        cancelled: &|| false,
        now: None,
    };
    let outcome = cluster.place_batch(&request);
    assert_eq!(outcome.gang, None);
    outcome.results
}

/// Returns the outcome of a decision without its generation and the mark of an assumed pod.
fn outcome(decision: Result<Decision, EngineError>) -> Result<Outcome, EngineError> {
    decision.map(|decision| {
        let mut outcome = decision.outcome;
        if let Outcome::Placed(placement) = &mut outcome {
            (placement.assumed, placement.stamp) = (false, None);
        }
        outcome
    })
}

proptest! {
    #![proptest_config(config(60, 11))]

    /// Two clusters with the same sequence of requests make the same decisions, generations included.
    #[test]
    fn the_same_sequence_gives_the_same_decisions(case in cases(1..40)) {
        let run = || {
            let cluster = cluster_of(&case);
            let mut decisions = Vec::new();
            let pods = pods(&cluster, &case.templates, 12);
            for (i, pod) in pods.iter().enumerate() {
                let request = PlaceRequest { pod, policy: &case.policy, tie_break: case.tie_break, now: None };
                decisions.push(if i % 4 == 0 { cluster.place(&request) } else { cluster.assume(&request) });
                if i % 5 == 4 {
                    let key = pods[i - 1].key().clone();
                    cluster.apply(vec![Delta::DeletePod { key, uid: None }]);
                }
            }
            decisions
        };
        prop_assert_eq!(run(), run());
    }

    /// A dry run of a batch returns the same results as assuming it, and changes nothing.
    #[test]
    fn a_dry_run_returns_what_assuming_does(case in cases(1..40), n in select(vec![1_usize, 7, 40, 150])) {
        let (dry, real) = (cluster_of(&case), cluster_of(&case));
        let place = |cluster: &Cluster, assume| {
            let pods = pods(cluster, &case.templates, n);
            batch(&case, cluster, &pods, assume).into_iter().map(outcome).collect::<Vec<_>>()
        };
        let planned = place(&dry, false);
        prop_assert_eq!(dry.snapshot().generation(), cluster_of(&case).snapshot().generation());
        prop_assert_eq!(dry.snapshot().n_pods(), 0);
        prop_assert_eq!(&planned, &place(&real, true));
        let n_placed = planned.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Placed(_)))).count();
        prop_assert_eq!(real.snapshot().n_pods(), n_placed);
        // Evaluations cached by the dry run must not affect later requests.
        prop_assert_eq!(planned, place(&dry, true));
    }

    /// A batch decides as if its pods came one by one: by priority, and those of equal priority in the order of the
    /// request.
    #[test]
    fn a_batch_is_its_pods_one_by_one(case in cases(1..40)) {
        let (together, single) = (cluster_of(&case), cluster_of(&case));
        let found = batch(&case, &together, &pods(&together, &case.templates, 20), true);
        let mut turns: Vec<(usize, Pod)> = pods(&single, &case.templates, 20).into_iter().enumerate().collect();
        turns.sort_by_key(|(_, pod)| Reverse(pod.priority()));
        let mut alone: Vec<_> = turns.iter().map(|(i, pod)| {
            let request = PlaceRequest { pod, policy: &case.policy, tie_break: case.tie_break, now: None };
            (*i, outcome(single.assume(&request)))
        }).collect();
        alone.sort_by_key(|(i, _)| *i);
        let alone: Vec<_> = alone.into_iter().map(|(_, outcome)| outcome).collect();
        prop_assert_eq!(found.into_iter().map(outcome).collect::<Vec<_>>(), alone);
        prop_assert_eq!(together.snapshot().nodes(), single.snapshot().nodes());
    }

    /// Ties are broken by name, not by row: nodes and objects may come in any order, one by one or all at once.
    #[test]
    fn the_order_of_nodes_does_not_matter(mut case in cases(1..60)) {
        // The size of an image is that of its first reporter (S-IL-4), so here nodes have none.
        for node in &mut case.nodes {
            node.0.status.get_or_insert_default().images.clear();
        }
        // If an object comes twice, the later version holds, so each comes once here.
        let mut keys = BTreeSet::new();
        case.objects.retain(|object| keys.insert(object.key()));
        let backwards = Cluster::new();
        for object in case.objects.iter().rev() {
            backwards.apply(vec![upsert_object(&backwards, object)]);
        }
        for node in case.nodes.iter().rev() {
            backwards.apply(vec![Delta::UpsertNode(backwards.compile_node(&node.0).unwrap())]);
        }
        let forwards = cluster_of(&case);
        let decide = |cluster: &Cluster| {
            let pods = pods(cluster, &case.templates, 12);
            let decisions = pods.iter().map(|pod| {
                outcome(cluster.assume(&PlaceRequest { pod, policy: &case.policy, tie_break: case.tie_break, now: None }))
            });
            decisions.collect::<Vec<_>>()
        };
        prop_assert_eq!(decide(&forwards), decide(&backwards));
    }
}

proptest! {
    #![proptest_config(config(4, 12))]

    /// One snapshot gives the same answers to 1, 2 and 8 concurrent threads.
    #[test]
    fn threads_agree(case in cases(300..500)) {
        let cluster = cluster_of(&case);
        let pods = pods(&cluster, &case.templates, 40);
        // Some room is taken first, so that the shards differ.
        batch(&case, &cluster, &pods[..20], true);
        let ask = |pod: &Pod| cluster.place(&PlaceRequest { pod, policy: &case.policy, tie_break: case.tie_break, now: None });
        let expected: Vec<_> = pods.iter().map(ask).collect();
        for n_threads in [1, 2, 8] {
            let answers: Vec<Vec<_>> = thread::scope(|scope| {
                let callers: Vec<_> =
                    (0..n_threads).map(|_| scope.spawn(|| pods.iter().map(ask).collect())).collect();
                callers.into_iter().map(|caller| caller.join().unwrap()).collect()
            });
            for answer in answers {
                prop_assert_eq!(&answer, &expected, "{} threads", n_threads);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(1, 15))]

    /// A cluster whose shards are worked on by all threads of a pool gives the same answers on pools of 1, 2, 8 and 64
    /// threads, the first time and after every assumption.
    #[test]
    fn pools_agree(mut case in cases(250..300)) {
        let kinds = std::mem::take(&mut case.nodes);
        let copy = |i: usize| Json(named(kinds[i % kinds.len()].0.clone(), &format!("node-{i}")));
        case.nodes = (0..N_MANY).map(copy).collect();
        let decide = |n_threads| {
            let pool = ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let cluster = cluster_of(&case);
            let pods = pods(&cluster, &case.templates, 16);
            pool.install(|| {
                let request = |pod| PlaceRequest { pod, policy: &case.policy, tie_break: case.tie_break, now: None };
                let first: Vec<_> = pods.iter().map(|pod| cluster.place(&request(pod))).collect();
                let then: Vec<_> = pods.iter().map(|pod| cluster.assume(&request(pod))).collect();
                (first, then)
            })
        };
        let expected = decide(1);
        for n_threads in [2, 8, 64] {
            prop_assert_eq!(&decide(n_threads), &expected, "{} threads", n_threads);
        }
    }
}

/// Number of nodes whose shards are worked on by many threads.
const N_MANY: usize = 66_000;

/// Among equal nodes, seeds and uids spread pods out; `Lexicographic` does not (S-SEL-4).
#[test]
fn seeds_spread_and_lexicographic_does_not() {
    let nodes: Vec<_> = (0..50)
        .map(|i| Json(object::node(&format!("n{i:02} cpu=4 memory=8Gi pods=110"))))
        .collect();
    let cluster = of_nodes(&nodes);
    let choose = |uid: &str, tie_break| {
        let pod = cluster.compile_pod(&object::pod(&format!("p cpu=1 uid={uid}"))).unwrap();
        let decision = cluster
            .place(&PlaceRequest { pod: &pod, policy: &Policy::default(), tie_break, now: None })
            .unwrap();
        assert_eq!(decision.generation, Generation::default().max(cluster.snapshot().generation()));
        match decision.outcome {
            Outcome::Placed(placement) => {
                assert_eq!(placement.n_best, 50);
                placement.node.to_string()
            }
            outcome => panic!("{outcome:?}"),
        }
    };
    let by_seed: BTreeSet<_> = (0..200).map(|seed| choose("u", TieBreak::Seeded(seed))).collect();
    let by_uid: BTreeSet<_> =
        (0..200).map(|i| choose(&format!("u{i}"), TieBreak::Seeded(1))).collect();
    let lexicographic: BTreeSet<_> =
        (0..5).map(|i| choose(&format!("u{i}"), TieBreak::Lexicographic)).collect();
    assert!(
        by_seed.len() > 30 && by_uid.len() > 30,
        "{} and {} of 50 nodes",
        by_seed.len(),
        by_uid.len()
    );
    assert_eq!(lexicographic, BTreeSet::from(["n00".to_owned()]));
}

/// After a batch is cancelled its remaining pods are refused, and those already placed stay.
#[test]
fn a_cancelled_batch_keeps_what_it_placed() {
    let cluster = of_nodes(&[Json(object::node("n1 cpu=4 memory=8Gi pods=110"))]);
    let pods = pods(&cluster, &[Json(object::pod("p cpu=1"))], 4);
    let polls = std::cell::Cell::new(0);
    let is_cancelled = || polls.replace(polls.get() + 1) >= 2;
    let decisions = cluster
        .place_batch(&BatchRequest {
            pods: &pods,
            policy: &Policy::default(),
            tie_break: TieBreak::Lexicographic,
            assume: true,
            gang: None,
            cancelled: &is_cancelled,
            now: None,
        })
        .results;
    assert!(matches!(decisions[1].as_ref().unwrap().outcome, Outcome::Placed(_)));
    assert_eq!(decisions[2..], [Err(EngineError::Cancelled), Err(EngineError::Cancelled)]);
    assert_eq!(cluster.snapshot().n_pods(), 2);
}
