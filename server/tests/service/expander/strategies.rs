//! Every strategy over the wire, alone and in chains.

use std::time::Duration;

use berth_proto::berth_v1::ApplyRequest;
use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{Delta, delta};
use berth_proto::core_v1::{Node, Pod};
use serde_json::json;

use crate::expander::world::{Group, World, channel, group, node, pod, request};

/// Feeds a cluster to the server.
async fn feed(world: &World, changes: Vec<delta::Change>) {
    let channel = channel(world.server.grpc_address().port(), None).await.unwrap();
    let deltas = changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
    let answer = ClusterServiceClient::new(channel).apply(ApplyRequest { deltas }).await.unwrap();
    assert_eq!(answer.into_inner().rejections, []);
}

/// A cluster of one full node.
fn full_cluster() -> Vec<Change> {
    let mut only: Node = node("1", "1Gi");
    only.metadata.as_mut().unwrap().name = "n0".to_owned();
    let mut running: Pod = pod("running", "1", "1Gi");
    running.spec.as_mut().unwrap().node_name = "n0".to_owned();
    vec![Change::UpsertNode(only), Change::UpsertPod(running)]
}

#[tokio::test]
async fn sums_decide_without_a_cluster() {
    let groups = || {
        [
            group("few-pods", 1, 1, ("1", "1Gi")),
            group("many-nodes", 4, 4, ("1", "1Gi")),
            group("one-node", 1, 4, ("8", "8Gi")),
            group("spot-node", 1, 4, ("8", "8Gi")),
        ]
    };
    for (chain, expected) in [
        ("  strategies: [most-pods]", &["many-nodes", "one-node", "spot-node"][..]),
        ("  strategies: [least-nodes]", &["few-pods", "one-node", "spot-node"]),
        ("  strategies: [least-waste]", &["few-pods", "many-nodes"]),
        ("  strategies: [most-pods, least-nodes]", &["one-node", "spot-node"]),
        ("  strategies: [most-pods, least-waste]", &["many-nodes"]),
        (
            "  strategies: [priority]\n  priorities: {10: ['.*'], 20: ['-nodes?$']}",
            &["many-nodes", "one-node", "spot-node"],
        ),
        (
            "  strategies: [priority, least-waste]\n  priorities: {10: ['.*'], 20: ['^(one|few)']}",
            &["few-pods"],
        ),
        (
            "  strategies: [priority]\n  priorities: {10: [nobody]}",
            &["few-pods", "many-nodes", "one-node", "spot-node"],
        ),
        (
            "  strategies: [price]\n  prices: {perCpuHour: 1, perGibHour: 1, preferredCpus: 8, nodes: [{nodeGroup: ^spot, perHour: 2}]}",
            &["spot-node"],
        ),
        // Berth has no cluster, so the default chain continues with least-waste.
        ("", &["few-pods", "many-nodes"]),
    ] {
        World::start(chain).await.check(request(groups()), expected).await;
    }
}

#[tokio::test]
async fn berth_places_the_pods_on_the_live_cluster() {
    let mut world = World::start("").await;
    feed(&world, full_cluster()).await;
    // Three replicas of 1 cpu that must run on different hosts: sums alone would choose the one tight node.
    let apart: Vec<Pod> = (0..3)
        .map(|i| {
            let mut pod = pod(&format!("web-{i}"), "1", "1Gi");
            pod.metadata.as_mut().unwrap().labels.insert("app".to_owned(), "web".to_owned());
            pod.spec.as_mut().unwrap().affinity = serde_json::from_value(json!({
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "topologyKey": "kubernetes.io/hostname",
                }]},
            }))
            .unwrap();
            pod
        })
        .collect();
    let group = |id, n_nodes, size: (&str, &str)| Group {
        id,
        n_nodes,
        pods: apart.clone(),
        template: Some(node(size.0, size.1)),
    };
    let groups = || [group("tight", 1, ("3", "3Gi")), group("apart", 3, ("2", "2Gi"))];
    let answer = world.client.best_options(request(groups())).await.unwrap().into_inner();
    let ids: Vec<&str> = answer.options.iter().map(|option| &*option.node_group_id).collect();
    assert_eq!(ids, ["apart"]);
    assert_eq!(answer.options[0].debug, "berth: 3 pods on 3 nodes, waste 1.000, skew 0");
    let mut sums = World::start("  strategies: [least-waste]").await;
    sums.check(request(groups()), &["tight"]).await;
    // The cluster is unchanged.
    assert_eq!(world.server.cluster().snapshot().n_nodes(), 1);
    assert_eq!(world.server.cluster().snapshot().n_pods(), 1);
}

#[tokio::test]
async fn the_price_depends_on_the_size_of_the_cluster() {
    let chain = "  strategies: [price]\n  prices: {perCpuHour: 1, perGibHour: 1}";
    let mut world = World::start(chain).await;
    let groups = || [group("large", 1, 1, ("16", "16Gi")), group("small", 1, 1, ("1", "1Gi"))];
    world.check(request(groups()), &["large", "small"]).await;
    feed(&world, full_cluster()).await;
    world.check(request(groups()), &["small"]).await;
}

#[tokio::test]
async fn strategies_are_counted() {
    let mut world = World::start("  strategies: [berth, least-nodes]").await;
    let two = || [group("a", 1, 1, ("1", "1Gi")), group("b", 2, 1, ("1", "1Gi"))];
    world.check(request(two()), &["a"]).await;
    let address = world.server.http_address();
    let text = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    })
    .await
    .unwrap();
    for line in [
        "berth_expander_judgements_total{strategy=\"berth\",outcome=\"undecided\"} 1",
        "berth_expander_judgements_total{strategy=\"least-nodes\",outcome=\"narrowed\"} 1",
        "berth_grpc_calls_total{method=\"/grpcplugin.Expander/BestOptions\",code=\"OK\"} 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
