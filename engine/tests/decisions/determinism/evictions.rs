//! Evictions are the same for any number of threads, any order of nodes, and any number of repetitions (S-PRE-19,
//! S-PRE-20).

use std::thread;

use berth_engine::{
    CandidateList, Cluster, Delta, EngineError, Policy, PreemptOptions, PreemptRequest, TieBreak,
    VictimPlacement,
};
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
