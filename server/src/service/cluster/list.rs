//! The `ListNodes` and `ListPods` methods.

use std::sync::Arc;

use berth_engine::{Cluster, Pod, PodView, Snapshot};
use berth_proto::berth_v1::{
    ListNodesRequest, ListNodesResponse, ListPodsRequest, ListPodsResponse, PodSummary,
};
use berth_proto::core_v1;
use berth_proto::meta_v1::ObjectMeta;

use super::page;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::convert;
use crate::service::label_selector::LabelSelector;

/// One page of nodes in name order. Cost: the view of every node, once a page.
pub(crate) fn nodes(
    snapshot: &Snapshot,
    request: &ListNodesRequest,
    cancel: &Cancel,
) -> Result<ListNodesResponse, CallError> {
    let selector = LabelSelector::parse(&request.label_selector)
        .map_err(|reason| CallError::field("label_selector", reason))?;
    let after = page::parse_token(&request.page_token)?;
    let size = page::size(request.page_size);
    let mut matching = snapshot
        .nodes_unless(&|| cancel.is_cancelled())
        .map_err(CallError::undecided)?
        .into_iter()
        .skip_while(|node| after.as_deref().is_some_and(|after| &*node.name <= after))
        .filter(|node| selector.matches(&node.labels));
    let nodes: Vec<_> = matching.by_ref().take(size).map(convert::node_summary).collect();
    let next_page_token = match (matching.next(), nodes.last()) {
        (Some(_), Some(last)) => page::token(&last.name),
        (Some(_) | None, _) => String::new(),
    };
    Ok(ListNodesResponse { nodes, next_page_token, generation: snapshot.generation().get() })
}

/// Maximum number of pods on a page with their objects: a page stays far below the usual limit on messages.
const MAX_OBJECTS: usize = 500;

/// A pod of a listing.
struct Row {
    pod: Pod,
    node: Option<Arc<str>>,
    assumed: bool,
}

/// One page of pods, in (namespace, name) order. Cost: the view of every pod, once a page; with filters by what a feed
/// reported, also decoding those.
pub(crate) fn pods(
    cluster: &Cluster,
    request: &ListPodsRequest,
    cancel: &Cancel,
) -> Result<ListPodsResponse, CallError> {
    let after = page::parse_pod_token(&request.page_token)?;
    let mut size = page::size(request.page_size);
    if request.with_objects {
        size = size.min(MAX_OBJECTS);
    }
    let is_listed = |pod: &Pod, node: Option<&str>| {
        after.as_ref().is_none_or(|after| pod.key() > after)
            && (request.namespace.is_empty() || *pod.key().namespace == *request.namespace)
            && (request.node_name.is_empty() || node == Some(request.node_name.as_str()))
            && (request.scheduler_name.is_empty() || pod.scheduler_name() == request.scheduler_name)
            && request.waits.is_none_or(|waits| waits == is_waiting(pod))
    };
    // The pods on no node are listed first: one that gets a node meanwhile is among the others then, and none is lost.
    let mut rows =
        if lists_off_nodes(request) { off_nodes(cluster, &is_listed) } else { Vec::new() };
    let snapshot = cluster.snapshot();
    let on_nodes = snapshot.pods_unless(&|| cancel.is_cancelled()).map_err(CallError::undecided)?;
    let on_nodes = on_nodes.into_iter().filter(|view| is_listed(&view.pod, Some(&view.node)));
    rows.extend(on_nodes.map(|PodView { pod, node, assumed }| Row {
        pod,
        node: Some(node),
        assumed,
    }));
    // A pod in both is on its node by now.
    rows.sort_by(|a, b| (a.pod.key(), a.node.is_none()).cmp(&(b.pod.key(), b.node.is_none())));
    rows.dedup_by(|a, b| a.pod.key() == b.pod.key());
    let mut page = Vec::new();
    let mut has_more = false;
    for row in rows {
        cancel.check()?;
        let summary = summary(&row, request.with_objects);
        if !is_wanted(&summary, request) {
            continue;
        }
        if page.len() == size {
            has_more = true;
            break;
        }
        page.push((row.pod.key().to_string(), summary));
    }
    let last = page.last().filter(|_| has_more);
    let next_page_token = last.map_or_else(String::new, |(name, _)| page::token(name));
    let pods = page.into_iter().map(|(_, summary)| summary).collect();
    Ok(ListPodsResponse { pods, next_page_token, generation: snapshot.generation().get() })
}

/// Whether the pod waits for a node.
fn is_waiting(pod: &Pod) -> bool {
    pod.node_name().is_none() && !pod.is_terminating()
}

fn lists_off_nodes(request: &ListPodsRequest) -> bool {
    let texts = [&request.phase, &request.reason, &request.owner, &request.scheduler_name];
    request.include_off_nodes
        || request.waits == Some(true)
        || texts.into_iter().any(|text| !text.is_empty())
}

/// The pods on no node of the cluster that are listed.
fn off_nodes(cluster: &Cluster, is_listed: &dyn Fn(&Pod, Option<&str>) -> bool) -> Vec<Row> {
    let snapshot = cluster.snapshot();
    let is_off = |pod: &Pod| pod.node_name().is_none_or(|node| snapshot.node_named(node).is_none());
    let listing = cluster.pod_listing(|pod, _| is_off(pod) && is_listed(pod, pod.node_name()));
    let row = |(pod, assumed): (Pod, bool)| {
        let node = pod.node_name().map(Arc::from);
        Row { pod, node, assumed }
    };
    listing.pods.into_iter().map(row).collect()
}

fn summary(row: &Row, with_object: bool) -> PodSummary {
    let Row { pod, node, assumed } = row;
    let node = node.as_deref().unwrap_or_default();
    let mut summary = convert::pod_summary(pod, node, *assumed);
    let Some(object) = pod.reported() else { return summary };
    let status = object.status.clone().unwrap_or_default();
    summary.reason = if status.reason.is_empty() { unscheduled(&status) } else { status.reason };
    summary.phase = if status.phase.is_empty() { "Pending".to_owned() } else { status.phase };
    let metadata = object.metadata.as_ref();
    let controller = metadata.and_then(ObjectMeta::controller);
    summary.owner = controller.map(|it| format!("{}/{}", it.kind, it.name)).unwrap_or_default();
    summary.created = metadata.and_then(|metadata| metadata.creation_timestamp);
    if with_object {
        summary.object = Some(object);
    }
    summary
}

/// The reason of a condition that says that the pod has no node.
fn unscheduled(status: &core_v1::PodStatus) -> String {
    let is_it = |condition: &&core_v1::PodCondition| {
        condition.r#type == "PodScheduled" && condition.status == "False"
    };
    status.conditions.iter().find(is_it).map(|it| it.reason.clone()).unwrap_or_default()
}

fn is_wanted(summary: &PodSummary, request: &ListPodsRequest) -> bool {
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let name = summary.owner.split_once('/').map_or("", |(_, name)| name);
    is(&request.phase, &summary.phase)
        && is(&request.reason, &summary.reason)
        && (is(&request.owner, &summary.owner) || request.owner == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use crate::service::{CancelOnDrop, Deadline};

    #[test]
    fn a_listing_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        fixture::run(&state.cluster, &fixture::pod("p", "1", 0), "n0");
        let snapshot = state.cluster.snapshot();
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        let list_nodes = || nodes(&snapshot, &ListNodesRequest::default(), &token);
        let list_pods = || pods(&state.cluster, &ListPodsRequest::default(), &token);
        assert_eq!(list_nodes().unwrap().nodes.len(), 1);
        assert_eq!(list_pods().unwrap().pods.len(), 1);
        drop(caller);
        assert_eq!(list_nodes().unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(list_pods().unwrap_err(), CallError::DeadlineExceeded);
    }

    fn names(cluster: &Cluster, request: &ListPodsRequest) -> Vec<String> {
        let caller = CancelOnDrop::new(Deadline(None));
        let listed = pods(cluster, request, &caller.token()).unwrap();
        listed.pods.into_iter().map(|pod| pod.key.unwrap().name).collect()
    }

    #[test]
    fn pods_are_filtered_by_what_a_feed_reported() {
        let state = fixture::state(&[("n0", "4")]);
        let pod = |name: &str, node: &str, status: &str, owner: &str| -> core_v1::Pod {
            let json = format!(
                r#"{{"metadata": {{"name": "{name}", "uid": "{name}", "ownerReferences": [{owner}]}},
                    "spec": {{"nodeName": "{node}", "containers": [{{"name": "c"}}]}}, "status": {{{status}}}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let owner = r#"{"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}"#;
        let unschedulable = r#""conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]"#;
        for pod in [
            pod("a", "n0", r#""phase": "Running""#, owner),
            pod("b", "", unschedulable, ""),
            pod("c", "gone", "", ""),
        ] {
            let delta = state.cluster.compile_reported_pod(&pod).unwrap();
            state.cluster.apply(vec![berth_engine::Delta::UpsertPod(delta)]);
        }
        let check = |request: ListPodsRequest, expected: &[&str]| {
            assert_eq!(names(&state.cluster, &request), expected, "{request:?}");
        };
        let none = ListPodsRequest::default;
        check(none(), &["a"]);
        check(ListPodsRequest { include_off_nodes: true, ..none() }, &["a", "b", "c"]);
        check(ListPodsRequest { phase: "Pending".to_owned(), ..none() }, &["b", "c"]);
        check(ListPodsRequest { reason: "Unschedulable".to_owned(), ..none() }, &["b"]);
        check(ListPodsRequest { owner: "web".to_owned(), ..none() }, &["a"]);
        check(ListPodsRequest { owner: "ReplicaSet/web".to_owned(), ..none() }, &["a"]);
        check(ListPodsRequest { scheduler_name: "other".to_owned(), ..none() }, &[]);
        check(ListPodsRequest { waits: Some(true), ..none() }, &["b"]);
        let caller = CancelOnDrop::new(Deadline(None));
        let mut request = ListPodsRequest { page_size: 1, include_off_nodes: true, ..none() };
        let mut found = Vec::new();
        loop {
            let page = pods(&state.cluster, &request, &caller.token()).unwrap();
            found.extend(page.pods.into_iter().map(|pod| (pod.key.unwrap().name, pod.node_name)));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        let expected = [("a", "n0"), ("b", ""), ("c", "gone")];
        assert_eq!(found, expected.map(|(name, node)| (name.to_owned(), node.to_owned())));
    }
}
