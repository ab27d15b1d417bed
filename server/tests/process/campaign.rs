//! A campaign: three `berth serve --etcd` on three members of a real etcd, with a line between each two of them that can be
//! cut and slowed, each fed by itself and late by its own time. Processes are killed and stopped, clocks set, members
//! replaced and filled, while callers reserve and take grants through all of them. Every answer is recorded, and the
//! history is checked.
//!
//! Each trouble comes once. `BERTH_CAMPAIGN_MINUTES=60` goes on for an hour, and `BERTH_CAMPAIGN_REPORT=DIR` writes a
//! report with a picture there.

mod callers;
mod feeds;
mod grants;
mod history;
mod report;
mod troubles;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use berth_proto::berth_v1::ConfirmRequest;
use berth_proto::core_v1;

use crate::ledger::workload::Chance;
use crate::reservations::{Client, await_true};
use crate::served::PATIENCE;
use callers::{Caller, Shared, key};
use feeds::Feeds;
use grants::Grants;
use history::{What, violations};
use report::{Made, Report};
use troubles::{Trouble, World};

const N_NODES: usize = 200;
/// CPUs of a node. A pod asks for one.
const N_CPUS: usize = 10;
const N_CALLERS: u64 = 8;
/// Reservations between two troubles, where each of them comes once.
const N_BETWEEN: usize = 300;
/// Number of troubles after which the grants are compared.
const N_COMPARED: usize = 40;
/// Pause between two listings.
const LISTING: Duration = Duration::from_secs(2);
/// Number of expired reservations that are asked for at the end.
const N_EXPIRED: usize = 30;

fn nodes() -> Vec<core_v1::Node> {
    let node = |n| {
        let allocatable =
            serde_json::json!({"cpu": N_CPUS.to_string(), "memory": "64Gi", "pods": "100"});
        let node = serde_json::json!({
            "metadata": {"name": format!("n{n}")}, "status": {"allocatable": allocatable},
        });
        serde_json::from_value(node).unwrap()
    };
    (0..N_NODES).map(node).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_callers_are_told_while_everything_fails_can_be_true() {
    let minutes = std::env::var("BERTH_CAMPAIGN_MINUTES").map_or(0, |n| n.parse().unwrap());
    let seed = std::env::var("BERTH_CAMPAIGN_SEED").map_or(23, |n| n.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let feeds = Arc::new(Feeds::new(nodes()));
    let world = World::start(directory.path(), feeds.clone()).await;
    let Some(mut world) = world else { return };
    let possible = Trouble::possible();
    let shared = Arc::new(Shared::new(world.channels(), feeds.clone()));
    for n in 0..troubles::N_REPLICAS {
        // Until the end of the test.
        drop(tokio::spawn(feeds.clone().feed(n, shared.clone())));
    }
    let mut grants = Grants::new(&shared);
    let caller = |n| Caller { shared: shared.clone(), chance: Chance(seed * 100 + n) };
    let working: Vec<_> = (0..N_CALLERS).map(|n| tokio::spawn(caller(n).work())).collect();
    let listing = tokio::spawn(list(caller(N_CALLERS)));
    let (mut made, mut chance) = (Vec::new(), Chance(seed));
    let until = shared.began + Duration::from_secs(60 * minutes);
    for n in 0.. {
        let trouble = match possible.get(n) {
            _ if !shared.complaints.lock().unwrap().is_empty() => break,
            Some(trouble) => *trouble,
            None if Instant::now() < until => Trouble::any(&possible, &mut chance),
            None => break,
        };
        let n_before = shared.n_reserved.load(Ordering::Relaxed);
        if n < possible.len() {
            let are_reserved = || {
                let are_many = shared.n_reserved.load(Ordering::Relaxed) >= n_before + N_BETWEEN;
                are_many || !shared.complaints.lock().unwrap().is_empty()
            };
            await_true("some are reserved", are_reserved).await;
        }
        let began = shared.began.elapsed();
        world.make(trouble, &mut chance).await;
        made.push(Made { trouble, began, ended: shared.began.elapsed() });
        *shared.channels.lock().unwrap() = world.channels();
        tokio::time::sleep(Duration::from_millis(100 + chance.below(900))).await;
        if n % N_COMPARED == N_COMPARED - 1 {
            grants.compare().await;
        }
    }
    shared.stop.store(true, Ordering::Relaxed);
    for task in working.into_iter().chain([listing]) {
        task.await.unwrap();
    }
    assert_eq!(*shared.complaints.lock().unwrap(), Vec::<String>::new());
    grants.compare().await;
    let n_grants = grants.finish();
    expired_ones_are_refused(caller(N_CALLERS + 1)).await;
    let operations = std::mem::take(&mut *shared.operations.lock().unwrap());
    let wrong = violations(&operations, N_CPUS);
    let report = Report::new(&operations, &made, &shared, n_grants, wrong.len());
    println!("{report}");
    if let Ok(folder) = std::env::var("BERTH_CAMPAIGN_REPORT") {
        report.write(Path::new(&folder)).unwrap();
    }
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(20)]);
}

/// Lists all reservations again and again.
async fn list(mut caller: Caller) {
    while !caller.shared.stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LISTING).await;
        // It is refused while nobody commits.
        drop(caller.list().await);
    }
    let until = Instant::now() + PATIENCE;
    let mut n_listed = 0;
    // Each replica is asked in the end.
    while n_listed < 3 * troubles::N_REPLICAS {
        match caller.list().await {
            Ok(()) => n_listed += 1,
            Err(status) => assert!(Instant::now() < until, "{status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until all reservations for a short time are over, and asks for some of them.
async fn expired_ones_are_refused(mut caller: Caller) {
    let short: Vec<(u64, u64)> = {
        let operations = caller.shared.operations.lock().unwrap();
        let extended = |it: &history::Operation| match it.what {
            What::Extended { token, .. } => Some(token),
            _ => None,
        };
        let extended: std::collections::BTreeSet<u64> =
            operations.iter().filter_map(extended).collect();
        let short = operations.iter().rev().filter_map(|it| match &it.what {
            What::Reserved { pods, ttl: Some(ttl) } if *ttl < callers::LONG => Some(pods),
            _ => None,
        });
        let pods = short.flatten().map(|it| (it.pod, it.token));
        pods.filter(|(_, token)| !extended.contains(token)).take(N_EXPIRED).collect()
    };
    assert!(!short.is_empty(), "nothing was reserved for a short time");
    for (pod, token) in short {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut client: Client = caller.client();
            // The time of one that still holds begins anew with another committer: it is only asked for.
            let listed = client.list_assumed(callers::all()).await;
            let is_there = listed.as_ref().is_ok_and(|listed| {
                let pods = &listed.get_ref().pods;
                pods.iter().any(|it| it.assumption.as_ref().is_some_and(|it| it.token == token))
            });
            if listed.is_ok() && !is_there {
                let confirmed = client.confirm(ConfirmRequest { pod: key(pod), token }).await;
                match confirmed {
                    Err(status) if status.code() == tonic::Code::Unavailable => {}
                    confirmed => {
                        assert!(
                            confirmed.is_err(),
                            "{token} is confirmed, and over: {confirmed:?}"
                        );
                        break;
                    }
                }
            }
            assert!(Instant::now() < until, "{token} does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
