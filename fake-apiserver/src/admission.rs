//! Admission of objects: checks of names, namespaces and events, priorities, and fields that may not change.

use serde_json::Value;

use crate::field;
use crate::options::Options;
use crate::resource::{PODS, Resource, of_kind};
use crate::status::Refusal;
use crate::store::State;

const NAME_RULE: &str =
    "must be an RFC 1123 subdomain: labels of a-z, 0-9 and inner '-', joined by '.'";

/// Refuses invalid names, missing namespaces and invalid events.
pub(crate) fn check(
    state: &State,
    options: &Options,
    resource: &Resource,
    object: &Value,
) -> Result<(), Refusal> {
    let name = field::text(object, "metadata.name");
    let namespace = field::text(object, "metadata.namespace");
    if resource.namespaced
        && options.namespaces_must_exist
        && let Some(row) = of_kind("Namespace")
        && state.stored(row, namespace).is_none()
    {
        return Err(Refusal::not_found(row, namespace));
    }
    if !name.is_empty() && !is_subdomain(name) {
        let why = format!("Invalid value: \"{name}\": {NAME_RULE}");
        let why = ("FieldValueInvalid", why.as_str());
        return Err(Refusal::invalid(resource.kind, "", name, "metadata.name", why));
    }
    if resource.kind == "Event" {
        return check_event(resource, name, object);
    }
    Ok(())
}

/// Whether the name is an RFC 1123 subdomain: dot-separated labels of lower-case letters, digits and inner dashes, at
/// most 253 characters.
fn is_subdomain(name: &str) -> bool {
    let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(is_edge)
                && bytes.last().is_some_and(is_edge)
                && bytes.iter().all(|byte| is_edge(byte) || *byte == b'-')
        })
}

/// Checks the required fields of events in `events.k8s.io` (recording 15). Core `v1` events have none.
fn check_event(resource: &Resource, name: &str, object: &Value) -> Result<(), Refusal> {
    if resource.group.is_empty() {
        return Ok(());
    }
    let invalid =
        |field, why: (&'static str, &str)| Err(Refusal::invalid("Event", "", name, field, why));
    for field in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if field::text(object, field).is_empty() {
            return invalid(field, ("FieldValueRequired", "Required value"));
        }
    }
    let kind = field::text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("Invalid value: \"\": has invalid value: {kind}");
        return invalid("type", ("FieldValueInvalid", &why));
    }
    if field::text(object, "note").len() > 1024 {
        let why = "Invalid value: \"\": can have at most 1024 characters";
        return invalid("message", ("FieldValueInvalid", why));
    }
    Ok(())
}

/// Removes the status of a new object whose status is a subresource, except for nodes and namespaces.
pub(crate) fn remove_status(resource: &Resource, object: &mut Value) {
    if resource.subresources.contains(&"status")
        && !matches!(resource.kind, "Node" | "Namespace")
        && let Value::Object(fields) = object
    {
        fields.remove("status");
    }
}

/// Writes the priority and preemption policy of a pod's class, or of the default class, into its spec.
pub(crate) fn resolve_priority(
    state: &State,
    options: &Options,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Refusal> {
    if resource.kind != PODS.kind {
        return Ok(());
    }
    let Some(row) = of_kind("PriorityClass") else { return Ok(()) };
    let class = field::text(object, "spec.priorityClassName").to_owned();
    let found = if class.is_empty() {
        let mut classes = state.collection(row).objects().values().map(|class| class.to_plain());
        classes.find(|class| class["globalDefault"] == true)
    } else {
        state.stored(row, &class).map(|class| class.to_plain())
    };
    let (value, policy) = match (&found, class.as_str()) {
        (Some(found), _) => (found["value"].as_i64().unwrap_or(0), &found["preemptionPolicy"]),
        (None, "system-cluster-critical") => (2_000_000_000, &Value::Null),
        (None, "system-node-critical") => (2_000_001_000, &Value::Null),
        (None, "") => (0, &Value::Null),
        (None, _) if !options.priority_classes_must_exist => return Ok(()),
        (None, _) => {
            let name = field::text(object, "metadata.name");
            let why = format!("no PriorityClass with name {class} was found");
            return Err(Refusal::forbidden(PODS, name, &why));
        }
    };
    let policy = policy.as_str().unwrap_or("PreemptLowerPriority").to_owned();
    let default_name = found.as_ref().map(|class| field::text(class, "metadata.name").to_owned());
    let spec = field::object(object, "spec");
    spec.entry("priority").or_insert_with(|| value.into());
    spec.entry("preemptionPolicy").or_insert_with(|| policy.into());
    if let Some(name) = default_name {
        spec.entry("priorityClassName").or_insert_with(|| name.into());
    }
    Ok(())
}

/// Refuses changes of a pod's spec beyond the few mutable fields (recording 08).
pub(crate) fn check_pod_update(name: &str, before: &Value, after: &Value) -> Result<(), Refusal> {
    if fixed_part(before) == fixed_part(after) {
        return Ok(());
    }
    let why = "Forbidden: pod updates may not change fields other than images, `spec.activeDeadlineSeconds`, \
        `spec.tolerations`, `spec.schedulingGates` and `spec.terminationGracePeriodSeconds`";
    Err(Refusal::invalid("Pod", "", name, "spec", ("FieldValueForbidden", why)))
}

fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    if let Value::Object(fields) = &mut spec {
        for free in [
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "schedulingGates",
        ] {
            fields.remove(free);
        }
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Value::Object(container) = container {
                    container.remove("image");
                }
            }
        }
    }
    spec
}
