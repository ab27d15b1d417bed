//! Random clusters of a few small nodes that are full of pods, and incoming pods that need preemption.

use std::collections::BTreeSet;
use std::ops::Range;

use berth_engine::{Cluster, Delta, Pod, PodKey};
use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::prelude::*;

use super::importance::{PlacedPod, places, ranked};
use super::node::{Flavor, named, node};
use super::{Json, object, pod};
use crate::naive::cluster::NaiveCluster;
use crate::naive::objects::AnyObject;
use crate::naive::pod::nominated_node;

/// Rules that the pods of a crowd depend on.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Company {
    /// Resources, ports and the number of pods.
    Plain,
    /// Also pod affinity and spreading, without the cases that dry runs miscount (S-PTS-9).
    Related,
    /// All rules, with volumes and unusual fields.
    Any,
}

/// A cluster with too little room.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) nodes: Vec<Json<core_v1::Node>>,
    pub(crate) objects: Vec<AnyObject>,
    /// Pods on nodes.
    pub(crate) placed: Vec<Json<core_v1::Pod>>,
    /// Pods that are nominated to a node.
    pub(crate) waiting: Vec<Json<core_v1::Pod>>,
    /// Incoming pods, without names.
    pub(crate) incoming: Vec<Json<core_v1::Pod>>,
}

pub(crate) fn crowd(
    company: Company,
    n_nodes: Range<usize>,
    n_pods: Range<usize>,
) -> BoxedStrategy<Crowd> {
    let template = match company {
        Company::Plain => pod::plain_crowding_template(),
        Company::Related | Company::Any => pod::crowding_template(),
    };
    let templates = vec(ranked(template).prop_map(move |pod| suited(pod, company)), 2..7);
    let waiting = vec((any::<usize>(), any::<usize>()), 0..4);
    let nodes = vec(node(Flavor::Small), n_nodes);
    (templates, nodes, object::crowd_objects(), places(n_pods), waiting)
        .prop_map(move |(templates, mut nodes, objects, places, waiting)| {
            if places.is_mirrored {
                nodes = vec![nodes[0].clone(); nodes.len()];
            }
            let nodes = nodes.into_iter().enumerate();
            let nodes: Vec<_> =
                nodes.map(|(i, node)| Json(named(node, &format!("node-{i}")))).collect();
            let of = |i: usize, template: usize| {
                identified(templates[template % templates.len()].clone(), i)
            };
            let place = |(i, (template, node, placed_state)): (usize, PlacedPod)| {
                let mut pod = of(i, template);
                pod.spec.get_or_insert_default().node_name = format!("node-{}", node % nodes.len());
                placed_state.applied_to(pod)
            };
            let placed: Vec<_> =
                places.on(nodes.len()).into_iter().enumerate().map(place).collect();
            let n_placed = placed.len();
            let wait = |(i, (template, node)): (usize, (usize, usize))| {
                let mut pod = of(n_placed + i, template);
                pod.status.get_or_insert_default().nominated_node_name =
                    format!("node-{}", node % nodes.len());
                Json(pod)
            };
            let mut crowd = Crowd {
                waiting: waiting.into_iter().enumerate().map(wait).collect(),
                placed: placed.into_iter().map(Json).collect(),
                incoming: templates.iter().cloned().map(Json).collect(),
                nodes,
                objects,
            };
            if company != Company::Any {
                crowd.make_exact();
            }
            crowd
        })
        .boxed()
}

/// Removes from a template what the company's rules exclude.
fn suited(mut pod: core_v1::Pod, company: Company) -> core_v1::Pod {
    if company == Company::Any {
        return pod;
    }
    let spec = pod.spec.get_or_insert_default();
    spec.volumes.clear();
    // An empty selector matches no pod, except in the hooks.
    spec.topology_spread_constraints.retain(|constraint| {
        let selector = constraint.label_selector.as_ref();
        selector.is_none_or(|s| !s.match_labels.is_empty() || !s.match_expressions.is_empty())
    });
    pod
}

fn identified(mut pod: core_v1::Pod, i: usize) -> core_v1::Pod {
    let metadata = pod.metadata.get_or_insert_default();
    (metadata.name, metadata.uid) = (format!("pod-{i}"), format!("uid-{i}"));
    pod
}

impl Crowd {
    /// Removes what makes decisions depend on the history: ports that two pods of a node share (S-PRT-5), and
    /// terminating pods, which the hooks count differently (S-PTS-9).
    fn make_exact(&mut self) {
        let mut used = BTreeSet::new();
        let promised = |pod: &core_v1::Pod| {
            pod.status.as_ref().map_or(String::new(), |s| s.nominated_node_name.clone())
        };
        let pods = self.placed.iter_mut().chain(&mut self.waiting);
        for Json(pod) in pods {
            pod.metadata.get_or_insert_default().deletion_timestamp = None;
            let node = promised(pod);
            let spec = pod.spec.get_or_insert_default();
            let node = if spec.node_name.is_empty() { node } else { spec.node_name.clone() };
            let mut ports = spec.containers.iter().flat_map(|container| &container.ports);
            let is_shared = ports.any(|port| !used.insert((node.clone(), port.host_port)));
            if is_shared {
                spec.containers.iter_mut().for_each(|container| container.ports.clear());
            }
        }
    }

    /// Returns the cluster without these pods.
    pub(crate) fn cluster_without(&self, gone: &[PodKey]) -> Cluster {
        let cluster = Cluster::new();
        let nodes =
            self.nodes.iter().map(|node| Delta::UpsertNode(cluster.compile_node(&node.0).unwrap()));
        let objects = self
            .objects
            .iter()
            .map(|object| Delta::UpsertObject(cluster.compile_object(object.wire()).unwrap()));
        let pods =
            self.placed.iter().chain(&self.waiting).map(|pod| cluster.compile_pod(&pod.0).unwrap());
        let pods = pods.filter(|pod| !gone.contains(pod.key())).map(Delta::UpsertPod);
        let applied = cluster.apply(nodes.chain(objects).chain(pods).collect());
        assert_eq!(applied.rejected, []);
        cluster
    }

    /// Returns a cluster of the naive scheduler with the crowd.
    pub(crate) fn naive(&self) -> NaiveCluster {
        let mut naive = NaiveCluster::default();
        self.nodes.iter().for_each(|node| naive.upsert_node(&node.0));
        self.objects.iter().for_each(|object| naive.objects.upsert(object.clone()));
        self.placed.iter().for_each(|pod| naive.add_pod(&pod.0));
        for pod in &self.waiting {
            naive.nominations.add(&pod.0, nominated_node(&pod.0).expect("it waits for a node"));
        }
        naive.refresh();
        naive
    }

    pub(crate) fn cluster(&self) -> Cluster {
        self.cluster_without(&[])
    }

    /// Compiles incoming pod `i`; the templates are used in rotation.
    pub(crate) fn incoming(&self, cluster: &Cluster, i: usize) -> Pod {
        cluster.compile_pod(&self.incoming_wire(i)).unwrap()
    }

    pub(crate) fn incoming_wire(&self, i: usize) -> core_v1::Pod {
        identified(self.incoming[i % self.incoming.len()].0.clone(), 10_000 + i)
    }

    pub(crate) fn all_incoming(&self, cluster: &Cluster, n: usize) -> Vec<Pod> {
        (0..n).map(|i| self.incoming(cluster, i)).collect()
    }
}
