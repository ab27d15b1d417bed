//! Requests as each release of cluster-autoscaler sends them, and requests with parts that could not be serialised.

use berth_proto::grpcplugin::BestOptionsRequest;

use crate::expander::world::{Group, Identity, World, Writer, group, request, request_by};

/// Three groups: `tight` leaves nothing idle, `half` half of the cpu and of the memory, `wide` more.
fn three() -> [Group; 3] {
    [
        group("half", 1, 2, ("4", "4Gi")),
        group("tight", 1, 2, ("2", "2Gi")),
        group("wide", 1, 2, ("16", "64Gi")),
    ]
}

#[tokio::test]
async fn every_release_is_read_with_tls_and_without() {
    let identity = Identity::new();
    let chain = "  strategies: [least-waste]";
    for mut world in [World::start(chain).await, World::with_tls(chain, &identity).await] {
        for writer in [Writer::Typed, Writer::Both, Writer::Bytes] {
            world.check(request_by(writer, three()), &["tight"]).await;
        }
    }
}

#[tokio::test]
async fn the_answer_has_each_id_once_and_no_pods() {
    let mut world = World::start("  strategies: [least-nodes]").await;
    let mut altered = request(three());
    altered.options.push(altered.options[0].clone());
    altered.options[1].node_count = 2;
    let answer = world.client.best_options(altered).await.unwrap().into_inner();
    let ids: Vec<&str> = answer.options.iter().map(|option| &*option.node_group_id).collect();
    assert_eq!(ids, ["half", "wide"]);
    for option in answer.options {
        assert_eq!((option.node_count, &*option.debug), (1, "least-nodes: 1"));
        assert!(option.pod.is_empty() && option.pod_bytes.is_empty());
    }
}

#[tokio::test]
async fn serialised_objects_win_over_typed_ones() {
    let mut world = World::start("  strategies: [most-pods, least-waste]").await;
    let mut altered = request_by(Writer::Both, three());
    for option in &mut altered.options {
        option.pod.clear();
    }
    for template in altered.node_map.values_mut() {
        template.status = None;
    }
    world.check(altered, &["tight"]).await;
}

#[tokio::test]
async fn what_is_missing_is_passed_over() {
    let mut world = World::start("  strategies: [least-waste]").await;
    // cluster-autoscaler omits the whole map if one template does not serialise; nothing then tells the groups apart.
    let mut altered = request(three());
    altered.node_bytes_map.clear();
    world.check(altered, &["half", "tight", "wide"]).await;
    // One option has lost its pods, so it looks empty.
    let mut altered = request(three());
    altered.options[1].pod_bytes.clear();
    world.check(altered, &["half"]).await;
    // A template that does not decode counts as missing; a pod that does not decode is ignored, and the answer says so.
    let mut altered = request(three());
    altered.node_bytes_map.insert("tight".to_owned(), b"k8s\0junk".to_vec());
    altered.options[0].pod_bytes.push(vec![0xff]);
    let answer = world.client.best_options(altered).await.unwrap().into_inner();
    assert_eq!(answer.options.len(), 1);
    assert_eq!(answer.options[0].node_group_id, "half");
    assert_eq!(
        answer.options[0].debug,
        "least-waste: 1.000, of it cpu 0.500; 1 of 3 pods cannot be read"
    );
}

#[tokio::test]
async fn an_answer_is_empty_only_where_nothing_was_asked() {
    for chain in ["", "  strategies: [most-pods, least-nodes, least-waste, berth]"] {
        let mut world = World::start(chain).await;
        world.check(BestOptionsRequest::default(), &[]).await;
        // Meaningless counts, an empty id, and a template of an unknown group.
        let mut altered = request([
            Group { id: "", n_nodes: i32::MIN, pods: Vec::new(), template: None },
            Group { id: "nothing", n_nodes: 0, pods: Vec::new(), template: None },
        ]);
        altered.node_bytes_map.insert("unknown".to_owned(), vec![1, 2, 3]);
        world.check(altered, &["", "nothing"]).await;
        world.check(request([group("only", 3, 0, ("0", "0"))]), &["only"]).await;
    }
}
