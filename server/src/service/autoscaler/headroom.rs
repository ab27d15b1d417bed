//! The `Headroom` method: how many more copies of a pod fit, where, and which resource runs out first.

use std::cmp::Reverse;

use berth_engine::{self as engine, Cluster, HeadroomEnd, TieBreak};
use berth_proto::berth_v1::{self as wire, HeadroomRequest, HeadroomResponse};
use berth_proto::core_v1;

use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::State;
use crate::service::Target;
use crate::service::admission;
use crate::service::convert;
use crate::service::named;

/// Number of copies to place where the request has none, and its maximum.
pub(crate) const DEFAULT_LIMIT: u32 = 10_000;
pub(crate) const MAX_LIMIT: u32 = 100_000;

pub(super) fn answer(
    state: &State,
    target: &Target,
    request: HeadroomRequest,
    cancel: &Cancel,
) -> Result<HeadroomResponse, CallError> {
    let cancelled = || cancel.is_cancelled();
    headroom(target, &state.profiles, state.tie_break, request, &cancelled)
}

/// Computes the headroom on a cluster; `configured` is the tie-breaking rule if the request has none.
pub(crate) fn headroom(
    cluster: &Cluster,
    profiles: &Profiles,
    configured: TieBreak,
    request: HeadroomRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<HeadroomResponse, CallError> {
    let HeadroomRequest { pod, key, tie_break, node_names, limit, max_nodes, admit, .. } = request;
    let tie_break = convert::tie_break(tie_break.as_ref(), configured)?;
    let limit = match limit {
        0 => DEFAULT_LIMIT,
        1..=MAX_LIMIT => limit,
        _ => return Err(CallError::field("limit", format!("is more than {MAX_LIMIT}"))),
    };
    let mut template = template(named::as_it_is(cluster, pod, key.as_ref())?);
    let admission = admission::admit(cluster, profiles, Some(&mut template), admit)?;
    let (pod, policy) = convert::pod_to_place(cluster, profiles, Some(&template), false)?;
    let headroom = cluster.headroom(&engine::HeadroomRequest {
        pod: &pod,
        policy,
        tie_break,
        limit: limit as usize,
        nodes: (!node_names.is_empty()).then_some(&*node_names),
        cancelled,
    });
    let headroom = response(headroom.map_err(CallError::undecided)?, max_nodes as usize);
    Ok(HeadroomResponse { admission, ..headroom })
}

/// The given pod as it would be created anew: without its status, deletion and node.
fn template(mut pod: core_v1::Pod) -> core_v1::Pod {
    pod.status = None;
    if let Some(metadata) = &mut pod.metadata {
        metadata.deletion_timestamp = None;
    }
    if let Some(spec) = &mut pod.spec {
        spec.node_name.clear();
    }
    pod
}

fn response(headroom: engine::Headroom, max_nodes: usize) -> HeadroomResponse {
    use wire::headroom_response::Next;
    let engine::Headroom { generation, n_fit, end, nodes, n_open, stops, resources } = headroom;
    let next = match end {
        HeadroomEnd::Unschedulable(unschedulable) => {
            Next::Unschedulable(convert::unschedulable(unschedulable))
        }
        HeadroomEnd::Gated { plugin, reasons } => {
            Next::Gated(wire::Gated { plugin: plugin.name().to_owned(), reasons })
        }
        HeadroomEnd::LimitReached => Next::LimitReached(true),
    };
    let n_nodes = convert::saturate(nodes.len());
    let names: Vec<String> = resources.iter().map(|resource| resource.name.to_string()).collect();
    let node = |node: engine::NodeHeadroom| {
        let engine::NodeHeadroom { node, n_fit, refusal, free, is_open: _ } = node;
        wire::NodeHeadroom {
            node_name: node.to_string(),
            n_fit: convert::saturate(n_fit),
            rejection: refusal.map(convert::node_refusal),
            free: names.iter().cloned().zip(free).collect(),
        }
    };
    HeadroomResponse {
        generation: generation.get(),
        n_fit: convert::saturate(n_fit),
        next: Some(next),
        nodes: fullest(nodes, max_nodes).into_iter().map(node).collect(),
        stops: stops.into_iter().map(stop).collect(),
        resources: resources.into_iter().map(resource).collect(),
        n_open_nodes: convert::saturate(n_open),
        n_nodes,
        admission: None,
    }
}

/// Nodes that take the most copies, by name; all nodes where `max_nodes` is 0.
fn fullest(mut nodes: Vec<engine::NodeHeadroom>, max_nodes: usize) -> Vec<engine::NodeHeadroom> {
    if max_nodes > 0 && nodes.len() > max_nodes {
        // They are sorted by name, and a stable sort keeps equals in that order.
        nodes.sort_by_key(|node| Reverse(node.n_fit));
        nodes.truncate(max_nodes);
        nodes.sort_unstable_by(|a, b| a.node.cmp(&b.node));
    }
    nodes
}

fn stop(stop: engine::HeadroomStop) -> wire::HeadroomStop {
    let engine::HeadroomStop { plugin, reason, n_nodes, n_fit } = stop;
    wire::HeadroomStop {
        plugin: plugin.map(|plugin| plugin.name().to_owned()).unwrap_or_default(),
        reason,
        n_nodes: convert::saturate(n_nodes),
        n_fit: convert::saturate(n_fit),
    }
}

fn resource(resource: engine::ResourceHeadroom) -> wire::ResourceHeadroom {
    let engine::ResourceHeadroom {
        name,
        request,
        free_before,
        free_after,
        n_nodes_short,
        n_fit_alone,
    } = resource;
    wire::ResourceHeadroom {
        resource: name.to_string(),
        request,
        free_before,
        free_after,
        n_nodes_short: convert::saturate(n_nodes_short),
        n_fit_alone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use crate::service::{CancelOnDrop, Deadline};

    fn ask(state: &State, request: HeadroomRequest) -> Result<HeadroomResponse, CallError> {
        let caller = CancelOnDrop::new(Deadline(None));
        answer(state, &state.target_of("").unwrap(), request, &caller.token())
    }

    #[test]
    fn a_running_pod_may_be_given_as_it_is() {
        let state = fixture::state(&[("n0", "4"), ("n1", "8"), ("n2", "2")]);
        let pod = fixture::pod("web", "2", 0);
        fixture::run(&state.cluster, &pod, "n0");
        let mut running = pod;
        running.spec.as_mut().unwrap().node_name = "n0".to_owned();
        running.status =
            Some(core_v1::PodStatus { phase: "Failed".to_owned(), ..Default::default() });
        let request = HeadroomRequest { pod: Some(running), max_nodes: 2, ..Default::default() };
        let answer = ask(&state, request.clone()).unwrap();
        assert_eq!((answer.n_fit, answer.n_nodes, answer.n_open_nodes), (6, 3, 3));
        let nodes: Vec<_> =
            answer.nodes.iter().map(|node| (node.node_name.as_str(), node.n_fit)).collect();
        assert_eq!(nodes, [("n0", 1), ("n1", 4)]);
        let Some(wire::headroom_response::Next::Unschedulable(end)) = &answer.next else {
            panic!("{answer:?}")
        };
        assert_eq!(end.message, "0/3 nodes are available: 3 Insufficient cpu.");
        let some = HeadroomRequest { node_names: vec!["n2".to_owned()], limit: 1, ..request };
        let answer = ask(&state, some).unwrap();
        assert_eq!((answer.n_fit, answer.n_nodes), (1, 1));
        assert_eq!(answer.nodes[0].free["cpu"], 0);
    }

    #[test]
    fn limits_and_pods_are_checked() {
        let state = fixture::state(&[("n0", "4")]);
        let check = |request: HeadroomRequest, expected: &str| {
            assert_eq!(ask(&state, request).unwrap_err().to_string(), expected);
        };
        check(
            HeadroomRequest::default(),
            "`pod`: must be set, or `key`: exactly one of `pod` and `key`",
        );
        let pod = Some(fixture::pod("web", "1", 0));
        let limit = MAX_LIMIT + 1;
        check(
            HeadroomRequest { pod: pod.clone(), limit, ..Default::default() },
            "`limit`: is more than 100000",
        );
        let node_names = vec!["n0".to_owned(), "n9".to_owned()];
        check(
            HeadroomRequest { pod, node_names, ..Default::default() },
            "`node_names[1]`: the cluster has no node `n9`",
        );
        let limited = HeadroomRequest {
            pod: Some(fixture::pod("w", "1", 0)),
            limit: 3,
            ..Default::default()
        };
        let answer = ask(&state, limited.clone()).unwrap();
        assert_eq!(answer.next, Some(wire::headroom_response::Next::LimitReached(true)));
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        drop(caller);
        let target = state.target_of("").unwrap();
        assert_eq!(
            super::answer(&state, &target, limited, &token).unwrap_err(),
            CallError::DeadlineExceeded
        );
    }
}
