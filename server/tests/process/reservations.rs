//! `berth serve --ledger`, killed at random moments while several clients reserve, confirm and release: after every
//! restart each reservation that was acknowledged and not released is there, on its node and under its token, and no
//! node has promised more than it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::placement_service_client::PlacementServiceClient;
use berth_proto::berth_v1::{
    BatchEntry, ConfirmRequest, Gang, ListAssumedRequest, PlaceBatchRequest, PlaceMode,
    PlaceResult, PlaceStreamRequest, PodKey, ReleaseRequest, place_result,
};
use berth_proto::core_v1;
use tonic::Status;
use tonic::transport::Channel;

use crate::ledger::workload::Chance;
use crate::served::{PATIENCE, Served, serve};

const N_NODES: usize = 20;
/// CPUs of a node. A pod asks for one.
const N_CPUS: usize = 10;
const N_CLIENTS: u64 = 6;
const N_KILLS: u64 = 12;
/// Least number of acknowledged releases before each kill.
const N_RELEASED: usize = 5;

pub(crate) type Client = PlacementServiceClient<Channel>;

/// The reservations that the clients know of, by what they were told.
#[derive(Default)]
struct Told {
    /// Nodes of the reservations that hold, by pod and token.
    held: BTreeMap<(String, u64), String>,
    /// Nodes of the reservations whose release got no response, so that it is unknown whether they still hold.
    in_doubt: BTreeMap<(String, u64), String>,
    /// The reservations whose release was acknowledged.
    released: BTreeSet<(String, u64)>,
}

/// Writes a cluster in which all pods together take some of the room.
pub(crate) fn cluster(directory: &Path) -> String {
    let nodes = (0..N_NODES).map(|n| {
        format!(
            "kind: Node\nmetadata: {{name: n{n}}}\nstatus: {{allocatable: {{cpu: {N_CPUS}, memory: 64Gi, pods: 100}}}}\n"
        )
    });
    let path = directory.join("cluster.yaml");
    std::fs::write(&path, nodes.collect::<Vec<_>>().join("---\n")).unwrap();
    path.display().to_string()
}

pub(crate) fn pod(name: &str) -> core_v1::Pod {
    let pod = serde_json::json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    serde_json::from_value(pod).unwrap()
}

pub(crate) fn entry(name: &str, replicas: u32) -> BatchEntry {
    BatchEntry { pod: Some(pod(name).into()), replicas }
}

/// The reservations in the results of a call.
pub(crate) fn reserved(results: Vec<PlaceResult>) -> Vec<((String, u64), String)> {
    let placed = |result: PlaceResult| match result.result {
        Some(place_result::Result::Decision(decision)) => match decision.outcome {
            Some(Outcome::Placement(placement)) => {
                // A gang that got too few nodes has placements that are not assumed.
                let token = placement.assumption?.token;
                Some(((decision.pod.unwrap().name, token), placement.node_name))
            }
            _ => None,
        },
        _ => None,
    };
    results.into_iter().filter_map(placed).collect()
}

/// Reserves for one pod, a few on a stream, or a gang.
async fn reserve(
    client: &mut Client,
    name: &str,
    chance: &mut Chance,
) -> Result<Vec<PlaceResult>, Status> {
    let mode = PlaceMode::Assume.into();
    let assume_ttl_ms = Some(if chance.below(2) == 0 { 0 } else { 3_600_000 });
    match chance.below(3) {
        0 => {
            let entries = vec![entry(name, 0)];
            let request = PlaceBatchRequest { entries, mode, assume_ttl_ms, ..Default::default() };
            Ok(client.place_batch(request).await?.into_inner().results)
        }
        1 => {
            let (gang, entries) = (Some(Gang::default()), vec![entry(name, 5)]);
            let request =
                PlaceBatchRequest { entries, mode, assume_ttl_ms, gang, ..Default::default() };
            Ok(client.place_batch(request).await?.into_inner().results)
        }
        _ => {
            let message = |n| PlaceStreamRequest {
                entries: vec![entry(&format!("{name}-{n}"), 0)],
                mode,
                assume_ttl_ms,
                ..Default::default()
            };
            let messages = tokio_stream::iter((0..4).map(message).collect::<Vec<_>>());
            let mut answers = client.place_stream(messages).await?.into_inner();
            let mut results = Vec::new();
            // The responses that came before the stream broke count as acknowledged.
            while let Ok(Some(answer)) = answers.message().await {
                results.extend(answer.results);
            }
            Ok(results)
        }
    }
}

/// Confirms or releases one of the reservations.
async fn change(
    client: &mut Client,
    told: &Mutex<Told>,
    chance: &mut Chance,
) -> Result<(), Status> {
    let ((name, token), is_release) = {
        let told = &mut *told.lock().unwrap();
        if told.held.is_empty() {
            return Ok(());
        }
        let n = usize::try_from(chance.below(told.held.len() as u64)).unwrap();
        let key = told.held.keys().nth(n).unwrap().clone();
        let is_release = chance.below(3) > 0;
        if is_release {
            let node = told.held.remove(&key).unwrap();
            told.in_doubt.insert(key.clone(), node);
        }
        (key, is_release)
    };
    let pod = Some(PodKey { name: name.clone(), ..PodKey::default() });
    if !is_release {
        client.confirm(ConfirmRequest { pod, token }).await?;
        return Ok(());
    }
    client.release(ReleaseRequest { pod, token, nomination: false }).await?;
    let mut told = told.lock().unwrap();
    told.in_doubt.remove(&(name.clone(), token));
    told.released.insert((name, token));
    Ok(())
}

/// Makes requests until it is told that the server is gone. Until then a refusal is of no account: the server may still be
/// loading.
async fn work(
    mut client: Client,
    told: Arc<Mutex<Told>>,
    prefix: String,
    seed: u64,
    is_gone: Arc<AtomicBool>,
) {
    let mut chance = Chance(seed);
    for n in 0.. {
        let worked = match chance.below(2) {
            0 => match reserve(&mut client, &format!("{prefix}-{n}"), &mut chance).await {
                Ok(results) => {
                    told.lock().unwrap().held.extend(reserved(results));
                    Ok(())
                }
                Err(error) => Err(error),
            },
            _ => change(&mut client, &told, &mut chance).await,
        };
        if worked.is_err() {
            if is_gone.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Waits until something is so.
pub(crate) async fn await_true(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn start(cluster: &str, ledger: &Path) -> (Served, Client) {
    let served = Served::start(serve().args(["--cluster", cluster, "--ledger"]).arg(ledger));
    let client = Client::connect(served.url.clone()).await.unwrap();
    (served, client)
}

/// All reservations, once the server is ready.
pub(crate) async fn listed(client: &mut Client) -> BTreeMap<(String, u64), String> {
    let until = Instant::now() + PATIENCE;
    // A dry run is refused until the cluster is complete.
    while client
        .place_batch(PlaceBatchRequest { entries: vec![entry("probe", 0)], ..Default::default() })
        .await
        .is_err()
    {
        assert!(Instant::now() < until, "the server is not ready");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let request = ListAssumedRequest { page_size: 1_000, ..Default::default() };
    let answer = client.list_assumed(request).await.unwrap().into_inner();
    assert_eq!(answer.next_page_token, "");
    let row = |it: berth_proto::berth_v1::AssumedPod| {
        ((it.pod.unwrap().name, it.assumption.unwrap().token), it.node_name)
    };
    answer.pods.into_iter().map(row).collect()
}

#[tokio::test]
async fn no_reservation_is_lost_or_made_twice_by_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let (cluster, ledger) = (cluster(directory.path()), directory.path().join("ledger"));
    let told = Arc::new(Mutex::new(Told::default()));
    let mut chance = Chance(23);
    let mut last_token = 0;
    for kill in 0..N_KILLS {
        let (served, client) = start(&cluster, &ledger).await;
        let is_gone = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..N_CLIENTS)
            .map(|n| {
                let (client, told, is_gone) = (client.clone(), told.clone(), is_gone.clone());
                let seed = kill * N_CLIENTS + n;
                tokio::spawn(work(client, told, format!("p{kill}-{n}"), seed, is_gone))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50 + chance.below(250))).await;
        // On a slow machine the clients get as far all the same.
        let n_least = N_RELEASED * (usize::try_from(kill).unwrap() + 1);
        await_true("some are released", || told.lock().unwrap().released.len() >= n_least).await;
        served.kill();
        is_gone.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.await.unwrap();
        }
        let (served, mut client) = start(&cluster, &ledger).await;
        let found = listed(&mut client).await;
        let mut told = told.lock().unwrap();
        for (reservation, node) in &told.held {
            assert_eq!(found.get(reservation), Some(node), "{reservation:?} after kill {kill}");
        }
        let revived = found.keys().find(|reservation| told.released.contains(reservation));
        assert_eq!(revived, None, "after kill {kill}");
        let mut n_on = BTreeMap::<&String, usize>::new();
        found.values().for_each(|node| *n_on.entry(node).or_default() += 1);
        assert!(n_on.values().all(|&n| n <= N_CPUS), "{n_on:?} after kill {kill}");
        let newest = found.keys().map(|(_, token)| *token).max().unwrap_or(last_token);
        assert!(newest >= last_token);
        last_token = newest;
        // The listing settles which of the unacknowledged requests were carried out.
        told.held = found;
        told.in_doubt.clear();
        drop(told);
        served.kill();
    }
    let told = told.lock().unwrap();
    let (n_released, n_held) = (told.released.len(), told.held.len());
    assert!(n_released >= 60 && n_held > 0, "{n_released} {n_held}");
}
