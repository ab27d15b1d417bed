//! Three `berth serve --etcd` that follow one cluster, on a real etcd, while some of them are killed or stopped and
//! clients reserve through all of them: whatever is acknowledged is there at every replica, under its token and once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    ConfirmRequest, Decision, ListAssumedRequest, PlaceBatchRequest, PlaceMode, PlaceRequest,
    PlaceResult, PlaceStreamRequest, PodKey, ReleaseRequest, SessionServiceCommitRequest,
    SessionServiceCommitResponse, SessionServiceOpenRequest, place_result,
};
use berth_proto::core_v1;
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::ledger::workload::Chance;
use crate::proxy::{Line, Proxy};
use crate::reservations::{
    Client, N_CPUS, Told, await_true, change, cluster, entry, listed, pod, reserve, reserved,
};
use crate::served::{PATIENCE, Served, berth};

const N_SERVERS: usize = 3;
const N_CLIENTS: u64 = 4;
/// Least number of acknowledged releases in each round.
const N_RELEASED: usize = 4;
/// Longer than the lease, so that another server commits meanwhile.
const LONG_STOP: Duration = Duration::from_millis(4_500);

/// What happens, one after the other, to one replica after the other.
const TROUBLES: [&str; 8] = [
    "killed",
    "stopped",
    "member killed",
    "ended",
    "cut off etcd",
    "cut off others",
    "slow",
    "killed",
];

struct Replica {
    served: Served,
    client: Client,
    /// Its lines to the members of etcd, and the one of the other replicas to it.
    to_etcd: Vec<Proxy>,
    from_others: Proxy,
}

impl Replica {
    fn set_lines(&self, line: Line) {
        self.to_etcd.iter().chain([&self.from_others]).for_each(|proxy| proxy.set(line));
    }
}

/// Starts a replica on an address that others know.
async fn start(etcd: &Etcd, cluster: &str, name: &str) -> Replica {
    let port = free_address();
    let (from_others, mut to_etcd) = (Proxy::to(port).await, Vec::new());
    for n in 0..etcd.endpoints().len() {
        to_etcd.push(Proxy::to(etcd.client_address(n)).await);
    }
    let endpoints: Vec<String> =
        to_etcd.iter().map(|it| format!("http://{}", it.address)).collect();
    let address = format!("http://{}", from_others.address);
    let mut command = berth();
    command
        .args(["serve", "--worker-threads", "2", "--http-address", "127.0.0.1:0"])
        .args(["--grpc-address", &port.to_string()])
        .args(["--cluster", cluster, "--etcd", &endpoints.join(",")])
        .args(["--replica-name", name, "--replica-address", &address]);
    let served = Served::start(&mut command);
    let channel = tonic::transport::Channel::from_shared(served.url.clone()).unwrap();
    Replica { client: Client::new(channel.connect_lazy()), served, to_etcd, from_others }
}

/// A pod that asks for nothing, so that there is always room for it.
fn small(name: &str) -> core_v1::Pod {
    let mut pod = pod(name);
    pod.spec.as_mut().unwrap().containers[0].resources = None;
    pod
}

/// Reserves one pod through a replica, as soon as some replica commits. Returns its token, and the revision that the
/// response has counted.
async fn reserve_one(client: &mut Client, name: &str) -> (u64, String) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut request = Request::new(PlaceRequest {
            pod: Some(Box::new(small(name))),
            mode: PlaceMode::Assume.into(),
            ..PlaceRequest::default()
        });
        // Without a name, one whose outcome is in doubt could not be repeated.
        request.metadata_mut().insert("berth-request-id", name.parse().unwrap());
        match client.place(request).await {
            Ok(response) => {
                let revision = response.metadata().get("berth-ledger-revision").unwrap();
                let revision = revision.to_str().unwrap();
                let revision = revision.to_owned();
                let decision = response.into_inner().decision.unwrap();
                let result = Some(place_result::Result::Decision(decision));
                let result = PlaceResult { result };
                let ((_, token), _) = reserved(vec![result]).remove(0);
                return (token, revision);
            }
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                assert!(Instant::now() < until, "in vain: {status:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// All reservations that a replica has counted, once it has counted this revision.
async fn listed_at(client: &mut Client, revision: &str) -> BTreeMap<(String, u64), String> {
    let mut request = Request::new(ListAssumedRequest { page_size: 5_000, ..Default::default() });
    request.metadata_mut().insert("berth-min-ledger-revision", revision.parse().unwrap());
    request.set_timeout(PATIENCE);
    let answer = client.list_assumed(request).await.unwrap().into_inner();
    let row = |it: berth_proto::berth_v1::AssumedPod| {
        ((it.pod.unwrap().name, it.assumption.unwrap().token), it.node_name)
    };
    answer.pods.into_iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_reserves_another_one_knows_confirms_and_releases() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        replicas.push(start(&etcd, &cluster, &format!("r{n}")).await);
    }
    for replica in &mut replicas {
        listed(&mut replica.client).await;
    }
    for n in 0..2 * N_SERVERS {
        let (at, next) = (n % N_SERVERS, (n + 1) % N_SERVERS);
        let name = format!("p{n}");
        let (token, revision) = reserve_one(&mut replicas[at].client, &name).await;
        let other = &mut replicas[next].client;
        let found = listed_at(other, &revision).await;
        assert!(found.contains_key(&(name.clone(), token)), "{found:?}");
        let key = || Some(PodKey { name: name.clone(), ..PodKey::default() });
        let confirmed = other.confirm(ConfirmRequest { pod: key(), token }).await.unwrap();
        assert!(confirmed.into_inner().assumed);
        let last = &mut replicas[(n + 2) % N_SERVERS].client;
        let released = last.release(ReleaseRequest { pod: key(), token }).await.unwrap();
        let revision = released.metadata().get("berth-ledger-revision").unwrap();
        let revision = revision.to_str().unwrap().to_owned();
        assert!(released.into_inner().released);
        let found = listed_at(&mut replicas[at].client, &revision).await;
        assert_eq!(found, BTreeMap::new());
    }
    let request = Request::new(ListAssumedRequest::default());
    let mut bad = request;
    bad.metadata_mut().insert("berth-min-ledger-revision", "soon".parse().unwrap());
    let refused = replicas[0].client.list_assumed(bad).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
}

/// Places a pod in a session, as soon as its replica has told the others where it is.
async fn place_soon(client: &mut Client, request: PlaceRequest) -> Option<Decision> {
    let until = Instant::now() + PATIENCE;
    loop {
        match client.place(request.clone()).await {
            Ok(response) => return response.into_inner().decision,
            Err(status) => {
                let is_early =
                    matches!(status.code(), Code::FailedPrecondition | Code::Unavailable);
                assert!(is_early && Instant::now() < until, "{status:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_used_through_any_replica_and_lost_with_its_own() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        let mut replica = start(&etcd, &cluster, &format!("r{n}")).await;
        listed(&mut replica.client).await;
        replicas.push(replica);
    }
    // Whichever of them commits, each one has a session and uses those of the others.
    reserve_one(&mut replicas[0].client, "first").await;
    let mut ids = Vec::new();
    for replica in &replicas {
        let mut sessions = SessionServiceClient::connect(replica.served.url.clone()).await.unwrap();
        let opened = sessions.open(SessionServiceOpenRequest {}).await.unwrap().into_inner();
        ids.push(opened.session_id);
    }
    for (n, id) in ids.iter().enumerate() {
        for replica in &mut replicas {
            let request = PlaceRequest {
                pod: Some(Box::new(pod(&format!("in-{n}-{}", replica.served.pid())))),
                mode: PlaceMode::Assume.into(),
                session_id: id.clone(),
                ..PlaceRequest::default()
            };
            let decision = place_soon(&mut replica.client, request).await;
            assert!(matches!(decision.unwrap().outcome, Some(Outcome::Placement(_))));
            let message = PlaceStreamRequest {
                entries: vec![entry(&format!("on-{n}-{}", replica.served.pid()), 0)],
                mode: PlaceMode::Assume.into(),
                session_id: id.clone(),
                ..PlaceStreamRequest::default()
            };
            // Sent only once the head of the response is there, as some clients do.
            let (messages, receiver) = tokio::sync::mpsc::channel(1);
            let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
            let opened = tokio::time::timeout(PATIENCE, replica.client.place_stream(requests));
            let mut answers = opened.await.expect("a head").unwrap().into_inner();
            messages.send(message).await.unwrap();
            assert_eq!(answers.message().await.unwrap().unwrap().results.len(), 1);
        }
    }
    let lost = replicas.remove(2);
    lost.served.kill();
    let until = Instant::now() + PATIENCE;
    let place = |id: &str| PlaceRequest {
        pod: Some(Box::new(pod("late"))),
        session_id: id.to_owned(),
        ..PlaceRequest::default()
    };
    loop {
        let refused = replicas[0].client.place(place(&ids[2])).await.unwrap_err();
        if refused.code() == Code::FailedPrecondition {
            assert!(refused.message().contains("`r2`"), "{refused:?}");
            let info = refused.get_details_error_info().unwrap();
            assert_eq!(info.reason, "SESSION_LOST");
            break;
        }
        // Its record lasts as long as its lease.
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        assert!(Instant::now() < until, "in vain: {refused:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    replicas[0].client.place(place(&ids[1])).await.unwrap();
}

/// Opens a session at a replica, and places so many pods in it; returns its id.
async fn session_with(replica: &mut Replica, name: &str, n_pods: u32) -> String {
    let mut sessions = SessionServiceClient::connect(replica.served.url.clone()).await.unwrap();
    let opened = sessions.open(SessionServiceOpenRequest {}).await.unwrap().into_inner();
    let request = PlaceBatchRequest {
        entries: vec![entry(name, n_pods)],
        mode: PlaceMode::Assume.into(),
        session_id: opened.session_id.clone(),
        ..PlaceBatchRequest::default()
    };
    let placed = replica.client.place_batch(request).await.unwrap().into_inner();
    let is_placed = |it: &PlaceResult| match &it.result {
        Some(place_result::Result::Decision(it)) => {
            matches!(it.outcome, Some(Outcome::Placement(_)))
        }
        _ => false,
    };
    assert!(placed.results.iter().all(is_placed));
    opened.session_id
}

/// Commits a session, as soon as its replica has told the others where it is, and some replica commits.
async fn commit(
    replica: &Replica,
    session_id: &str,
) -> Result<tonic::Response<SessionServiceCommitResponse>, tonic::Status> {
    let mut sessions = SessionServiceClient::connect(replica.served.url.clone()).await.unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let request =
            SessionServiceCommitRequest { session_id: session_id.to_owned(), assume_ttl_ms: None };
        let answered = sessions.commit(request).await;
        let is_early = answered.as_ref().is_err_and(|status| {
            let info = status.get_details_error_info();
            status.code() == Code::Unavailable || info.is_some_and(|it| it.reason == "SESSION_LOST")
        });
        if !is_early || Instant::now() >= until {
            return answered;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_committed_wherever_it_is_and_once() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        let mut replica = start(&etcd, &cluster, &format!("r{n}")).await;
        listed(&mut replica.client).await;
        replicas.push(replica);
    }
    reserve_one(&mut replicas[0].client, "first").await;
    for n in 0..N_SERVERS {
        let session_id = session_with(&mut replicas[n], &format!("s{n}"), 3).await;
        let at = (n + 1) % N_SERVERS;
        let committed = commit(&replicas[at], &session_id).await.unwrap();
        let revision = committed.metadata().get("berth-ledger-revision").unwrap();
        let revision = revision.to_str().unwrap().to_owned();
        let committed = committed.into_inner();
        assert_eq!(committed.n_assumed_pods, 3);
        let told: BTreeMap<_, _> = committed
            .assumed_pods
            .into_iter()
            .map(|it| ((it.pod.unwrap().name, it.assumption.unwrap().token), it.node_name))
            .collect();
        for replica in &mut replicas {
            let found = listed_at(&mut replica.client, &revision).await;
            assert!(told.iter().all(|(pod, node)| found.get(pod) == Some(node)), "{found:?}");
        }
        let again = commit(&replicas[at], &session_id).await.unwrap_err();
        assert_eq!(again.get_details_error_info().expect("a reason").reason, "ALREADY_COMMITTED");
    }
    // Of sessions that have the same room one is committed.
    let mut ids = Vec::new();
    for (n, replica) in replicas.iter_mut().enumerate() {
        ids.push(session_with(replica, &format!("large{n}"), 150).await);
    }
    let mut n_committed = 0;
    for session_id in ids {
        match commit(&replicas[0], &session_id).await {
            Ok(_) => n_committed += 1,
            Err(status) => {
                assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
                let info = status.get_details_error_info().expect("a reason");
                assert!(["CHANGED", "POD_DOES_NOT_FIT"].contains(&&*info.reason), "{info:?}");
            }
        }
    }
    assert_eq!(n_committed, 1);
}

/// The connections that clients use now.
type Connections = Arc<Mutex<Vec<Client>>>;

/// One of the replicas.
fn any(connections: &Connections, chance: &mut Chance) -> Client {
    let n = usize::try_from(chance.below(N_SERVERS as u64)).unwrap();
    connections.lock().unwrap()[n].clone()
}

/// Part of the name of each pod that a named request reserves.
const NAMED: &str = "-named";

/// Makes a named request again and again until it is answered, and once more after that; returns what it has reserved, and
/// how often it was refused.
async fn reserve_named(
    connections: &Connections,
    name: &str,
    chance: &mut Chance,
) -> (Vec<((String, u64), String)>, usize) {
    let (until, mut answered, mut n_refused) = (Instant::now() + PATIENCE, None, 0);
    loop {
        let mut request = Request::new(PlaceBatchRequest {
            entries: vec![entry(name, 3)],
            mode: PlaceMode::Assume.into(),
            assume_ttl_ms: Some(0),
            ..PlaceBatchRequest::default()
        });
        request.metadata_mut().insert("berth-request-id", name.parse().unwrap());
        match any(connections, chance).place_batch(request).await {
            Ok(response) => {
                let results = response.into_inner().results;
                let is_decision =
                    |it: &PlaceResult| matches!(it.result, Some(place_result::Result::Decision(_)));
                assert!(results.iter().all(is_decision), "carried out twice: {results:?}");
                let reserved = reserved(results);
                match answered.replace(reserved.clone()) {
                    None => {}
                    // One that has reserved nothing, for lack of room, may be decided anew by the next committer.
                    Some(before) => {
                        assert!(before.is_empty() || reserved == before, "{reserved:?} {before:?}");
                        return (reserved, n_refused);
                    }
                }
            }
            Err(status) => {
                n_refused += 1;
                let is_passing = matches!(
                    status.code(),
                    Code::Unavailable | Code::Cancelled | Code::Unknown | Code::DeadlineExceeded
                );
                assert!(is_passing && Instant::now() < until, "{status:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Makes requests to any of the replicas until it is told to stop; counts those that were refused.
async fn work(
    connections: Connections,
    told: Arc<Mutex<Told>>,
    prefix: String,
    seed: u64,
    stop: Arc<AtomicBool>,
) -> usize {
    let (mut chance, mut n_refused) = (Chance(seed), 0);
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut client = any(&connections, &mut chance);
        let working = async {
            match chance.below(3) {
                0 => match reserve(&mut client, &format!("{prefix}-{n}"), &mut chance).await {
                    Ok(results) => {
                        told.lock().unwrap().held.extend(reserved(results));
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                1 => {
                    let name = format!("{prefix}-{n}{NAMED}");
                    let (reserved, n) = reserve_named(&connections, &name, &mut chance).await;
                    n_refused += n;
                    told.lock().unwrap().held.extend(reserved);
                    Ok(())
                }
                _ => change(&mut client, &told, &mut chance).await,
            }
        };
        let worked = tokio::time::timeout(PATIENCE, working).await.expect("each call has an end");
        if let Err(status) = worked {
            n_refused += 1;
            let is_wrong = matches!(status.code(), Code::InvalidArgument | Code::Internal);
            assert!(!is_wrong, "{status:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    n_refused
}

/// Does something to a replica, or to a member of etcd.
async fn trouble(what: &str, etcd: &mut Etcd, cluster: &str, replica: &mut Replica, round: usize) {
    match what {
        "killed" | "ended" => {
            let new = start(etcd, cluster, &format!("new-{round}")).await;
            let old = std::mem::replace(replica, new);
            match what {
                "killed" => old.served.kill(),
                _ => drop(old.served.stop()),
            }
        }
        "stopped" => {
            replica.served.signal("-STOP");
            tokio::time::sleep(LONG_STOP).await;
            replica.served.signal("-CONT");
        }
        "cut off etcd" => {
            replica.to_etcd.iter().for_each(|proxy| proxy.set(Line::Cut));
            tokio::time::sleep(LONG_STOP).await;
            replica.set_lines(Line::Open);
        }
        "cut off others" => {
            replica.from_others.set(Line::Cut);
            tokio::time::sleep(LONG_STOP / 2).await;
            replica.set_lines(Line::Open);
        }
        "slow" => {
            replica.set_lines(Line::Slow(Duration::from_millis(100)));
            tokio::time::sleep(LONG_STOP / 2).await;
            replica.set_lines(Line::Open);
        }
        _ => {
            etcd.kill(round % 3);
            tokio::time::sleep(Duration::from_secs(1)).await;
            etcd.restart(round % 3);
        }
    }
}

/// Checks that all replicas have the same reservations, and those that clients were told of. Returns them.
async fn check(
    replicas: &mut [Replica],
    told: &Mutex<Told>,
    round: usize,
) -> BTreeMap<(String, u64), String> {
    let (_, revision) = reserve_one(&mut replicas[0].client, &format!("last-{round}")).await;
    let found = listed_at(&mut replicas[0].client, &revision).await;
    for replica in replicas {
        assert_eq!(listed_at(&mut replica.client, &revision).await, found, "round {round}");
    }
    let told = told.lock().unwrap();
    for (reservation, node) in &told.held {
        assert_eq!(found.get(reservation), Some(node), "{reservation:?} in round {round}");
    }
    let is_untold = |it: &&(String, u64)| {
        it.0.contains(NAMED) && !told.held.contains_key(it) && !told.in_doubt.contains_key(it)
    };
    assert_eq!(found.keys().find(is_untold), None, "a named request was carried out twice");
    let revived = found.keys().find(|reservation| told.released.contains(reservation));
    assert_eq!(revived, None, "in round {round}");
    let mut n_on = BTreeMap::<&String, usize>::new();
    let large = found.iter().filter(|((name, _), _)| name.starts_with('p'));
    large.for_each(|(_, node)| *n_on.entry(node).or_default() += 1);
    assert!(n_on.values().all(|&n| n <= N_CPUS), "{n_on:?} in round {round}");
    drop(n_on);
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reservation_is_lost_or_made_twice_whoever_fails() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let n_rounds =
        std::env::var("BERTH_REPLICA_ROUNDS").map_or(TROUBLES.len(), |n| n.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        replicas.push(start(&etcd, &cluster, &format!("r{n}")).await);
    }
    let connect = |replicas: &[Replica]| replicas.iter().map(|it| it.client.clone()).collect();
    let connections: Connections = Arc::new(Mutex::new(connect(&replicas)));
    let (told, mut chance) = (Arc::new(Mutex::new(Told::default())), Chance(29));
    let (mut n_refused, mut last_token) = (0, 0);
    for round in 0..n_rounds {
        let at = round % N_SERVERS;
        reserve_one(&mut replicas[0].client, &format!("before-{round}")).await;
        let stop = Arc::new(AtomicBool::new(false));
        let working: Vec<_> = (0..N_CLIENTS)
            .map(|n| {
                let (connections, told) = (connections.clone(), told.clone());
                let (prefix, seed) = (format!("p{round}-{n}"), round as u64 * N_CLIENTS + n);
                tokio::spawn(work(connections, told, prefix, seed, stop.clone()))
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100 + chance.below(300))).await;
        let what = TROUBLES[round % TROUBLES.len()];
        trouble(what, &mut etcd, &cluster, &mut replicas[at], round).await;
        *connections.lock().unwrap() = connect(&replicas);
        let began = Instant::now();
        reserve_one(&mut replicas[at].client, &format!("after-{round}")).await;
        println!("round {round}: {what}; reserved {} ms later", began.elapsed().as_millis());
        tokio::time::sleep(Duration::from_millis(300)).await;
        // On a slow machine the clients get as far all the same.
        let n_least = N_RELEASED * (round + 1);
        await_true("some are released", || told.lock().unwrap().released.len() >= n_least).await;
        stop.store(true, Ordering::Relaxed);
        for task in working {
            n_refused += task.await.unwrap();
        }
        let found = check(&mut replicas, &told, round).await;
        let newest = found.keys().map(|(_, token)| *token).max().unwrap_or(last_token);
        assert!(newest >= last_token, "tokens grow");
        let mut told = told.lock().unwrap();
        last_token = newest;
        told.held = found;
        told.in_doubt.clear();
    }
    let told = told.lock().unwrap();
    println!(
        "{n_rounds} rounds, {} released, {} held, {n_refused} refused",
        told.released.len(),
        told.held.len()
    );
    assert!(told.released.len() >= N_RELEASED * n_rounds && !told.held.is_empty());
}
