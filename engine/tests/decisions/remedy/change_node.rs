//! Changes of a cluster, made to the wire objects.

use std::sync::Arc;

use berth_engine::RemedyChange;
use berth_proto::{Quantity, core_v1};

use super::world::World;
use crate::naive::objects::AnyObject;

pub(crate) fn apply(change: &RemedyChange, world: &mut World) {
    match change {
        RemedyChange::Uncordon { nodes } => each(world, nodes, |node| {
            let spec = node.spec.get_or_insert_default();
            assert!(spec.unschedulable);
            spec.unschedulable = false;
            spec.taints.retain(|taint| taint.key != "node.kubernetes.io/unschedulable");
        }),
        RemedyChange::ClearTaint { key, nodes } => each(world, nodes, |node| {
            let taints = &mut node.spec.get_or_insert_default().taints;
            assert!(key.starts_with("node.kubernetes.io/"));
            assert!(taints.iter().any(|taint| taint.key == **key));
            taints.retain(|taint| taint.key != **key);
        }),
        RemedyChange::AllowPod { nodes } => {
            let views = world.engine().snapshot().nodes();
            each(world, nodes, |node| {
                let name = &node.metadata.as_ref().expect("nodes have metadata").name;
                let view = views.iter().find(|view| *view.name == **name).expect("a node");
                let allocatable = &mut node.status.get_or_insert_default().allocatable;
                let allowed = Quantity::new((view.allowed_pods + 1).to_string());
                allocatable.insert("pods".to_owned(), allowed);
            });
        }
        RemedyChange::RemovePod { pod, node } => {
            let is_meant = |known: &&core_v1::Pod| {
                let metadata = known.metadata.clone().unwrap_or_default();
                let namespace = match metadata.namespace.as_str() {
                    "" => "default",
                    namespace => namespace,
                };
                (namespace, metadata.name.as_str()) == (&*pod.namespace, &*pod.name)
            };
            let known = world.pods.iter().find(is_meant).expect("the pod is there");
            assert_eq!(known.spec.as_ref().map(|spec| spec.node_name.as_str()), Some(&**node));
            world.gone.push(pod.clone());
        }
        RemedyChange::AddNode { like, name } => add_node(world, like, name),
        other => panic!("{other:?} is a change of a pod"),
    }
}

fn each(world: &mut World, names: &[Arc<str>], mut change: impl FnMut(&mut core_v1::Node)) {
    assert!(!names.is_empty() && names.is_sorted());
    for name in names {
        change(node(world, name));
    }
}

fn node<'a>(world: &'a mut World, name: &str) -> &'a mut core_v1::Node {
    let mut nodes = world.nodes.iter_mut();
    let named = |node: &&mut core_v1::Node| node.metadata.as_ref().is_some_and(|m| m.name == name);
    nodes.find(named).expect("the node is there")
}

fn add_node(world: &mut World, like: &str, name: &str) {
    let mut added = node(world, like).clone();
    let metadata = added.metadata.get_or_insert_default();
    metadata.name = name.to_owned();
    if let Some(hostname) = metadata.labels.get_mut("kubernetes.io/hostname") {
        *hostname = name.to_owned();
    }
    let spec = added.spec.get_or_insert_default();
    spec.unschedulable = false;
    spec.taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    world.nodes.push(added);
    let of_like =
        |object: &&AnyObject| object.kind() == "CSINode" && object.metadata().name == like;
    // If an object comes twice, the later one holds.
    if let Some(limits) = world.objects.iter().rfind(of_like) {
        let mut limits = limits.clone();
        limits.metadata_mut().name = name.to_owned();
        world.objects.push(limits);
    }
}
