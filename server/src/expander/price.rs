//! `price`: the option with the lowest cost for the pods that it runs, on nodes of a size that suits the cluster.
//!
//! Score, the lower the better: (nodes + s) / (pods + s) × unfitness, where *nodes* and *pods* are the costs per hour
//! of the new nodes and of the pods on them, and *s* is the price of a pod of 500 m CPU and 500 Mi, which keeps small
//! sums from deciding.

use std::collections::BTreeMap;

use berth_proto::{Amount, core_v1};

use super::node_group_option::{Capacity, NodeGroupOption, Requested};
use super::pattern::Pattern;
use super::verdict::{Verdict, World, least};
use crate::node_labels::INSTANCE_TYPE;

/// Prices per hour, in one currency of any kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// Price of a CPU: for pods, and for nodes that no entry of `nodes` matches. Above 0.
    pub per_cpu_hour: f64,
    /// Price of 2³⁰ bytes of memory, for the same. Above 0.
    pub per_gib_hour: f64,
    /// Price of a graphics processor, for the same.
    pub per_gpu_hour: f64,
    /// Number of CPUs of the node that suits the cluster; without it, derived from the cluster's size.
    pub preferred_cpus: Option<u32>,
    /// Prices of whole nodes: the first entry that matches a group's template counts.
    pub nodes: Vec<NodePrice>,
}

/// Price of the nodes that meet all of its conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePrice {
    /// Pattern that must match the id of the node group.
    pub node_group: Option<Pattern>,
    /// The value of the label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// Labels that the template has.
    pub labels: BTreeMap<String, String>,
    /// Price of a node per hour.
    pub per_hour: f64,
}

/// Unfitness of nodes with graphics processors, which are for pods that request some and fit nowhere else: for all
/// other pods they are out of the question, whatever their size.
const GPU_UNFITNESS: f64 = 1_000.0;
/// Number of CPUs of the preferred node for clusters of up to so many nodes; above the last, [`LARGEST_PREFERRED`].
const PREFERRED_CPUS: [(usize, u32); 5] = [(2, 1), (6, 2), (20, 4), (60, 8), (200, 16)];
const LARGEST_PREFERRED: u32 = 32;
const BYTES_PER_GIB: f64 = (1_u64 << 30) as f64;

/// Keeps the options with the lowest score. Options without a template, without CPU or with a negative number of nodes
/// are skipped.
///
/// Undecided while the size of the cluster is not known, unless the configuration names the preferred node.
pub(super) fn judge(
    prices: &Prices,
    options: &[(usize, &NodeGroupOption)],
    world: &World<'_>,
) -> Verdict {
    let preferred = match (prices.preferred_cpus, &world.cluster) {
        (Some(cpus), _) => cpus,
        (None, Ok(cluster)) => preferred_cpus(cluster.snapshot().n_nodes()),
        (None, Err(reason)) => {
            return Verdict::Undecided(format!(
                "the preferred node depends on the cluster: {reason}"
            ));
        }
    };
    let score = |option: &NodeGroupOption| prices.score(option, f64::from(preferred), world);
    let scored = options.iter().filter_map(|(index, option)| Some((*index, score(option)?)));
    let scored: Vec<(usize, f64)> = scored.collect();
    if world.is_over() {
        return Verdict::Undecided("summing up the options' pods takes too long".to_owned());
    }
    least(scored, "no option has a template with CPU", |score| format!("price: {score:.4}"))
}

fn preferred_cpus(n_nodes: usize) -> u32 {
    let fitting = PREFERRED_CPUS.into_iter().find(|(most, _)| n_nodes <= *most);
    fitting.map_or(LARGEST_PREFERRED, |(_, cpus)| cpus)
}

impl Prices {
    fn score(
        &self,
        option: &NodeGroupOption,
        preferred_cpus: f64,
        world: &World<'_>,
    ) -> Option<f64> {
        if option.n_nodes < 0 {
            return None;
        }
        let template = option.template().ok()?;
        let capacity = Capacity::of(&template);
        let count = f64::from(option.n_nodes);
        let nodes = self.of_node(&option.id, &template, &capacity) * count;
        let pods = self.of_pods(option.requested(|| world.is_over())?);
        let small = self.of_amounts(0.5, 500.0 / 1024.0, 0.0);
        let score = (nodes + small) / (pods + small) * unfitness(&capacity, preferred_cpus, count);
        score.is_finite().then_some(score)
    }

    fn of_node(&self, id: &str, template: &core_v1::Node, capacity: &Capacity) -> f64 {
        let listed = self.nodes.iter().find(|price| price.is_of(id, template));
        listed.map_or_else(
            || self.of_amounts(cpus(capacity.cpu), gib(capacity.memory), units(capacity.gpus)),
            |price| price.per_hour,
        )
    }

    fn of_pods(&self, requested: &Requested) -> f64 {
        self.of_amounts(cpus(requested.cpu), gib(requested.memory), units(requested.gpus))
    }

    fn of_amounts(&self, cpus: f64, gib: f64, gpus: f64) -> f64 {
        cpus * self.per_cpu_hour + gib * self.per_gib_hour + gpus * self.per_gpu_hour
    }
}

impl NodePrice {
    fn is_of(&self, id: &str, template: &core_v1::Node) -> bool {
        let label =
            |key: &str| template.metadata.as_ref().and_then(|metadata| metadata.labels.get(key));
        self.node_group.as_ref().is_none_or(|pattern| pattern.is_found_in(id))
            && self.instance_type.as_ref().is_none_or(|name| label(INSTANCE_TYPE) == Some(name))
            && self.labels.iter().all(|(key, value)| label(key) == Some(value))
    }
}

/// (max(preferred / cpu, cpu / preferred) − 1) · (1 − tanh((count − 1) / 15)) + 1: the size matters less the more nodes
/// are added at once.
fn unfitness(capacity: &Capacity, preferred_cpus: f64, count: f64) -> f64 {
    if !capacity.gpus.is_zero() {
        return GPU_UNFITNESS;
    }
    let cpus = cpus(capacity.cpu);
    let mismatch = (preferred_cpus / cpus).max(cpus / preferred_cpus);
    (mismatch - 1.0) * (1.0 - ((count - 1.0) / 15.0).tanh()) + 1.0
}

#[expect(clippy::cast_precision_loss, reason = "the rule is in doubles")]
fn cpus(amount: Amount) -> f64 {
    amount.milli_value() as f64 / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "the rule is in doubles")]
fn units(amount: Amount) -> f64 {
    amount.value() as f64
}

fn gib(amount: Amount) -> f64 {
    units(amount) / BYTES_PER_GIB
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{node, option, pod, read_options};
    use super::super::tests::{check, check_undecided, world};
    use super::*;
    use berth_proto::Quantity;

    /// Prices: a CPU costs 2, a GiB 1, so s = 0.5·2 + 500/1024 = 1.48828125.
    fn prices() -> Prices {
        let nodes = vec![NodePrice {
            node_group: Some(Pattern::new("^spot-").unwrap()),
            per_hour: 3.0,
            ..NodePrice::default()
        }];
        let (per_cpu_hour, per_gib_hour, preferred_cpus) = (2.0, 1.0, Some(4));
        Prices { per_cpu_hour, per_gib_hour, preferred_cpus, nodes, ..Prices::default() }
    }

    #[test]
    fn a_score_is_the_price_of_nodes_over_that_of_pods() {
        let pods = [pod("p", "3", "2Gi")];
        let options = read_options(vec![
            (option("plain", 1, &pods), Some(node("4", "8Gi"))),
            (option("spot-1", 1, &pods), Some(node("4", "8Gi"))),
            (option("big", 2, &pods), Some(node("16", "8Gi"))),
        ]);
        let s = 1.488_281_25;
        // Nodes 4·2 + 8 = 16, pods 3·2 + 2 = 8, and the size is the preferred one.
        assert_eq!(prices().score(&options[0], 4.0, &world()), Some((16.0 + s) / (8.0 + s)));
        assert_eq!(prices().score(&options[1], 4.0, &world()), Some((3.0 + s) / (8.0 + s)));
        let unfit = 3.0 * (1.0 - (1.0_f64 / 15.0).tanh()) + 1.0;
        assert_eq!(
            prices().score(&options[2], 4.0, &world()),
            Some((80.0 + s) / (8.0 + s) * unfit)
        );
        check(|options| judge(&prices(), options, &world()), &options, &[1]);
    }

    #[test]
    fn graphics_processors_are_out_of_the_question_and_small_nodes_unfit() {
        let mut gpu = node("4", "8Gi");
        let capacity = &mut gpu.status.as_mut().unwrap().capacity;
        capacity.insert("nvidia.com/gpu".to_owned(), Quantity::new("1"));
        let options = read_options(vec![
            (option("gpu", 1, &[]), Some(gpu)),
            (option("tiny", 1, &[]), Some(node("1", "2Gi"))),
            (option("void", 1, &[]), Some(node("0", "2Gi"))),
            (option("negative", -1, &[]), Some(node("4", "2Gi"))),
        ]);
        let s = 1.488_281_25;
        assert_eq!(prices().score(&options[0], 4.0, &world()), Some((16.0 + s) / s * 1_000.0));
        assert_eq!(prices().score(&options[1], 4.0, &world()), Some((4.0 + s) / s * 4.0));
        assert_eq!(prices().score(&options[2], 4.0, &world()), None);
        check(|options| judge(&prices(), options, &world()), &options, &[1]);
    }

    #[test]
    fn a_node_price_needs_all_of_its_conditions() {
        let mut template = node("4", "8Gi");
        let labels = &mut template.metadata.as_mut().unwrap().labels;
        labels.insert(INSTANCE_TYPE.to_owned(), "m5.xlarge".to_owned());
        labels.insert("spot".to_owned(), "true".to_owned());
        let line = NodePrice {
            node_group: Some(Pattern::new("web").unwrap()),
            instance_type: Some("m5.xlarge".to_owned()),
            labels: [("spot".to_owned(), "true".to_owned())].into(),
            per_hour: 1.0,
        };
        assert!(line.is_of("asg-web-1", &template) && !line.is_of("asg-db-1", &template));
        let other = NodePrice { instance_type: Some("m5.large".to_owned()), ..line.clone() };
        assert!(!other.is_of("asg-web-1", &template));
        let other = NodePrice { labels: [("spot".to_owned(), String::new())].into(), ..line };
        assert!(!other.is_of("asg-web-1", &template));
    }

    #[test]
    fn the_preferred_node_grows_with_the_cluster() {
        for (n_nodes, cpus) in
            [(0, 1), (2, 1), (3, 2), (6, 2), (7, 4), (61, 16), (200, 16), (201, 32)]
        {
            assert_eq!(preferred_cpus(n_nodes), cpus, "{n_nodes} nodes");
        }
        let options = read_options(vec![(option("a", 1, &[]), Some(node("4", "8Gi")))]);
        let prices = Prices { preferred_cpus: None, ..prices() };
        let verdict = judge(&prices, &super::super::tests::all(&options), &world());
        check_undecided(&verdict, "not been fed");
    }
}
