//! The garbage collector's rules as written, without sorting or indexes (L-GC-1 to L-GC-7).

use berth_proto::berth_v1::PodGcRequest;
use berth_proto::core_v1::Pod;

use super::cluster::{
    NOW, OUT_OF_SERVICE, is_marked, is_terminal, meta, node_name, node_of, phase,
};

/// Applies the rules pass by pass; returns uid and cause in order.
pub(super) fn plainly(request: &PodGcRequest) -> Vec<(String, &'static str)> {
    let mut left: Vec<&Pod> = request.pods.iter().collect();
    let mut removals = Vec::new();
    let n_ended = left.iter().filter(|pod| is_terminal(pod)).count();
    let threshold = request.terminated_pod_threshold.unwrap_or(12_500);
    let mut n_over = 0;
    if threshold > 0 {
        n_over = n_ended.saturating_sub(usize::try_from(threshold).unwrap());
    }
    for _ in 0..n_over {
        take_first(&mut left, is_terminal, "TerminatedOverThreshold", &mut removals);
    }
    let is_out_of_service = |pod: &Pod| {
        let Some(node) = node_of(request, pod) else { return false };
        let conditions = &node.status.as_ref().unwrap().conditions;
        // The node is known not to be ready (L-GEN-4).
        let is_down = conditions.iter().any(|c| c.r#type == "Ready" && c.status != "True");
        let taints = &node.spec.as_ref().unwrap().taints;
        is_marked(pod) && is_down && taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    };
    let is_orphan = |pod: &Pod| {
        let absence = request.absent_nodes.get(node_name(pod));
        let since = absence.and_then(|absence| absence.since).and_then(|t| t.unix_seconds());
        !node_name(pod).is_empty()
            && node_of(request, pod).is_none()
            && absence.is_some_and(|absence| absence.confirmed_live)
            && since.is_some_and(|since| NOW - since >= 40)
    };
    let is_unscheduled = |pod: &Pod| is_marked(pod) && node_name(pod).is_empty();
    while take_first(&mut left, is_out_of_service, "TerminatingOutOfService", &mut removals) {}
    while take_first(&mut left, is_orphan, "Orphaned", &mut removals) {}
    while take_first(&mut left, is_unscheduled, "UnscheduledTerminating", &mut removals) {}
    removals
}

/// Takes the wanted pod that comes first, and returns whether there was one.
fn take_first(
    left: &mut Vec<&Pod>,
    is_wanted: impl Fn(&Pod) -> bool,
    cause: &'static str,
    removals: &mut Vec<(String, &'static str)>,
) -> bool {
    let mut first: Option<usize> = None;
    for index in 0..left.len() {
        if is_wanted(left[index]) && first.is_none_or(|first| goes_before(left[index], left[first]))
        {
            first = Some(index);
        }
    }
    let Some(first) = first else { return false };
    removals.push((meta(left.remove(first)).uid.clone(), cause));
    true
}

/// Evicted pods come first, then the oldest, then by name (L-GEN-2) and namespace.
fn goes_before(left: &Pod, right: &Pod) -> bool {
    let is_evicted =
        |pod: &Pod| phase(pod) == "Failed" && pod.status.as_ref().unwrap().reason == "Evicted";
    if is_evicted(left) != is_evicted(right) {
        return is_evicted(left);
    }
    let age = |pod: &Pod| meta(pod).creation_timestamp.and_then(|t| t.unix_seconds()).unwrap_or(-1);
    if age(left) != age(right) {
        return age(left) < age(right);
    }
    let name = |pod: &Pod| (meta(pod).name.clone(), meta(pod).namespace.clone());
    name(left) < name(right)
}
