//! LimitRanger, its first half: default requests and limits of containers. Rule: A-LIM-2.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::core_v1::{Container, Pod};

use super::filling::Filling;
use crate::model::ObjectKind;
use crate::model::label::clip;
use crate::model::limit_range::{Limit, LimitRange, LimitType};
use crate::model::object::ObjectFacts;
use crate::snapshot::Snapshot;

/// Annotation that names what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Bytes of the annotation: all annotations of an object may be 256 KiB.
const MAX_ANNOTATION: usize = 256 << 10;

/// The limit ranges of a namespace, by name.
pub(super) fn limit_ranges<'a>(
    snapshot: &'a Snapshot,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Arc<LimitRange>> {
    let objects = snapshot.objects.of_kind(ObjectKind::LimitRange, namespace);
    objects.filter_map(|object| match object.facts() {
        ObjectFacts::LimitRange(range) => Some(range),
        _ => None,
    })
}

/// Fills in requests and limits that containers lack.
pub(super) fn fill(pod: &mut Pod, namespace: &str, snapshot: &Snapshot, filling: &mut Filling) {
    for range in limit_ranges(snapshot, namespace) {
        let Some(spec) = &mut pod.spec else { return };
        let mut set = Vec::new();
        // If a range has two defaults for a resource, the later one applies.
        let (mut limits, mut requests) = (BTreeMap::new(), BTreeMap::new());
        for limit in range.limits.iter().filter(|limit| limit.of == LimitType::Container) {
            let Limit { default, default_request, .. } = limit;
            limits.extend(default.iter().map(|(name, amount)| (name.clone(), amount.clone())));
            let amounts = default_request.iter();
            requests.extend(amounts.map(|(name, amount)| (name.clone(), amount.clone())));
        }
        let source = format!("LimitRange {}", range.name);
        for (containers, field, kind) in [
            (&mut spec.containers, "spec.containers", "container"),
            (&mut spec.init_containers, "spec.initContainers", "init container"),
        ] {
            for (index, container) in containers.iter_mut().enumerate() {
                let at = format!("{field}[{index}].resources");
                let added = add(container, &limits, &requests, &at, &source, filling);
                let name = format!("{kind} {}", clip(&container.name));
                for (what, added) in ["request", "limit"].into_iter().zip(added) {
                    if !added.is_empty() {
                        set.push(format!("{} {what} for {name}", added.join(", ")));
                    }
                }
            }
        }
        annotate(pod, &set, &source, filling);
    }
}

/// Adds what a container lacks; returns the names of the added requests and limits.
fn add(
    container: &mut Container,
    limits: &BTreeMap<String, berth_proto::Quantity>,
    requests: &BTreeMap<String, berth_proto::Quantity>,
    at: &str,
    source: &str,
    filling: &mut Filling,
) -> [Vec<String>; 2] {
    if limits.is_empty() && requests.is_empty() {
        return [Vec::new(), Vec::new()];
    }
    let resources = container.resources.get_or_insert_default();
    let limits = filling.amounts(&mut resources.limits, limits, &format!("{at}.limits"), source);
    let field = format!("{at}.requests");
    let requests = filling.amounts(&mut resources.requests, requests, &field, source);
    [requests, limits]
}

fn annotate(pod: &mut Pod, set: &[String], source: &str, filling: &mut Filling) {
    if set.is_empty() {
        return;
    }
    let mut value = format!("LimitRanger plugin set: {}", set.join("; "));
    value.truncate(value.floor_char_boundary(MAX_ANNOTATION));
    filling.note(format!("metadata.annotations[{ANNOTATION}]"), value.as_str(), source);
    let metadata = pod.metadata.get_or_insert_default();
    metadata.annotations.insert(ANNOTATION.to_owned(), value);
}
