//! Three `berth serve --etcd` on three members of a real etcd, of which some are killed, stopped or told to end while
//! clients change the ledger through all of them: each acknowledged grant stays with its token, and none is given twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::AcquireIdentityRequest;
use berth_testing::etcd::Etcd;
use tonic::Code;

use crate::crash::{self, Client, Clients};
use crate::ledger::replay::Replay;
use crate::ledger::workload::NAMESPACE;
use crate::served::{PATIENCE, Served, serve};

const N_SERVERS: usize = 3;
const N_MEMBERS: usize = 3;
const N_CLIENTS: usize = 4;
/// Longer than the lease, so that another server commits meanwhile.
const LONG_STOP: Duration = Duration::from_millis(4_500);

/// A server, and its connection.
struct Replica {
    served: Served,
    client: Client,
}

async fn start(etcd: &Etcd, name: &str) -> Replica {
    let mut command = serve();
    command.args(["--etcd", &etcd.endpoints().join(","), "--replica-name", name]);
    let served = Served::start(&mut command);
    let channel = tonic::transport::Channel::from_shared(served.url.clone()).unwrap();
    Replica { client: Client::new(channel.connect_lazy()), served }
}

/// The connections that clients use now.
type Connections = Arc<Mutex<Vec<Client>>>;

/// Sends requests to any of the servers until it is told to stop.
async fn send(clients: Arc<Mutex<Clients>>, connections: Connections, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let (request, floor, mut client) = {
            let clients = &mut *clients.lock().unwrap();
            let (request, floor) = clients.next_request();
            let n = usize::try_from(clients.chance.below(N_SERVERS as u64)).unwrap();
            (request, floor, connections.lock().unwrap()[n].clone())
        };
        let answering = crash::call(&mut client, request.clone());
        let answer = tokio::time::timeout(PATIENCE, answering).await.expect("each call has an end");
        let is_refused = answer.is_err();
        clients.lock().unwrap().heard(request, answer.as_ref().ok(), floor);
        if let Err(status) = answer {
            assert_ne!(status.code(), Code::InvalidArgument, "{status:?}");
        }
        if is_refused {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Position of a server that commits, and how long it took until one did.
async fn committer(connections: &Connections, n_asked: &mut u64) -> (usize, Duration) {
    let began = Instant::now();
    loop {
        for n in 0..N_SERVERS {
            *n_asked += 1;
            let request = AcquireIdentityRequest {
                namespace: NAMESPACE.into(),
                name: format!("probe-{n_asked}"),
                uid: "u".into(),
                node_name: String::new(),
                actor: format!("probe-{n_asked}"),
            };
            let mut client = connections.lock().unwrap()[n].clone();
            if client.acquire_identity(request).await.is_ok() {
                return (n, began.elapsed());
            }
        }
        assert!(began.elapsed() < PATIENCE, "no server commits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_lost_or_given_twice_whoever_fails() {
    let Some(mut etcd) = Etcd::start(N_MEMBERS, &[]) else { return };
    let n_rounds = std::env::var("BERTH_REPLICA_ROUNDS").map_or(8, |n| n.parse().unwrap());
    let mut replicas = Vec::new();
    for n in 0..N_SERVERS {
        replicas.push(start(&etcd, &format!("r{n}")).await);
    }
    let connect = |replicas: &[Replica]| replicas.iter().map(|it| it.client.clone()).collect();
    let connections: Connections = Arc::new(Mutex::new(connect(&replicas)));
    let clients = Arc::new(Mutex::new(Clients::new(u64::from(std::process::id()))));
    let (mut replay, mut n_asked, mut n_unanswered) = (Replay::default(), 0, 0);
    for round in 0..n_rounds {
        let (at, _) = committer(&connections, &mut n_asked).await;
        let stop = Arc::new(AtomicBool::new(false));
        let sending: Vec<_> = (0..N_CLIENTS)
            .map(|_| tokio::spawn(send(clients.clone(), connections.clone(), stop.clone())))
            .collect();
        let rest = clients.lock().unwrap().chance.below(500);
        tokio::time::sleep(Duration::from_millis(rest)).await;
        let member = round % N_MEMBERS;
        let what = ["killed", "ended", "stopped", "member killed", "member stopped"][round % 5];
        match what {
            "killed" | "ended" => {
                let new = start(&etcd, &format!("r{at}-{round}")).await;
                let old = std::mem::replace(&mut replicas[at], new);
                match what {
                    "killed" => old.served.kill(),
                    _ => drop(old.served.stop()),
                }
            }
            "stopped" => {
                replicas[at].served.signal("-STOP");
                tokio::time::sleep(LONG_STOP).await;
                replicas[at].served.signal("-CONT");
            }
            "member killed" => {
                etcd.kill(member);
                tokio::time::sleep(Duration::from_secs(1)).await;
                etcd.restart(member);
            }
            _ => {
                etcd.pause(member, true);
                tokio::time::sleep(LONG_STOP).await;
                etcd.pause(member, false);
            }
        }
        *connections.lock().unwrap() = connect(&replicas);
        let (at, after) = committer(&connections, &mut n_asked).await;
        println!("round {round}: {what}; a grant {} ms later", after.as_millis());
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop.store(true, Ordering::Relaxed);
        for task in sending {
            task.await.unwrap();
        }
        n_unanswered += clients.lock().unwrap().n_unanswered();
        crash::check(&mut replicas[at].client, &mut replay, &clients).await;
    }
    println!("{n_rounds} rounds, {} changes, {n_unanswered} unanswered", replay.lines.len());
    assert!(replay.lines.len() > 30, "too little happened: {}", replay.lines.len());
    assert!(n_unanswered > 0, "nobody noticed anything");
}
