//! Replay of the small trace in `tests/data`, whose placements on the fake server were worked out by hand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use berth_client::Client;
use berth_loadgen::command::Cli;
use berth_loadgen::trace::expected::{self, Comparison};
use berth_loadgen::trace::recount::Recount;
use berth_loadgen::trace::replay::{Replay, ReplayError, ReplaySpec, feed, replay};
use berth_loadgen::trace::{Order, Trace, openb};
use clap::Parser as _;

use crate::fake_server::{FakeServer, Faults};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn trace() -> Trace {
    openb::read(&data("nodes.csv"), &data("pods.csv")).unwrap()
}

async fn replayed(url: &str, order: Order, spec: &ReplaySpec) -> Result<Replay, ReplayError> {
    let client = Client::connect(url, 1).await.unwrap();
    feed(&client, &trace()).await?;
    replay(&client, &trace(), order, spec, Arc::new(|_| ())).await
}

#[tokio::test]
async fn placements_are_those_worked_out_by_hand() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let recorded = expected::read(&data("answers.csv")).unwrap();
    let single = recorded.iter().filter(|answer| answer.n_feasible == 1);
    let spec = ReplaySpec {
        explained: single.map(|answer| answer.pod.clone()).collect(),
        ..ReplaySpec::default()
    };
    let replay = replayed(&url, Order::Events, &spec).await.unwrap();
    assert_eq!(replay.answers, recorded);
    assert_eq!(replay.n_departures, 8);
    assert_eq!(replay.latency.n, 12);
    let left: Vec<&str> = replay.left.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(left, ["same-0", "late-0"]);
    assert_eq!(server.state().pods.keys().collect::<Vec<_>>(), ["late-0", "same-0"]);
    assert_eq!(server.state().n_explain_calls, 3);
    assert!(Recount::of(&trace(), Order::Events, &replay.answers).is_clean());
}

#[tokio::test]
async fn without_the_explanation_single_feasible_nodes_have_no_total() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let recorded = expected::read(&data("answers.csv")).unwrap();
    let replay = replayed(&url, Order::Events, &ReplaySpec::default()).await.unwrap();
    let comparison = Comparison::of(&recorded, &replay.answers);
    assert_eq!(
        (comparison.n_equal_nodes, comparison.n_equal_totals, comparison.n_pods),
        (12, 9, 12)
    );
    assert_eq!(server.state().n_explain_calls, 0);
}

#[tokio::test]
async fn tasks_that_only_arrive_stay() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let replay = replayed(&url, Order::Arrive, &ReplaySpec::default()).await.unwrap();
    assert_eq!(replay.n_departures, 0);
    // train-3 arrives while train-0 still holds its GPUs.
    let pending: Vec<_> = replay
        .answers
        .iter()
        .filter(|answer| answer.node.is_none())
        .map(|a| a.pod.as_str())
        .collect();
    assert_eq!(pending, ["train-2", "huge-0", "train-3"]);
    assert_eq!(server.state().pods.len(), 9);
}

#[tokio::test]
async fn a_server_that_overcommits_is_detected() {
    let faults = Faults { ignores: Some(openb::GPU_RESOURCE), ..Faults::default() };
    let (_server, url) = FakeServer::start(faults).await;
    let replay = replayed(&url, Order::Arrive, &ReplaySpec::default()).await.unwrap();
    let recount = Recount::of(&trace(), Order::Arrive, &replay.answers);
    assert!(recount.n_overcommitted_instants > 0, "{recount:?}");
    assert_eq!(
        recount.first.as_deref(),
        Some("after `train-2` node `node-c` is over its gpu-milli")
    );
}

#[tokio::test]
async fn a_server_that_is_not_empty_or_refuses_nodes_is_not_used() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let task = trace().tasks[0].to_wire();
    server.state().pods.insert("old".to_owned(), ("node-a".to_owned(), task));
    let error = replayed(&url, Order::Arrive, &ReplaySpec::default()).await.unwrap_err();
    assert!(
        matches!(error, ReplayError::NotEmpty { n_nodes: 5, n_pods: 1, expected_nodes: 5 }),
        "{error}"
    );

    let faults = Faults { refuses_node: Some("node-d"), ..Faults::default() };
    let (_server, url) = FakeServer::start(faults).await;
    let error =
        replayed(&url, Order::Arrive, &ReplaySpec::default()).await.unwrap_err().to_string();
    let first = "Node node-d: `status.allocatable[cpu]`: must not be negative";
    assert_eq!(error, format!("the server refused 1 of the nodes, first {first}"));
}

#[tokio::test]
async fn a_failing_call_names_the_pod() {
    let faults = Faults { refuses_pods: Some("train-1"), ..Faults::default() };
    let (_server, url) = FakeServer::start(faults).await;
    let error =
        replayed(&url, Order::Arrive, &ReplaySpec::default()).await.unwrap_err().to_string();
    let call = "`PlacementService.Place`: INVALID_ARGUMENT: `spec`: is not to its taste";
    assert_eq!(error, format!("pod `train-1`: {call}"));
}

/// The command as typed: its exit code, and the pods that it leaves in the server.
#[tokio::test]
async fn command_exits_with_1_unless_all_placements_are_as_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (saved, wrong) = (dir.path().join("saved.csv"), dir.path().join("wrong.csv"));
    let recorded = std::fs::read_to_string(data("answers.csv")).unwrap();
    std::fs::write(&wrong, recorded.replace("late-0,node-d,500", "late-0,node-d,499")).unwrap();
    let run = async |expect: &Path, url: &str| {
        let [nodes, pods] = ["nodes.csv", "pods.csv"].map(|name| data(name).display().to_string());
        let (expect, saved) = (expect.display().to_string(), saved.display().to_string());
        let flags =
            ["openb", "--server", url, "--nodes", &nodes, "--pods", &pods, "--order", "events"];
        let more = ["--expect", &expect, "--save", &saved, "-o", "json"];
        Cli::try_parse_from(["berth-loadgen"].into_iter().chain(flags).chain(more))
            .unwrap()
            .run()
            .await
    };
    let (server, url) = FakeServer::start(Faults::default()).await;
    assert_eq!(run(&data("answers.csv"), &url).await.unwrap(), ExitCode::SUCCESS);
    assert!(server.state().pods.is_empty(), "the tasks that were left are deleted");
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), recorded);
    // The first replay left no pods in the server.
    assert_eq!(run(&wrong, &url).await.unwrap(), ExitCode::FAILURE);
}
