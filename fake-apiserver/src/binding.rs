//! Bindings: a pod is bound to a node once (recording 08).

use serde_json::{Value, json};

use crate::call::Call;
use crate::condition::set_condition;
use crate::field;
use crate::resource::{NODES, PODS};
use crate::response::ApiResponse;
use crate::status::Refusal;
use crate::store::{Bound, State, Store, key};
use crate::target::Target;

/// Node labels that are copied to a bound pod.
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Handles a POST of `pods/NAME/binding`, or of `bindings` (`name` is `None`).
pub(crate) fn bind(
    store: &Store,
    target: &Target,
    name: Option<&str>,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let binding = call.object_of_kind("Binding", "v1")?;
    let said = field::text(&binding, "metadata.name");
    if name.is_some_and(|name| name != said && !said.is_empty()) {
        return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
    }
    let name = name.unwrap_or(said);
    let node = field::text(&binding, "target.name");
    if node.is_empty() {
        return Err(Refusal::internal("target.name: Required value"));
    }
    let mut state = store.lock();
    let key = key(PODS, &target.namespace, name);
    let Some(stored) = state.stored(PODS, &key) else {
        return Err(Refusal::not_found(PODS, name));
    };
    let pod = stored.to_plain();
    check_preconditions(name, &key, &binding, &pod)?;
    check_pod(name, &pod)?;
    if !call.is_dry_run() {
        state.carry_out(&key, node, &binding, pod);
    }
    Ok(ApiResponse::success(201))
}

/// Checks that the uid and version in the Binding, if any, are the pod's.
fn check_preconditions(name: &str, key: &str, binding: &Value, pod: &Value) -> Result<(), Refusal> {
    for (field, word) in [("metadata.uid", "UID"), ("metadata.resourceVersion", "ResourceVersion")]
    {
        let (wanted, is) = (field::text(binding, field), field::text(pod, field));
        if !wanted.is_empty() && wanted != is {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {is}"
            );
            return Err(Refusal::conflict("pods", name, &why));
        }
    }
    Ok(())
}

fn check_pod(name: &str, pod: &Value) -> Result<(), Refusal> {
    let conflict = |why: String| Err(Refusal::conflict("pods/binding", name, &why));
    if !field::at(pod, "metadata.deletionTimestamp").is_null() {
        return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = field::text(pod, "spec.nodeName");
    if !node.is_empty() {
        return conflict(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if field::at(pod, "spec.schedulingGates").as_array().is_some_and(|gates| !gates.is_empty()) {
        return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

impl State {
    /// Binds the pod in one change: sets the node, the condition and the node's topology labels, and removes the
    /// nomination. The node need not exist.
    fn carry_out(&mut self, key: &str, node: &str, binding: &Value, mut pod: Value) {
        pod["spec"]["nodeName"] = node.into();
        set_condition(
            &mut pod,
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}),
        );
        field::remove(&mut pod, "status", "nominatedNodeName");
        let labels = self.stored(NODES, node).map(|node| node.to_plain());
        for label in TOPOLOGY_LABELS {
            if let Some(value) =
                labels.as_ref().and_then(|node| node["metadata"]["labels"].get(label))
            {
                field::object(&mut pod["metadata"], "labels").insert(label.into(), value.clone());
            }
        }
        for (name, value) in
            field::at(binding, "metadata.annotations").as_object().into_iter().flatten()
        {
            field::object(&mut pod["metadata"], "annotations").insert(name.clone(), value.clone());
        }
        let text = |field| field::text(&pod, field).to_owned();
        let (namespace, name, uid) =
            (text("metadata.namespace"), text("metadata.name"), text("metadata.uid"));
        let stored = self.put(PODS, key, pod);
        self.bindings.push(Bound {
            namespace,
            name,
            uid,
            node: node.to_owned(),
            resource_version: stored.version,
        });
        self.kubelet_update(key);
    }
}
