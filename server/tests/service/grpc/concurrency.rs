//! Many callers race for scarce room: no node is overcommitted, and no pod is placed twice.

use std::collections::BTreeMap;

use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{
    PlaceBatchRequest, PlaceMode, PlaceRequest, PlaceStreamRequest, TieBreak, TieBreakRule,
    decision,
};
use tonic::Code;

use crate::grpc::world::{World, connect, entry, outcome, pod, result};

const N_NODES: usize = 20;
const CPU: u32 = 8;
const N_CLIENTS: usize = 8;
const PODS_PER_CLIENT: usize = 60;

/// (pod, node, milli-CPU) of every placement that a client received.
type Given = Vec<(String, String, i64)>;

/// Places pods of 1 to 3 cores with each method in turn; together the clients ask for three times the nodes' capacity.
async fn race(
    mut client: PlacementServiceClient<tonic::transport::Channel>,
    number: usize,
) -> Given {
    let cpu = |i: usize| 1 + (i + number) % 3;
    let pods: Vec<_> = (0..PODS_PER_CLIENT)
        .map(|i| (pod(&format!("c{number}-p{i}"), &cpu(i).to_string()), cpu(i) as i64 * 1000))
        .collect();
    let tie_break = Some(TieBreak { rule: TieBreakRule::Seeded as i32, seed: 1 });
    let mode = PlaceMode::Assume as i32;
    let mut decisions = Vec::new();
    match number % 3 {
        0 => {
            for (pod, _) in &pods {
                let pod = Some(pod.clone().into());
                let request = PlaceRequest { pod, mode, tie_break, ..PlaceRequest::default() };
                decisions.push(client.place(request).await.unwrap().into_inner().decision.unwrap());
            }
        }
        1 => {
            for pods in pods.chunks(7) {
                let entries = pods.iter().map(|(pod, _)| entry(pod.clone(), 1)).collect();
                let default = PlaceBatchRequest::default();
                let request = PlaceBatchRequest { entries, mode, tie_break, ..default };
                let response = client.place_batch(request).await.unwrap();
                decisions.extend(
                    response.into_inner().results.iter().map(|r| result(r).unwrap().clone()),
                );
            }
        }
        _ => {
            let requests: Vec<_> = pods
                .chunks(5)
                .map(|pods| PlaceStreamRequest {
                    sequence: 0,
                    entries: pods.iter().map(|(pod, _)| entry(pod.clone(), 1)).collect(),
                    mode,
                    tie_break,
                    ..PlaceStreamRequest::default()
                })
                .collect();
            let mut answers =
                client.place_stream(tokio_stream::iter(requests)).await.unwrap().into_inner();
            while let Some(answer) = answers.message().await.unwrap() {
                decisions.extend(answer.results.iter().map(|r| result(r).unwrap().clone()));
            }
        }
    }
    assert_eq!(decisions.len(), PODS_PER_CLIENT);
    let placed = decisions.iter().zip(&pods).filter_map(|(decision, (_, cpu))| {
        let node = outcome(decision).ok()?.to_owned();
        Some((decision.pod.as_ref().unwrap().name.clone(), node, *cpu))
    });
    placed.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_clients_never_overcommit() {
    let mut world = World::start().await;
    world.nodes(N_NODES, CPU).await;
    let mut clients = Vec::new();
    for number in 0..N_CLIENTS {
        let channel = connect(&world.server).await;
        clients.push(tokio::spawn(race(PlacementServiceClient::new(channel), number)));
    }
    let mut given: Given = Vec::new();
    for client in clients {
        given.extend(client.await.unwrap());
    }

    // Usage according to the answers alone.
    let mut used: BTreeMap<&str, (i64, u32)> = BTreeMap::new();
    for (_, node, cpu) in &given {
        let used = used.entry(node).or_default();
        *used = (used.0 + cpu, used.1 + 1);
    }
    assert!(used.values().all(|(cpu, _)| *cpu <= i64::from(CPU) * 1000), "{used:?}");
    // The nodes must be full: a race without losers would prove nothing.
    assert!(given.len() < N_CLIENTS * PODS_PER_CLIENT);
    let total: i64 = used.values().map(|(cpu, _)| cpu).sum();
    assert!(
        total > i64::from(CPU) * 1000 * N_NODES as i64 * 95 / 100,
        "only {total} of the room was given out"
    );

    // The server's lists agree with the answers.
    for node in world.list_nodes().await {
        let (cpu, n_pods) = used.get(node.name.as_str()).copied().unwrap_or_default();
        assert_eq!(
            (node.requested.get("cpu").copied().unwrap_or(0), node.n_pods),
            (cpu, n_pods),
            "{}",
            node.name
        );
    }
    let mut listed: Vec<(String, String)> = world
        .list_pods()
        .await
        .into_iter()
        .map(|pod| (pod.key.unwrap().name, pod.node_name))
        .collect();
    let mut answered: Vec<(String, String)> =
        given.iter().map(|(pod, node, _)| (pod.clone(), node.clone())).collect();
    listed.sort();
    answered.sort();
    assert_eq!(listed, answered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_pod_is_placed_once_however_many_ask() {
    let mut world = World::start().await;
    world.nodes(10, 8).await;
    let mut tries = Vec::new();
    for _ in 0..16 {
        let mut client = world.placement.clone();
        tries.push(tokio::spawn(async move {
            let request = PlaceRequest {
                pod: Some(pod("only", "1").into()),
                mode: PlaceMode::Assume as i32,
                ..PlaceRequest::default()
            };
            client.place(request).await.map(|response| response.into_inner().decision.unwrap())
        }));
    }
    let mut n_placed = 0;
    for attempt in tries {
        match attempt.await.unwrap() {
            Ok(decision) => {
                n_placed +=
                    usize::from(matches!(decision.outcome, Some(decision::Outcome::Placement(_))))
            }
            Err(status) => assert_eq!(status.code(), Code::AlreadyExists, "{status:?}"),
        }
    }
    assert_eq!(n_placed, 1);
    assert_eq!(world.counts().await.n_assumed_pods, 1);
}
