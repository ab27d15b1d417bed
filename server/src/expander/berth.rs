//! `berth`: the option with the best result when its pods are placed. Each option is simulated on a copy of the current
//! cluster, with the rules of placements: the group's nodes are added one after the other, at most as many as the
//! option has, and its pods packed onto them (S-BIN-1 to S-BIN-4).

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use berth_engine::{Cluster, EngineError, NodeGroup, OptionRequest, Pod, Policy};
use berth_proto::core_v1;
use rayon::prelude::*;

use super::node_group_option::NodeGroupOption;
use super::verdict::{Verdict, World, least};
use crate::policy::Profiles;

/// Result of simulating an option; smaller is better, and the first field that differs decides.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
struct Outcome {
    n_placed: Reverse<usize>,
    /// Number of added nodes that got a pod.
    n_nodes: usize,
    /// Idle fraction of the nodes' CPU plus that of their memory; infinite if there are no nodes.
    waste: f64,
    /// Difference in pods between the fullest topology domain and the emptiest, for the constraint where it is largest.
    skew: i64,
}

/// Reason why an option has no outcome.
enum Failure {
    /// The option has no usable template, so there is nothing to simulate.
    Skipped,
    /// There is no time left.
    OutOfTime,
    /// The simulation failed.
    Error(String),
}

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Replaces every template's own name, which is new in each of cluster-autoscaler's rounds: the cluster would remember
/// them all.
const TEMPLATE: &str = "template";

/// Keeps the options that place the most pods, of those the ones on fewest nodes, with the least waste, with the least
/// skew. Options without a usable template are skipped. Undecided while the cluster is not known, when time runs out,
/// and when no pod can be placed.
pub(super) fn judge(options: &[(usize, &NodeGroupOption)], world: &World<'_>) -> Verdict {
    let cluster = match &world.cluster {
        Ok(cluster) => *cluster,
        Err(reason) => return Verdict::Undecided(reason.clone()),
    };
    let tried: Vec<(usize, Result<Outcome, Failure>)> = options
        .par_iter()
        .map(|(index, option)| (*index, simulate(cluster, option, world)))
        .collect();
    let mut outcomes = Vec::with_capacity(tried.len());
    for (index, outcome) in tried {
        match outcome {
            Ok(outcome) => outcomes.push((index, outcome)),
            Err(Failure::Skipped) => {}
            Err(Failure::OutOfTime) => {
                return Verdict::Undecided("placing the options' pods takes too long".to_owned());
            }
            Err(Failure::Error(reason)) => return Verdict::Undecided(reason),
        }
    }
    if !outcomes.is_empty() && outcomes.iter().all(|(_, outcome)| outcome.n_placed == Reverse(0)) {
        return Verdict::Undecided("no option places a pod".to_owned());
    }
    least(outcomes, "no option has a template that can be used", |outcome| {
        let Outcome { n_placed: Reverse(n_placed), n_nodes, waste, skew } = outcome;
        format!("berth: {n_placed} pods on {n_nodes} nodes, waste {waste:.3}, skew {skew}")
    })
}

fn simulate(
    cluster: &Cluster,
    option: &NodeGroupOption,
    world: &World<'_>,
) -> Result<Outcome, Failure> {
    if world.is_out_of_time() {
        return Err(Failure::OutOfTime);
    }
    let template = option.template().map_err(|_| Failure::Skipped)?;
    let template = cluster.compile_template(&renamed(template)).map_err(|_| Failure::Skipped)?;
    let pods = compile(cluster, option, world)?;
    let max_nodes = usize::try_from(option.n_nodes).unwrap_or(0);
    let group = NodeGroup {
        id: Arc::from(&*option.id),
        template,
        template_pods: Vec::new(),
        template_slices: Vec::new(),
        size: 0,
        max_size: None,
        startup_taints: Vec::new(),
    };
    let cancelled = || world.is_out_of_time();
    let request = OptionRequest {
        pods: &pods,
        policy: policy(world.profiles, &pods)?,
        group: &group,
        max_nodes: Some(max_nodes),
        cancelled: &cancelled,
    };
    match cluster.simulate_option(&request) {
        Ok(option) => {
            let (waste, n_nodes) = (option.waste.total(), option.n_nodes());
            Ok(Outcome {
                n_placed: Reverse(option.n_placed()),
                n_nodes,
                waste: if waste.is_nan() || n_nodes == 0 { f64::INFINITY } else { waste },
                skew: option.skew(),
            })
        }
        Err(EngineError::Cancelled) => Err(Failure::OutOfTime),
        Err(error) => Err(Failure::Error(format!("node group `{}`: {error}", option.id))),
    }
}

/// Compiles the option's pods, each name once. Unreadable pods are ignored (S-CAE-2).
fn compile(
    cluster: &Cluster,
    option: &NodeGroupOption,
    world: &World<'_>,
) -> Result<Vec<Pod>, Failure> {
    let mut pods = Vec::with_capacity(option.n_pods());
    let mut names = HashSet::with_capacity(option.n_pods());
    for pod in option.pods() {
        if world.is_out_of_time() {
            return Err(Failure::OutOfTime);
        }
        let Ok(pod) = pod else { continue };
        let Ok(pod) = cluster.compile_pod(&pod) else { continue };
        if names.insert(pod.key().clone()) {
            pods.push(pod);
        }
    }
    Ok(pods)
}

/// The profile that the first pod names, or else the first profile: a group is grown for pods of one scheduler.
fn policy<'p>(profiles: &'p Profiles, pods: &[Pod]) -> Result<&'p Policy, Failure> {
    let named = pods.first().and_then(|pod| profiles.get(pod.scheduler_name()));
    let policy = named.or_else(|| profiles.policies().next());
    policy.ok_or_else(|| Failure::Error("there is no scheduling profile".to_owned()))
}

fn renamed(mut template: core_v1::Node) -> core_v1::Node {
    let metadata = template.metadata.get_or_insert_default();
    TEMPLATE.clone_into(&mut metadata.name);
    if let Some(hostname) = metadata.labels.get_mut(HOSTNAME) {
        TEMPLATE.clone_into(hostname);
    }
    template
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{node, option, pod, read_options};
    use super::super::tests::{all, check, check_undecided, world};
    use super::*;
    use crate::clock;

    fn live(cluster: &Cluster) -> World<'_> {
        World { cluster: Ok(cluster), ..world() }
    }

    fn pods(n: usize, cpu: &str, memory: &str) -> Vec<core_v1::Pod> {
        (0..n).map(|i| pod(&format!("p{i}"), cpu, memory)).collect()
    }

    /// By hand: 4 pods of 1 cpu, 1 Gi. Small nodes of 2 cpu, 4 Gi take two each: all four on 2 nodes. One node of 4
    /// cpu, 4 Gi takes all four. So does one of 8 cpu, 4 Gi, with half its cpu idle. One small node takes two pods
    /// only.
    #[test]
    fn placed_pods_come_first_then_nodes_then_waste() {
        let four = pods(4, "1", "1Gi");
        let options = |names: &[&str]| {
            read_options(
                names
                    .iter()
                    .map(|&name| match name {
                        "one-small" => (option(name, 1, &four), Some(node("2", "4Gi"))),
                        "two-small" => (option(name, 2, &four), Some(node("2", "4Gi"))),
                        "wide" => (option(name, 1, &four), Some(node("8", "4Gi"))),
                        "exact" | "same" => (option(name, 3, &four), Some(node("4", "4Gi"))),
                        _ => (option(name, 1, &four), None),
                    })
                    .collect(),
            )
        };
        let cluster = Cluster::new();
        let judge = |options: &[(usize, &NodeGroupOption)]| judge(options, &live(&cluster));
        check(judge, &options(&["one-small", "two-small", "none"]), &[1]);
        check(judge, &options(&["two-small", "wide"]), &[1]);
        check(judge, &options(&["wide", "exact", "two-small", "same"]), &[1, 3]);
    }

    /// Three replicas with anti-affinity by host need three nodes, even if all would fit on one: sums cannot show that.
    #[test]
    fn the_rules_of_placements_hold() {
        let mut apart = pods(3, "1", "1Gi");
        for pod in &mut apart {
            let metadata = pod.metadata.as_mut().unwrap();
            metadata.labels.insert("app".to_owned(), "web".to_owned());
            pod.spec.as_mut().unwrap().affinity = serde_json::from_value(serde_json::json!({
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}]},
            }))
            .unwrap();
        }
        let options = read_options(vec![
            (option("one-large", 1, &apart), Some(node("16", "16Gi"))),
            (option("three-small", 3, &apart), Some(node("1", "1Gi"))),
        ]);
        let cluster = Cluster::new();
        check(|options| judge(options, &live(&cluster)), &options, &[1]);
    }

    #[test]
    fn without_any_outcome_nothing_is_decided() {
        let cluster = Cluster::new();
        let options = |cpu: &str, template| {
            let one = || (option("g", 1, &pods(2, cpu, "1Gi")), Some(template));
            read_options(vec![one()])
        };
        let fitting = options("1", node("4", "4Gi"));
        check_undecided(&judge(&all(&fitting), &world()), "not been fed");
        let late = World { patience: clock::now(), ..live(&cluster) };
        check_undecided(&judge(&all(&fitting), &late), "too long");
        let large = options("5", node("4", "4Gi"));
        check_undecided(&judge(&all(&large), &live(&cluster)), "no option places a pod");
        let broken = options("1", node("four", "4Gi"));
        check_undecided(&judge(&all(&broken), &live(&cluster)), "no option has a template");
    }

    /// S-CAE-2: an unusable option does not affect the others.
    #[test]
    fn an_option_without_a_usable_template_is_skipped() {
        let two = pods(2, "1", "1Gi");
        let options = read_options(vec![
            (option("broken", 1, &two), Some(node("four", "4Gi"))),
            (option("none", 1, &two), None),
            (option("whole", 1, &two), Some(node("4", "4Gi"))),
        ]);
        let cluster = Cluster::new();
        check(|options| judge(options, &live(&cluster)), &options, &[2]);
    }

    /// Templates have new names in every round of cluster-autoscaler.
    #[test]
    fn names_of_templates_are_not_remembered() {
        let renamed = renamed(node("1", "1Gi"));
        let metadata = renamed.metadata.unwrap();
        assert_eq!(
            (metadata.name.as_str(), metadata.labels[HOSTNAME].as_str()),
            (TEMPLATE, TEMPLATE)
        );
    }
}
