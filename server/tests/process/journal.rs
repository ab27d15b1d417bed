//! `berth serve --journal`: what was decided comes out the same of `berth replay`, also after `kill -9`; and nobody
//! notices a disk that takes no more.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use berth_proto::berth_v1::{BatchEntry, PlaceBatchRequest, PlaceMode, PreemptRequest};
use serde_json::Value;

use crate::reservations::{Client, cluster, pod};
use crate::served::{PATIENCE, Served, berth, serve, serve_after};

/// Places this many copies of a pod; returns how many have a node.
async fn place(client: &mut Client, name: &str, replicas: u32, mode: PlaceMode) -> usize {
    let entries = vec![BatchEntry { pod: Some(pod(name).into()), replicas }];
    let mode = mode.into();
    let request = PlaceBatchRequest { entries, mode, ..PlaceBatchRequest::default() };
    let placed = client.place_batch(request).await.unwrap().into_inner();
    placed.results.iter().filter(|result| format!("{result:?}").contains("node_name")).count()
}

fn replay(directory: &Path, more: &[&str]) -> Command {
    let mut command = berth();
    command.arg("replay").arg(directory).args(more);
    command
}

/// The report of `berth replay`, and whether it says that nothing differs.
fn report(directory: &Path, more: &[&str]) -> (Value, bool) {
    let output = replay(directory, &[&["--output", "json"], more].concat()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let report = serde_json::from_str(&text);
    (
        report.unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))),
        output.status.success(),
    )
}

#[tokio::test]
async fn decisions_are_the_same_again_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("a/journal");
    let cluster = cluster(directory.path());
    let start = || Served::start(serve().args(["--cluster", &cluster, "--journal"]).arg(&journal));
    let mut n_decisions = 0;
    for life in 0..3 {
        let served = start();
        served.wait_for("loaded");
        let mut client = Client::connect(served.url.clone()).await.unwrap();
        let name = |kind: &str| format!("{kind}{life}");
        assert_eq!(place(&mut client, &name("dry"), 30, PlaceMode::DryRun).await, 30);
        assert_eq!(place(&mut client, &name("held"), 30, PlaceMode::Assume).await, 30);
        let mut preempting =
            berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient::connect(
                served.url.clone(),
            )
            .await
            .unwrap();
        let request =
            PreemptRequest { pod: Some(pod(&name("urgent"))), ..PreemptRequest::default() };
        preempting.preempt(request).await.unwrap();
        n_decisions += 61;
        if life == 1 {
            served.stop();
            continue;
        }
        let began = Instant::now();
        while report(&journal, &[]).0["nDecisions"] != n_decisions {
            assert!(began.elapsed() < PATIENCE, "{}", report(&journal, &[]).0);
        }
        served.kill();
    }
    for threads in ["1", "2"] {
        let (report, is_same) = report(&journal, &["--threads", threads]);
        assert!(is_same, "{report}");
        assert_eq!(report["nDecisions"], n_decisions);
        assert_eq!((&report["nDifferent"], &report["nUnknown"]), (&0.into(), &0.into()));
        assert_eq!((&report["nSegments"], &report["nGaps"]), (&3.into(), &2.into()));
    }
    let (of_pod, _) = report(&journal, &["--pod", "default/held1-7"]);
    assert_eq!(of_pod["decisions"].as_array().map(Vec::len), Some(1), "{of_pod}");
    let output = replay(&journal, &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("9 of 9 attempts are the same again: 183 decisions"), "{text}");
    let missing = replay(directory.path(), &[]).output().unwrap();
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("has no segment of a journal"), "{text}");
}

/// A limit on the size of files acts like a full disk.
#[tokio::test]
async fn a_full_disk_ends_the_journal_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal");
    let cluster = cluster(directory.path());
    let mut limited = serve_after("trap '' XFSZ; ulimit -f 8");
    let served = Served::start(limited.args(["--cluster", &cluster, "--journal"]).arg(&journal));
    served.wait_for("loaded");
    served.eventually("/metrics", |text| text.contains("berth_journal_writing 1")).await;
    let mut client = Client::connect(served.url.clone()).await.unwrap();
    for n in 0..5 {
        let n_placed = place(&mut client, &format!("p{n}"), 2_000, PlaceMode::DryRun).await;
        assert_eq!(n_placed, 200);
    }
    served.eventually("/metrics", |text| text.contains("berth_journal_writing 0")).await;
    assert!(served.log().contains("decisions are not recorded in"), "{}", served.log());
    assert_eq!(place(&mut client, "held", 50, PlaceMode::Assume).await, 50);
    served
        .eventually("/metrics", |text| {
            !text.contains("berth_journal_gaps_total{reason=\"disk\"} 0")
        })
        .await;
    assert_eq!(served.get("/readyz").await.0, 200);
    served.stop();
    let (report, is_same) = report(&journal, &[]);
    assert!(is_same, "{report}");
}
