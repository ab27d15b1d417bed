//! Overload of a fake server: counts, and differences between granted pods and the server's pods.

use std::process::ExitCode;
use std::time::Duration;

use berth_client::{Client, Credentials};
use berth_loadgen::command::Cli;
use berth_loadgen::overload::work::WorkKind;
use berth_loadgen::overload::{OverloadError, OverloadSpec, run};
use berth_loadgen::report::overload::OverloadReport;
use berth_synthetic::cluster::{ClusterSpec, SyntheticCluster};
use berth_synthetic::workload::{Kind, Mix};
use clap::Parser as _;

use crate::fake_server::{FakeServer, Faults, Forgets, RETRY_AFTER};

/// A server that carries out one batch at a time in 50 ms each: at most 20 a second.
fn slow() -> Faults {
    Faults { admits: Some((1, Duration::from_millis(50))), ..Faults::default() }
}

/// Six calls a second, then 120, then six again; every call assumes its pods.
fn spec() -> OverloadSpec {
    OverloadSpec {
        kind: WorkKind::Batch,
        pods_per_call: 2,
        mix: Mix::only(Kind::Web),
        seed: 1,
        rate: Some(12.0),
        n_callers: 2,
        trial: Duration::from_millis(300),
        half_duration: Duration::from_millis(500),
        duration: Duration::from_secs(1),
        factor: 10.0,
        timeout: Duration::from_secs(30),
        max_in_flight: 1_000,
        retry: false,
        n_assumed_pods: 1_000,
        pid: Some(std::process::id()),
        http: None,
        credentials: Credentials::default(),
    }
}

async fn server(faults: Faults) -> (FakeServer, Client) {
    let (server, url) = FakeServer::start(faults).await;
    let client = Client::connect(&url, 2).await.unwrap();
    let cluster =
        ClusterSpec { n_nodes: 20, pods_per_node: 3, tainted_share: 0.0, ..ClusterSpec::default() };
    let cluster = SyntheticCluster::generate(&cluster).unwrap();
    client.feed(cluster.into_changes(), std::sync::Arc::new(|_| ())).await.unwrap();
    (server, client)
}

async fn overload(faults: Faults, spec: &OverloadSpec) -> (FakeServer, OverloadReport) {
    let (server, client) = server(faults).await;
    let n_before = server.state().pods.len();
    let report = run(&client, spec, |_| (), std::future::pending()).await.unwrap();
    assert_eq!(server.state().pods.len(), n_before, "what was assumed is given back");
    (server, report)
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_calls_are_refused_and_the_pods_agree() {
    let (_server, report) = overload(slow(), &spec()).await;
    let [half, overload, again] = report.phases.as_slice() else { panic!("three loads") };
    assert_eq!([half.n_offered, overload.n_offered, again.n_offered], [3, 120, 3]);
    assert!(overload.n_accepted >= 1 && overload.n_refused >= 1, "{overload:?}");
    assert_eq!(overload.n_accepted + overload.n_refused, 120);
    assert_eq!((overload.retry_after.n, overload.n_retries), (overload.n_refused, 0));
    // With the histogram's three digits.
    let off = overload.retry_after.max_us / RETRY_AFTER.as_micros() as f64;
    assert!((0.999..1.002).contains(&off), "{off}");
    let n_accepted: u64 = report.phases.iter().map(|phase| phase.n_accepted).sum();
    assert_eq!(report.balance.n_calls_accepted, n_accepted);
    assert_eq!(report.balance.n_granted + report.balance.n_unplaced, 2 * n_accepted);
    assert!(report.balance.n_granted > 0 && report.is_sound(), "{:?}", report.balance);
    let by_second: u64 = report.seconds.iter().map(|second| second.n_offered).sum();
    assert_eq!(by_second, 126);
    assert!(report.memory.iter().all(|sample| sample.resident.is_some_and(|bytes| bytes > 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_and_wrongly_assumed_pods_are_found() {
    let lost = Faults { forgets: Some(Forgets::Granted), ..slow() };
    let (_server, report) = overload(lost, &spec()).await;
    assert!(report.balance.n_lost > 0 && !report.is_sound(), "{:?}", report.balance);
    let taken = Faults { forgets: Some(Forgets::Refused), ..slow() };
    let (_server, report) = overload(taken, &spec()).await;
    assert!(report.balance.n_taken > 0 && !report.is_sound(), "{:?}", report.balance);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_retried_after_the_delay_of_the_server() {
    let spec = OverloadSpec { retry: true, ..spec() };
    let (_server, report) = overload(slow(), &spec).await;
    let overload = &report.phases[1];
    assert!(overload.n_retries > 0, "{overload:?}");
    assert!(overload.retry_after.n >= overload.n_retries);
    assert!(report.is_sound(), "{:?}", report.balance);
}

/// A call that is not sent counts as neither accepted nor refused.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_limited() {
    let admits = Some((usize::MAX, Duration::from_millis(300)));
    let spec = OverloadSpec { max_in_flight: 4, n_assumed_pods: 0, ..spec() };
    let (_server, report) = overload(Faults { admits, ..Faults::default() }, &spec).await;
    let overload = &report.phases[1];
    assert!(overload.n_not_sent > 0, "{overload:?}");
    assert_eq!(overload.n_accepted + overload.n_not_sent, 120);
    assert_eq!((report.balance.n_calls_accepted, report.balance.n_held), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highest_rate_is_at_most_about_that_of_a_closed_loop() {
    let (_server, client) = server(slow()).await;
    let spec = OverloadSpec { rate: None, ..spec() };
    let report = run(&client, &spec, |_| (), std::future::pending()).await.unwrap();
    let highest = &report.highest;
    let closed_loop = highest.closed_loop_rate.unwrap();
    assert_eq!(highest.trials.len(), 5);
    assert!((0.4 * closed_loop..1.1 * closed_loop).contains(&highest.rate), "{highest:?}");
    let taken = highest.trials.iter().filter(|trial| trial.passed).map(|trial| trial.rate);
    assert_eq!(highest.rate, taken.fold(0.45 * closed_loop, f64::max));
    assert_eq!(report.phases[1].rate, highest.rate * 10.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_no_call_has_no_highest_rate() {
    let (_server, client) = server(Faults { admits: Some((0, Duration::ZERO)), ..slow() }).await;
    let spec = OverloadSpec { rate: None, ..spec() };
    let error = run(&client, &spec, |_| (), std::future::pending()).await.unwrap_err();
    assert!(matches!(&error, OverloadError::NothingDone(why) if why.contains("too many batches")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_overload_reports_and_deletes_its_pods() {
    let (server, client) = server(slow()).await;
    let n_before = server.state().pods.len();
    let spec = OverloadSpec { duration: Duration::from_secs(600), ..spec() };
    let observed = server.clone();
    let stop = async move {
        while observed.state().pods.len() < n_before + 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let report = run(&client, &spec, |_| (), stop).await.unwrap();
    assert!(report.interrupted && report.phases.len() == 2);
    assert!(report.is_sound(), "{:?}", report.balance);
    assert_eq!(server.state().pods.len(), n_before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_writes_page_and_picture() {
    let (_server, url) = FakeServer::start(slow()).await;
    let dir = tempfile::tempdir().unwrap();
    let [page, image] = ["overload.md", "overload.svg"].map(|name| dir.path().join(name));
    let (page_flag, image_flag) = (page.display().to_string(), image.display().to_string());
    let run = async |more: &[&str]| {
        let flags = ["berth-loadgen", "overload", "--server", &url, "--connections", "2"];
        Cli::try_parse_from(flags.into_iter().chain(more.iter().copied())).unwrap().run().await
    };
    let feed = ["--feed", "synthetic", "--nodes", "10", "--pods-per-node", "2", "--zones", "2"];
    let load = ["--rate", "10", "--pods", "2", "--duration", "0.5", "--half-duration", "0.3"];
    let files = ["--markdown", &page_flag, "--svg", &image_flag, "--assume-pods", "20"];
    let done = run(&[feed.as_slice(), &load, &files].concat()).await;
    assert_eq!(done.unwrap(), ExitCode::SUCCESS);
    let text = std::fs::read_to_string(page).unwrap();
    assert!(
        text.contains("](overload.svg)") && text.contains("nothing accepted is lost"),
        "{text}"
    );
    assert!(std::fs::read_to_string(image).unwrap().starts_with("<svg xmlns="));
    for (flags, message) in [
        (["--kind", "place", "--pods", "5"], "`--pods`: more than 1 needs `--kind batch`"),
        (["--factor", "0.5", "--seed", "1"], "`--factor`: must be between 1 and 1,000"),
        (
            ["--duration", "0", "--seed", "1"],
            "`--duration`: `0` is not a positive number of seconds",
        ),
    ] {
        let error = run(&flags).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(format!("{:?}", error.exit_code()), format!("{:?}", ExitCode::from(2)));
    }
}
