//! Facts of the cluster for questions about one of its pods: what a request lacks is taken from the newest snapshot, and
//! the response says so (L-GEN-7).

use std::any::Any;
use std::collections::BTreeSet;

use berth_engine::{Cluster, Snapshot};
use berth_proto::berth_v1::{
    self as wire, ClusterFacts, EvaluatePodsRequest, EvaluatePodsResponse, EvictRequest,
    EvictResponse, ExplainPodRequest, ExplainPodResponse,
};
use berth_proto::core_v1::{Node, PersistentVolumeClaim, Pod};
use berth_proto::policy_v1::PodDisruptionBudget;

use crate::escape::presentable;
use crate::service::{CallError, convert, named};

/// Declares the requests about one pod, each of which has the pod or its key.
macro_rules! about_a_pod {
    ($($request:ident)+) => {
        /// Puts the pod of the cluster into a request that names it by its key; returns its key.
        fn take_pod(
            question: &mut dyn Any,
            cluster: &Cluster,
        ) -> Result<Option<wire::PodKey>, CallError> {
            $(if let Some(wire::$request { pod, key, .. }) = question.downcast_mut() {
                return take(pod, key, cluster);
            })+
            Ok(None)
        }
    };
}

about_a_pod! {
    AllContainersRestartingRequest ApplyDeleteRequest AuthorizeRemovalRequest BindRequest CheckSharedVolumesRequest
    ContainerEndEventRequest DeriveConditionsRequest DerivePodPhaseRequest EndpointConditionsRequest EvictRequest
    ExpireDisruptionRequest ExplainPodRequest MarkDisruptionRequest MarkPodNotReadyOnNodeRequest
    PartitionConditionRequest PlanContainersRequest QosClassRequest SchedulingReadinessRequest
    SetSchedulingConditionRequest
}

/// Puts the pod of this key in the place of the absent one.
fn take(
    pod: &mut Option<Pod>,
    key: &mut Option<wire::PodKey>,
    cluster: &Cluster,
) -> Result<Option<wire::PodKey>, CallError> {
    let Some(named) = named::one_of(pod.is_some(), key.as_ref())? else { return Ok(None) };
    let known = named::known(cluster, named)?;
    *pod = Some(known.pod);
    *key = None;
    Ok(Some(convert::pod_key(known.facts.key(), known.facts.uid())))
}

/// Fills in what a request about a pod lacks and the cluster knows, the pod itself if its key is given; returns the
/// facts that were taken. Requests about anything else stay as they are.
///
/// # Errors
/// A pod and a key, an unknown pod, labels that no pod can have.
pub(super) fn complete(
    question: &mut dyn Any,
    cluster: &Cluster,
) -> Result<Option<ClusterFacts>, CallError> {
    let named = take_pod(question, cluster)?;
    let snapshot = cluster.snapshot();
    let facts = beside_the_pod(question, named.is_some(), &snapshot)?;
    Ok(match named {
        None => facts,
        named => {
            let generation = snapshot.generation().get();
            Some(ClusterFacts { generation, pod: named, ..facts.unwrap_or_default() })
        }
    })
}

fn beside_the_pod(
    question: &mut dyn Any,
    is_named: bool,
    snapshot: &Snapshot,
) -> Result<Option<ClusterFacts>, CallError> {
    if let Some(ExplainPodRequest { pod: Some(pod), node, claims, .. }) = question.downcast_mut() {
        let node = take_node(node, pod, snapshot);
        return Ok(taken(node, take_claims(claims, pod, snapshot), snapshot));
    }
    if let Some(EvictRequest { pod: Some(pod), pdbs, .. }) = question.downcast_mut()
        && pdbs.is_empty()
    {
        *pdbs = snapshot.budgets_over(pod)?;
        let name = |budget: &PodDisruptionBudget| budget.metadata.as_ref().map(|m| m.name.clone());
        let budgets: Vec<String> = pdbs.iter().filter_map(name).collect();
        let generation = snapshot.generation().get();
        return Ok((!budgets.is_empty()).then(|| ClusterFacts {
            generation,
            budgets,
            ..ClusterFacts::default()
        }));
    }
    // The other functions take what they are given, unless the pod itself is the cluster's.
    if !is_named {
        return Ok(None);
    }
    if let Some(wire::AuthorizeRemovalRequest { pod: Some(pod), node, .. }) =
        question.downcast_mut()
    {
        return Ok(taken(take_node(node, pod, snapshot), Vec::new(), snapshot));
    }
    if let Some(wire::CheckSharedVolumesRequest { pod: Some(pod), claims, .. }) =
        question.downcast_mut()
    {
        return Ok(taken(None, take_claims(claims, pod, snapshot), snapshot));
    }
    Ok(None)
}

/// Writes the facts that were taken into the response.
pub(super) fn tell(answer: &mut dyn Any, taken: Option<ClusterFacts>) {
    if let Some(ExplainPodResponse { evaluation: Some(evaluation), .. }) = answer.downcast_mut() {
        evaluation.taken = taken;
    } else if let Some(answer) = answer.downcast_mut::<EvictResponse>() {
        answer.taken = taken;
    }
}

/// Evaluates a pod of a stream with `evaluate`, after the pod and its node were taken from the cluster if the request
/// has none.
pub(super) fn evaluated(
    mut request: EvaluatePodsRequest,
    cluster: &Cluster,
    evaluate: fn(&EvaluatePodsRequest) -> EvaluatePodsResponse,
) -> EvaluatePodsResponse {
    let EvaluatePodsRequest { pod, key, node, .. } = &mut request;
    let named = match take(pod, key, cluster) {
        Ok(named) => named,
        Err(error) => return not_named(request, &error),
    };
    let snapshot = cluster.snapshot();
    let node = pod.as_ref().and_then(|pod| take_node(node, pod, &snapshot));
    let mut taken = taken(node, Vec::new(), &snapshot);
    if named.is_some() {
        let generation = snapshot.generation().get();
        let facts = taken.unwrap_or_default();
        taken = Some(ClusterFacts { generation, pod: named, ..facts });
    }
    let mut answer = evaluate(&request);
    // A pod that cannot be evaluated has its names only.
    answer.taken = taken.filter(|_| answer.error.is_none());
    answer
}

/// The response for a key that leads to no pod.
fn not_named(request: EvaluatePodsRequest, error: &CallError) -> EvaluatePodsResponse {
    let wire::PodKey { namespace, name, uid } = request.key.unwrap_or_default();
    let [namespace, name, uid] = [namespace, name, uid].map(|text| presentable(&text));
    let (field, reason) = match error.violation() {
        Some((field, reason)) => (field.to_owned(), reason),
        None => ("key".to_owned(), error.to_string()),
    };
    let error = Some(wire::PodError { field, reason: presentable(&reason) });
    EvaluatePodsResponse { namespace, name, uid, error, ..EvaluatePodsResponse::default() }
}

/// The facts that were taken; `None` if there are none.
fn taken(node: Option<String>, claims: Vec<String>, snapshot: &Snapshot) -> Option<ClusterFacts> {
    if node.is_none() && claims.is_empty() {
        return None;
    }
    let generation = snapshot.generation().get();
    let node = node.unwrap_or_default();
    Some(ClusterFacts { generation, node, claims, ..ClusterFacts::default() })
}

/// Takes the node that the pod is bound to from the cluster, unless the request has one; returns its name.
pub(in crate::service) fn take_node(
    node: &mut Option<Node>,
    pod: &Pod,
    snapshot: &Snapshot,
) -> Option<String> {
    if node.is_some() {
        return None;
    }
    let name = pod.spec.as_ref()?.node_name.as_str();
    *node = Some(snapshot.node_object(name)?);
    Some(name.to_owned())
}

/// Takes the claims of the pod's volumes from the cluster, except for those that the request has; returns their names.
pub(in crate::service) fn take_claims(
    claims: &mut Vec<PersistentVolumeClaim>,
    pod: &Pod,
    snapshot: &Snapshot,
) -> Vec<String> {
    let namespace = match pod.metadata.as_ref().map_or("", |metadata| &metadata.namespace) {
        "" => "default",
        namespace => namespace,
    };
    let name_of = |claim: &PersistentVolumeClaim| {
        claim.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default()
    };
    let mut known: BTreeSet<String> = claims.iter().map(name_of).collect();
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    let sources = volumes.filter_map(|volume| volume.volume_source.as_ref());
    let mut names = Vec::new();
    for source in sources.filter_map(|source| source.persistent_volume_claim.as_ref()) {
        let name = &source.claim_name;
        if known.insert(name.clone())
            && let Some(claim) = snapshot.claim_object(namespace, name)
        {
            claims.push(claim);
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use berth_engine::lifecycle::{evaluation, pressure};
    use tonic::Code;

    use super::*;
    use crate::service::fixture;

    #[test]
    fn a_pod_is_taken_by_its_key() {
        let state = fixture::state(&[("n0", "4")]);
        fixture::run(&state.cluster, &fixture::pod("p", "1", 0), "n0");
        let key =
            |name: &str| Some(wire::PodKey { name: name.to_owned(), ..wire::PodKey::default() });
        let mut question = wire::QosClassRequest { key: key("p"), ..Default::default() };
        let facts = complete(&mut question, &state.cluster).unwrap().unwrap();
        assert_eq!(facts.pod.unwrap().uid, "uid-p");
        assert_eq!(pressure::qos_class(&question).unwrap().qos_class, "Burstable");
        let mut question = ExplainPodRequest { key: key("p"), ..Default::default() };
        let facts = complete(&mut question, &state.cluster).unwrap().unwrap();
        assert_eq!((facts.node.as_str(), question.node.is_some()), ("n0", true));
        let mut both = wire::QosClassRequest { pod: question.pod, key: key("p") };
        let error = complete(&mut both, &state.cluster).unwrap_err();
        assert!(error.to_string().contains("exactly one of `pod` and `key`"), "{error}");
        let mut unknown = wire::QosClassRequest { key: key("q"), ..Default::default() };
        assert_eq!(complete(&mut unknown, &state.cluster).unwrap_err().code(), Code::NotFound);
        let evaluate = |name| {
            let request = EvaluatePodsRequest { key: key(name), ..Default::default() };
            evaluated(request, &state.cluster, evaluation::evaluate_pod)
        };
        assert_eq!(evaluate("q").error.unwrap().field, "key");
    }
}
