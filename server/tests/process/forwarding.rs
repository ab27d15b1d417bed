//! Three `berth serve --etcd` on a real etcd: what is reserved through one of them is known to the others, and sessions are
//! used and committed through any.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use berth_proto::berth_v1::cluster_service_client::ClusterServiceClient;
use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::preemption_service_client::PreemptionServiceClient;
use berth_proto::berth_v1::reserve_entry::Decision as Planned;
use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    ConfirmRequest, Decision, GetClusterRequest, ListAssumedRequest, PlaceBatchRequest, PlaceMode,
    PlaceRequest, PlaceResult, PlaceStreamRequest, PodKey, PreemptRequest, PreemptResponse,
    ReleaseRequest, ReserveEntry, ReserveRequest, ReservedPod, SessionServiceCommitRequest,
    SessionServiceCommitResponse, SessionServiceOpenRequest, place_result,
};
use berth_proto::core_v1;
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::reservations::{Client, cluster, entry, listed, pod, reserved};
use crate::served::{PATIENCE, Served, berth};

const N_SERVERS: usize = 3;

struct Replica {
    served: Served,
    client: Client,
}

/// Starts a replica on an address that others know.
async fn start(etcd: &Etcd, cluster: &str, name: &str) -> Replica {
    let address = free_address();
    let mut command = berth();
    command
        .args(["serve", "--worker-threads", "2", "--http-address", "127.0.0.1:0"])
        .args(["--grpc-address", &address.to_string()])
        .args(["--cluster", cluster, "--etcd", &etcd.endpoints().join(",")])
        .args(["--replica-name", name, "--replica-address", &format!("http://{address}")]);
    let served = Served::start(&mut command);
    Replica { client: Client::new(channel(served.url.clone(), None)), served }
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
            pod: Some(small(name).into()),
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
        let released =
            last.release(ReleaseRequest { pod: key(), token, nomination: false }).await.unwrap();
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
                pod: Some(pod(&format!("in-{n}-{}", replica.served.pid())).into()),
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
        pod: Some(pod("late").into()),
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

/// A cluster in which one pod has all the room, so that others have to evict it.
fn full_cluster(directory: &Path) -> String {
    let full = "kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: 100, memory: 64Gi, pods: 100}}
---
kind: Pod
metadata: {name: low, uid: low}
spec:
  nodeName: n0
  containers: [{name: c, resources: {requests: {cpu: 100}}}]
status: {phase: Running, startTime: 2026-01-01T00:00:00Z}
";
    let path = directory.join("full.yaml");
    std::fs::write(&path, full).unwrap();
    path.display().to_string()
}

/// Nominates a pod over a connection of this window.
async fn nominate(
    url: String,
    name: String,
    window: impl Into<Option<u32>>,
) -> Result<PreemptResponse, tonic::Status> {
    let pod = Some(urgent(&name));
    let request = PreemptRequest { pod, nominate: true, ..PreemptRequest::default() };
    let mut client = PreemptionServiceClient::new(channel(url, window));
    Ok(client.preempt(request).await?.into_inner())
}

/// A connection on which the server may send so many bytes of a response; by default many.
fn channel(url: String, window: impl Into<Option<u32>>) -> Channel {
    let endpoint = Endpoint::from_shared(url).unwrap();
    endpoint.initial_stream_window_size(window).connect_lazy()
}

/// A pod for which others are evicted.
fn urgent(name: &str) -> core_v1::Pod {
    let mut pod = pod(name);
    pod.spec.as_mut().unwrap().priority = Some(10);
    pod
}

/// Number of pods that are assumed or nominated.
async fn n_promised(replica: &Replica) -> u32 {
    let mut client = ClusterServiceClient::connect(replica.served.url.clone()).await.unwrap();
    let cluster = client.get_cluster(GetClusterRequest::default()).await.unwrap().into_inner();
    cluster.n_assumed_pods + cluster.n_pending_pods
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nomination_ends_if_its_caller_is_gone_or_withdraws_it() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let cluster = full_cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        replicas.push(start(&etcd, &cluster, &format!("r{n}")).await);
    }
    let until = Instant::now() + PATIENCE;
    for n in 0..2 * N_SERVERS {
        let url = replicas[n % N_SERVERS].served.url.clone();
        let name = format!("told{n}");
        let answer = loop {
            match nominate(url.clone(), name.clone(), None).await {
                Ok(answer) => break answer,
                Err(status) => assert!(Instant::now() < until, "in vain: {status:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(answer.post_filter.unwrap().nominated_node_name, "n0");
        // Its caller cannot receive anything.
        let gone = tokio::spawn(nominate(url, format!("gone{n}"), 0));
        let at = &mut replicas[(n + 1) % N_SERVERS];
        while n_promised(at).await < 2 {
            assert!(Instant::now() < until, "nothing is nominated");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!gone.is_finished());
        gone.abort();
        let pod = Some(PodKey { name, ..PodKey::default() });
        let release = ReleaseRequest { pod, token: 0, nomination: true };
        assert!(at.client.release(release.clone()).await.unwrap().into_inner().released);
        assert!(!at.client.release(release).await.unwrap().into_inner().released);
        for replica in &replicas {
            while n_promised(replica).await > 0 {
                assert!(Instant::now() < until, "{} are left", n_promised(replica).await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Opens a session at a replica that assumes one pod and nominates another one; returns its id.
async fn session_that_promises(replica: &mut Replica, name: &str) -> String {
    let url = replica.served.url.clone();
    let mut sessions = SessionServiceClient::connect(url.clone()).await.unwrap();
    let opened = sessions.open(SessionServiceOpenRequest {}).await.unwrap().into_inner();
    let session_id = opened.session_id;
    let request = PlaceRequest {
        pod: Some(small(name).into()),
        mode: PlaceMode::Assume.into(),
        session_id: session_id.clone(),
        ..PlaceRequest::default()
    };
    let placed = replica.client.place(request).await.unwrap().into_inner().decision.unwrap();
    assert!(matches!(placed.outcome, Some(Outcome::Placement(_))), "{placed:?}");
    let request = PreemptRequest {
        pod: Some(urgent(&format!("{name}-urgent"))),
        nominate: true,
        session_id: session_id.clone(),
        ..PreemptRequest::default()
    };
    let answer = PreemptionServiceClient::new(channel(url, None)).preempt(request).await.unwrap();
    assert_eq!(answer.into_inner().post_filter.unwrap().nominated_node_name, "n0");
    session_id
}

/// Makes a call again and again until it has promised two pods in all of the cluster, then leaves it without its response,
/// and waits until nothing is promised at any replica.
async fn leave_once_promised<T: Send + 'static, F>(
    replicas: &[Replica],
    mut call: impl FnMut() -> F,
) where
    F: Future<Output = Result<T, tonic::Status>> + Send + 'static,
{
    let until = Instant::now() + PATIENCE;
    let mut calling = tokio::spawn(call());
    while n_promised(&replicas[0]).await < 2 {
        assert!(Instant::now() < until, "nothing is promised");
        tokio::time::sleep(Duration::from_millis(5)).await;
        if calling.is_finished() {
            // No replica commits yet, or the session's own has not told the others where it is.
            let status =
                calling.await.unwrap().err().expect("a caller that cannot receive anything");
            let info = status.get_details_error_info();
            let is_lost = info.is_some_and(|it| it.reason == "SESSION_LOST");
            assert!(is_lost || status.code() == Code::Unavailable, "{status:?}");
            calling = tokio::spawn(call());
        }
    }
    calling.abort();
    for replica in replicas {
        while n_promised(replica).await > 0 {
            assert!(Instant::now() < until, "{} are left", n_promised(replica).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_ends_if_its_caller_is_gone() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let cluster = full_cluster(directory.path());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        let mut replica = start(&etcd, &cluster, &format!("r{n}")).await;
        listed(&mut replica.client).await;
        replicas.push(replica);
    }
    for n in 0..2 * N_SERVERS {
        // At the session's own replica first, then through another one.
        let (home, at) = (n % N_SERVERS, (n + n / N_SERVERS) % N_SERVERS);
        let session_id = session_that_promises(&mut replicas[home], &format!("s{n}")).await;
        let url = replicas[at].served.url.clone();
        leave_once_promised(&replicas, || {
            let request =
                SessionServiceCommitRequest { session_id: session_id.clone(), assume_ttl_ms: None };
            let mut sessions = SessionServiceClient::new(channel(url.clone(), 0));
            async move { sessions.commit(request).await }
        })
        .await;
    }
    for (n, replica) in replicas.iter().enumerate() {
        let on_n0 = |pod| ReservedPod { pod: Some(pod), node_name: "n0".to_owned() };
        let entry = |decision| ReserveEntry { decision: Some(decision) };
        let entries = vec![
            entry(Planned::Assume(on_n0(small(&format!("r{n}"))))),
            entry(Planned::Nominate(on_n0(urgent(&format!("r{n}-urgent"))))),
        ];
        let url = replica.served.url.clone();
        leave_once_promised(&replicas, || {
            let request = ReserveRequest { entries: entries.clone(), assume_ttl_ms: None };
            let mut client = Client::new(channel(url.clone(), 0));
            async move { client.reserve(request).await }
        })
        .await;
    }
}
