//! The selector of the default spread constraints: what the pod's services and its controller select (S-PTS-12).

use std::collections::BTreeMap;

use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::LabelSelector;

use super::label_selector::{self, Labels, Requirement, Selector};
use super::objects::Objects;
use super::pod;

/// Empty where nothing selects the pod.
pub(crate) fn default_selector(objects: &Objects, pod: &Pod) -> Selector {
    let (namespace, labels) = (pod::namespace(pod), pod::labels(pod));
    let mut merged: Labels = BTreeMap::new();
    for service in objects.services(namespace) {
        let selector = service.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default();
        if label_selector::of_map(&selector).matches(labels) {
            merged.extend(selector);
        }
    }
    let owners = pod.metadata.iter().flat_map(|metadata| &metadata.owner_references);
    let Some(owner) = owners.into_iter().find(|owner| owner.controller == Some(true)) else {
        return label_selector::of_map(&merged);
    };
    let more = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => {
            if let Some(controller) = objects.replication_controller(namespace, &owner.name) {
                merged.extend(controller.spec.clone().unwrap_or_default().selector);
            }
            Vec::new()
        }
        ("apps/v1", "ReplicaSet") => requirements(
            objects
                .replica_set(namespace, &owner.name)
                .and_then(|set| set.spec.as_ref()?.selector.as_ref()),
        ),
        ("apps/v1", "StatefulSet") => requirements(
            objects
                .stateful_set(namespace, &owner.name)
                .and_then(|set| set.spec.as_ref()?.selector.as_ref()),
        ),
        _ => Vec::new(),
    };
    label_selector::of_map(&merged).and(more)
}

/// Returns the requirements of a selector: none if the selector is absent or does not parse (W-SEL-6).
fn requirements(selector: Option<&LabelSelector>) -> Vec<Requirement> {
    match label_selector::parse(selector) {
        Ok(Selector::All(requirements)) => requirements,
        Ok(Selector::Nothing) | Err(_) => Vec::new(),
    }
}
