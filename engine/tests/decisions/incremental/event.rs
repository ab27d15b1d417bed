//! Random events of a feed: all that Kubernetes can send, and some that it should not.

use std::ops::Range;

use berth_proto::core_v1;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::naive::objects::AnyObject;
use crate::random;
use crate::random::Json;
use crate::random::importance::{Leaving, leaving, ranked};
use crate::random::node::Flavor;
use crate::random::pod::PodTraits;

/// Nodes and pods have few names, so that events concern the same objects.
pub(crate) const N_NODES: usize = 7;
pub(crate) const N_PODS: usize = 24;

/// Something that happens. Indices are below [`N_NODES`], [`N_PODS`] and the number of templates.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a story has few events")]
pub(crate) enum Event {
    UpsertNode {
        node: usize,
        object: Box<Json<core_v1::Node>>,
        version: Version,
    },
    /// Repeats the node as it is known.
    RepeatNode {
        node: usize,
    },
    DeleteNode {
        node: usize,
    },
    /// Adds, binds, changes or resizes a pod.
    UpsertPod {
        pod: usize,
        template: usize,
        node: Option<usize>,
        /// The node in `status.nominatedNodeName`, which is used if the pod is pending.
        nominated: Option<usize>,
        version: Version,
        is_new: bool,
    },
    /// Repeats the pod as it is known, with a later version and no other change.
    RepeatPod {
        pod: usize,
    },
    /// Replaces a pod on its node by one of another template.
    ResizePod {
        pod: usize,
        template: usize,
        version: Version,
    },
    /// A bound pod without a uid (S-CCH-1).
    NamelessPod {
        pod: usize,
        template: usize,
        node: usize,
    },
    EndPod {
        pod: usize,
        phase: &'static str,
        of_other_uid: bool,
    },
    DeletePod {
        pod: usize,
        uid: Uid,
    },
    Assume {
        pod: usize,
        template: usize,
    },
    /// Applies an attempt's outcome: the pod is nominated to a node, or its nomination ends.
    Promise {
        pod: usize,
        template: usize,
        node: Option<usize>,
    },
    /// The feed sends an assumed pod as bound, perhaps on another node.
    Confirm {
        pod: usize,
        elsewhere: Option<usize>,
    },
    /// A known pod begins to terminate.
    TerminatePod {
        pod: usize,
        leaving: Leaving,
    },
    UpsertObject {
        object: AnyObject,
        version: Version,
    },
    /// Repeats a known object, with a later version and no other change.
    RepeatObject {
        object: usize,
    },
    DeleteObject {
        object: usize,
    },
    /// A new list of the known objects, without those whose bit in `nodes`, `pods` or `objects` is not set. A bound pod
    /// with its bit in `moves` is on another node in the list; an assumed one is bound in the list, or with that bit
    /// still pending. A pod with its bit in `relabels` has another label in the list.
    Replace {
        nodes: u64,
        pods: u64,
        moves: u64,
        relabels: u64,
        objects: u64,
    },
}

/// The relation of an event's resource version to earlier ones. Every fifth object never has a version.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Version {
    Newer,
    /// A version of a few changes ago: newer or older than the known version of this object.
    Late,
    Older,
}

/// The uid that a deletion names.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Uid {
    Absent,
    Empty,
    Right,
    Wrong,
}

/// Generates batches of events; some are empty.
pub(crate) fn batches(n: Range<usize>) -> BoxedStrategy<Vec<Vec<Event>>> {
    let batch =
        prop_oneof![2 => vec(event(), 1..2), 3 => vec(event(), 2..12), 1 => vec(event(), 0..40)];
    vec(batch, n).boxed()
}

/// Generates pod templates without host ports, because used ports are a set, so that history counts (S-PRT-5). Pods get
/// ports by number.
pub(crate) fn templates() -> BoxedStrategy<Vec<Json<core_v1::Pod>>> {
    let traits = PodTraits { has_host_ports: false, has_node_name: false, has_volumes: true };
    let plain = vec(ranked(random::pod::plain_template()), 1..3);
    let odd = vec(ranked(random::pod::template(traits)), 1..3);
    let sociable = vec(ranked(random::pod::sociable_template(traits)), 1..4);
    let stored = vec(ranked(random::pod::stored_template()), 1..3);
    (plain, odd, sociable, stored)
        .prop_map(|(plain, odd, sociable, stored)| {
            plain.into_iter().chain(odd).chain(sociable).chain(stored).map(Json).collect()
        })
        .boxed()
}

fn event() -> BoxedStrategy<Event> {
    let (node, pod) = (0..N_NODES, 0..N_PODS);
    let template = any::<usize>();
    let version = select(vec![
        Version::Newer,
        Version::Newer,
        Version::Newer,
        Version::Newer,
        Version::Late,
        Version::Older,
    ]);
    let flavor = select(vec![Flavor::Odd, Flavor::Ordinary]);
    let object = flavor.prop_flat_map(random::node::node).prop_map(|node| Box::new(Json(node)));
    let uid = select(vec![Uid::Absent, Uid::Empty, Uid::Right, Uid::Wrong]);
    let upsert = (
        pod.clone(),
        template,
        option::weighted(0.7, node.clone()),
        option::weighted(0.4, node.clone()),
        version.clone(),
        prop::bool::weighted(0.1),
    );
    prop_oneof![
        6 => (node.clone(), object, version.clone())
            .prop_map(|(node, object, version)| Event::UpsertNode { node, object, version }),
        1 => node.clone().prop_map(|node| Event::RepeatNode { node }),
        3 => node.clone().prop_map(|node| Event::DeleteNode { node }),
        12 => upsert.prop_map(|(pod, template, node, nominated, version, is_new)| {
            Event::UpsertPod { pod, template, node, nominated, version, is_new }
        }),
        4 => (pod.clone(), template, option::weighted(0.8, node.clone()))
            .prop_map(|(pod, template, node)| Event::Promise { pod, template, node }),
        3 => pod.clone().prop_map(|pod| Event::RepeatPod { pod }),
        5 => (pod.clone(), template, version.clone())
            .prop_map(|(pod, template, version)| Event::ResizePod { pod, template, version }),
        1 => (pod.clone(), template, node.clone())
            .prop_map(|(pod, template, node)| Event::NamelessPod { pod, template, node }),
        2 => (pod.clone(), select(vec!["Succeeded", "Failed"]), prop::bool::weighted(0.3))
            .prop_map(|(pod, phase, of_other_uid)| Event::EndPod { pod, phase, of_other_uid }),
        4 => (pod.clone(), uid).prop_map(|(pod, uid)| Event::DeletePod { pod, uid }),
        6 => (pod.clone(), template).prop_map(|(pod, template)| Event::Assume { pod, template }),
        5 => (pod.clone(), option::weighted(0.3, node)).prop_map(|(pod, elsewhere)| Event::Confirm { pod, elsewhere }),
        2 => (pod, leaving()).prop_map(|(pod, leaving)| Event::TerminatePod { pod, leaving }),
        10 => (random::object::object(), version.clone())
            .prop_map(|(object, version)| Event::UpsertObject { object, version }),
        1 => any::<usize>().prop_map(|object| Event::RepeatObject { object }),
        3 => any::<usize>().prop_map(|object| Event::DeleteObject { object }),
        1 => (any::<[u64; 6]>(), any::<[u64; 5]>()).prop_map(|([a, b, c, d, e, f], [g, h, i, j, k])| {
            let (nodes, pods, objects) = (a | b, c | d, e | f);
            Event::Replace { nodes, pods, objects, moves: g & h & i, relabels: j & k }
        }),
    ]
    .boxed()
}
