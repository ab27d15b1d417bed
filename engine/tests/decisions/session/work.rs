//! Operations on a cluster or on a fork of one.

use berth_engine::{
    BatchRequest, Cluster, ClusterState, Delta, EngineError, Gang, ObjectKey, ObjectKind, Outcome,
    PlaceRequest, Pod, PodKey, Policy, PostFilter, PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;
use proptest::prelude::*;

use crate::naive::objects::AnyObject;
use crate::random::Json;
use crate::random::crowd::Crowd;
use crate::random::importance::urgent;
use crate::random::node::{Flavor, named, node};
use crate::random::object::object;

/// One operation. Indices are taken modulo the number of existing items.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Makes a decision without assuming it.
    Ask {
        pod: usize,
    },
    Assume {
        pod: usize,
    },
    Batch {
        first: usize,
        n: usize,
        gang: Option<Gang>,
    },
    /// Finds victims for a pod, and nominates the pod to the node.
    Nominate {
        pod: usize,
    },
    /// Finds victims for a pod, and deletes them.
    Evict {
        pod: usize,
    },
    /// The feed deletes a pod.
    DeletePod {
        pod: usize,
    },
    /// The feed sends a pod on a node.
    BindPod {
        pod: usize,
        node: usize,
    },
    UpsertNode {
        node: usize,
        object: Json<core_v1::Node>,
    },
    DeleteNode {
        node: usize,
    },
    UpsertObject {
        object: AnyObject,
    },
    DeleteObject {
        object: AnyObject,
    },
    /// A new list of the initial objects, without those whose bit here is not set.
    Replace {
        kept: u64,
    },
}

pub(crate) fn work() -> BoxedStrategy<Work> {
    prop_oneof![3 => decision(), 1 => delta()].boxed()
}

/// Generates work that can be committed.
pub(crate) fn decision() -> BoxedStrategy<Work> {
    let pod = 0..20_usize;
    let gang = (0..4_usize, any::<bool>()).prop_map(|(min_count, evicts)| Gang {
        min_count,
        preempt: evicts.then(PreemptOptions::default),
    });
    let gang = proptest::option::of(gang);
    prop_oneof![
        1 => pod.clone().prop_map(|pod| Work::Ask { pod }),
        4 => pod.clone().prop_map(|pod| Work::Assume { pod }),
        2 => (pod.clone(), 0..6_usize, gang)
            .prop_map(|(first, n, gang)| Work::Batch { first, n, gang }),
        2 => pod.prop_map(|pod| Work::Nominate { pod }),
    ]
    .boxed()
}

/// Generates the deltas of a feed.
pub(crate) fn delta() -> BoxedStrategy<Work> {
    let (pod, at) = (any::<usize>(), 0..8_usize);
    let object = || object();
    prop_oneof![
        2 => pod.prop_map(|pod| Work::Evict { pod }),
        3 => pod.prop_map(|pod| Work::DeletePod { pod }),
        3 => (100..140_usize, at.clone()).prop_map(|(pod, node)| Work::BindPod { pod, node }),
        1 => (at.clone(), node(Flavor::Small))
            .prop_map(|(node, object)| Work::UpsertNode { node, object: Json(object) }),
        1 => at.prop_map(|node| Work::DeleteNode { node }),
        2 => object().prop_map(|object| Work::UpsertObject { object }),
        1 => object().prop_map(|object| Work::DeleteObject { object }),
        1 => any::<(u64, u64)>().prop_map(|(a, b)| Work::Replace { kept: a | b }),
    ]
    .boxed()
}

/// Outcomes of one piece of work, without generations.
pub(crate) type Done = Vec<Result<Outcome, EngineError>>;

pub(crate) fn do_all(cluster: &Cluster, crowd: &Crowd, works: &[Work]) -> Vec<Done> {
    works.iter().map(|work| work.do_to(cluster, crowd)).collect()
}

impl Work {
    fn do_to(&self, cluster: &Cluster, crowd: &Crowd) -> Done {
        let policy = &Policy::default();
        let tie_break = TieBreak::Seeded(4);
        let asking = |pod| PlaceRequest { pod, policy, tie_break, now: None };
        let apply = |delta: Delta| {
            assert_eq!(cluster.apply(vec![delta]).rejected, []);
            Vec::new()
        };
        match self {
            Work::Ask { pod } => {
                let pod = &crowd.incoming(cluster, *pod);
                vec![cluster.place(&asking(pod)).map(|d| d.outcome)]
            }
            Work::Assume { pod } => {
                let pod = &crowd.incoming(cluster, *pod);
                vec![cluster.assume(&asking(pod)).map(|d| d.outcome)]
            }
            Work::Batch { first, n, gang } => {
                let pods: Vec<Pod> = (0..*n).map(|i| crowd.incoming(cluster, first + i)).collect();
                assume_batch(cluster, &pods, *gang, tie_break)
            }
            Work::Nominate { pod } => {
                let (pod, _, done) = find_victims(cluster, crowd, *pod);
                if let Some(post_filter) = done {
                    // The pod may be on a node already, so the result is ignored.
                    drop(cluster.nominate(&pod, &post_filter));
                }
                Vec::new()
            }
            Work::Evict { pod } => {
                let (_, victims, _) = find_victims(cluster, crowd, *pod);
                let deltas = victims.into_iter().map(|key| Delta::DeletePod { key, uid: None });
                assert_eq!(cluster.apply(deltas.collect()).rejected, []);
                Vec::new()
            }
            Work::DeletePod { pod } => {
                let pods = cluster.snapshot().pods();
                let Some(view) = pods.get(pod % pods.len().max(1)) else {
                    return Vec::new();
                };
                apply(Delta::DeletePod { key: view.pod.key().clone(), uid: None })
            }
            Work::BindPod { pod, node } => {
                let mut wire = crowd.incoming_wire(*pod);
                let node = format!("node-{}", node % crowd.nodes.len());
                wire.spec.get_or_insert_default().node_name = node;
                // A bound pod does not move: an event that moves it is refused.
                drop(cluster.apply(vec![Delta::UpsertPod(cluster.compile_pod(&wire).unwrap())]));
                Vec::new()
            }
            Work::UpsertNode { node, object } => {
                let node = named(object.0.clone(), &format!("node-{node}"));
                apply(Delta::UpsertNode(cluster.compile_node(&node).unwrap()))
            }
            Work::DeleteNode { node } => apply(Delta::DeleteNode(format!("node-{node}").into())),
            Work::UpsertObject { object } => {
                apply(Delta::UpsertObject(cluster.compile_object(object.wire()).unwrap()))
            }
            Work::DeleteObject { object } => {
                let (kind, namespace, name) = object.key();
                let kind = ObjectKind::from_name(kind).unwrap();
                apply(Delta::DeleteObject(ObjectKey::new(kind, &namespace, &name)))
            }
            Work::Replace { kept } => {
                // An object that is listed twice is refused the second time.
                drop(cluster.replace(state(cluster, crowd, *kept)));
                Vec::new()
            }
        }
    }
}

fn assume_batch(cluster: &Cluster, pods: &[Pod], gang: Option<Gang>, tie_break: TieBreak) -> Done {
    let outcome = cluster.place_batch(&BatchRequest {
        pods,
        policy: &Policy::default(),
        tie_break,
        assume: true,
        gang,
        cancelled: &|| false,
        now: None,
    });
    outcome.results.into_iter().map(|result| result.map(|d| d.outcome)).collect()
}

/// Returns the first objects of the crowd, reduced to those that `kept` selects.
fn state(cluster: &Cluster, crowd: &Crowd, kept: u64) -> ClusterState {
    let is_kept = |i: usize| kept >> (i % 64) & 1 == 1;
    let nodes = crowd.nodes.iter().enumerate().filter(|(i, _)| is_kept(*i));
    let pods = crowd.placed.iter().chain(&crowd.waiting).enumerate();
    let pods = pods.filter(|(i, _)| is_kept(*i));
    let objects = crowd.objects.iter().enumerate().filter(|(i, _)| is_kept(*i));
    ClusterState {
        nodes: nodes.map(|(_, node)| cluster.compile_node(&node.0).unwrap()).collect(),
        objects: objects.map(|(_, o)| cluster.compile_object(o.wire()).unwrap()).collect(),
        pods: pods.map(|(_, pod)| cluster.compile_pod(&pod.0).unwrap()).collect(),
    }
}

/// Returns an urgent pod that no other operation places, its victims, and the outcome of PostFilter.
fn find_victims(
    cluster: &Cluster,
    crowd: &Crowd,
    pod: usize,
) -> (Pod, Vec<PodKey>, Option<PostFilter>) {
    let pod = cluster.compile_pod(&urgent(crowd.incoming_wire(200 + pod % 40))).unwrap();
    let (policy, tie_break) = (&Policy::default(), TieBreak::Seeded(4));
    let options = PreemptOptions::default();
    let preemption = cluster.preempt(&PreemptRequest {
        pod: &pod,
        policy,
        tie_break,
        options,
        cancelled: &|| false,
        now: None,
    });
    let post_filter = preemption.ok().and_then(|preemption| preemption.post_filter);
    let chosen = post_filter.as_ref().and_then(|found| found.chosen.as_ref());
    let victims = chosen.into_iter().flat_map(|chosen| &chosen.victims);
    (pod, victims.map(|victim| victim.pod.clone()).collect(), post_filter)
}
