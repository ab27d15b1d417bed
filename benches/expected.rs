//! Recorded decisions of kube-scheduler on the baseline's workloads, and their comparison with Berth's decisions.
//!
//! The table is `spec/peer-expected.csv` of [`berth_testing::recorded`].

mod preemption;

use berth_engine::{Cluster, Outcome, PlaceRequest, Policy, TieBreak};
use berth_testing::recorded;

use crate::workload::{Workload, compiled_pod, incoming};

/// Incoming pods of each workload and cluster size whose decision is recorded.
pub const N_RECORDED: usize = 60;

/// The recorded table.
#[derive(Clone, Debug)]
pub struct Expected {
    text: String,
}

impl Expected {
    /// Reads the table. Returns `None` if it is absent, and says so.
    pub fn read() -> Option<Expected> {
        Some(Expected { text: recorded::read("spec/peer-expected.csv")? })
    }

    /// Places the recorded pods one after another, and assumes each on the first node, by name, of those with the
    /// highest total, as in the recording. The error is the first decision that differs.
    ///
    /// `cluster` must be the workload's at 5,000 nodes with `pods_per_node` existing pods each, as loaded.
    pub fn check(
        &self,
        cluster: &Cluster,
        workload: Workload,
        pods_per_node: usize,
    ) -> Result<(), String> {
        let prefix = format!("{},{pods_per_node},", workload.letter());
        let rows = self.rows(&prefix, N_RECORDED)?;
        let policy = Policy::default();
        for (k, row) in rows.into_iter().enumerate() {
            let decided = decide(cluster, &policy, k, workload)?;
            // The columns after the node are filled only for preemption.
            if row.trim_end_matches(',') != decided {
                return Err(format!("{prefix}{row} is decided as {decided}"));
            }
        }
        Ok(())
    }

    /// Returns the rest of each line after the prefix; fails unless this number of lines start with it.
    fn rows(&self, prefix: &str, n_rows: usize) -> Result<Vec<&str>, String> {
        let rows: Vec<&str> =
            self.text.lines().filter_map(|line| line.strip_prefix(prefix)).collect();
        if rows.len() != n_rows {
            return Err(format!("{prefix}: {} decisions are recorded", rows.len()));
        }
        Ok(rows)
    }
}

/// Assumes incoming pod `k`. Returns the decision in the table's form: number, feasible nodes, highest total, number of
/// nodes with this total, node.
fn decide(
    cluster: &Cluster,
    policy: &Policy,
    k: usize,
    workload: Workload,
) -> Result<String, String> {
    let pod = compiled_pod(cluster, &incoming(k, workload));
    let request = PlaceRequest { pod: &pod, policy, tie_break: TieBreak::Lexicographic, now: None };
    let decision = cluster.assume(&request).map_err(|error| format!("pod {k}: {error}"))?;
    match decision.outcome {
        Outcome::Placed(placement) => {
            let total = placement.total.map(|total| total.to_string()).unwrap_or_default();
            let (n_feasible, n_best) = (placement.n_feasible, placement.n_best);
            Ok(format!("{k},{n_feasible},{total},{n_best},{}", placement.node))
        }
        Outcome::Unschedulable(why) => Ok(format!("{k}: {}", why.message)),
        Outcome::Gated { plugin, .. } => Ok(format!("{k}: held back by {plugin:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::Expected;
    use crate::workload::{N_NODES, Workload, cluster};

    fn check(workload: Workload) {
        let Some(expected) = Expected::read() else { return };
        for pods_per_node in [10, 30] {
            let cluster = cluster(workload, N_NODES, pods_per_node);
            expected.check(&cluster, workload, pods_per_node).unwrap();
        }
    }

    #[test]
    fn a_basic() {
        check(Workload::Basic);
    }

    #[test]
    fn b_node_affinity() {
        check(Workload::NodeAffinity);
    }

    #[test]
    fn c_taints() {
        check(Workload::Taints);
    }

    #[test]
    fn d_spread_hard_zone() {
        check(Workload::SpreadHardZone);
    }

    #[test]
    fn e1_spread_soft() {
        check(Workload::SpreadSoft);
    }

    #[test]
    fn e2_spread_system_defaults() {
        check(Workload::SpreadSystemDefaults);
    }

    #[test]
    fn f1_anti_affinity_host_1000() {
        check(Workload::AntiAffinityHost1000);
    }

    #[test]
    fn f2_anti_affinity_host_4000() {
        check(Workload::AntiAffinityHost4000);
    }

    #[test]
    fn g_affinity_zone() {
        check(Workload::AffinityZone);
    }

    #[test]
    fn h_preferred_affinity() {
        check(Workload::PreferredAffinity);
    }

    #[test]
    fn j_mixed() {
        check(Workload::Mixed);
    }

    #[test]
    fn another_decision_is_an_error() {
        let expected = Expected { text: "a,1,0,3,470,3,node-9999,,,\n".repeat(60) };
        let cluster = cluster(Workload::Basic, 3, 1);
        let error = expected.check(&cluster, Workload::Basic, 1).unwrap_err();
        assert!(error.starts_with("a,1,0,3,470,3,node-9999,,, is decided as 0,3,"), "{error}");
        let none = expected.check(&cluster, Workload::Basic, 2).unwrap_err();
        assert_eq!(none, "a,2,: 0 decisions are recorded");
    }
}
