//! One scheduling attempt, step by step. Rules: S-Q-6, S-CYC-1 to S-CYC-7, S-PF-2 to S-PF-6, S-SEL-1,
//! S-ERR-1 to S-ERR-4. `post_filter` covers the steps after it if no node is feasible.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{
    CountedReason, NodeVerdict, Plugin, PluginScore, PolicySpec, StatusCode, Verdict,
};
use berth_proto::core_v1::Pod;

use super::cluster::{NaiveCluster, NaiveNode};
use super::filter::Failure;
use super::pre_filter::{Prepared, Stop, pre_filter};
use super::score::score;
use super::volume_binding::{self, Bindings};
use super::{pod, two_pass};

/// The outcome of an attempt.
#[derive(Debug, PartialEq)]
pub(crate) enum Attempt {
    /// PreEnqueue holds the pod back, for this reason.
    Gated(String),
    /// No filter runs: the message, and the plugin that refuses the pod with its reason, or `None` if there are no
    /// nodes.
    Refused { message: String, by: Option<(Plugin, String)> },
    /// A `SchedulerError` (S-CYC-10).
    Error,
    /// Nodes were filtered and, where some are feasible, scored.
    Decided(Account),
}

/// Every node by name, and the results over all nodes.
#[derive(Debug, PartialEq)]
pub(crate) struct Account {
    pub(crate) nodes: Vec<NodeVerdict>,
    pub(crate) n_feasible: u32,
    /// The pod's nominated node is feasible, so it is the only one in `nodes` (S-CYC-3).
    pub(crate) is_nominated: bool,
    /// Names of the nodes with the highest total (S-SEL-3).
    pub(crate) best: Vec<Arc<str>>,
    /// `None` unless more than one node is feasible (S-CYC-6).
    pub(crate) total: Option<i64>,
    /// The message if no node is feasible.
    pub(crate) message: String,
    pub(crate) reasons: Vec<CountedReason>,
    /// The volumes that would be bound and provisioned on each feasible node (S-VLB-9).
    pub(crate) volumes: BTreeMap<String, Bindings>,
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
            by: None,
        };
    }
    match pre_filter(cluster, policy, pod) {
        Ok(prepared) => match decide(&prepared) {
            Ok(account) => Attempt::Decided(account),
            Err(Failure) => Attempt::Error,
        },
        Err(Stop::Refused(plugin, reason)) => {
            let message = format!("0/{n_nodes} nodes are available: {reason}.");
            Attempt::Refused { message, by: Some((plugin, reason)) }
        }
        Err(Stop::Failed) => Attempt::Error,
    }
}

/// Returns the node to which the pod is nominated, by its status or in the cluster's memory.
pub(crate) fn nominated_node<'a>(cluster: &'a NaiveCluster, pod: &'a Pod) -> Option<&'a str> {
    let remembered = cluster.nominations.node_of(pod::namespace(pod), pod::name(pod));
    pod::nominated_node(pod).or(remembered)
}

fn decide(prepared: &Prepared<'_>) -> Result<Account, Failure> {
    let nodes = &prepared.cluster.nodes;
    let promised = nominated_node(prepared.cluster, prepared.pod);
    let promised = promised.and_then(|name| nodes.get_key_value(name));
    let (mut verdicts, mut feasible) = (BTreeMap::new(), Vec::new());
    let mut is_nominated = false;
    if let Some((name, node)) = promised
        && two_pass::rejection(prepared, node)?.is_none()
    {
        is_nominated = true;
        feasible.push((name, node));
    }
    for (name, node) in nodes.iter().filter(|_| !is_nominated) {
        if prepared.names.as_ref().is_some_and(|names| !names.contains(name)) {
            let reasons = vec!["node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned()];
            let code = StatusCode::UnschedulableAndUnresolvable;
            verdicts.insert(name, Verdict::Rejected { plugin: None, code, reasons });
        } else if let Some((plugin, rejection)) = two_pass::rejection(prepared, node)? {
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
    let scored = match score_all(prepared, &nodes) {
        // A single feasible node is not scored, so nothing can fail (S-CYC-6).
        Err(Failure) if nodes.len() < 2 => vec![Vec::new(); nodes.len()],
        scored => scored?,
    };
    for ((name, _), scores) in feasible.iter().zip(scored) {
        let total = scores.iter().map(|score| score.weighted).sum();
        verdicts.insert(name, Verdict::Feasible { scores, total, devices: None });
    }
    Ok(Account { is_nominated, ..account(prepared, &verdicts, &nodes) })
}

/// Returns for each feasible node the scores of every plugin that does not skip, in the policy's order (S-SEL-1).
pub(super) fn score_all(
    prepared: &Prepared<'_>,
    feasible: &[&NaiveNode],
) -> Result<Vec<Vec<PluginScore>>, Failure> {
    let mut scored = vec![Vec::new(); feasible.len()];
    for (plugin, weight) in &prepared.policy.score {
        let Some(scores) = score(*plugin, prepared, feasible)? else {
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

fn account(
    prepared: &Prepared<'_>,
    verdicts: &BTreeMap<&String, Verdict>,
    feasible: &[&NaiveNode],
) -> Account {
    let n_feasible = feasible.len();
    let total_of = |verdict: &Verdict| match verdict {
        Verdict::Feasible { total, .. } => Some(*total),
        Verdict::Rejected { .. } => None,
    };
    let highest = verdicts.values().filter_map(total_of).max();
    let best =
        verdicts.iter().filter(|(_, verdict)| highest.is_some() && total_of(verdict) == highest);
    let n_nodes = prepared.cluster.nodes.len();
    let (message, reasons) = match n_feasible {
        0 => failure(n_nodes, verdicts.values().flat_map(reasons_of)),
        _ => Default::default(),
    };
    let bindings = |node: &&NaiveNode| {
        let is_filter = prepared.policy.filter.contains(&Plugin::VolumeBinding);
        let found = volume_binding::filter(prepared.cluster, prepared.pod, node);
        let bindings = found.ok().and_then(Result::ok).filter(|_| is_filter);
        (node.name().to_owned(), bindings.unwrap_or_default())
    };
    Account {
        volumes: feasible.iter().map(bindings).collect(),
        n_feasible: u32::try_from(n_feasible).expect("few"),
        is_nominated: false,
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

/// Returns each reason with the plugin that gave it; a node that was left out counts for NodeAffinity's PreFilter
/// (S-PF-6).
fn reasons_of(verdict: &Verdict) -> impl Iterator<Item = (Plugin, &str)> {
    let (plugin, reasons) = match verdict {
        Verdict::Feasible { .. } => (None, &[][..]),
        Verdict::Rejected { plugin, reasons, .. } => (*plugin, &reasons[..]),
    };
    reasons.iter().map(move |reason| (plugin.unwrap_or(Plugin::NodeAffinity), reason.as_str()))
}

/// Returns the message for this number of nodes with each reason and its count (S-ERR-1, S-ERR-3, S-ERR-4).
pub(crate) fn failure<'a>(
    n_nodes: usize,
    reasons: impl Iterator<Item = (Plugin, &'a str)>,
) -> (String, Vec<CountedReason>) {
    let mut counts: BTreeMap<(Plugin, &str), u32> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let part = |((plugin, reason), n): ((Plugin, &str), u32)| {
        let counted = CountedReason { plugin, text: reason.to_owned(), n_nodes: n };
        (format!("{n} {reason}"), counted)
    };
    let mut parts: Vec<_> = counts.into_iter().map(part).collect();
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    let text = parts.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(", ");
    let message = format!("0/{n_nodes} nodes are available: {text}.");
    (message, parts.into_iter().map(|(_, counted)| counted).collect())
}
