//! Facts of the cluster for questions about one of its pods: what a request lacks is taken from the newest snapshot, and
//! the response says so (L-GEN-7).

use std::any::Any;
use std::collections::BTreeSet;

use berth_engine::{ModelError, Snapshot};
use berth_proto::berth_v1::{
    ClusterFacts, EvaluatePodsRequest, EvaluatePodsResponse, EvictRequest, EvictResponse,
    ExplainPodRequest, ExplainPodResponse,
};
use berth_proto::core_v1::{Node, PersistentVolumeClaim, Pod};
use berth_proto::policy_v1::PodDisruptionBudget;

/// Fills in what a request about a pod lacks and the cluster knows; returns the facts that were taken. Requests about
/// anything else stay as they are.
///
/// # Errors
/// [`ModelError`] for labels that no pod can have.
pub(super) fn complete(
    question: &mut dyn Any,
    snapshot: &Snapshot,
) -> Result<Option<ClusterFacts>, ModelError> {
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

/// Evaluates a pod of a stream with `evaluate`, after its node was taken from the cluster if the request has none.
pub(super) fn evaluated(
    mut request: EvaluatePodsRequest,
    snapshot: &Snapshot,
    evaluate: fn(&EvaluatePodsRequest) -> EvaluatePodsResponse,
) -> EvaluatePodsResponse {
    let EvaluatePodsRequest { pod, node, .. } = &mut request;
    let node = pod.as_ref().and_then(|pod| take_node(node, pod, snapshot));
    let taken = taken(node, Vec::new(), snapshot);
    let mut answer = evaluate(&request);
    // A pod that cannot be evaluated has its names only.
    answer.taken = taken.filter(|_| answer.error.is_none());
    answer
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
fn take_node(node: &mut Option<Node>, pod: &Pod, snapshot: &Snapshot) -> Option<String> {
    if node.is_some() {
        return None;
    }
    let name = pod.spec.as_ref()?.node_name.as_str();
    *node = Some(snapshot.node_object(name)?);
    Some(name.to_owned())
}

/// Takes the claims of the pod's volumes from the cluster, except for those that the request has; returns their names.
fn take_claims(
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
