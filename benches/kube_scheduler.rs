//! Times of kube-scheduler on the baseline's workloads ([`berth_synthetic::baseline::kube_scheduler`]), and for
//! preemption, measured alike.

pub use berth_synthetic::baseline::kube_scheduler::{Times, times};

use crate::workload::PreemptionWorkload;

/// Median time of kube-scheduler in microseconds for an attempt that finds no node and chooses victims; other sizes
/// were not measured.
pub fn preemption_us(workload: PreemptionWorkload, pods_per_node: usize) -> Option<u32> {
    match (workload, pods_per_node) {
        (PreemptionWorkload::Sampled, 10) => Some(18_498),
        (PreemptionWorkload::Sampled, 30) => Some(35_699),
        (PreemptionWorkload::All, 10) => Some(117_270),
        (PreemptionWorkload::All, 30) => Some(301_255),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use berth_testing::recorded;

    use super::{preemption_us, times};
    use crate::workload::{PreemptionWorkload, Workload};

    #[test]
    fn times_are_those_of_the_baseline() {
        let Some(text) = recorded::read("spec/peer-baseline.md") else { return };
        let p50_us = |name: &str, pods: &str, nodes: &str| -> u32 {
            let prefix = format!("| {name} | {pods} | {nodes} | ");
            let row = text.lines().find_map(|line| line.strip_prefix(&prefix));
            row.unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        for workload in Workload::ALL {
            for (pods_per_node, pods) in [(10, "50k"), (30, "150k")] {
                let times = times(workload, pods_per_node).unwrap();
                let name = workload.name();
                assert_eq!(times.all_nodes_us, p50_us(name, pods, "100"), "{name}");
                assert_eq!(times.sampled_us, p50_us(name, pods, "0 (adaptive)"), "{name}");
            }
            assert_eq!(times(workload, 20), None);
        }
        for workload in PreemptionWorkload::ALL {
            for (pods_per_node, pods) in [(10, "50k"), (30, "150k")] {
                let own = preemption_us(workload, pods_per_node);
                assert_eq!(own, Some(p50_us(workload.name(), pods, "any")), "{workload:?}");
            }
            assert_eq!(preemption_us(workload, 20), None);
        }
    }
}
