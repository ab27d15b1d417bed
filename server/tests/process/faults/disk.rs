//! A full disk under the ledger: grants are refused and the refusal is logged, placements continue, and nothing is
//! lost. Once there is room again, everything recovers by itself.

use std::collections::BTreeMap;
use std::process::Command;

use berth_client::Client;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, AcquireIdentityResponse, PlaceMode, PlaceRequest, decision,
};
use berth_synthetic::object::{Requests, pod};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::served::{Served, cluster_file, serve, serve_after};

/// The number of grants that are requested at once.
const TOGETHER: usize = 16;

async fn acquire(served: &Served, n: usize) -> Result<AcquireIdentityResponse, Status> {
    let client = LifecycleServiceClient::connect(served.url.clone()).await.unwrap();
    acquire_by(client, n).await
}

/// Requests several grants at once, so that they share a sync, until a whole round is refused: after a large commit has
/// failed, a small one may still find room. Adds the granted tokens to `tokens`; returns one of the refusals.
async fn fill(served: &Served, tokens: &mut BTreeMap<usize, u64>) -> Status {
    let client = LifecycleServiceClient::connect(served.url.clone()).await.unwrap();
    loop {
        let first = next(tokens);
        assert!(first < 20_000, "the file never came to its limit");
        let some = first..first + TOGETHER;
        let asking: Vec<_> =
            some.map(|n| (n, tokio::spawn(acquire_by(client.clone(), n)))).collect();
        let mut refused = Vec::new();
        for (n, asking) in asking {
            match asking.await.unwrap() {
                Ok(answer) => drop(tokens.insert(n, answer.token)),
                Err(status) => refused.push(status),
            }
        }
        if refused.len() == TOGETHER {
            return refused.swap_remove(0);
        }
    }
}

/// The number after all that were granted.
fn next(tokens: &BTreeMap<usize, u64>) -> usize {
    tokens.last_key_value().map_or(0, |(n, _)| n + 1)
}

async fn acquire_by(
    mut client: LifecycleServiceClient<Channel>,
    n: usize,
) -> Result<AcquireIdentityResponse, Status> {
    let request = AcquireIdentityRequest {
        namespace: "d".into(),
        // Long names fill the file sooner.
        name: format!("{n}-{}", "x".repeat(240)),
        uid: format!("u-{n}"),
        node_name: String::new(),
        actor: "me".into(),
    };
    Ok(client.acquire_identity(request).await?.into_inner())
}

/// Tries where a pod would go. (Whether a reservation is refused depends on how much room is left.)
async fn place(served: &Served, name: &str) {
    let client = Client::connect(&served.url, 1).await.unwrap();
    let requests = Requests { cpu_milli: 100, memory_mib: 1, extended: None };
    let request = PlaceRequest {
        pod: Some(pod("d", name, name, "image", requests).into()),
        mode: PlaceMode::DryRun.into(),
        ..PlaceRequest::default()
    };
    let answer = client.placement(0).place(request).await.unwrap().into_inner();
    let outcome = answer.decision.unwrap().outcome;
    assert!(matches!(outcome, Some(decision::Outcome::Placement(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_full_disk_stops_grants_but_no_dry_runs_and_passes() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let ledger = directory.path().join("ledger");
    let with = |command: &mut Command| {
        Served::start(command.arg("--ledger").arg(&ledger).args(["--cluster", &cluster]))
    };
    let served = with(&mut serve());
    let mut tokens = BTreeMap::from([(0, acquire(&served, 0).await.unwrap().token)]);
    served.stop();

    // A limit on the size of the file acts like a full disk. A soft limit can be lifted while the process runs.
    let n_blocks = std::fs::metadata(&ledger).unwrap().len() / 512 + 8;
    let served = with(&mut serve_after(&format!("trap '' XFSZ; ulimit -S -f {n_blocks}")));
    served.eventually("/readyz", |body| body == "ok").await;
    assert!(served.get("/metrics").await.1.contains("\nberth_ledger_available 1\n"));
    let refused = fill(&served, &mut tokens).await;
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(refused.message().starts_with("the ledger is not available: "), "{refused:?}");
    served.wait_for("the ledger failed: ");
    place(&served, "while-it-is-full").await;
    let (code, text) = served.get("/readyz?verbose").await;
    assert_eq!(code, 200, "{text}");
    let expected = "[+]ledger ok: dry runs go on, but nothing is granted or assumed: the ledger is not available: ";
    assert!(text.contains(expected), "{text}");
    served.eventually("/metrics", |body| body.contains("\nberth_ledger_available 0\n")).await;

    // Nobody requests a grant from here on: the ledger notices by itself.
    let limit = format!("--pid={}", served.pid());
    let lifted = Command::new("prlimit").args([&limit, "--fsize=unlimited"]).status().unwrap();
    assert!(lifted.success());
    served.eventually("/metrics", |body| body.contains("\nberth_ledger_available 1\n")).await;
    served.wait_for("the ledger can be written again");
    let (_, text) = served.get("/readyz?verbose").await;
    assert!(!text.contains("ledger"), "{text}");
    let (n_next, highest) = (next(&tokens) + TOGETHER, tokens.values().max().copied().unwrap());
    let granted = acquire(&served, n_next).await.unwrap();
    assert!(granted.token > highest, "{granted:?}");
    tokens.insert(n_next, granted.token);
    served.kill();

    let served = with(&mut serve());
    let client = LifecycleServiceClient::connect(served.url.clone()).await.unwrap();
    for (n, token) in tokens {
        let again = acquire_by(client.clone(), n).await.unwrap();
        assert_eq!((&*again.outcome, again.token), ("AlreadyHeld", token), "{n}");
    }
    served.stop();
}
