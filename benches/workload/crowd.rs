//! A full cluster in which all nodes differ, so that results of one node cannot be reused for another: pods of many
//! sizes and priorities, disruption budgets over a third of them, host ports, anti-affinity, spread constraints and
//! taints.

use std::sync::Arc;

use berth_engine::{Cluster, ClusterState};
use berth_proto::core_v1::{ContainerPort, Pod, TopologySpreadConstraint};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::policy_v1::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use berth_synthetic::baseline::demand;
use berth_synthetic::baseline::pod::{plain, relabel, request, set_label};

use super::preemption::{preemptor, start_time, started};
use super::{Workload, compiled_node, compiled_object, compiled_pod, node_name, objects};

/// Number of kinds of incoming pods, which alternate.
pub const N_CROWD_KINDS: usize = 4;

/// Resources of a node, which its pods share.
const NODE_MILLI_CPU: u64 = 32_000;
const SHARED_MEMORY: u64 = 96 << 30;
/// Values of `spec.priority` of existing pods; for every fourth pod it is not below that of incoming pods.
const PRIORITIES: [i32; 8] = [-10, 0, 0, 5, 10, 50, 100, 1000];
/// Addition to the priority on every seventh node, so that its pods cannot be victims.
const EXALTED: i32 = 1000;
const N_APPS: u64 = 100;
const HOST_PORT: i32 = 8080;

/// A crowded cluster of `n_nodes` with `pods_per_node` pods each, a quarter of the nodes tainted.
pub fn crowded_cluster(n_nodes: usize, pods_per_node: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let mut objects = objects(&cluster, Workload::Basic);
    objects.extend(budgets().map(|budget| compiled_object(&cluster, &budget)));
    let mut pods = Vec::with_capacity(n_nodes * pods_per_node);
    for i in 0..n_nodes {
        pods.extend(
            node_pods(i, n_nodes, pods_per_node).iter().map(|pod| compiled_pod(&cluster, pod)),
        );
    }
    let nodes = (0..n_nodes).map(|i| compiled_node(&cluster, i, Workload::Taints)).collect();
    let applied = cluster.replace(ClusterState { nodes, objects, pods });
    assert!(applied.rejected.is_empty(), "the crowd's objects are valid");
    assert_eq!(cluster.snapshot().n_pods(), n_nodes * pods_per_node);
    Arc::new(cluster)
}

/// Incoming pod `k`: 4 cores, and depending on its kind nothing else, a host port that is in use on a third of the
/// nodes, a hard spread over zones and nodes, or anti-affinity to pods of its colour.
pub fn crowd_preemptor(k: usize) -> Pod {
    let mut pod = preemptor(k);
    match k % N_CROWD_KINDS {
        0 => {}
        1 => take_host_port(&mut pod),
        2 => {
            relabel(&mut pod, &[("app", "app-7")]);
            if let Some(spec) = &mut pod.spec {
                spec.topology_spread_constraints = [(demand::ZONE, 5), (demand::HOSTNAME, 1)]
                    .map(|(key, max_skew)| {
                        let constraint = demand::spread(key, "DoNotSchedule", "app-7");
                        TopologySpreadConstraint { max_skew, ..constraint }
                    })
                    .into();
            }
        }
        _ => {
            set_label(&mut pod, "color", "green");
            if let Some(spec) = &mut pod.spec {
                spec.affinity = Some(demand::apart_from_green());
            }
        }
    }
    pod
}

/// The pods of node `i`, which use all of its cores.
fn node_pods(i: usize, n_nodes: usize, pods_per_node: usize) -> Vec<Pod> {
    let draws: Vec<Draw> = (0..pods_per_node).map(|m| Draw::of(i + m * n_nodes)).collect();
    let n_cpu_shares: u64 = draws.iter().map(Draw::cpu_shares).sum();
    let n_memory_shares: u64 = draws.iter().map(Draw::memory_shares).sum();
    draws
        .iter()
        .enumerate()
        .map(|(m, draw)| {
            let j = i + m * n_nodes;
            let mut pod = plain(format!("ns-{}", draw.namespace()), format!("e-{j}"), j);
            set_label(&mut pod, "app", &format!("app-{}", draw.app()));
            let milli_cpu = NODE_MILLI_CPU * draw.cpu_shares() / n_cpu_shares;
            request(&mut pod, "cpu", format!("{milli_cpu}m"));
            let memory = SHARED_MEMORY * draw.memory_shares() / n_memory_shares;
            request(&mut pod, "memory", memory.to_string());
            if let Some(spec) = &mut pod.spec {
                spec.node_name = node_name(i);
                let is_exalted = i % 7 == 3;
                spec.priority = Some(draw.priority() + if is_exalted { EXALTED } else { 0 });
            }
            started(&mut pod, start_time(j));
            match m {
                0 if i.is_multiple_of(3) => take_host_port(&mut pod),
                1 if i.is_multiple_of(5) => set_label(&mut pod, "color", "green"),
                _ => {}
            }
            pod
        })
        .collect()
}

/// A budget over each application of every namespace whose number is a multiple of three; half of them allow no
/// eviction.
fn budgets() -> impl Iterator<Item = PodDisruptionBudget> {
    (0..10_i32).flat_map(|namespace| {
        (0..).step_by(3).take_while(|app| is_app(*app)).map(move |app| PodDisruptionBudget {
            metadata: Some(ObjectMeta {
                namespace: format!("ns-{namespace}"),
                name: format!("app-{app}"),
                ..ObjectMeta::default()
            }),
            spec: Some(PodDisruptionBudgetSpec {
                selector: Some(demand::selecting("app", &format!("app-{app}"))),
                ..PodDisruptionBudgetSpec::default()
            }),
            status: Some(PodDisruptionBudgetStatus {
                disruptions_allowed: (app / 3 + namespace) % 2,
                ..PodDisruptionBudgetStatus::default()
            }),
        })
    })
}

fn is_app(app: i32) -> bool {
    u64::try_from(app).is_ok_and(|app| app < N_APPS)
}

fn take_host_port(pod: &mut Pod) {
    let port = ContainerPort {
        host_port: HOST_PORT,
        container_port: HOST_PORT,
        protocol: "TCP".into(),
        ..ContainerPort::default()
    };
    if let Some(container) = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()) {
        container.ports = vec![port];
    }
}

/// Random features of existing pods, derived from their number.
struct Draw(u64);

impl Draw {
    /// The finalizer of SplitMix64, all of whose bits are pseudorandom.
    fn of(j: usize) -> Draw {
        let mut bits = (j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Draw(bits ^ (bits >> 31))
    }

    fn byte(&self, i: usize) -> u64 {
        u64::from(self.0.to_le_bytes()[i])
    }

    fn namespace(&self) -> u64 {
        self.byte(0) % 10
    }

    fn app(&self) -> u64 {
        (self.byte(1) << 8 | self.byte(2)) % N_APPS
    }

    /// A number from 1 to 8.
    fn cpu_shares(&self) -> u64 {
        1 + self.byte(3) % 8
    }

    /// A number from 1 to 8.
    fn memory_shares(&self) -> u64 {
        1 + self.byte(4) % 8
    }

    fn priority(&self) -> i32 {
        PRIORITIES[self.byte(5) as usize % PRIORITIES.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::{ObjectKind, Outcome, Policy, PreemptOptions, PreemptRequest, TieBreak};

    const N_NODES: usize = 300;

    #[test]
    fn every_node_is_full_and_a_third_of_the_pods_have_a_budget() {
        let cluster = crowded_cluster(N_NODES, 20);
        let snapshot = cluster.snapshot();
        for node in snapshot.nodes() {
            let (_, milli_cpu) = node.requested.iter().find(|(name, _)| &**name == "cpu").unwrap();
            assert!((31_980..=32_000).contains(milli_cpu), "{node:?}");
        }
        assert_eq!(snapshot.n_objects(ObjectKind::PodDisruptionBudget), 340);
        let draws = || (0..N_NODES * 20).map(Draw::of);
        let n_covered = draws().filter(|draw| draw.app().is_multiple_of(3)).count();
        assert!((1900..2200).contains(&n_covered), "{n_covered} of 6000");
        let n_safe = draws().filter(|draw| draw.priority() >= 100).count();
        assert!((1400..1600).contains(&n_safe), "{n_safe} of 6000");
    }

    #[test]
    fn every_kind_is_helped_on_some_nodes_and_not_on_others() {
        let cluster = crowded_cluster(N_NODES, 20);
        let policy = Policy::default();
        let mut n_violating = 0;
        for k in 0..N_CROWD_KINDS {
            let pod = compiled_pod(&cluster, &crowd_preemptor(k));
            let list = cluster
                .list_candidates(&PreemptRequest {
                    pod: &pod,
                    policy: &policy,
                    tie_break: TieBreak::Lexicographic,
                    options: PreemptOptions::default(),
                    cancelled: &|| false,
                    now: None,
                })
                .unwrap();
            let outcome = &list.preemption.decision.outcome;
            assert!(matches!(outcome, Outcome::Unschedulable(_)), "{outcome:?}");
            let post_filter = list.preemption.post_filter.unwrap();
            let chosen = post_filter.chosen.unwrap();
            assert_eq!(post_filter.n_candidates as usize, list.candidates.len());
            assert!(list.best.contains(&chosen.node) && list.candidates.contains(&chosen));
            assert!(list.candidates.len() >= 20, "{k}: {} candidates", list.candidates.len());
            n_violating += list.candidates.iter().filter(|it| it.n_pdb_violations > 0).count();
            // Preemption cannot help on the tainted quarter; of the other nodes, every seventh has no victims.
            let is_tainted = |node: &str| node[5..].parse::<usize>().unwrap() % 4 == 0;
            assert!(!list.candidates.iter().any(|it| is_tainted(&it.node)));
            assert!(!list.not_helped.iter().any(|it| is_tainted(&it.node)));
            assert!(list.not_helped.len() >= 30, "{k}: {:?}", list.not_helped);
            assert_eq!(list.candidates.len() + list.not_helped.len(), N_NODES / 4 * 3);
        }
        assert!(n_violating > 5, "{n_violating} candidates violate a budget");
    }
}
