//! One scheduling attempt, step by step. Rules: S-Q-6, S-CYC-1 to S-CYC-7, S-PF-2 to S-PF-6, S-SEL-1, S-ERR-1 to S-ERR-4.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_engine::{NodeVerdict, Plugin, PluginScore, PolicySpec, StatusCode, Verdict};
use berth_proto::core_v1::Pod;

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::first_failure;
use super::node_selector::narrowed_names;
use super::requests;
use super::score::{InvalidTerm, score};

/// What the attempt comes to.
#[derive(Debug, PartialEq)]
pub(crate) enum Attempt {
    /// PreEnqueue holds the pod back, for this reason.
    Gated(String),
    /// No filter runs; `reason` is PreFilter's, `None` where there are no nodes.
    Refused { message: String, reason: Option<String> },
    /// A `SchedulerError` (S-CYC-10).
    Error,
    /// Nodes were filtered and, where some are feasible, scored.
    Decided(Account),
}

/// Every node by name, and what follows from them.
#[derive(Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) nodes: Vec<NodeVerdict>,
    pub(crate) n_feasible: u32,
    /// Names of the highest total.
    pub(crate) best: Vec<Arc<str>>,
    /// `None` unless more than one node is feasible (S-CYC-6).
    pub(crate) total: Option<i64>,
    /// Where nothing is feasible.
    pub(crate) message: String,
    pub(crate) reasons: Vec<(String, u32)>,
}

pub(crate) fn attempt(cluster: &NaiveCluster, policy: &PolicySpec, pod: &Pod) -> Attempt {
    let spec = pod.spec.as_ref().expect("pods have a spec");
    let n_nodes = cluster.nodes.len();
    if !spec.scheduling_gates.is_empty() && policy.pre_enqueue.contains(&Plugin::SchedulingGates) {
        let gates: Vec<_> = spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        return Attempt::Gated(format!("waiting for scheduling gates: [{}]", gates.join(" ")));
    }
    if n_nodes == 0 {
        return Attempt::Refused {
            message: "no nodes available to schedule pods".to_owned(),
            reason: None,
        };
    }
    let candidates = pre_filter(policy, pod);
    if candidates.as_ref().is_some_and(BTreeSet::is_empty) {
        let reason = "pod affinity terms conflict".to_owned();
        let message = format!("0/{n_nodes} nodes are available: {reason}.");
        return Attempt::Refused { message, reason: Some(reason) };
    }
    let (mut verdicts, mut feasible) = (BTreeMap::new(), Vec::new());
    let request = requests::to_fit(pod);
    for (name, node) in &cluster.nodes {
        if candidates.as_ref().is_some_and(|names| !names.contains(name)) {
            let reasons = vec!["node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned()];
            let code = StatusCode::UnschedulableAndUnresolvable;
            verdicts.insert(name, Verdict::Rejected { plugin: None, code, reasons });
        } else if let Some((plugin, rejection)) = first_failure(policy, pod, &request, node) {
            let plugin = Some(plugin);
            verdicts.insert(
                name,
                Verdict::Rejected { plugin, code: rejection.code, reasons: rejection.reasons },
            );
        } else {
            feasible.push((name, node));
        }
    }
    let nodes: Vec<&NaiveNode> = feasible.iter().map(|(_, node)| *node).collect();
    let scored = match score_all(policy, pod, &nodes, n_nodes) {
        Ok(scored) => scored,
        // A single feasible node is not scored, so nothing can fail (S-CYC-6).
        Err(InvalidTerm) if nodes.len() < 2 => vec![Vec::new(); nodes.len()],
        Err(InvalidTerm) => return Attempt::Error,
    };
    for ((name, _), scores) in feasible.iter().zip(scored) {
        let total = scores.iter().map(|score| score.weighted).sum();
        verdicts.insert(name, Verdict::Feasible { scores, total });
    }
    Attempt::Decided(account(&verdicts, feasible.len()))
}

/// The names to which NodeAffinity's PreFilter narrows the search (S-NAF-2, S-PF-5).
fn pre_filter(policy: &PolicySpec, pod: &Pod) -> Option<BTreeSet<String>> {
    if !policy.pre_filter.contains(&Plugin::NodeAffinity) {
        return None;
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    narrowed_names(affinity.required_during_scheduling_ignored_during_execution.as_ref()?)
}

/// For each feasible node the scores of every plugin that does not skip, in the policy's order (S-SEL-1).
fn score_all(
    policy: &PolicySpec,
    pod: &Pod,
    feasible: &[&NaiveNode],
    n_nodes: usize,
) -> Result<Vec<Vec<PluginScore>>, InvalidTerm> {
    let mut scored = vec![Vec::new(); feasible.len()];
    for (plugin, weight) in &policy.score {
        let Some(scores) = score(*plugin, policy, pod, feasible, n_nodes)? else {
            continue;
        };
        for ((of_node, raw), normalized) in scored.iter_mut().zip(scores.raw).zip(scores.normalized)
        {
            assert!((0..=100).contains(&normalized), "{plugin} scores {normalized}");
            of_node.push(PluginScore { plugin: *plugin, raw, weighted: weight * normalized });
        }
    }
    Ok(scored)
}

fn account(verdicts: &BTreeMap<&String, Verdict>, n_feasible: usize) -> Account {
    let total_of = |verdict: &Verdict| match verdict {
        Verdict::Feasible { total, .. } => Some(*total),
        Verdict::Rejected { .. } => None,
    };
    let highest = verdicts.values().filter_map(total_of).max();
    let best =
        verdicts.iter().filter(|(_, verdict)| highest.is_some() && total_of(verdict) == highest);
    let (message, reasons) = if n_feasible == 0 { failure(verdicts) } else { Default::default() };
    Account {
        n_feasible: u32::try_from(n_feasible).expect("few"),
        best: best.map(|(name, _)| name.as_str().into()).collect(),
        total: highest.filter(|_| n_feasible > 1),
        message,
        reasons,
        nodes: verdicts
            .iter()
            .map(|(name, v)| NodeVerdict { node: name.as_str().into(), verdict: v.clone() })
            .collect(),
    }
}

/// S-ERR-1 to S-ERR-4
fn failure(verdicts: &BTreeMap<&String, Verdict>) -> (String, Vec<(String, u32)>) {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for verdict in verdicts.values() {
        if let Verdict::Rejected { reasons, .. } = verdict {
            reasons.iter().for_each(|reason| *counts.entry(reason).or_default() += 1);
        }
    }
    let mut parts: Vec<_> =
        counts.into_iter().map(|(reason, n)| (format!("{n} {reason}"), reason, n)).collect();
    parts.sort();
    let text = parts.iter().map(|(text, _, _)| text.as_str()).collect::<Vec<_>>().join(", ");
    let message = format!("0/{} nodes are available: {text}.", verdicts.len());
    (message, parts.into_iter().map(|(_, reason, n)| (reason.to_owned(), n)).collect())
}
