//! `berth`: the option that turns out best when its pods are placed. Each option is tried on a copy of the cluster as it is now,
//! with the rules that placements follow: the group's nodes are added one after the other, at most as many as the option
//! counts, and its pods packed onto them (S-BIN-1 to S-BIN-4).

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use berth_engine::{Cluster, EngineError, NodeGroup, OptionRequest, Pod, Policy};
use berth_proto::core_v1;
use rayon::prelude::*;

use super::offer::Offer;
use super::verdict::{Verdict, World, least};
use crate::policy::Profiles;

/// What became of an option; the less the better, the first difference decides.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
struct Outcome {
    n_placed: Reverse<usize>,
    /// Of those that were added, the ones that got a pod.
    n_nodes: usize,
    /// Idle fraction of their CPU plus that of their memory; infinite where there are none.
    waste: f64,
    /// By how many pods the fullest topology domain is ahead of the emptiest, for the constraint where that is most.
    skew: i64,
}

/// Why an option has no outcome.
enum Failure {
    /// There is nothing to try: it has no usable template.
    Skipped,
    /// Nobody can wait for it.
    OutOfTime,
    /// The attempt failed.
    Error(String),
}

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Stands for every template's own name, which is a new one in each of cluster-autoscaler's rounds: the cluster would remember
/// them all.
const TEMPLATE: &str = "template";

/// Options that place the most pods, of those the ones on fewest nodes, with the least waste, with the least skew. Options
/// without a usable template are skipped. Undecided while the cluster is not known, when time runs out, and when no pod can be placed.
pub(super) fn judge(asked: &[(usize, &Offer)], world: &World<'_>) -> Verdict {
    let cluster = match &world.cluster {
        Ok(cluster) => *cluster,
        Err(reason) => return Verdict::Undecided(reason.clone()),
    };
    let tried: Vec<(usize, Result<Outcome, Failure>)> =
        asked.par_iter().map(|(index, offer)| (*index, simulate(cluster, offer, world))).collect();
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

fn simulate(cluster: &Cluster, offer: &Offer, world: &World<'_>) -> Result<Outcome, Failure> {
    if world.is_out_of_time() {
        return Err(Failure::OutOfTime);
    }
    let template = offer.template().map_err(|_| Failure::Skipped)?;
    let template = cluster.compile_node(&renamed(template)).map_err(|_| Failure::Skipped)?;
    let pods = compile(cluster, offer, world)?;
    let max_nodes = usize::try_from(offer.n_nodes).unwrap_or(0);
    let group = NodeGroup {
        id: Arc::from(&*offer.id),
        template,
        template_pods: Vec::new(),
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
        Err(error) => Err(Failure::Error(format!("node group `{}`: {error}", offer.id))),
    }
}

/// The option's pods, each name once. Those that cannot be read are passed over (S-CAE-2).
fn compile(cluster: &Cluster, offer: &Offer, world: &World<'_>) -> Result<Vec<Pod>, Failure> {
    let mut pods = Vec::with_capacity(offer.n_pods());
    let mut names = HashSet::with_capacity(offer.n_pods());
    for pod in offer.pods() {
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

/// The profile that the first pod asks for, or the first of all: a group is grown for pods of one scheduler.
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
    use super::super::offer::tests::{node, offers, option, pod};
    use super::super::tests::{all, check, check_undecided, world};
    use super::*;
    use crate::clock;

    fn live(cluster: &Cluster) -> World<'_> {
        World { cluster: Ok(cluster), ..world() }
    }

    fn pods(n: usize, cpu: &str, memory: &str) -> Vec<core_v1::Pod> {
        (0..n).map(|i| pod(&format!("p{i}"), cpu, memory)).collect()
    }

    /// By hand: 4 pods of 1 cpu, 1 Gi. Small nodes of 2 cpu, 4 Gi take two each: all four on 2 nodes. One node of 4 cpu, 4 Gi
    /// takes all four. Of 8 cpu, 4 Gi too, with half its cpu idle. One small node takes two pods only.
    #[test]
    fn placed_pods_come_first_then_nodes_then_waste() {
        let four = pods(4, "1", "1Gi");
        let options = |names: &[&str]| {
            offers(
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
        let judge = |asked: &[(usize, &Offer)]| judge(asked, &live(&cluster));
        check(judge, &options(&["one-small", "two-small", "none"]), &[1]);
        check(judge, &options(&["two-small", "wide"]), &[1]);
        check(judge, &options(&["wide", "exact", "two-small", "same"]), &[1, 3]);
    }

    /// Three replicas that keep apart by host need three nodes, whatever would fit on one: sums cannot see that.
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
        let options = offers(vec![
            (option("one-large", 1, &apart), Some(node("16", "16Gi"))),
            (option("three-small", 3, &apart), Some(node("1", "1Gi"))),
        ]);
        let cluster = Cluster::new();
        check(|asked| judge(asked, &live(&cluster)), &options, &[1]);
    }

    #[test]
    fn what_cannot_be_tried_is_not_decided() {
        let cluster = Cluster::new();
        let options = |cpu: &str, template| {
            let one = || (option("g", 1, &pods(2, cpu, "1Gi")), Some(template));
            offers(vec![one()])
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

    /// S-CAE-2: what cannot be used costs no other option.
    #[test]
    fn an_option_without_a_usable_template_is_skipped() {
        let two = pods(2, "1", "1Gi");
        let options = offers(vec![
            (option("broken", 1, &two), Some(node("four", "4Gi"))),
            (option("none", 1, &two), None),
            (option("whole", 1, &two), Some(node("4", "4Gi"))),
        ]);
        let cluster = Cluster::new();
        check(|asked| judge(asked, &live(&cluster)), &options, &[2]);
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
