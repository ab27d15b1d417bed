//! A cluster after thousands of random deltas equals one built from its objects: it has the same lists and sums, and
//! makes the same decisions as the rebuilt cluster and as the naive scheduler.
//!
//! Under two rules the history counts; they are tested by hand or left out here: the set of used ports (S-PRT-5) and
//! the lag of image counts (S-IL-5).

mod check;
mod event;
mod feed;
mod model;
mod story;

use berth_engine::{Cluster, Delta, NodeView, PodKey};
use berth_proto::{core_v1, meta_v1};
use berth_testing::object;
use proptest::prelude::*;

use crate::random::{self, config};
use event::{Event, Version};
use feed::Feed;
use story::Story;

proptest! {
    #![proptest_config(config(45, 21))]

    /// Runs some 7,000 deltas in 1,100 batches.
    #[test]
    fn updated_is_rebuilt(
        templates in event::templates(),
        objects in random::object::objects(),
        batches in event::batches(10..40),
    ) {
        let mut feed = Feed::new(templates);
        for object in objects {
            feed.take(Event::UpsertObject { object, version: Version::Newer });
        }
        for batch in batches {
            for event in batch {
                feed.take(event);
            }
            feed.flush();
            feed.check();
        }
    }
}

/// Used ports are a set: if two pods use the identical port, removing the first frees it (S-PRT-5).
#[test]
fn one_of_two_pods_frees_the_port_of_both() {
    let story = Story::new(&["n1 cpu=4 memory=8Gi pods=10"]);
    let is_free = || story.is_feasible("probe port=80")["n1"];
    assert!(is_free());
    assert_eq!(story.pod("a node=n1 port=80"), None);
    assert_eq!(story.pod("b node=n1 port=80"), None);
    assert!(!is_free());
    story.delete_pod("a");
    assert!(is_free(), "the quirk of upstream");
    story.delete_pod("b");
    assert!(is_free());
    assert_eq!(story.pod("c node=n1 port=80"), None);
    assert!(!is_free());
}

/// A bound pod does not move; an event that moves it is refused and counted (S-CCH-6).
#[test]
fn a_bound_pod_does_not_move() {
    let story = Story::new(&["n1 cpu=4 memory=8Gi pods=10", "n2 cpu=4 memory=8Gi pods=10"]);
    assert_eq!(story.pod("a node=n1 cpu=1 version=1"), None);
    assert_eq!(story.pod("a node=n2 cpu=1 version=2").as_deref(), Some("spec.nodeName"));
    assert_eq!(story.pods(), "a@n1");
    assert_eq!(story.0.snapshot().n_contradictions(), 1);
    // Another pod of the same name may be on any node.
    assert_eq!(story.pod("a uid=other node=n2 cpu=1 version=3"), None);
    assert_eq!(story.pods(), "a@n2");
    assert_eq!((story.milli_cpu("n1"), story.milli_cpu("n2")), (0, 1000));
}

/// A new list replaces the known state, and so corrects contradictory events.
#[test]
fn a_replaced_cluster_equals_the_list() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=10", "n2 cpu=4 memory=8Gi pods=10"];
    let story = Story::new(&nodes);
    assert_eq!(story.pod("a node=n1 cpu=1 version=5"), None);
    assert_eq!(story.pod("b node=n1 cpu=1 version=5"), None);
    assert_eq!(story.pod("c node=n1 cpu=1 version=5"), None);
    assert_eq!(story.pod("a node=n2 cpu=1 version=6").as_deref(), Some("spec.nodeName"));
    assert_eq!(
        story.replace(
            &nodes,
            &["a node=n2 cpu=1 version=7", "b node=n1 cpu=2 version=4", "c cpu=1 version=6"]
        ),
        0
    );
    assert_eq!(story.pods(), "a@n2 b@n1");
    assert_eq!((story.milli_cpu("n1"), story.milli_cpu("n2")), (2000, 1000));
    assert_eq!(story.0.snapshot().n_pending(), 1);
    assert_eq!(story.0.snapshot().n_contradictions(), 0);
}

/// The known version of a pod is the latest one received, even if nothing else changed with it.
#[test]
fn a_repeated_pod_is_as_new_as_its_last_repetition() {
    let story = Story::new(&["n1 cpu=4 memory=8Gi pods=10"]);
    assert_eq!(story.pod("a node=n1 cpu=1 version=5"), None);
    assert_eq!(story.pod("a node=n1 cpu=1 version=9"), None);
    assert_eq!(story.pod("a node=n1 cpu=2 version=7"), None);
    assert_eq!(story.milli_cpu("n1"), 1000);
    assert_eq!(story.pod("a node=n1 cpu=3 version=10"), None);
    assert_eq!(story.milli_cpu("n1"), 3000);
}

/// An event of an object other than a pod or a node has no effect if a newer version of the object was seen.
#[test]
fn a_repeated_object_is_as_new_as_its_last_repetition() {
    let story = Story::new(&["n1 cpu=4 memory=8Gi pods=10 label:host=n1"]);
    assert_eq!(story.pod("a node=n1 label:app=x namespace=n2"), None);
    let namespace = |version: &str, team: &str| {
        story.object(core_v1::Namespace {
            metadata: Some(meta_v1::ObjectMeta {
                name: "n2".to_owned(),
                resource_version: version.to_owned(),
                labels: [("team".to_owned(), team.to_owned())].into(),
                ..Default::default()
            }),
            ..Default::default()
        });
        story.is_feasible("probe far=host,app:x,team:y")["n1"]
    };
    assert!(namespace("5", "x"));
    assert!(namespace("9", "x"));
    assert!(namespace("7", "y"), "sent before the last");
    assert!(!namespace("10", "y"));
    assert!(!namespace("", "y"), "without a version it counts as new");
    assert!(namespace("", "x"));
}

/// A pod may come before its node, outlive it, and be on it again when the node returns (S-CCH-7).
#[test]
fn pods_wait_for_their_node() {
    let story = Story::new(&["n1 cpu=4 memory=8Gi pods=10"]);
    assert_eq!(story.pod("a node=n2 cpu=1"), None);
    assert_eq!((story.pods().as_str(), story.0.snapshot().n_orphaned()), ("", 1));
    let upsert = |text: &str| Delta::UpsertNode(story.0.compile_node(&object::node(text)).unwrap());
    story.0.apply(vec![upsert("n2 cpu=4 memory=8Gi pods=10")]);
    assert_eq!((story.pods().as_str(), story.milli_cpu("n2")), ("a@n2", 1000));
    story.0.apply(vec![Delta::DeleteNode("n2".into())]);
    assert_eq!((story.0.snapshot().n_nodes(), story.0.snapshot().n_orphaned()), (1, 1));
    // Within one batch the node is deleted, comes back smaller, and the pod is deleted.
    story.0.apply(vec![upsert("n2 cpu=2 memory=8Gi pods=1")]);
    assert!(!story.is_feasible("probe cpu=1")["n2"]);
    story.delete_pod("a");
    assert!(story.is_feasible("probe cpu=1")["n2"]);
    assert_eq!((story.0.snapshot().n_pods(), story.0.snapshot().n_orphaned()), (0, 0));
}

/// A nomination in memory stays while the feed sends none, and ends with the pod, even if its node goes and comes back
/// (S-NOM-4, S-NOMC-1).
#[test]
fn a_nomination_in_memory_outlasts_updates_of_the_pod() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=10"];
    let story = Story::new(&nodes);
    let is_free = || story.is_feasible("probe cpu=2")["n1"];
    story.promise("a cpu=3", "n1");
    assert!(!is_free());
    assert_eq!(story.pod("a cpu=3 version=1"), None);
    assert_eq!(story.pod("a cpu=3 label:app=x version=2"), None);
    assert!(!is_free());
    assert_eq!(story.replace(&nodes, &["a cpu=3 label:app=x version=2"]), 0);
    assert!(!is_free());
    story.0.apply(vec![Delta::DeleteNode("n1".into())]);
    let node = story.0.compile_node(&object::node(nodes[0])).unwrap();
    story.0.apply(vec![Delta::UpsertNode(node)]);
    assert!(!is_free());
    // The pod is nominated by its status, and later not any more.
    assert_eq!(story.pod("a cpu=3 label:app=y nominated=n1 version=4"), None);
    assert_eq!(story.pod("a cpu=3 label:app=y version=5"), None);
    assert!(is_free());
    // Another pod of the same name has no nomination.
    story.promise("a cpu=3", "n1");
    assert_eq!(story.pod("a cpu=3 uid=other version=6"), None);
    assert!(is_free());
    story.promise("a cpu=3 uid=other", "n1");
    assert_eq!(story.replace(&nodes, &[]), 0);
    assert!(is_free());
}

/// A list acts like many updates: a pod that changed in it keeps its nomination in memory (S-NOMC-1).
#[test]
fn a_nomination_in_memory_outlasts_a_list() {
    let nodes = ["n1 cpu=4 memory=8Gi pods=10"];
    let story = Story::new(&nodes);
    story.promise("a cpu=3", "n1");
    assert_eq!(story.replace(&nodes, &["a cpu=3 label:app=x version=1"]), 0);
    assert!(!story.is_feasible("probe cpu=2")["n1"]);
    assert_eq!(story.replace(&nodes, &["a cpu=3 uid=other version=2"]), 0);
    assert!(story.is_feasible("probe cpu=2")["n1"], "another pod of the name");
}

/// Batches of any size, from one delta to all at once, lead to the same state.
#[test]
fn batches_of_any_size_come_to_the_same() {
    let expected = batched(1);
    assert_eq!(expected.len(), N_NODES);
    for size in [2, 7, 64, 1000] {
        assert_eq!(batched(size), expected, "batches of {size}");
    }
}

const N_NODES: usize = 28;
const N_PODS_EACH: usize = 24;

fn batched(size: usize) -> Vec<NodeView> {
    let cluster = Cluster::new();
    let mut deltas = Vec::new();
    for i in 0..N_NODES {
        let node = object::node(&format!("n{i} cpu=64 memory=64Gi pods=99"));
        deltas.push(Delta::UpsertNode(cluster.compile_node(&node).unwrap()));
        for p in 0..N_PODS_EACH {
            let pod = object::pod(&format!(
                "p{i}-{p} cpu={} memory=1Gi node=n{}",
                1 + p % 3,
                (i * 5 + p) % (N_NODES)
            ));
            deltas.push(Delta::UpsertPod(cluster.compile_pod(&pod).unwrap()));
            if p % 4 == 3 {
                deltas.push(Delta::DeletePod {
                    key: PodKey::new("default", &format!("p{i}-{}", p - 2)),
                    uid: None,
                });
            }
        }
    }
    for batch in deltas.chunks(size) {
        assert_eq!(cluster.apply(batch.to_vec()).rejected, []);
    }
    cluster.snapshot().nodes()
}
