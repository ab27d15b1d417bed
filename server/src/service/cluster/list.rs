//! The `ListNodes` and `ListPods` methods over one published snapshot.

use berth_engine::Snapshot;
use berth_proto::berth_v1::{
    ListNodesRequest, ListNodesResponse, ListPodsRequest, ListPodsResponse,
};

use super::page;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::convert;
use crate::service::label_selector::LabelSelector;

/// One page of nodes in name order. Cost: the view of every node, once a page.
pub(super) fn nodes(
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

/// One page of pods on nodes, in (namespace, name) order. Cost: the view of every pod, once a page.
pub(super) fn pods(
    snapshot: &Snapshot,
    request: &ListPodsRequest,
    cancel: &Cancel,
) -> Result<ListPodsResponse, CallError> {
    let after = page::parse_pod_token(&request.page_token)?;
    let size = page::size(request.page_size);
    let mut matching = snapshot
        .pods_unless(&|| cancel.is_cancelled())
        .map_err(CallError::undecided)?
        .into_iter()
        .skip_while(|view| after.as_ref().is_some_and(|after| view.pod.key() <= after))
        .filter(|view| {
            request.namespace.is_empty() || *view.pod.key().namespace == *request.namespace
        })
        .filter(|view| request.node_name.is_empty() || *view.node == *request.node_name);
    let page: Vec<_> = matching.by_ref().take(size).collect();
    let next_page_token = match (matching.next(), page.last()) {
        (Some(_), Some(last)) => page::token(&last.pod.key().to_string()),
        (Some(_) | None, _) => String::new(),
    };
    let pods = page.iter().map(convert::pod_summary).collect();
    Ok(ListPodsResponse { pods, next_page_token, generation: snapshot.generation().get() })
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
        let list_pods = || pods(&snapshot, &ListPodsRequest::default(), &token);
        assert_eq!(list_nodes().unwrap().nodes.len(), 1);
        assert_eq!(list_pods().unwrap().pods.len(), 1);
        drop(caller);
        assert_eq!(list_nodes().unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(list_pods().unwrap_err(), CallError::DeadlineExceeded);
    }
}
