//! Evictions are the same for any number of threads, any order of nodes, and any number of repetitions (S-PRE-19,
//! S-PRE-20).

use std::thread;

use berth_engine::{
    CandidateList, Cluster, Delta, EngineError, Policy, PreemptOptions, PreemptRequest, TieBreak,
    VictimPlacement,
};
use berth_testing::object;
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use crate::random::config;
use crate::random::crowd::{Company, Crowd, crowd};
use crate::random::importance::urgent;

type Answers = Vec<Result<CandidateList, EngineError>>;

/// Lists all candidates for every incoming pod, as it is and with a high priority, with every option.
fn ask(crowd: &Crowd, cluster: &Cluster) -> Answers {
    let plain = PreemptOptions::default();
    let options = [
        plain,
        PreemptOptions { refuse_pdb_violations: true, ..plain },
        PreemptOptions { sample: Some(5), ..plain },
        PreemptOptions { victim_placement: VictimPlacement::Report, ..plain },
    ];
    let mut answers = Vec::new();
    for i in 0..crowd.incoming.len() {
        for wire in [crowd.incoming_wire(i), urgent(crowd.incoming_wire(i))] {
            let pod = cluster.compile_pod(&wire).unwrap();
            for (options, seed) in options.into_iter().zip(0..) {
                let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(seed));
                let request = PreemptRequest {
                    pod: &pod,
                    policy,
                    tie_break,
                    options,
                    cancelled: &|| false,
                    now: None,
                };
                let list = cluster.list_candidates(&request);
                assert_eq!(
                    list.as_ref().ok().map(|l| &l.preemption),
                    cluster.preempt(&request).as_ref().ok()
                );
                answers.push(list);
            }
        }
    }
    answers
}

proptest! {
    #![proptest_config(config(4, 13))]

    /// There are enough nodes for a parallel dry run: in pools of 1, 2 and 8 threads, and with 1, 2 and 8 concurrent
    /// callers.
    #[test]
    fn threads_evict_the_same(crowd in crowd(Company::Any, 540..800, 1500..3000)) {
        let cluster = crowd.cluster();
        let expected = ask(&crowd, &cluster);
        for n_threads in [1, 2, 8] {
            let pool = ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            prop_assert!(pool.install(|| ask(&crowd, &cluster)) == expected, "a pool of {n_threads}");
        }
        for n_callers in [2, 8] {
            let answers: Vec<Answers> = thread::scope(|scope| {
                let ask = || ask(&crowd, &cluster);
                let callers: Vec<_> = (0..n_callers).map(|_| scope.spawn(ask)).collect();
                callers.into_iter().map(|caller| caller.join().unwrap()).collect()
            });
            prop_assert!(answers.iter().all(|answer| *answer == expected), "{n_callers} callers");
        }
    }
}

proptest! {
    #![proptest_config(config(60, 14))]

    /// Nodes and objects may come in any order; only the pods of one node must come in the same order.
    #[test]
    fn the_order_of_nodes_does_not_matter_to_evictions(mut crowd in crowd(Company::Any, 1..8, 4..40)) {
        // The size of an image is that of its first reporter (S-IL-4), so here nodes have none.
        for node in &mut crowd.nodes {
            node.0.status.get_or_insert_default().images.clear();
        }
        let forwards = crowd.cluster();
        let backwards = Cluster::new();
        for pod in crowd.placed.iter().chain(&crowd.waiting) {
            backwards.apply(vec![Delta::UpsertPod(backwards.compile_pod(&pod.0).unwrap())]);
        }
        for node in crowd.nodes.iter().rev() {
            backwards.apply(vec![Delta::UpsertNode(backwards.compile_node(&node.0).unwrap())]);
        }
        // If an object comes twice, the later version holds.
        let objects = crowd.objects.iter();
        let objects = objects.map(|object| Delta::UpsertObject(backwards.compile_object(object.wire()).unwrap()));
        backwards.apply(objects.collect());
        let without_generation = |answers: Answers| {
            let of = |list: CandidateList| {
                let CandidateList { preemption, candidates, best, not_helped } = list;
                (preemption.decision.outcome, preemption.post_filter, candidates, best, not_helped)
            };
            answers.into_iter().map(|answer| answer.map(of)).collect::<Vec<_>>()
        };
        prop_assert_eq!(without_generation(ask(&crowd, &forwards)), without_generation(ask(&crowd, &backwards)));
    }
}

proptest! {
    #![proptest_config(config(12, 17))]

    /// Searches that go on from what earlier ones found on unchanged shards find what a search of all nodes finds,
    /// whatever was evicted in between.
    #[test]
    fn remembered_searches_find_the_same(
        mut crowd in crowd(Company::Any, 280..600, 1200..2400),
        has_objects in any::<bool>(),
    ) {
        if !has_objects {
            // Without budgets: with them nothing is remembered.
            crowd.objects.clear();
        }
        let cluster = crowd.cluster();
        let policy = Policy::default();
        for round in 0..4 {
            for i in 0..crowd.incoming.len() {
                let pod = cluster.compile_pod(&urgent(crowd.incoming_wire(i))).unwrap();
                let request = PreemptRequest {
                    pod: &pod,
                    policy: &policy,
                    tie_break: TieBreak::Seeded(round),
                    options: PreemptOptions::default(),
                    cancelled: &|| false,
                    now: None,
                };
                let found = cluster.preempt(&request);
                let of_all = cluster.list_candidates(&request).map(|list| list.preemption);
                prop_assert_eq!(&found, &of_all);
                let chosen = found.ok().and_then(|found| found.post_filter?.chosen);
                let victims = chosen.into_iter().flat_map(|candidate| candidate.victims);
                let leave: Vec<_> =
                    victims.map(|victim| Delta::DeletePod { key: victim.pod, uid: None }).collect();
                cluster.apply(leave);
            }
        }
    }
}

/// Preemptors of one shape on a full cluster, one after another, each on the node that it has cleared: the searches of
/// all but the first go on from what was found before.
#[test]
fn preemptors_in_turn_find_what_searches_of_all_nodes_find() {
    let cluster = Cluster::new();
    let nodes = (0..N_FULL).map(|i| object::node(&format!("n{i} cpu=4 memory=8Gi pods=9")));
    let nodes = nodes.map(|node| Delta::UpsertNode(cluster.compile_node(&node).unwrap()));
    cluster.apply(nodes.collect());
    let pods = (0..4 * N_FULL).map(|i| {
        let (node, priority, started) = (i / 4, i * 7 % 5, 1_000 + i * 13 % 101);
        let text = format!("p{i} cpu=1 node=n{node} priority={priority} started={started}");
        Delta::UpsertPod(cluster.compile_pod(&object::pod(&text)).unwrap())
    });
    assert_eq!(cluster.apply(pods.collect()).rejected, []);
    let policy = Policy::default();
    for i in 0..40 {
        let text = format!("preemptor-{i} cpu=2 priority={}", 10 + i % 2);
        let pod = cluster.compile_pod(&object::pod(&text)).unwrap();
        let request = PreemptRequest {
            pod: &pod,
            policy: &policy,
            tie_break: TieBreak::Seeded(i),
            options: PreemptOptions::default(),
            cancelled: &|| false,
            now: None,
        };
        let found = cluster.preempt(&request).unwrap();
        assert_eq!(found, cluster.list_candidates(&request).unwrap().preemption);
        let chosen = found.post_filter.unwrap().chosen.unwrap();
        assert_eq!(chosen.victims.len(), 2);
        let victims = chosen.victims.into_iter();
        let leave = victims.map(|victim| Delta::DeletePod { key: victim.pod, uid: None });
        cluster.apply(leave.collect());
        let text = format!("{text} node={}", chosen.node);
        let placed = cluster.compile_pod(&object::pod(&text)).unwrap();
        assert_eq!(cluster.apply(vec![Delta::UpsertPod(placed)]).rejected, []);
    }
}

/// Three shards of nodes.
const N_FULL: usize = 700;
