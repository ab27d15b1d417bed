//! The scores, one function each: `None` means that the plugin skips, `Err` that the attempt fails. Rules: section 3 of
//! the specification.

use berth_engine::{NodeAffinityArgs, Plugin, ResourceWeight, ScoringStrategy, ShapePoint};
use berth_proto::core_v1::{Pod, PreferredSchedulingTerm};

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::Failure;
use super::names::is_scalar;
use super::node_selector::{is_empty, is_valid, term_matches};
use super::pre_filter::Prepared;
use super::toleration::n_untolerated_soft_taints;
use super::{pod_affinity, requests, topology_spread};

/// One plugin's scores of the feasible nodes, in their order.
pub(crate) struct Scores {
    pub(crate) raw: Vec<i64>,
    pub(crate) normalized: Vec<i64>,
}

/// The scores of one plugin.
pub(crate) fn score(
    plugin: Plugin,
    prepared: &Prepared<'_>,
    feasible: &[&NaiveNode],
) -> Result<Option<Scores>, Failure> {
    let Prepared { cluster, policy, pod, .. } = *prepared;
    let not_normalized = |raw: Vec<i64>| Scores { normalized: raw.clone(), raw };
    Ok(match plugin {
        Plugin::TaintToleration => {
            let raw =
                feasible.iter().map(|node| n_untolerated_soft_taints(pod, &node.node)).collect();
            Some(normalize(raw, true))
        }
        Plugin::NodeAffinity => {
            node_affinity(&policy.node_affinity, pod, feasible)?.map(|raw| normalize(raw, false))
        }
        Plugin::NodeResourcesFit => Some(not_normalized(node_resources_fit(
            &policy.node_resources_fit.scoring,
            pod,
            feasible,
        ))),
        Plugin::PodTopologySpread => {
            topology_spread::score(cluster, policy, pod, feasible).map_err(|_| Failure)?
        }
        Plugin::InterPodAffinity => {
            pod_affinity::score(cluster, &policy.inter_pod_affinity, pod, feasible)
                .map_err(|_| Failure)?
        }
        Plugin::NodeResourcesBalancedAllocation => {
            balanced_allocation(&policy.balanced_allocation.resources, pod, feasible)
                .map(not_normalized)
        }
        Plugin::ImageLocality => Some(not_normalized(image_locality(cluster, pod, feasible))),
        _ => None,
    })
}

/// The default normalisation (beginning of section 3, S-SEL-1).
fn normalize(raw: Vec<i64>, is_reversed: bool) -> Scores {
    let max = raw.iter().copied().max().unwrap_or(0).max(0);
    let normalized = raw.iter().map(|value| match (max, is_reversed) {
        (0, true) => 100,
        (0, false) => *value,
        (_, true) => 100 - 100 * value / max,
        (_, false) => 100 * value / max,
    });
    Scores { normalized: normalized.collect(), raw }
}

/// S-NA-1, S-NA-2
fn node_affinity(
    args: &NodeAffinityArgs,
    pod: &Pod,
    feasible: &[&NaiveNode],
) -> Result<Option<Vec<i64>>, Failure> {
    let added = args.added_affinity.iter();
    let own = pod.spec.iter().filter_map(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let terms: Vec<&PreferredSchedulingTerm> = added
        .chain(own)
        .flat_map(|affinity| &affinity.preferred_during_scheduling_ignored_during_execution)
        .collect();
    if terms.is_empty() {
        return Ok(None);
    }
    let counted = terms.into_iter().filter(|term| term.weight != 0);
    let counted: Vec<_> = counted
        .filter_map(|term| Some((i64::from(term.weight), term.preference.as_ref()?)))
        .filter(|(_, preference)| !is_empty(preference))
        .collect();
    if counted.iter().any(|(_, preference)| !is_valid(preference)) {
        return Err(Failure);
    }
    let raw = |node: &&NaiveNode| {
        let matching =
            counted.iter().filter(|(_, preference)| term_matches(preference, &node.node));
        matching.map(|(weight, _)| weight).sum()
    };
    Ok(Some(feasible.iter().map(raw).collect()))
}

/// S-RS-1 to S-RS-7
fn node_resources_fit(scoring: &ScoringStrategy, pod: &Pod, feasible: &[&NaiveNode]) -> Vec<i64> {
    let request = requests::to_score(pod);
    let of = |node: &&NaiveNode| {
        // (allocatable, requested, weight) of every resource that is not left out.
        let resources = scoring.resources().iter().filter_map(|ResourceWeight { name, weight }| {
            let of_pod = request.get(name).copied().unwrap_or(0);
            let used = match name.as_str() {
                "cpu" | "memory" => node.non_zero_requested(name),
                _ => node.requested(name),
            };
            let allocatable =
                if super::names::is_tracked(name) { node.allocatable(name) } else { 0 };
            let is_left_out = allocatable == 0 || (is_scalar(name) && of_pod == 0);
            (!is_left_out).then_some((allocatable, used + of_pod, *weight))
        });
        let resources: Vec<(i64, i64, i64)> = resources.collect();
        match scoring {
            ScoringStrategy::LeastAllocated { .. } => mean(&resources, |allocatable, requested| {
                if requested > allocatable {
                    0
                } else {
                    (allocatable - requested) * 100 / allocatable
                }
            }),
            ScoringStrategy::MostAllocated { .. } => mean(&resources, |allocatable, requested| {
                requested.min(allocatable) * 100 / allocatable
            }),
            ScoringStrategy::RequestedToCapacityRatio { shape, .. } => {
                capacity_ratio(&resources, shape)
            }
        }
    };
    feasible.iter().map(of).collect()
}

/// Returns Σ score·weight / Σ weight, 0 if no resource is left (S-RS-5, S-RS-6).
fn mean(resources: &[(i64, i64, i64)], score: fn(i64, i64) -> i64) -> i64 {
    let weights: i64 = resources.iter().map(|(_, _, weight)| weight).sum();
    let sum: i64 = resources
        .iter()
        .map(|(allocatable, requested, weight)| score(*allocatable, *requested) * weight)
        .sum();
    if weights == 0 { 0 } else { sum / weights }
}

/// S-RS-7
fn capacity_ratio(resources: &[(i64, i64, i64)], shape: &[ShapePoint]) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for (allocatable, requested, weight) in resources {
        let utilization = if requested > allocatable { 100 } else { requested * 100 / allocatable };
        let score = on_shape(shape, utilization);
        if score != 0 {
            sum += score * weight;
            weights += weight;
        }
    }
    if weights == 0 { 0 } else { (sum as f64 / weights as f64).round() as i64 }
}

fn on_shape(shape: &[ShapePoint], u: i64) -> i64 {
    let y = |k: usize| shape[k].score * 10;
    let x = |k: usize| shape[k].utilization;
    if u <= x(0) {
        return y(0);
    }
    match (1..shape.len()).find(|k| u <= x(*k)) {
        Some(k) => y(k - 1) + (y(k) - y(k - 1)) * (u - x(k - 1)) / (x(k) - x(k - 1)),
        None => y(shape.len() - 1),
    }
}

/// S-BA-1 to S-BA-4
fn balanced_allocation(
    resources: &[String],
    pod: &Pod,
    feasible: &[&NaiveNode],
) -> Option<Vec<i64>> {
    let request = requests::on_node(pod);
    let of_pod = |name: &String| request.get(name).copied().unwrap_or(0);
    if resources.iter().all(|name| of_pod(name) == 0) {
        return None;
    }
    let of = |node: &&NaiveNode| {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for name in resources {
            let allocatable =
                if super::names::is_tracked(name) { node.allocatable(name) } else { 0 };
            if allocatable == 0 || (is_scalar(name) && of_pod(name) == 0) {
                continue;
            }
            let used = node.requested(name);
            without.push((used as f64 / allocatable as f64).min(1.0));
            with.push(((used + of_pod(name)) as f64 / allocatable as f64).min(1.0));
        }
        50 + (50 + balance(&with) - balance(&without)) / 2
    };
    Some(feasible.iter().map(of).collect())
}

/// S-BA-3
fn balance(fractions: &[f64]) -> i64 {
    let n = fractions.len() as f64;
    let std = match fractions.len() {
        0 | 1 => 0.0,
        2 => ((fractions[0] - fractions[1]) / 2.0).abs(),
        _ => {
            let mean = fractions.iter().sum::<f64>() / n;
            (fractions.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>() / n).sqrt()
        }
    };
    ((1.0 - std) * 100.0).trunc() as i64
}

/// S-IL-1 to S-IL-3
fn image_locality(cluster: &NaiveCluster, pod: &Pod, feasible: &[&NaiveNode]) -> Vec<i64> {
    const MIB: i64 = 1 << 20;
    let Some(spec) = &pod.spec else {
        return vec![0; feasible.len()];
    };
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|c| c.image.as_str());
    let volumes = spec.volumes.iter().filter_map(|v| v.volume_source.as_ref()?.image.as_ref());
    let images: Vec<String> =
        containers.chain(volumes.map(|image| image.reference.as_str())).map(normalized).collect();
    let n_containers =
        i64::try_from(spec.init_containers.len() + spec.containers.len()).expect("few");
    let (min, max) = (23 * MIB, n_containers * 1000 * MIB);
    let of = |node: &&NaiveNode| {
        let known = images.iter().filter_map(|image| node.images.get(image));
        let sum: i64 = known
            .map(|(size, n_holders)| {
                (*size as f64 * (*n_holders as f64 / cluster.nodes.len() as f64)).trunc() as i64
            })
            .sum();
        100 * (sum.clamp(min, max) - min) / (max - min)
    };
    feasible.iter().map(of).collect()
}

/// S-IL-1
fn normalized(image: &str) -> String {
    let has_tag = match (image.rfind(':'), image.rfind('/')) {
        (Some(colon), Some(slash)) => colon > slash,
        (colon, _) => colon.is_some(),
    };
    if has_tag { image.to_owned() } else { format!("{image}:latest") }
}
