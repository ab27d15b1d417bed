//! The `Fit` method: which pods fit where now, by cluster-autoscaler's rules.

use berth_engine::{self as engine, Cluster, FitOptions, Pod, Policy};
use berth_proto::berth_v1::{self as wire, FitRequest, FitResponse};

use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::SentPod;
use crate::service::State;
use crate::service::Target;
use crate::service::admission;
use crate::service::convert;
use crate::service::placement::entries::{self, Entry};

/// Maximum number of rejected candidates that are reported for each pod that fits nowhere.
pub(crate) const MAX_REJECTIONS: u32 = 10_000;
/// Maximum number of rejections in one response, over all pods: each is a name and its reasons.
const MAX_REJECTIONS_IN_ALL: u64 = 1_000_000;

pub(super) fn answer(
    state: &State,
    target: &Target,
    request: FitRequest,
    cancel: &Cancel,
) -> Result<FitResponse, CallError> {
    let asked_for = n_pods(&request);
    let limit = state.limits.max_pods_per_request;
    if usize::try_from(asked_for).map_or(true, |asked_for| asked_for > limit) {
        let reason = format!("asks for {asked_for} pods, more than the limit of {limit}");
        return Err(CallError::field("pods", reason));
    }
    let cancelled = || cancel.is_cancelled();
    fit(target, &state.profiles, request, &cancelled)
}

/// Number of pods, replicas expanded.
fn n_pods(request: &FitRequest) -> u64 {
    request.pods.iter().map(|pod| u64::from(pod.replicas.max(1))).sum()
}

/// Checks that the rejections that are asked for are no more than a response may have.
fn check_rejections(request: &FitRequest) -> Result<(), CallError> {
    let max_rejections = request.max_rejections;
    if max_rejections > MAX_REJECTIONS {
        let reason = format!("is more than {MAX_REJECTIONS}");
        return Err(CallError::field("max_rejections", reason));
    }
    let n_pods = n_pods(request);
    if n_pods.saturating_mul(u64::from(max_rejections)) > MAX_REJECTIONS_IN_ALL {
        let reason = format!(
            "is {max_rejections} for each of {n_pods} pods: that may be {MAX_REJECTIONS_IN_ALL} in all"
        );
        return Err(CallError::field("max_rejections", reason));
    }
    Ok(())
}

/// A pod to try, with its profile and its hint.
struct Tried<'s> {
    /// Index in the results.
    at: usize,
    pod: Pod,
    policy: &'s Policy,
    hint: String,
}

/// Tries the pods on nodes of the cluster, one after another.
///
/// # Errors
/// An unknown node, more rejections than a response may have, cancellation.
pub(crate) fn fit(
    cluster: &Cluster,
    profiles: &Profiles,
    request: FitRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<FitResponse, CallError> {
    check_rejections(&request)?;
    let FitRequest {
        session_id: _,
        pods,
        node_names,
        by_priority,
        round_robin,
        skip_similar,
        max_rejections,
        admit,
    } = request;
    let max_refusals = max_rejections as usize;
    let options = FitOptions { by_priority, round_robin, skip_similar, max_refusals };
    let (tried, mut results, admissions) = expand(cluster, profiles, pods, admit);
    let target: Vec<engine::FitPod<'_>> = tried
        .iter()
        .map(|tried| {
            let hint = (!tried.hint.is_empty()).then_some(tried.hint.as_str());
            engine::FitPod { pod: &tried.pod, policy: tried.policy, hint }
        })
        .collect();
    let nodes = (!node_names.is_empty()).then_some(&*node_names);
    let request = engine::FitRequest { pods: &target, nodes, options, cancelled };
    let engine::Fit {
        generation,
        results: fitted,
        n_controllers_skipped,
        n_overflowing_controllers,
    } = cluster.fit(&request)?;
    let mut n_fit = 0;
    for (Tried { at, pod, .. }, result) in tried.iter().zip(fitted) {
        let result = result.map_err(CallError::undecided);
        if result == Err(CallError::DeadlineExceeded) {
            return Err(CallError::DeadlineExceeded);
        }
        n_fit += usize::from(matches!(result, Ok(engine::FitOutcome::Fits { .. })));
        results[*at] = fit_result(Some(convert::pod_key(pod.key(), pod.uid())), result);
    }
    Ok(FitResponse {
        generation: generation.get(),
        results,
        n_fit: convert::saturate(n_fit),
        n_controllers_skipped: convert::saturate(n_controllers_skipped),
        n_overflowing_controllers: convert::saturate(n_overflowing_controllers),
        admissions,
    })
}

/// Expands replicas. Returns the pods to try; one result for each pod, left empty for those that are to be tried; and
/// what admission did, if `admit` is set.
fn expand<'s>(
    cluster: &Cluster,
    profiles: &'s Profiles,
    pods: Vec<wire::FitPod>,
    admit: bool,
) -> (Vec<Tried<'s>>, Vec<wire::FitResult>, Vec<wire::Admission>) {
    let keys: Vec<Option<wire::PodKey>> = pods.iter().map(key).collect();
    let (target, hints): (Vec<Entry>, Vec<String>) = pods
        .into_iter()
        .map(|wire::FitPod { pod, replicas, hint_node_name }| {
            let pod = pod.map(|pod| SentPod::from(Box::new(pod)));
            (Entry { pod, replicas }, hint_node_name)
        })
        .unzip();
    let (mut tried, mut results) = (Vec::new(), Vec::new());
    let (compiled, admissions) = admission::compile(cluster, profiles, target, admit, false);
    for (((compiled, replicas), hint), key) in compiled.into_iter().zip(hints).zip(keys) {
        match compiled {
            Ok((pod, policy)) => {
                let mut pods = Vec::new();
                entries::add_replicas(pod, replicas, &mut pods);
                for pod in pods {
                    let (at, hint) = (results.len(), hint.clone());
                    tried.push(Tried { at, pod, policy, hint });
                    results.push(wire::FitResult::default());
                }
            }
            Err(error) => {
                let refused = fit_result(key, Err(error));
                results.extend(std::iter::repeat_n(refused, replicas.max(1) as usize));
            }
        }
    }
    (tried, results, admissions)
}

/// Key of a pod, which may be refused.
fn key(entry: &wire::FitPod) -> Option<wire::PodKey> {
    let metadata = entry.pod.as_ref()?.metadata.as_ref()?;
    Some(wire::PodKey {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    })
}

fn fit_result(
    pod: Option<wire::PodKey>,
    result: Result<engine::FitOutcome, CallError>,
) -> wire::FitResult {
    use wire::fit_result::Result as Wire;
    let result = match result {
        Ok(engine::FitOutcome::Fits { node, by_hint }) => {
            Wire::Placement(wire::FitPlacement { node_name: node.to_string(), by_hint })
        }
        Ok(engine::FitOutcome::Refused(refusal)) => {
            let engine::FitRefusal { unschedulable, nodes, skipped } = refusal;
            let rejections = nodes.into_iter().map(|(node, refusal)| wire::FitRejection {
                node_name: node.to_string(),
                rejection: Some(convert::node_refusal(refusal)),
            });
            Wire::Refusal(wire::FitRefusal {
                unschedulable: Some(convert::unschedulable(unschedulable)),
                rejections: rejections.collect(),
                skipped,
            })
        }
        Err(error) => Wire::Error(error.to_place_error()),
    };
    wire::FitResult { pod, result: Some(result) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use crate::service::{CancelOnDrop, Deadline};
    use wire::fit_result::Result as Wire;

    fn ask(state: &State, request: FitRequest) -> Result<FitResponse, CallError> {
        let caller = CancelOnDrop::new(Deadline(None));
        answer(state, &state.target_of("").unwrap(), request, &caller.token())
    }

    /// Returns a summary of the results: `POD:NODE`, `POD-` for a refused pod, `POD!` for one in error.
    fn line(answer: &FitResponse) -> String {
        let one = |result: &wire::FitResult| {
            let name = &result.pod.as_ref().unwrap().name;
            match result.result.as_ref().unwrap() {
                Wire::Placement(placement) => format!("{name}:{}", placement.node_name),
                Wire::Refusal(_) => format!("{name}-"),
                Wire::Error(_) => format!("{name}!"),
            }
        };
        answer.results.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn pod(name: &str, cpu: &str, replicas: u32, hint: &str) -> wire::FitPod {
        let pod = Some(fixture::pod(name, cpu, 0));
        wire::FitPod { pod, replicas, hint_node_name: hint.to_owned() }
    }

    /// S-CAS-2
    #[test]
    fn the_first_candidate_in_order_takes_a_pod() {
        let state = fixture::state(&[("n0", "4"), ("n1", "4"), ("n2", "4")]);
        let mut malformed = pod("bad", "1", 2, "");
        malformed.pod.as_mut().unwrap().metadata.as_mut().unwrap().namespace = "-".to_owned();
        let pods = vec![
            pod("a", "3", 3, ""),
            malformed,
            pod("b", "1", 0, "n0"),
            pod("c", "5", 1, "gone"),
            pod("d", "1", 0, "n2"),
        ];
        let node_names = vec!["n2".to_owned(), "n0".to_owned()];
        let request = FitRequest { pods, node_names, max_rejections: 1, ..Default::default() };
        let answer = ask(&state, request.clone()).unwrap();
        assert_eq!(line(&answer), "a-0:n2 a-1:n0 a-2- bad! bad! b:n0 c- d:n2");
        assert_eq!(answer.n_fit, 4);
        let Some(Wire::Refusal(refusal)) = &answer.results[6].result else { panic!("{answer:?}") };
        let unschedulable = refusal.unschedulable.as_ref().unwrap();
        assert_eq!(unschedulable.message, "0/2 nodes are available: 2 Insufficient cpu.");
        let [rejection] = &refusal.rejections[..] else { panic!("{refusal:?}") };
        let found = rejection.rejection.as_ref().unwrap();
        assert_eq!(
            (rejection.node_name.as_str(), found.plugin.as_str()),
            ("n2", "NodeResourcesFit")
        );
        assert_eq!(found.code, "UnschedulableAndUnresolvable");
        let in_turn = FitRequest { round_robin: true, node_names: Vec::new(), ..request };
        let answer = ask(&state, in_turn).unwrap();
        assert_eq!(line(&answer), "a-0:n0 a-1:n1 a-2:n2 bad! bad! b:n0 c- d:n2");
    }

    #[test]
    fn unanswerable_requests_are_errors() {
        let state = fixture::state(&[("n0", "4")]);
        let max_rejections = MAX_REJECTIONS + 1;
        let error = ask(&state, FitRequest { max_rejections, ..Default::default() }).unwrap_err();
        assert_eq!(error.to_string(), "`max_rejections`: is more than 10000");
        let pods = vec![pod("a", "1", 100_000, "")];
        let target = FitRequest { pods, max_rejections: 11, ..Default::default() };
        assert_eq!(
            ask(&state, target).unwrap_err().to_string(),
            "`max_rejections`: is 11 for each of 100000 pods: that may be 1000000 in all"
        );
        let node_names = vec!["n1".to_owned()];
        let error = ask(&state, FitRequest { node_names, ..Default::default() }).unwrap_err();
        assert_eq!(error.to_string(), "`node_names[0]`: the cluster has no node `n1`");
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        drop(caller);
        let request = FitRequest { pods: vec![pod("a", "1", 0, "")], ..Default::default() };
        let answer = answer(&state, &state.target_of("").unwrap(), request, &token);
        assert_eq!(answer.unwrap_err(), CallError::DeadlineExceeded);
    }
}
