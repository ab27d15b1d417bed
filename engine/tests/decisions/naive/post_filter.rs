//! PostFilter, which runs if no node is feasible: the pods to evict, and the message.
//! Rules: S-CYC-5, S-PLG-5, S-PRE-1 to S-PRE-5, S-PRE-17, S-PRE-21, S-PRE-24, S-ERR-5 to S-ERR-8.

use std::collections::BTreeMap;

use berth_engine::{Nomination, Plugin, PolicySpec, PostFilterCode, StatusCode, Verdict};
use berth_proto::core_v1::Pod;

use super::attempt::{self, Attempt};
use super::cluster::NaiveCluster;
use super::dry_run::{Candidate, NotHelped, dry_run};
use super::filter::Failure;
use super::pick;
use super::pod;
use super::pre_filter::pre_filter;

/// The outcome of PostFilter, with every node that it tried.
#[derive(Debug, PartialEq)]
pub(crate) struct PostFilter {
    pub(crate) code: PostFilterCode,
    /// `None` if a plugin failed, because the failure's text is the plugin's own.
    pub(crate) message: Option<String>,
    /// On success any node of `best` may be nominated; this nominates the first.
    pub(crate) nomination: Nomination,
    /// By node name.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) not_helped: BTreeMap<String, NotHelped>,
    pub(crate) best: Vec<String>,
}

impl PostFilter {
    fn failed(message: Option<&str>) -> PostFilter {
        let message = message.map(str::to_owned);
        PostFilter { message, ..PostFilter::unchanged(PostFilterCode::Error, String::new()) }
    }

    fn unchanged(code: PostFilterCode, message: String) -> PostFilter {
        PostFilter {
            code,
            message: Some(message),
            nomination: Nomination::Unchanged,
            candidates: Vec::new(),
            not_helped: BTreeMap::new(),
            best: Vec::new(),
        }
    }
}

/// Runs the PostFilter plugins in their order; `None` if none runs.
pub(crate) fn post_filter(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    attempt: &Attempt,
) -> Option<PostFilter> {
    let is_stopped_by = match attempt {
        Attempt::Decided(account) if account.n_feasible == 0 => None,
        Attempt::Refused { by: Some((plugin, _)), .. } => Some(*plugin),
        // Without nodes the attempt ends before any plugin (S-CYC-1).
        Attempt::Refused { by: None, .. } => return None,
        Attempt::Decided(_) | Attempt::Gated(_) | Attempt::Error => return None,
    };
    let mut answer: Option<PostFilter> = None;
    let mut messages = Vec::new();
    for plugin in &policy.post_filter {
        match plugin {
            // The plugin reads the state that its PreFilter left (S-ERR-7).
            Plugin::DynamicResources if !ran(policy, is_stopped_by) => {
                return Some(PostFilter::failed(Some("not found")));
            }
            Plugin::DynamicResources => messages.push("no new claims to deallocate".to_owned()),
            Plugin::DefaultPreemption => {
                let preemption = preempt(cluster, policy, pod, attempt);
                if preemption.code != PostFilterCode::Unschedulable {
                    return Some(preemption);
                }
                let text = preemption.message.as_deref().unwrap_or_default();
                messages.push(format!("preemption: {text}"));
                answer = Some(preemption);
            }
            other => panic!("{other} has no PostFilter"),
        }
    }
    if messages.is_empty() {
        return None;
    }
    let answer = answer
        .unwrap_or_else(|| PostFilter::unchanged(PostFilterCode::Unschedulable, String::new()));
    // S-ERR-6
    Some(PostFilter { message: Some(messages.join(", ")), ..answer })
}

/// Whether DynamicResources' PreFilter ran before the attempt was stopped.
fn ran(policy: &PolicySpec, is_stopped_by: Option<Plugin>) -> bool {
    let reached = policy.pre_filter.iter().take_while(|plugin| Some(**plugin) != is_stopped_by);
    reached.into_iter().any(|plugin| *plugin == Plugin::DynamicResources)
}

fn preempt(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    attempt: &Attempt,
) -> PostFilter {
    let code_of = |node: &str| match attempt {
        Attempt::Decided(account) => {
            let found = account.nodes.iter().find(|verdict| &*verdict.node == node);
            match found.map(|found| &found.verdict) {
                Some(Verdict::Rejected { code, .. }) => *code,
                _ => StatusCode::UnschedulableAndUnresolvable,
            }
        }
        // A refusal of the pod as a whole applies to every node.
        _ => StatusCode::UnschedulableAndUnresolvable,
    };
    if let Some(reason) = ineligibility(cluster, pod, code_of) {
        return PostFilter::unchanged(PostFilterCode::Unschedulable, reason.to_owned());
    }
    let prepared = pre_filter(cluster, policy, pod).ok();
    let (mut candidates, mut not_helped, mut has_failed) = (Vec::new(), BTreeMap::new(), false);
    for (name, node) in &cluster.nodes {
        if code_of(name) != StatusCode::Unschedulable {
            continue;
        }
        match dry_run(prepared.as_ref().expect("filters ran"), node) {
            Ok(Ok(candidate)) => candidates.push(candidate),
            Ok(Err(status)) => drop(not_helped.insert(name.clone(), status)),
            Err(Failure) => has_failed = true,
        }
    }
    let best = pick::best(&candidates);
    let Some(chosen) = best.first() else {
        if has_failed {
            return PostFilter::failed(None);
        }
        let message = Some(nothing_helps(cluster.nodes.len(), &not_helped));
        let nomination = Nomination::Cleared;
        let unchanged = PostFilter::unchanged(PostFilterCode::Unschedulable, String::new());
        return PostFilter { message, nomination, not_helped, ..unchanged };
    };
    PostFilter {
        code: PostFilterCode::Success,
        message: Some(String::new()),
        nomination: Nomination::Node(chosen.as_str().into()),
        candidates,
        not_helped,
        best,
    }
}

/// S-PRE-2, S-PRE-3
fn ineligibility(
    cluster: &NaiveCluster,
    pod: &Pod,
    code_of: impl Fn(&str) -> StatusCode,
) -> Option<&'static str> {
    let policy = pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let promised = attempt::nominated_node(cluster, pod)?;
    let node = cluster.nodes.get(promised)?;
    let makes_room = |other: &Pod| {
        pod::priority(other) < pod::priority(pod) && pod::is_terminating_by_preemption(other)
    };
    let waits = code_of(promised) != StatusCode::UnschedulableAndUnresolvable
        && node.pods.iter().any(|other| makes_room(&other.pod));
    waits.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// S-PRE-17, S-ERR-8
fn nothing_helps(n_nodes: usize, tried: &BTreeMap<String, NotHelped>) -> String {
    let own = Plugin::DefaultPreemption;
    let reasons = tried.values().flat_map(|(plugin, rejection)| {
        let plugin = plugin.unwrap_or(own);
        rejection.reasons.iter().map(move |reason| (plugin, reason.as_str()))
    });
    let other = (own, "Preemption is not helpful for scheduling");
    let others = std::iter::repeat_n(other, n_nodes - tried.len());
    attempt::failure(n_nodes, reasons.chain(others)).0
}

/// Returns the pods of lower priority that lose their nomination to this node (S-PRE-24).
pub(crate) fn cleared_nominations<'a>(
    cluster: &'a NaiveCluster,
    pod: &Pod,
    node: &str,
) -> Vec<&'a Pod> {
    let promised = cluster.nominations.of_node(node);
    promised.filter(|other| pod::priority(other) < pod::priority(pod)).collect()
}

/// Returns the whole text: PostFilter's part follows after a space (S-ERR-5).
pub(crate) fn whole_message(head: &str, post_filter: &str) -> String {
    if post_filter.is_empty() { head.to_owned() } else { format!("{head} {post_filter}") }
}
