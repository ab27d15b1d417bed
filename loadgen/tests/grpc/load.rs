//! Feeding and placing in every mode, with and without faults.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_client::{Client, ClientError, Mode, OnProgress, PlaceOptions};
use berth_loadgen::command::Cli;
use berth_loadgen::load::{Arrival, Limit, LoadError, LoadSpec, run, run_until};
use berth_loadgen::report::LoadReport;
use berth_proto::berth_v1::PlaceMode;
use berth_proto::core_v1::Pod;
use berth_synthetic::cluster::{ClusterSpec, SyntheticCluster};
use berth_synthetic::workload::{Kind, Mix, WorkloadSpec, generate};
use clap::Parser as _;

use crate::fake_server::{FakeServer, Faults};

fn quiet() -> OnProgress {
    Arc::new(|_| ())
}

fn small_cluster() -> SyntheticCluster {
    let spec =
        ClusterSpec { n_nodes: 20, pods_per_node: 3, tainted_share: 0.0, ..ClusterSpec::default() };
    SyntheticCluster::generate(&spec).unwrap()
}

fn web_pods(n_pods: usize) -> Arc<[Pod]> {
    generate(&WorkloadSpec { n_pods, mix: Mix::only(Kind::Web), seed: 1 }).into()
}

/// A fed server and a client with `n_connections`.
async fn server(faults: Faults, n_connections: usize) -> (FakeServer, Client) {
    let (server, url) = FakeServer::start(faults).await;
    let client = Client::connect(&url, n_connections).await.unwrap();
    client.feed(small_cluster().into_changes(), quiet()).await.unwrap();
    (server, client)
}

fn spec(mode: Mode, n_pods: u64) -> LoadSpec {
    let batch_size = if mode == Mode::Unary { 1 } else { 10 };
    LoadSpec { mode, batch_size, limit: Limit::Pods(n_pods), concurrency: 4, ..LoadSpec::default() }
}

fn assume() -> PlaceOptions {
    PlaceOptions { mode: PlaceMode::Assume, ..PlaceOptions::default() }
}

#[tokio::test]
async fn a_feed_sends_everything_once_and_reports_what_was_refused() {
    let name = small_cluster().nodes[7].metadata.clone().unwrap().name;
    let faults = Faults { refuses_node: Some(name.clone().leak()), ..Faults::default() };
    let (server, url) = FakeServer::start(faults).await;
    let client = Client::connect(&url, 1).await.unwrap();
    let cluster = small_cluster();
    let (n_nodes, n_pods, n_objects) =
        (cluster.nodes.len(), cluster.pods.len(), cluster.n_objects());
    let heard = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&heard);
    let on_progress: OnProgress = Arc::new(move |n| {
        counter.fetch_add(n, Ordering::Relaxed);
    });
    let fed = client.feed(cluster.into_changes(), on_progress).await.unwrap();
    assert_eq!((fed.n_objects, fed.generation), (n_objects as u64, 3));
    assert_eq!(heard.load(Ordering::Relaxed), n_objects as u64);
    let refused: Vec<String> = fed.refused.iter().map(ToString::to_string).collect();
    assert_eq!(refused, [format!("Node {name}: `status.allocatable[cpu]`: must not be negative")]);
    let state = server.state();
    assert_eq!((state.nodes.len(), state.pods.len()), (n_nodes - 1, n_pods));
    assert_eq!(state.others.len(), n_objects - n_nodes - n_pods);
    for expected in ["Namespace kube-system", "Service node-agent"] {
        assert!(state.others.iter().any(|other| other == expected), "{expected} is missing");
    }
    assert_eq!(state.n_sync_messages, 3, "begin, one batch, end");
}

#[tokio::test]
async fn a_response_out_of_order_is_a_contract_violation() {
    let (_server, url) =
        FakeServer::start(Faults { confuses_sequence: true, ..Faults::default() }).await;
    let client = Client::connect(&url, 1).await.unwrap();
    let error = client.feed(small_cluster().into_changes(), quiet()).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Contract { method: "ClusterService.Sync", .. }),
        "{error}"
    );
}

#[tokio::test]
async fn every_mode_places_every_pod_and_cleans_up() {
    for mode in [Mode::Unary, Mode::Batch, Mode::Stream] {
        let (server, client) = server(Faults::default(), 3).await;
        let n_before = server.state().pods.len();
        let spec =
            LoadSpec { options: assume(), n_warmup_pods: 20, release: true, ..spec(mode, 60) };
        // Ten different pods for eighty placements: they are repeated under new names.
        let report = run(&client, web_pods(10), &spec, quiet()).await.unwrap();
        let LoadReport { n_pods, n_placed, n_unschedulable, n_errors, n_released, .. } = report;
        assert_eq!(
            (n_pods, n_placed + n_unschedulable, n_errors),
            (60, 60, 0),
            "{mode:?}: {:?}",
            report.errors
        );
        assert!(n_placed > 0, "{mode:?}");
        assert!(n_released >= n_placed as usize && n_released <= 80, "{mode:?}: {n_released}");
        assert_eq!(report.latency.n, report.n_requests, "{mode:?}");
        assert_eq!(report.n_requests, if mode == Mode::Unary { 60 } else { 6 });
        assert_eq!(report.over_time.iter().map(|moment| moment.n_pods).sum::<u64>(), 60);
        assert_eq!(server.state().n_place_calls, 80, "{mode:?}: warm-up is placed but not counted");
        assert_eq!(server.state().pods.len(), n_before, "{mode:?}");
    }
}

#[tokio::test]
async fn replicas_count_as_pods() {
    let (server, client) = server(Faults::default(), 1).await;
    let spec = LoadSpec { replicas: 5, ..spec(Mode::Batch, 40) };
    let report = run(&client, web_pods(8), &spec, quiet()).await.unwrap();
    assert_eq!((report.n_requests, report.n_pods, report.n_errors), (4, 40, 0));
    assert_eq!(server.state().n_place_calls, 40);
}

#[tokio::test]
async fn refused_pods_are_counted_by_code_and_do_not_end_the_run() {
    for mode in [Mode::Unary, Mode::Batch, Mode::Stream] {
        let (_server, client) =
            server(Faults { refuses_pods: Some("-0"), ..Faults::default() }, 1).await;
        let pods = web_pods(40);
        let ends = |pod: &&Pod| pod.metadata.as_ref().unwrap().name.ends_with("-0");
        let n_refused = pods.iter().filter(ends).count() as u64;
        assert!(n_refused > 0);
        let report = run(&client, pods, &spec(mode, 40), quiet()).await.unwrap();
        assert_eq!(report.n_errors, n_refused, "{mode:?}");
        let error = &report.errors["INVALID_ARGUMENT"];
        assert_eq!(
            (error.n_pods, error.example.as_str()),
            (n_refused, "`spec`: is not to its taste")
        );
        assert_eq!(report.n_placed + report.n_unschedulable, 40 - n_refused);
    }
}

#[tokio::test]
async fn a_stream_that_ends_fails_requests_in_flight_and_is_reopened() {
    let faults = Faults { ends_stream_after: Some(2), ..Faults::default() };
    let (server, client) = server(faults, 1).await;
    let start = Instant::now();
    let spec = LoadSpec { concurrency: 3, ..spec(Mode::Stream, 120) };
    let report = run(&client, web_pods(50), &spec, quiet()).await.unwrap();
    // Each stream answers two of three requests.
    assert_eq!((report.n_requests, report.n_pods, report.n_errors), (12, 80, 40));
    let error = &report.errors["UNAVAILABLE"];
    assert_eq!((error.n_requests, error.n_pods), (4, 40));
    assert_eq!(error.example, "the server ended the stream");
    assert_eq!(report.latency.n, 8, "a request without an answer has no time");
    assert_eq!(server.state().n_place_calls, 80);
    assert!(start.elapsed() >= Duration::from_millis(3 * 50), "{:?}", start.elapsed());
}

/// The server stops during a run and restarts at the same address.
#[tokio::test]
async fn every_mode_survives_a_restart_with_a_backoff() {
    for mode in [Mode::Unary, Mode::Batch, Mode::Stream] {
        let address = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().to_string()
        };
        let (first, process) = FakeServer::start_killable(Faults::default(), &address);
        let client = Client::connect(&address, 1).await.unwrap();
        client.feed(small_cluster().into_changes(), quiet()).await.unwrap();
        let limit = Limit::Duration(Duration::from_secs(4));
        let spec = LoadSpec { limit, concurrency: 2, ..spec(mode, 1) };
        let restart = async {
            for _ in 0..100 {
                if first.state().n_place_calls > 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(process);
            tokio::time::sleep(Duration::from_millis(600)).await;
            FakeServer::start_killable(Faults::default(), &address)
        };
        let (report, (second, _process)) =
            tokio::join!(run(&client, web_pods(50), &spec, quiet()), restart);
        let report = report.unwrap();
        assert!(first.state().n_place_calls > 0, "{mode:?}");
        assert!(second.state().n_place_calls > 0, "{mode:?}: {:?}", report.errors);
        let n_failed: u64 = report.errors.values().map(|count| count.n_requests).sum();
        // Attempts of two callers after 0, 50, 150, 350, 750 and 1,550 ms, and the requests in flight.
        assert!((1..=20).contains(&n_failed), "{mode:?}: {:?}", report.errors);
        assert_eq!(report.errors.keys().collect::<Vec<_>>(), ["UNAVAILABLE"], "{mode:?}");
        assert!(report.elapsed_seconds < 4.3, "{mode:?}: {}", report.elapsed_seconds);
        assert_eq!(report.n_requests - n_failed, report.n_pods / spec.batch_size as u64);
    }
}

#[tokio::test]
async fn a_status_that_ends_a_stream_is_counted() {
    let faults = Faults { drains_stream_after: Some(1), ..Faults::default() };
    let (_server, client) = server(faults, 1).await;
    let spec = LoadSpec { concurrency: 1, ..spec(Mode::Stream, 40) };
    let report = run(&client, web_pods(50), &spec, quiet()).await.unwrap();
    assert_eq!(report.errors.keys().collect::<Vec<_>>(), ["UNAVAILABLE"]);
    assert_eq!(report.errors["UNAVAILABLE"].example, "the server is draining");
}

#[tokio::test]
async fn a_stopped_run_reports_and_releases_its_pods() {
    for arrival in [Arrival::Closed, Arrival::Open { pods_per_second: 200.0 }] {
        for mode in [Mode::Unary, Mode::Stream] {
            let (server, client) = server(Faults::default(), 2).await;
            let n_before = server.state().pods.len();
            let limit = Limit::Duration(Duration::from_secs(600));
            let spec =
                LoadSpec { arrival, limit, options: assume(), release: true, ..spec(mode, 1) };
            let stop = tokio::time::sleep(Duration::from_millis(400));
            let report = run_until(&client, web_pods(50), &spec, quiet(), stop).await.unwrap();
            assert!(report.interrupted && report.elapsed_seconds < 60.0);
            assert!(report.n_pods > 0 && report.n_errors == 0, "{:?}", report.errors);
            assert_eq!(report.n_released as u64, report.n_placed);
            assert_eq!(server.state().pods.len(), n_before);
        }
    }
}

/// A run that is stopped before its measurement returns an empty report, not an error.
#[tokio::test]
async fn a_run_stopped_during_its_warmup_measures_nothing() {
    let (server, client) = server(Faults::default(), 1).await;
    let n_before = server.state().pods.len();
    let spec = LoadSpec {
        options: assume(),
        release: true,
        n_warmup_pods: 1_000_000,
        ..spec(Mode::Stream, 10)
    };
    let stop = tokio::time::sleep(Duration::from_millis(200));
    let report = run_until(&client, web_pods(50), &spec, quiet(), stop).await.unwrap();
    assert_eq!((report.interrupted, report.n_requests, report.latency.n), (true, 0, 0));
    assert!(report.n_released > 0);
    assert_eq!(server.state().pods.len(), n_before);
}

/// A request that timed out may have been carried out, so its pods are released too.
#[tokio::test]
async fn pods_of_unanswered_requests_are_released() {
    let stalls = Some((3, Duration::from_millis(300)));
    let (server, client) = server(Faults { stalls, ..Faults::default() }, 1).await;
    let n_before = server.state().pods.len();
    let options = PlaceOptions { timeout: Duration::from_millis(200), ..assume() };
    let spec = LoadSpec { options, concurrency: 1, release: true, ..spec(Mode::Batch, 20) };
    let report = run(&client, web_pods(50), &spec, quiet()).await.unwrap();
    assert_eq!(report.errors["DEADLINE_EXCEEDED"].n_requests, 1, "{:?}", report.errors);
    assert_eq!(report.release_failure, None);
    assert_eq!(server.state().pods.len(), n_before);
}

#[tokio::test]
async fn a_request_that_times_out_is_counted_as_such() {
    for mode in [Mode::Unary, Mode::Stream] {
        let stall = Some((0, Duration::from_millis(400)));
        let (_server, client) = server(Faults { stalls: stall, ..Faults::default() }, 1).await;
        let options =
            PlaceOptions { timeout: Duration::from_millis(100), ..PlaceOptions::default() };
        let spec = LoadSpec { options, concurrency: 1, batch_size: 1, ..spec(mode, 1) };
        let report = run(&client, web_pods(1), &spec, quiet()).await.unwrap();
        assert_eq!(report.errors["DEADLINE_EXCEEDED"].n_pods, 1, "{mode:?}");
    }
}

/// In an open loop, a stall counts in the latency of all requests that were due during it.
#[tokio::test]
async fn an_open_loop_counts_from_the_intended_start() {
    let stall = Some((10, Duration::from_millis(300)));
    let (_server, client) = server(Faults { stalls: stall, ..Faults::default() }, 1).await;
    let arrival = Arrival::Open { pods_per_second: 200.0 };
    let spec = LoadSpec { arrival, concurrency: 1, ..spec(Mode::Unary, 40) };
    let report = run(&client, web_pods(40), &spec, quiet()).await.unwrap();
    assert_eq!((report.n_pods, report.n_errors, report.rate_pods_per_second), (40, 0, Some(200.0)));
    // Requests 10 to 39 were due within the first 150 ms of a stall of 300 ms: only the first 10 requests were quick.
    let waited = report.latency.curve.iter().find(|point| point.percentile >= 50.0).unwrap();
    assert!(waited.us > 100_000.0, "half of the requests waited for the stall: {waited:?}");
    let served = report.service_time.curve.iter().find(|point| point.percentile >= 50.0).unwrap();
    assert!(served.us < 100_000.0, "only one request was slow itself: {served:?}");
    assert!(report.latency.max_us >= 300_000.0);
    assert!(report.elapsed_seconds >= 0.3);
}

#[tokio::test]
async fn a_timed_run_ends_in_time() {
    let (_server, client) = server(Faults::default(), 1).await;
    for arrival in [Arrival::Closed, Arrival::Open { pods_per_second: 100.0 }] {
        let limit = Limit::Duration(Duration::from_millis(300));
        let report = run(
            &client,
            web_pods(5),
            &LoadSpec { arrival, limit, ..spec(Mode::Unary, 1) },
            quiet(),
        )
        .await;
        let report = report.unwrap();
        assert!(
            (0.2..3.0).contains(&report.elapsed_seconds),
            "{arrival:?}: {}",
            report.elapsed_seconds
        );
        assert!(report.n_pods > 5, "{arrival:?}: {}", report.n_pods);
        if arrival != Arrival::Closed {
            assert_eq!(report.n_pods, 30);
        }
    }
}

#[tokio::test]
async fn contradicting_settings_are_refused_before_any_call() {
    let (server, client) = server(Faults::default(), 1).await;
    for (spec, field) in [
        (LoadSpec { batch_size: 2, ..spec(Mode::Unary, 1) }, "batch-size"),
        (LoadSpec { batch_size: 0, ..spec(Mode::Batch, 1) }, "batch-size"),
        (LoadSpec { replicas: 3, ..spec(Mode::Batch, 1) }, "replicas"),
        (LoadSpec { replicas: 0, ..spec(Mode::Stream, 1) }, "replicas"),
        (LoadSpec { concurrency: 0, ..spec(Mode::Stream, 1) }, "concurrency"),
        (spec(Mode::Unary, 0), "pods"),
        (
            LoadSpec { arrival: Arrival::Open { pods_per_second: -1.0 }, ..spec(Mode::Unary, 1) },
            "rate",
        ),
    ] {
        match run(&client, web_pods(1), &spec, quiet()).await {
            Err(LoadError::Spec { field: refused, .. }) => assert_eq!(refused, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let nothing = run(&client, Vec::new().into(), &spec(Mode::Unary, 1), quiet()).await;
    assert!(matches!(nothing, Err(LoadError::Spec { field: "pods", .. })));
    assert_eq!(server.state().n_place_calls, 0);
}

#[tokio::test]
async fn command_feeds_places_and_writes_the_page() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    let run = async |more: &[&str]| {
        let flags = ["run", "--server", &url, "--mix", "web=1", "--seed", "3"];
        let flags = ["berth-loadgen"].into_iter().chain(flags).chain(more.iter().copied());
        Cli::try_parse_from(flags).unwrap().run().await
    };
    let html = page.display().to_string();
    let feed = ["--feed", "synthetic", "--nodes", "10", "--pods-per-node", "2", "--zones", "2"];
    let place =
        ["--mode", "stream", "--pods", "200", "--connections", "2", "--html", &html, "-o", "json"];
    assert_eq!(run(&[feed.as_slice(), &place].concat()).await.unwrap(), ExitCode::SUCCESS);
    assert_eq!(server.state().nodes.len(), 10);
    assert_eq!(server.state().n_place_calls, 200);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Throughput over time"));

    let contradiction = run(&["--rate", "5"]).await.unwrap_err().to_string();
    assert_eq!(contradiction, "`--rate` needs `--arrival open`");
    let unwritable = Path::new("/nowhere/report.html").display().to_string();
    let error = run(&["--pods", "1", "--html", &unwritable]).await.unwrap_err().to_string();
    assert!(error.starts_with("`/nowhere/report.html`: cannot write: "), "{error}");
    assert_eq!(server.state().n_place_calls, 200, "refused before anything was placed");
    let flags = ["berth-loadgen", "run", "--server", &url, "--feed", "synthetic", "--nodes", "0"];
    let refused = Cli::try_parse_from(flags).unwrap_err();
    assert_eq!(refused.exit_code(), 2);
    assert!(refused.to_string().contains("'--nodes <NODES>'"), "{refused}");
    let flags = ["berth-loadgen", "run", "--server", &url, "--seed", "-1"];
    let refused = Cli::try_parse_from(flags).unwrap_err().to_string();
    assert!(refused.contains("invalid value '-1' for '--seed <SEED>'"), "{refused}");
    for (flags, message) in [
        (["--tainted-share", "2"], "`--tainted-share`: must be between 0 and 1"),
        (["--zones", "0"], "`--zones`: must be at least 1"),
        (["--concurrency", "0"], "`--concurrency`: must be between 1 and 100,000"),
    ] {
        let error = run(&[feed.as_slice()[..2].as_ref(), &flags].concat()).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(format!("{:?}", error.exit_code()), format!("{:?}", ExitCode::from(2)));
    }
}
