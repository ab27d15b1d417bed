//! Random objects other than nodes and pods. They have few names, so that changes concern the same objects.

use berth_proto::{apps_v1, core_v1, meta_v1};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::budget::budget;
use super::labels::{NAMESPACES, namespace, namespace_labels, pod_labels, pod_selector};
use super::storage;
use crate::naive::objects::AnyObject;

/// Generates the first objects of a cluster: a few of any kind, or a complete set for storage.
pub(crate) fn objects() -> BoxedStrategy<Vec<AnyObject>> {
    prop_oneof![2 => vec(object(), 0..30), 1 => storage::world()].boxed()
}

/// Generates an object of any kind.
pub(crate) fn object() -> BoxedStrategy<AnyObject> {
    prop_oneof![2 => grouping(), 4 => storage::object(), 1 => budget()].boxed()
}

/// Generates the objects of a crowded cluster, mostly budgets.
pub(crate) fn crowd_objects() -> BoxedStrategy<Vec<AnyObject>> {
    prop_oneof![
        1 => vec(prop_oneof![3 => budget(), 1 => grouping()], 0..8),
        1 => (storage::world(), vec(budget(), 0..5))
            .prop_map(|(world, budgets)| world.into_iter().chain(budgets).collect()),
    ]
    .boxed()
}

/// Generates a namespace, a service or a controller.
pub(crate) fn grouping() -> BoxedStrategy<AnyObject> {
    prop_oneof![
        2 => namespace_object(),
        3 => service(),
        1 => replication_controller(),
        1 => replica_set(),
        1 => stateful_set(),
    ]
    .boxed()
}

fn namespace_object() -> BoxedStrategy<AnyObject> {
    let name = select(NAMESPACES[..3].to_vec());
    (name, namespace_labels())
        .prop_map(|(name, labels)| {
            let metadata = named("", name.to_owned(), labels);
            core_v1::Namespace { metadata, ..Default::default() }.into()
        })
        .boxed()
}

fn service() -> BoxedStrategy<AnyObject> {
    (namespace(), 0..3_usize, pod_labels())
        .prop_map(|(namespace, i, selector)| {
            let spec = core_v1::ServiceSpec { selector, ..Default::default() };
            let metadata = named(&namespace, format!("service-{i}"), Default::default());
            core_v1::Service { metadata, spec: Some(spec) }.into()
        })
        .boxed()
}

fn replication_controller() -> BoxedStrategy<AnyObject> {
    (namespace(), 0..OWNERS, pod_labels())
        .prop_map(|(namespace, i, selector)| {
            let spec = core_v1::ReplicationControllerSpec { selector, ..Default::default() };
            let metadata = named(&namespace, owner_name(i), Default::default());
            core_v1::ReplicationController { metadata, spec: Some(spec) }.into()
        })
        .boxed()
}

fn replica_set() -> BoxedStrategy<AnyObject> {
    (namespace(), 0..OWNERS, pod_selector())
        .prop_map(|(namespace, i, selector)| {
            let spec = apps_v1::ReplicaSetSpec { selector, ..Default::default() };
            let metadata = named(&namespace, owner_name(i), Default::default());
            apps_v1::ReplicaSet { metadata, spec: Some(spec), ..Default::default() }.into()
        })
        .boxed()
}

fn stateful_set() -> BoxedStrategy<AnyObject> {
    (namespace(), 0..OWNERS, pod_selector())
        .prop_map(|(namespace, i, selector)| {
            let spec = apps_v1::StatefulSetSpec { selector, ..Default::default() };
            let metadata = named(&namespace, owner_name(i), Default::default());
            apps_v1::StatefulSet { metadata, spec: Some(spec) }.into()
        })
        .boxed()
}

/// Number of controller names of each kind.
const OWNERS: usize = 2;

fn owner_name(i: usize) -> String {
    format!("owner-{i}")
}

/// Generates the owners of a pod: kinds that spread it by default, others, and owners that are not its controller.
pub(crate) fn owners() -> BoxedStrategy<Vec<meta_v1::OwnerReference>> {
    let kind = select(vec![
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("extensions/v1beta1", "ReplicaSet"),
    ]);
    let one = (kind, 0..OWNERS, select(vec![Some(true), Some(true), Some(false), None]));
    option::weighted(0.5, one)
        .prop_map(|owner| {
            let of = |((api_version, kind), i, controller): ((&str, &str), usize, _)| {
                meta_v1::OwnerReference {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    name: owner_name(i),
                    uid: format!("uid-of-owner-{i}"),
                    controller,
                    ..Default::default()
                }
            };
            owner.map(of).into_iter().collect()
        })
        .boxed()
}

pub(crate) fn named(
    namespace: &str,
    name: String,
    labels: std::collections::BTreeMap<String, String>,
) -> Option<meta_v1::ObjectMeta> {
    let namespace = namespace.to_owned();
    Some(meta_v1::ObjectMeta { namespace, name, labels, ..Default::default() })
}
