//! Requests to an extender: a subset of the nodes, and evictions chosen by kube-scheduler. Rules: S-EXT-12, S-EXT-13,
//! S-EXT-16.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{PluginScore, PolicySpec, StatusCode, Verdict};
use berth_proto::core_v1::Pod;

use super::attempt::score_all;
use super::cluster::{NaiveCluster, NaiveNode, NaivePod};
use super::dry_run::Scene;
use super::filter::Failure;
use super::pod;
use super::pre_filter::{Prepared, Stop, pre_filter};
use super::two_pass;

/// Filters and scores only the named nodes, without a nominated node. Scores are normalised over the feasible ones.
pub(crate) fn survey(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    names: &[String],
) -> Result<BTreeMap<String, Verdict>, Failure> {
    let prepared = match pre_filter(cluster, policy, pod) {
        Ok(prepared) => prepared,
        Err(Stop::Failed) => return Err(Failure),
        Err(Stop::Refused(plugin, reason)) => {
            let code = StatusCode::UnschedulableAndUnresolvable;
            let (plugin, reasons) = (Some(plugin), vec![reason]);
            let verdict = Verdict::Rejected { plugin, code, reasons };
            let there = names.iter().filter(|name| cluster.nodes.contains_key(*name));
            return Ok(there.map(|name| (name.clone(), verdict.clone())).collect());
        }
    };
    let mut verdicts = BTreeMap::new();
    let mut feasible: BTreeMap<&String, &NaiveNode> = BTreeMap::new();
    for (name, node) in names.iter().filter_map(|name| Some((name, cluster.nodes.get(name)?))) {
        if prepared.names.as_ref().is_some_and(|narrowed| !narrowed.contains(name)) {
            let reasons = vec!["node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned()];
            let code = StatusCode::UnschedulableAndUnresolvable;
            verdicts.insert(name.clone(), Verdict::Rejected { plugin: None, code, reasons });
        } else if let Some((plugin, rejection)) = two_pass::rejection(&prepared, node)? {
            let (plugin, code, reasons) = (Some(plugin), rejection.code, rejection.reasons);
            verdicts.insert(name.clone(), Verdict::Rejected { plugin, code, reasons });
        } else {
            feasible.insert(name, node);
        }
    }
    let nodes: Vec<&NaiveNode> = feasible.values().copied().collect();
    let scored: Vec<Vec<PluginScore>> =
        if nodes.is_empty() { Vec::new() } else { score_all(&prepared, &nodes)? };
    for (name, scores) in feasible.into_keys().zip(scored) {
        let total = scores.iter().map(|score| score.weighted).sum();
        verdicts.insert(name.clone(), Verdict::Feasible { scores, total, devices: None });
    }
    Ok(verdicts)
}

/// Whether the pod fits on a node once these pods are removed from it.
pub(crate) fn helps(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    node: &NaiveNode,
    victims: &[Arc<NaivePod>],
) -> Result<bool, Failure> {
    let prepared: Prepared<'_> = match pre_filter(cluster, policy, pod) {
        Ok(prepared) => prepared,
        Err(Stop::Failed) => return Err(Failure),
        Err(Stop::Refused(..)) => return Ok(false),
    };
    if prepared.names.as_ref().is_some_and(|names| !names.contains(node.name())) {
        return Ok(false);
    }
    let mut scene = Scene { prepared, node: node.clone() };
    victims.iter().for_each(|victim| scene.take_out(victim));
    Ok(scene.rejection()?.is_none())
}

/// Whether a pod may be evicted for another pod.
pub(crate) fn is_lower(victim: &Pod, pod: &Pod) -> bool {
    pod::priority(victim) < pod::priority(pod)
}
