//! `ClusterService` without its stream: applied objects are listed as they were applied.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{ListNodesRequest, ListPodsRequest, Rejection};
use serde_json::json;
use tonic::Code;

use crate::grpc::world::{World, bound, key, node, node_of, pod, pod_with, violation};

#[tokio::test]
async fn what_is_applied_is_what_is_listed() {
    let mut world = World::start().await;
    assert_eq!(world.counts().await.staleness_ms, None);
    let tainted = node_of(json!({
        "metadata": {"name": "b", "labels": {"zone": "z1"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "2500m", "memory": "1Ki", "pods": "7", "example.com/gpu": "3"}},
    }));
    let response = world
        .apply([
            Change::UpsertNode(tainted),
            Change::UpsertNode(node("a", "4")),
            Change::UpsertPod(bound("p1", "1500m", "a")),
            Change::UpsertPod(bound("lost", "1", "nowhere")),
            Change::UpsertPod(pod("waiting", "1")),
        ])
        .await;
    assert_eq!(response.rejections, []);

    let counts = world.counts().await;
    assert_eq!(counts.generation, response.generation);
    assert_eq!((counts.n_nodes, counts.n_pods, counts.n_assumed_pods), (2, 1, 0));
    assert_eq!((counts.n_pending_pods, counts.n_orphaned_pods, counts.n_contradictions), (1, 1, 0));
    assert!(counts.n_shapes >= 2 && counts.staleness_ms.is_some());

    let nodes = world.list_nodes().await;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((nodes[0].requested["cpu"], nodes[0].n_pods, nodes[0].allowed_pods), (1500, 1, 110));
    assert!(nodes[1].unschedulable);
    assert_eq!(
        (nodes[1].labels["zone"].as_str(), &nodes[1].taints),
        ("z1", &vec!["k=v:NoSchedule".to_owned()])
    );
    assert_eq!((nodes[1].allocatable["cpu"], nodes[1].allocatable["memory"]), (2500, 1024));
    assert_eq!(nodes[1].allocatable["example.com/gpu"], 3);

    let pods = world.list_pods().await;
    assert_eq!(pods.len(), 1);
    assert_eq!(
        (pods[0].node_name.as_str(), pods[0].assumed, pods[0].requests["cpu"]),
        ("a", false, 1500)
    );
    assert_eq!(pods[0].key.as_ref().unwrap().uid, "uid-p1");
}

#[tokio::test]
async fn deltas_are_idempotent_and_undone_by_deletion() {
    let mut world = World::start().await;
    for _ in 0..2 {
        world
            .apply([Change::UpsertPod(bound("p", "1", "n")), Change::UpsertNode(node("n", "4"))])
            .await;
        let counts = world.counts().await;
        assert_eq!((counts.n_nodes, counts.n_pods, counts.n_orphaned_pods), (1, 1, 0));
    }
    world.apply([Change::DeleteNode("n".into())]).await;
    assert_eq!(world.counts().await.n_orphaned_pods, 1);
    let mut other = key("p");
    other.uid = "another".into();
    world.apply([Change::DeletePod(other)]).await;
    assert_eq!(world.counts().await.n_orphaned_pods, 1, "a pod of another uid is another pod");
    world.apply([Change::DeletePod(key("p")), Change::DeletePod(key("p"))]).await;
    let counts = world.counts().await;
    assert_eq!((counts.n_nodes, counts.n_pods, counts.n_orphaned_pods), (0, 0, 0));
}

#[tokio::test]
async fn bad_objects_are_refused_one_by_one() {
    let mut world = World::start().await;
    let response = world
        .apply([
            Change::UpsertNode(node("good", "4")),
            Change::UpsertNode(node("bad", "4 cores")),
            Change::UpsertPod(pod("", "1")),
            Change::UpsertPod(bound("negative", "-1", "good")),
            Change::DeleteNode(String::new()),
            Change::UpsertPod(bound("fine", "1", "good")),
            Change::UpsertPod(bound("moved", "1", "good")),
            Change::UpsertPod(bound("moved", "1", "elsewhere")),
        ])
        .await;
    let brief: Vec<(u32, &str, &str)> = response
        .rejections
        .iter()
        .map(|Rejection { index, field, object, .. }| (*index, field.as_str(), object.as_str()))
        .collect();
    assert_eq!(
        brief,
        [
            (1, "status.allocatable[cpu]", "Node `bad`"),
            (2, "metadata.name", "Pod"),
            (3, "spec.containers[0].resources.requests[cpu]", "Pod `default/negative`"),
            (4, "delete_node", "Node"),
            (7, "spec.nodeName", "Pod `default/moved`"),
        ]
    );
    assert!(response.rejections.iter().all(|rejection| !rejection.reason.is_empty()));
    let counts = world.counts().await;
    assert_eq!((counts.n_nodes, counts.n_pods, counts.n_contradictions), (1, 2, 1));
}

#[tokio::test]
async fn a_batch_with_a_huge_label_loses_only_that_object() {
    let mut world = World::start().await;
    let huge = "x".repeat(2 << 20);
    let labelled = pod_with("huge", "1", &json!({"metadata": {"labels": {"l": huge}}}));
    let mut changes = vec![Change::UpsertPod(labelled)];
    changes.extend((0..200).map(|i| Change::UpsertPod(pod(&format!("p{i}"), "1"))));
    let response = world.apply(changes).await;
    assert_eq!(response.rejections.len(), 1);
    assert!(
        response.rejections[0].field.starts_with("metadata.labels"),
        "{:?}",
        response.rejections[0].field
    );
    assert!(response.rejections[0].reason.len() < 1_000, "the reason repeats the whole label");
    assert_eq!(world.counts().await.n_pending_pods, 200);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let mut world = World::start().await;
    let zones = ["a", "b"];
    let changes: Vec<_> = (0..7)
        .map(|i| {
            Change::UpsertNode(node_of(json!({
                "metadata": {"name": format!("n{i}"), "labels": {"zone": zones[i % 2]}},
                "status": {"allocatable": {"cpu": "8", "pods": "110"}},
            })))
        })
        .chain((0..7).map(|i| Change::UpsertPod(bound(&format!("p{i}"), "1", &format!("n{i}")))))
        .collect();
    world.apply(changes).await;

    let mut request = ListNodesRequest { page_size: 3, ..ListNodesRequest::default() };
    let mut pages = Vec::new();
    loop {
        let page = world.cluster.list_nodes(request.clone()).await.unwrap().into_inner();
        pages.push(page.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>().join(" "));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, ["n0 n1 n2", "n3 n4 n5", "n6"]);

    let selected =
        ListNodesRequest { label_selector: "zone in (b)".into(), ..ListNodesRequest::default() };
    let nodes = world.cluster.list_nodes(selected).await.unwrap().into_inner().nodes;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n1", "n3", "n5"]);

    let on_node = ListPodsRequest { node_name: "n4".into(), ..ListPodsRequest::default() };
    let pods = world.cluster.list_pods(on_node).await.unwrap().into_inner().pods;
    assert_eq!(pods.iter().map(|pod| pod.node_name.as_str()).collect::<Vec<_>>(), ["n4"]);
    let elsewhere = ListPodsRequest { namespace: "other".into(), ..ListPodsRequest::default() };
    assert_eq!(world.cluster.list_pods(elsewhere).await.unwrap().into_inner().pods, []);
    let second = ListPodsRequest { page_size: 4, ..ListPodsRequest::default() };
    let first = world.cluster.list_pods(second.clone()).await.unwrap().into_inner();
    let rest = ListPodsRequest { page_token: first.next_page_token, ..second };
    let rest = world.cluster.list_pods(rest).await.unwrap().into_inner();
    assert_eq!((first.pods.len(), rest.pods.len(), rest.next_page_token.as_str()), (4, 3, ""));
}

#[tokio::test]
async fn bad_selectors_and_tokens_name_their_field() {
    let mut world = World::start().await;
    let selector =
        ListNodesRequest { label_selector: "zone in a".into(), ..ListNodesRequest::default() };
    let status = world.cluster.list_nodes(selector).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(
        violation(&status),
        ("label_selector".into(), "expected `(` instead of `a` before byte 9".into())
    );
    let token = ListNodesRequest { page_token: "xyz".into(), ..ListNodesRequest::default() };
    assert_eq!(violation(&world.cluster.list_nodes(token).await.unwrap_err()).0, "page_token");
    let token = ListPodsRequest { page_token: "6e31".into(), ..ListPodsRequest::default() };
    assert_eq!(violation(&world.cluster.list_pods(token).await.unwrap_err()).0, "page_token");
}
