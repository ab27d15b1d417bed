//! The options of preemption: budgets that are never violated, and sampling (S-PRE-6).

use berth_engine::{
    CandidateList, DefaultPreemptionArgs, Nomination, Policy, PolicySpec, PostFilterCode,
    PreemptOptions, PreemptRequest, TieBreak,
};
use proptest::prelude::*;

use super::{incoming, list};
use crate::naive::attempt::attempt;
use crate::naive::pick;
use crate::naive::post_filter::post_filter;
use crate::random::config;
use crate::random::crowd::{Company, crowd};
use crate::random::importance::urgent;

proptest! {
    #![proptest_config(config(120, 43))]

    /// Candidates that violate a budget are skipped, and the best of the others is chosen by the usual order.
    #[test]
    fn budgets_can_be_made_to_hold(crowd in crowd(Company::Related, 2..7, 8..30)) {
        let cluster = crowd.cluster();
        let options = PreemptOptions { refuse_pdb_violations: true, ..PreemptOptions::default() };
        for pod in incoming(&crowd, &cluster) {
            let (Some(all), Some(kept)) =
                (list(&cluster, &pod, PreemptOptions::default()), list(&cluster, &pod, options))
            else {
                continue;
            };
            let (violating, harmless): (Vec<_>, Vec<_>) =
                all.candidates.iter().cloned().partition(|candidate| candidate.n_pdb_violations > 0);
            prop_assert_eq!(&kept.candidates, &harmless);
            for candidate in &violating {
                prop_assert!(kept.not_helped.iter().any(|verdict| verdict.node == candidate.node));
            }
            let (Some(all_found), Some(found)) = (&all.preemption.post_filter, &kept.preemption.post_filter) else {
                prop_assert_eq!(all.preemption.post_filter, kept.preemption.post_filter);
                continue;
            };
            if violating.is_empty() {
                prop_assert_eq!(all_found, found);
            } else if harmless.is_empty() {
                prop_assert_eq!(found.code, PostFilterCode::Unschedulable);
                prop_assert_eq!(&found.nomination, &Nomination::Cleared);
                prop_assert_eq!(&found.chosen, &None);
            } else {
                // Violations are compared first, so if any candidate violates none, the best of all violates none.
                prop_assert_eq!(&all_found.chosen, &found.chosen);
                prop_assert_eq!(&all.best, &kept.best);
            }
        }
    }

    /// A sample contains some of the candidates, enough of them, and one that violates no budget if there is any. The
    /// best of them is chosen, and the same seed gives the same sample.
    #[test]
    fn samples(
        crowd in crowd(Company::Related, 3..12, 20..50),
        seed in any::<u64>(),
        percentage in 0..=100_u32,
        absolute in 1..6_u32,
    ) {
        let (cluster, naive) = (crowd.cluster(), crowd.naive());
        let args = DefaultPreemptionArgs {
            min_candidate_nodes_percentage: percentage,
            min_candidate_nodes_absolute: absolute,
        };
        let spec = PolicySpec { default_preemption: args, ..PolicySpec::default() };
        let policy = Policy::new(spec).unwrap();
        for i in 0..crowd.incoming.len() {
            let wire = urgent(crowd.incoming_wire(i));
            let pod = cluster.compile_pod(&wire).unwrap();
            let ask = |sample| {
                let options = PreemptOptions { sample, ..PreemptOptions::default() };
                let tie_break = TieBreak::Lexicographic;
                cluster.list_candidates(&PreemptRequest { pod: &pod, policy: &policy, tie_break, options, cancelled: &|| false, now: None })
            };
            let (Ok(all), Ok(sample)) = (ask(None), ask(Some(seed))) else { continue };
            prop_assert_eq!(&ask(Some(seed)).unwrap(), &sample);
            prop_assert!(sample.candidates.iter().all(|candidate| all.candidates.contains(candidate)));
            prop_assert!(sample.not_helped.iter().all(|verdict| all.not_helped.contains(verdict)));
            let n_nodes = all.candidates.len() + all.not_helped.len();
            let n_tried = sample.candidates.len() + sample.not_helped.len();
            let n_wanted = (n_nodes * percentage as usize / 100).max(absolute as usize).min(n_nodes);
            let is_harmless = |list: &CandidateList| list.candidates.iter().any(|c| c.n_pdb_violations == 0);
            prop_assert!(
                n_tried == n_nodes || (is_harmless(&sample) && sample.candidates.len() == n_wanted)
                    || (is_harmless(&sample) && sample.candidates.len() > n_wanted && n_harmless(&sample) == 1),
                "{} candidates of {n_wanted} wanted, {n_tried} of {n_nodes} nodes tried", sample.candidates.len()
            );
            // The best of the found candidates by the naive scheduler's order.
            let attempt = attempt(&naive, policy.spec(), &wire);
            let Some(found) = post_filter(&naive, policy.spec(), &wire, &attempt) else { continue };
            let is_sampled = |name: &str| sample.candidates.iter().any(|c| &*c.node == name);
            let sampled: Vec<_> = found.candidates.into_iter().filter(|c| is_sampled(&c.node)).collect();
            let best = sample.best.iter().map(|name| name.to_string()).collect::<Vec<_>>();
            prop_assert_eq!(best, pick::best(&sampled));
        }
    }
}

fn n_harmless(list: &CandidateList) -> usize {
    list.candidates.iter().filter(|candidate| candidate.n_pdb_violations == 0).count()
}
