//! Defaults that a server fills into new objects.

use serde_json::{Value, json};

use crate::field;
use crate::resource::Resource;

/// Fills missing fields as a server does: phases, requests from limits, the scheduler's name and others.
pub(crate) fn fill_defaults(resource: &Resource, object: &mut Value) {
    let phase = match resource.kind {
        "Pod" => "Pending",
        "Namespace" => "Active",
        "PodDisruptionBudget" => {
            let status = field::object(object, "status");
            for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            {
                status.entry(count).or_insert_with(|| 0.into());
            }
            return;
        }
        _ => return,
    };
    field::object(object, "status").entry("phase").or_insert_with(|| phase.into());
    if resource.kind == "Namespace" {
        let name = field::text(object, "metadata.name").to_owned();
        if !field::at(object, "metadata.labels").is_object() {
            object["metadata"]["labels"] = json!({});
        }
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        return;
    }
    let spec = field::object(object, "spec");
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
    ] {
        spec.entry(name).or_insert(value);
    }
    for list in ["containers", "initContainers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            containers.iter_mut().for_each(fill_container);
        }
    }
    let class = quality_of_service(object);
    field::object(object, "status").entry("qosClass").or_insert_with(|| class.into());
}

fn fill_container(container: &mut Value) {
    request_limits(container);
    let image = field::text(container, "image");
    let has_tag = image.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
    let policy = if has_tag && !image.ends_with(":latest") { "IfNotPresent" } else { "Always" };
    let Value::Object(fields) = container else { return };
    for (name, value) in [
        ("imagePullPolicy", policy),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
    ] {
        fields.entry(name).or_insert_with(|| value.into());
    }
    fields.entry("resources").or_insert_with(|| json!({}));
}

/// The QoS class: Guaranteed if every container's limits equal its requests, BestEffort if no container has either.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"];
    let containers = containers.iter().filter_map(|list| pod["spec"][list].as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |of: &str| container["resources"][of].get(resource);
            any |= amount("requests").is_some() || amount("limits").is_some();
            all &= amount("limits").is_some() && amount("requests") == amount("limits");
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Sets the request of each resource that has only a limit to the limit.
fn request_limits(container: &mut Value) {
    let Some(limits) = field::at(container, "resources.limits").as_object().cloned() else {
        return;
    };
    let requests = field::object(&mut container["resources"], "requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}
