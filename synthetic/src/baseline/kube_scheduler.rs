//! Times of kube-scheduler on the baseline's workloads, for comparison with Berth's.
//!
//! kube-scheduler v1.36.2 in process, default profile, 5,000 nodes, on two cores of an AMD EPYC virtual machine
//! (GOMAXPROCS 2): the median of three runs of 120 pods (as many as fit in 3 s, at least 30) after 20 of warm-up. The
//! times cover the update of its snapshot and the decision, but not the queue, binding or the API server. This project
//! measured them; the method and further figures are in `spec/peer-baseline.md`.

use super::kind::Workload;

/// Median times a pod in microseconds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// All nodes filtered and all feasible nodes scored (`percentageOfNodesToScore: 100`), as Berth does.
    pub all_nodes_us: u32,
    /// The default configuration, which stops after 500 feasible nodes.
    pub sampled_us: u32,
}

/// Times of kube-scheduler on a workload with 10 or 30 existing pods a node (50,000 or 150,000); other sizes were not
/// measured.
pub fn times(workload: Workload, pods_per_node: usize) -> Option<Times> {
    let [(sampled_10, all_10), (sampled_30, all_30)] = match workload {
        Workload::Basic => [(1263, 8949), (1167, 6748)],
        Workload::NodeAffinity => [(2983, 5308), (3246, 4779)],
        Workload::Taints => [(1040, 8757), (1275, 7084)],
        Workload::SpreadHardZone => [(9174, 12185), (17257, 22558)],
        Workload::SpreadSoft => [(8093, 23673), (19209, 37429)],
        Workload::SpreadSystemDefaults => [(4900, 21186), (15179, 36873)],
        Workload::AntiAffinityHost1000 => [(12621, 21286), (33496, 39338)],
        Workload::AntiAffinityHost4000 => [(23674, 22567), (39128, 45004)],
        Workload::AffinityZone => [(17253, 18041), (32728, 32852)],
        Workload::PreferredAffinity => [(15567, 26127), (40411, 55345)],
        Workload::Mixed => [(10360, 17481), (20655, 35726)],
    };
    match pods_per_node {
        10 => Some(Times { all_nodes_us: all_10, sampled_us: sampled_10 }),
        30 => Some(Times { all_nodes_us: all_30, sampled_us: sampled_30 }),
        _ => None,
    }
}
