//! Recorded preemptions of kube-scheduler: all candidates, those equal to the last, the node and its victims in order.
//! For a sampled preemption the check is that some sample leads to the response.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_engine::{
    Candidate, CandidateList, Cluster, Outcome, Pod, Policy, PolicySpec, PostFilter,
    PreemptOptions, PreemptRequest, Preemption, TieBreak,
};

use super::Expected;
use crate::workload::{PreemptionWorkload, compiled_pod, preemptor, start_time};

/// Incoming pods of each cluster size whose preemption is recorded.
const N_RECORDED: usize = 2;

/// Number of samples drawn for a pod.
const N_SAMPLES: u64 = 16;

impl Expected {
    /// Compares the recorded preemptions without evicting pods; the error is the first that differs.
    ///
    /// A sampled response is random and not recorded. It must have the number of candidates that kube-scheduler
    /// samples, and its node must be the best of some sample, with the victims that the node has if all nodes are
    /// candidates.
    ///
    /// `cluster` must be the workloads' full one at 5,000 nodes with `pods_per_node` existing pods each, as loaded.
    pub fn check_preemption(
        &self,
        cluster: &Cluster,
        workload: PreemptionWorkload,
        pods_per_node: usize,
    ) -> Result<(), String> {
        let prefix = format!("i2,{pods_per_node},");
        for (k, row) in self.rows(&prefix, N_RECORDED)?.into_iter().enumerate() {
            let pod = compiled_pod(cluster, &preemptor(k));
            let list = list(cluster, &pod)?;
            match workload {
                PreemptionWorkload::All => {
                    let decided = format!("{k},{}", table_row(&list)?);
                    if row != decided {
                        return Err(format!("{prefix}{row} is decided as {decided}"));
                    }
                    let whole = attempt(cluster, &pod, workload, 0)?;
                    if whole != list.preemption {
                        return Err(format!("{prefix}{k}: listed and decided differ: {whole:?}"));
                    }
                }
                PreemptionWorkload::Sampled => {
                    for seed in 0..N_SAMPLES {
                        let sampled = attempt(cluster, &pod, workload, seed)?;
                        check_sample(&list.candidates, &sampled).map_err(|error| {
                            format!("i1,{pods_per_node},{k}, seed {seed}: {error}")
                        })?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The request for a pod, without a deadline.
fn request<'a>(pod: &'a Pod, policy: &'a Policy, options: PreemptOptions) -> PreemptRequest<'a> {
    let tie_break = TieBreak::Lexicographic;
    PreemptRequest { pod, policy, tie_break, options, cancelled: &|| false, now: None }
}

fn list(cluster: &Cluster, pod: &Pod) -> Result<CandidateList, String> {
    let policy = Policy::default();
    let request = request(pod, &policy, PreemptionWorkload::All.options(0));
    cluster.list_candidates(&request).map_err(|error| error.to_string())
}

fn attempt(
    cluster: &Cluster,
    pod: &Pod,
    workload: PreemptionWorkload,
    seed: u64,
) -> Result<Preemption, String> {
    let policy = Policy::default();
    let request = request(pod, &policy, workload.options(seed));
    cluster.preempt(&request).map_err(|error| error.to_string())
}

/// Formats the attempt as a row of the table: feasible nodes, no total, best nodes, node, candidates, those equal to
/// the last, victims.
fn table_row(list: &CandidateList) -> Result<String, String> {
    let (post_filter, chosen) = success(&list.preemption)?;
    let (n_candidates, n_best) = (list.candidates.len(), list.best.len());
    if post_filter.n_candidates as usize != n_candidates || post_filter.n_best as usize != n_best {
        return Err(format!("{n_candidates} are listed, {n_best} of them best: {post_filter:?}"));
    }
    let victims: Vec<String> = chosen.victims.iter().map(|it| it.pod.to_string()).collect();
    Ok(format!("0,,0,{},{n_candidates},{n_best},{}", chosen.node, victims.join(" ")))
}

fn success(attempt: &Preemption) -> Result<(&PostFilter, &Candidate), String> {
    let chosen = attempt.post_filter.as_ref().and_then(|it| Some((it, it.chosen.as_ref()?)));
    match (&attempt.decision.outcome, chosen) {
        (Outcome::Unschedulable(_), Some(chosen)) => Ok(chosen),
        _ => Err(format!("nobody is evicted: {attempt:?}")),
    }
}

/// Whether the chosen candidate is the best of some sample of the required size (S-PRE-6, S-PRE-19). The order of the
/// nodes is not defined, so any `n_sampled` of them can be a sample.
fn check_sample(all: &[Candidate], attempt: &Preemption) -> Result<(), String> {
    let (post_filter, chosen) = success(attempt)?;
    let args = PolicySpec::default().default_preemption;
    let share = all.len() * args.min_candidate_nodes_percentage as usize / 100;
    let n_sampled = share.max(args.min_candidate_nodes_absolute as usize).min(all.len());
    if post_filter.n_candidates as usize != n_sampled {
        return Err(format!("{} candidates, not {n_sampled}", post_filter.n_candidates));
    }
    if !all.contains(chosen) {
        return Err(format!("no candidate, looking at all nodes: {chosen:?}"));
    }
    let own = rank(chosen)?;
    let ranks = all.iter().map(rank).collect::<Result<Vec<Rank>, String>>()?;
    let n_not_better = ranks.iter().filter(|rank| **rank >= own).count();
    if n_not_better < n_sampled {
        return Err(format!("all but {n_not_better} are better than `{}`", chosen.node));
    }
    Ok(())
}

/// The key by which candidates are ranked, the smallest first (S-PRE-19).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    n_pdb_violations: u32,
    highest_priority: i32,
    priority_sum: i64,
    n_victims: usize,
    earliest_start: Reverse<i64>,
}

fn rank(candidate: &Candidate) -> Result<Rank, String> {
    let victims = &candidate.victims;
    let highest_priority = victims.iter().map(|it| it.priority).max().unwrap_or(i32::MIN);
    let mut starts = BTreeSet::new();
    for victim in victims.iter().filter(|it| it.priority == highest_priority) {
        starts.insert(start_time(number(&victim.uid)?));
    }
    Ok(Rank {
        n_pdb_violations: candidate.n_pdb_violations,
        highest_priority,
        priority_sum: victims.iter().map(|it| i64::from(it.priority) + (1 << 31)).sum(),
        n_victims: victims.len(),
        earliest_start: Reverse(starts.first().copied().unwrap_or(i64::MAX)),
    })
}

/// The number of an existing pod, from its uid.
fn number(uid: &Arc<str>) -> Result<usize, String> {
    let number = uid.strip_prefix("e-").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{uid}` is not one of the existing pods"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{N_NODES, full_cluster};

    fn check(workload: PreemptionWorkload) {
        let Some(expected) = Expected::read() else { return };
        for pods_per_node in [10, 30] {
            let cluster = full_cluster(N_NODES, pods_per_node);
            expected.check_preemption(&cluster, workload, pods_per_node).unwrap();
        }
    }

    #[test]
    fn i1_preemption_default() {
        check(PreemptionWorkload::Sampled);
    }

    #[test]
    fn i2_preemption_all() {
        check(PreemptionWorkload::All);
    }

    #[test]
    fn another_preemption_is_an_error() {
        let cluster = full_cluster(7, 10);
        let check = |rows: &str| {
            let expected = Expected { text: rows.to_owned() };
            expected.check_preemption(&cluster, PreemptionWorkload::All, 10)
        };
        let pod = compiled_pod(&cluster, &preemptor(0));
        let row = table_row(&list(&cluster, &pod).unwrap()).unwrap();
        assert!(row.starts_with("0,,0,node-000"), "{row}");
        let same = format!("i2,10,0,{row}\ni2,10,1,{row}\n");
        assert_eq!(check(&same), Ok(()));
        let other_victim = same.replace("/e-", "/f-");
        assert!(check(&other_victim).unwrap_err().ends_with(&format!("is decided as 0,{row}")));
        assert_eq!(check("").unwrap_err(), "i2,10,: 0 decisions are recorded");
    }

    #[test]
    fn what_no_sample_leads_to_is_an_error() {
        // A sample covers 100 of 700 candidate nodes.
        let cluster = full_cluster(700, 10);
        let pod = compiled_pod(&cluster, &preemptor(0));
        let all = list(&cluster, &pod).unwrap().candidates;
        assert_eq!(all.len(), 700);
        let sampled = attempt(&cluster, &pod, PreemptionWorkload::Sampled, 1).unwrap();
        check_sample(&all, &sampled).unwrap();
        let node = |attempt: &Preemption| success(attempt).unwrap().1.node.clone();
        let is_other = |seed| {
            let other = attempt(&cluster, &pod, PreemptionWorkload::Sampled, seed).unwrap();
            node(&other) != node(&sampled)
        };
        assert!((2..N_SAMPLES).any(is_other), "every sample leads to one node");

        let with = |change: &dyn Fn(&mut PostFilter)| {
            let mut other = sampled.clone();
            other.post_filter.iter_mut().for_each(change);
            check_sample(&all, &other).unwrap_err()
        };
        assert_eq!(with(&|it| it.n_candidates = 99), "99 candidates, not 100");
        let worst = all.iter().max_by_key(|it| rank(it).unwrap()).unwrap();
        let error = with(&|it| it.chosen = Some(worst.clone()));
        assert!(error.starts_with("all but "), "{error}");
        let error = with(&|it| it.chosen.iter_mut().for_each(|it| it.victims.truncate(1)));
        assert!(error.starts_with("no candidate, looking at all nodes"), "{error}");
        assert!(with(&|it| it.chosen = None).starts_with("nobody is evicted"));
    }
}
