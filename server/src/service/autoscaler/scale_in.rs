//! The `ChooseScaleIn` method: which replicas of a workload to remove.

use berth_engine::{self as engine, Cluster, PodKey, Replicas};
use berth_proto::berth_v1::{self as wire, ChooseScaleInRequest, ChooseScaleInResponse};

use crate::service::CallError;
use crate::service::Cancel;
use crate::service::State;
use crate::service::Target;
use crate::service::convert;

pub(super) fn answer(
    _: &State,
    target: &Target,
    request: ChooseScaleInRequest,
    cancel: &Cancel,
) -> Result<ChooseScaleInResponse, CallError> {
    choose(target, request, &|| cancel.is_cancelled())
}

/// Chooses on a cluster.
pub(crate) fn choose(
    cluster: &Cluster,
    request: ChooseScaleInRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<ChooseScaleInResponse, CallError> {
    let ChooseScaleInRequest { session_id: _, namespace, selector, pods, n, topology_keys } =
        request;
    let namespace = if namespace.is_empty() { "default" } else { &namespace };
    if let Some(i) = topology_keys.iter().position(String::is_empty) {
        return Err(CallError::field(format!("topology_keys[{i}]"), "must not be empty"));
    }
    let pods: Vec<PodKey> = pods
        .iter()
        .map(|pod| match pod.namespace.as_str() {
            "" => PodKey::new(namespace, &pod.name),
            namespace => PodKey::new(namespace, &pod.name),
        })
        .collect();
    let replicas = match (&selector, pods.is_empty()) {
        (Some(selector), true) => Replicas::Selected { namespace, selector },
        (None, false) => Replicas::Listed(&pods),
        (Some(_), false) => {
            let reason = "are given besides `selector`: one of the two names the workload";
            return Err(CallError::field("pods", reason));
        }
        (None, true) => {
            let reason = "must be set, unless `pods` are given";
            return Err(CallError::field("selector", reason));
        }
    };
    let n = n as usize;
    let request = engine::ScaleInRequest { replicas, n, topology_keys: &topology_keys, cancelled };
    cluster.choose_scale_in(&request).map(response).map_err(CallError::undecided)
}

fn response(answer: engine::ScaleIn) -> ChooseScaleInResponse {
    let engine::ScaleIn {
        generation,
        pods,
        n_replicas,
        n_terminating,
        spread,
        emptied_nodes,
        budgets,
    } = answer;
    ChooseScaleInResponse {
        generation: generation.get(),
        pods: pods.into_iter().map(pod).collect(),
        n_replicas: convert::saturate(n_replicas),
        n_terminating: convert::saturate(n_terminating),
        spread: spread.into_iter().map(constraint).collect(),
        emptied_node_names: emptied_nodes.iter().map(ToString::to_string).collect(),
        budgets: budgets.into_iter().map(budget).collect(),
    }
}

fn pod(chosen: engine::ScaleInPod) -> wire::ScaleInPod {
    let engine::ScaleInPod { pod, uid, node, reason, message, deletion_cost } = chosen;
    wire::ScaleInPod {
        pod: Some(convert::pod_key(&pod, &uid)),
        node_name: node.to_string(),
        reason: self::reason(reason).into(),
        message,
        deletion_cost,
    }
}

fn reason(reason: engine::ScaleInReason) -> wire::ScaleInReason {
    use engine::ScaleInReason as Engine;
    match reason {
        Engine::NotReady => wire::ScaleInReason::NotReady,
        Engine::Violation => wire::ScaleInReason::Violation,
        Engine::Spread => wire::ScaleInReason::Spread,
        Engine::LeavingNode => wire::ScaleInReason::LeavingNode,
        Engine::EmptierNode => wire::ScaleInReason::EmptierNode,
        Engine::Budget => wire::ScaleInReason::Budget,
        Engine::Younger => wire::ScaleInReason::Younger,
        Engine::Name => wire::ScaleInReason::Name,
    }
}

fn constraint(spread: engine::ScaleInSpread) -> wire::ScaleInSpread {
    let engine::ScaleInSpread {
        topology_key,
        max_skew,
        is_hard,
        skew_before,
        skew_after,
        n_domains,
        domains,
    } = spread;
    let domain = |(name, before, after): (std::sync::Arc<str>, i64, i64)| wire::ScaleInDomain {
        name: name.to_string(),
        n_before: number(before),
        n_after: number(after),
    };
    wire::ScaleInSpread {
        topology_key: topology_key.to_string(),
        max_skew: number(max_skew.into()),
        hard: is_hard,
        skew_before: number(skew_before),
        skew_after: number(skew_after),
        domains: domains.into_iter().map(domain).collect(),
        n_domains: convert::saturate(n_domains),
    }
}

fn budget(used: engine::BudgetUse) -> wire::ScaleInBudget {
    let engine::BudgetUse { namespace, name, n_moved, n_allowed } = used;
    wire::ScaleInBudget {
        namespace: namespace.to_string(),
        name: name.to_string(),
        disruptions_allowed: i32::try_from(n_allowed).unwrap_or(i32::MAX),
        n_used: n_moved,
    }
}

/// Converts a number of pods, which is not negative and far below the bound.
fn number(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use berth_proto::meta_v1::LabelSelector;

    fn state() -> std::sync::Arc<State> {
        let state = fixture::state(&[("n0", "4"), ("n1", "4")]);
        for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
            let mut pod = fixture::pod(name, "1", 0);
            let labels = &mut pod.metadata.as_mut().unwrap().labels;
            labels.insert("app".to_owned(), "web".to_owned());
            fixture::run(&state.cluster, &pod, node);
        }
        state
    }

    fn web() -> Option<LabelSelector> {
        let match_labels = [("app".to_owned(), "web".to_owned())].into();
        Some(LabelSelector { match_labels, ..Default::default() })
    }

    #[test]
    fn a_workload_is_selected_or_listed() {
        let state = state();
        let request = ChooseScaleInRequest { selector: web(), n: 1, ..Default::default() };
        let answer = choose(&state.cluster, request, &|| false).unwrap();
        let [pod] = &answer.pods[..] else { panic!("{answer:?}") };
        // Nodes without labels belong to no zone and no host: the fewest other replicas are on n0.
        assert_eq!(
            (pod.node_name.as_str(), pod.reason()),
            ("n0", wire::ScaleInReason::EmptierNode)
        );
        assert_eq!(answer.emptied_node_names, ["n0"]);
        assert_eq!((answer.n_replicas, pod.deletion_cost), (3, None));
        let key = |name: &str| wire::PodKey { name: name.to_owned(), ..Default::default() };
        let pods = vec![key("b"), key("c")];
        let request = ChooseScaleInRequest { pods, n: 2, ..Default::default() };
        let answer = choose(&state.cluster, request, &|| false).unwrap();
        let names: Vec<_> =
            answer.pods.iter().map(|pod| pod.pod.as_ref().unwrap().name.as_str()).collect();
        assert_eq!((names, answer.n_replicas), (vec!["b", "c"], 2));
    }

    #[test]
    fn requests_are_checked() {
        let state = state();
        let check = |request: ChooseScaleInRequest, expected: &str| {
            let error = choose(&state.cluster, request, &|| false).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        let request = || ChooseScaleInRequest { n: 1, ..Default::default() };
        check(request(), "`selector`: must be set, unless `pods` are given");
        let pods = vec![wire::PodKey { name: "a".to_owned(), ..Default::default() }];
        check(
            ChooseScaleInRequest { selector: web(), pods, ..request() },
            "`pods`: are given besides `selector`: one of the two names the workload",
        );
        let topology_keys = vec!["zone".to_owned(), String::new()];
        check(
            ChooseScaleInRequest { selector: web(), topology_keys, ..request() },
            "`topology_keys[1]`: must not be empty",
        );
        let namespace = "none".to_owned();
        check(
            ChooseScaleInRequest { selector: web(), namespace, ..request() },
            "`n`: asks to remove 1 of 0 replicas on nodes",
        );
        let given_up = ChooseScaleInRequest { selector: web(), ..request() };
        let error = choose(&state.cluster, given_up, &|| true).unwrap_err();
        assert_eq!(error, CallError::DeadlineExceeded);
    }
}
