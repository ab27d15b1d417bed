//! `berth serve --ledger`, killed at random moments while several clients change the ledger: after every restart each
//! acknowledged grant is there with its token, and none was given twice.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, CheckTokenRequest, GetIdentityRequest, GetVolumeRequest,
    ListLedgerRecordsRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::ledger::replay::{Exchange, Replay};
use crate::ledger::workload::{Chance, NAMESPACE, Request, Response, Seen};
use crate::served::{serve, serve_after};

const N_KILLS: u64 = 250;
const N_CLIENTS: u64 = 6;

pub(crate) type Client = LifecycleServiceClient<Channel>;

fn spawn(ledger: &Path) -> Child {
    spawn_by(serve().arg("--ledger").arg(ledger))
}

fn spawn_by(command: &mut Command) -> Child {
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// A running server process and its client.
struct Running {
    child: Child,
    client: Client,
}

impl Running {
    async fn start(ledger: &Path) -> Running {
        Running::of(spawn(ledger)).await
    }

    async fn of(mut child: Child) -> Running {
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("grpc=") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        let address = line.split("grpc=").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap().to_owned();
        // Reads the log to its end, because the server would otherwise wait for a reader.
        std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        let client = Client::new(channel.connect().await.unwrap());
        Running { child, client }
    }

    /// Ends the process by SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// State of the clients, which outlives the servers.
pub(crate) struct Clients {
    pub(crate) chance: Chance,
    seen: Seen,
    n_requests: u64,
    exchanges: Vec<(Exchange, u64)>,
    highest: u64,
}

impl Clients {
    pub(crate) fn new(seed: u64) -> Clients {
        Clients {
            chance: Chance(seed),
            seen: Seen::default(),
            n_requests: 0,
            exchanges: Vec::new(),
            highest: 0,
        }
    }

    /// The next request of some client, and the highest token that is known.
    pub(crate) fn next_request(&mut self) -> (Request, u64) {
        self.n_requests += 1;
        let actor = format!("client-{}", self.n_requests);
        (self.seen.request(&mut self.chance, actor), self.highest)
    }

    /// Takes note of an answer, or that there was none.
    pub(crate) fn heard(&mut self, request: Request, answer: Option<&Response>, floor: u64) {
        if let Some(answer) = answer {
            self.seen.learn(answer);
            self.highest = self.highest.max(answer.token());
        }
        self.exchanges.push((Exchange { request, answer: answer.cloned() }, floor));
    }

    /// Number of requests without an answer since the last check.
    pub(crate) fn n_unanswered(&self) -> usize {
        self.exchanges.iter().filter(|(exchange, _)| exchange.answer.is_none()).count()
    }
}

/// Sends requests until the server is gone.
async fn send_until_gone(clients: Arc<Mutex<Clients>>, mut client: Client) {
    loop {
        let (request, floor) = clients.lock().unwrap().next_request();
        let answer = call(&mut client, request.clone()).await;
        clients.lock().unwrap().heard(request, answer.as_ref().ok(), floor);
        match answer {
            Ok(_) => {}
            // Other clients have interfered too often.
            Err(status) if status.code() == Code::Aborted => {}
            Err(status) => {
                assert_ne!(status.code(), Code::InvalidArgument, "{status:?}");
                return;
            }
        }
    }
}

pub(crate) async fn call(client: &mut Client, request: Request) -> Result<Response, Status> {
    Ok(match request {
        Request::Acquire(request) => {
            Response::Acquire(client.acquire_identity(request).await?.into_inner())
        }
        Request::Event(request) => {
            Response::Event(client.record_identity_event(request).await?.into_inner())
        }
        Request::Attach(request) => {
            Response::Attach(client.attach_volume(request).await?.into_inner())
        }
        Request::Detach(request) => {
            Response::Detach(client.detach_volume(request).await?.into_inner())
        }
        Request::Break(request) => {
            Response::Break(client.break_attachment(request).await?.into_inner())
        }
        Request::Fence(request) => {
            Response::Fence(client.advance_fence(request).await?.into_inner())
        }
    })
}

/// Plays all journal lines that `replay` has not seen.
async fn read_on(client: &mut Client, replay: &mut Replay) {
    loop {
        let request = ListLedgerRecordsRequest { after_revision: replay.last(), page_size: 1_000 };
        let page = client.list_ledger_records(request).await.unwrap().into_inner();
        page.records.iter().for_each(|line| replay.play(line));
        if page.records.is_empty() {
            return;
        }
    }
}

/// Checks that a restarted server has all that was acknowledged before, and nothing else.
pub(crate) async fn check(client: &mut Client, replay: &mut Replay, clients: &Mutex<Clients>) {
    read_on(client, replay).await;
    for (exchange, floor) in clients.lock().unwrap().exchanges.drain(..) {
        replay.check(&exchange, floor);
    }
    for n in 0..4 {
        let name = format!("pet-{n}");
        let request = GetIdentityRequest { namespace: NAMESPACE.into(), name: name.clone() };
        let record = client.get_identity(request).await.unwrap().into_inner().record.unwrap();
        let held = replay.identities.get(&name).cloned().unwrap_or_default();
        assert_eq!((record.holder_uid, record.token), held, "{name}");
        let volume = format!("v{n}");
        let request = GetVolumeRequest { volume: volume.clone() };
        let record = client.get_volume(request).await.unwrap().into_inner().record.unwrap();
        let held = replay.volumes.get(&volume).cloned().unwrap_or_default();
        assert_eq!((record.version, record.holders), held, "{volume}");
    }
    if let Some((name, (uid, token))) = replay.identities.iter().next() {
        let request = CheckTokenRequest {
            kind: "identity".into(),
            namespace: NAMESPACE.into(),
            name: name.clone(),
            token: *token,
        };
        let answer = client.check_token(request).await.unwrap().into_inner();
        assert_eq!((answer.current, &answer.pod_uid), (true, uid));
    }
}

/// A limit on the size of the file acts like a full disk: earlier grants are there, writes are refused with
/// `UNAVAILABLE`, and with room again everything works.
#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let acquire = |n: usize| AcquireIdentityRequest {
        namespace: NAMESPACE.into(),
        name: format!("{n}-{}", "x".repeat(240)),
        uid: format!("u-{n}"),
        node_name: String::new(),
        actor: "me".into(),
    };
    let get = |n: usize| GetIdentityRequest { namespace: NAMESPACE.into(), name: acquire(n).name };
    let mut running = Running::start(&path).await;
    let answer = running.client.acquire_identity(acquire(0)).await.unwrap().into_inner();
    let mut tokens = vec![answer.token];
    running.kill();
    let older = directory.path().join("older");
    std::fs::copy(&path, &older).unwrap();

    let n_blocks = std::fs::metadata(&path).unwrap().len() / 512 + 8;
    let mut limited = serve_after(&format!("trap '' XFSZ; ulimit -f {n_blocks}"));
    let mut running = Running::of(spawn_by(limited.arg("--ledger").arg(&path))).await;
    let refused = loop {
        assert!(tokens.len() < 20_000, "the file never came to its limit");
        match running.client.acquire_identity(acquire(tokens.len())).await {
            Ok(answer) => tokens.push(answer.into_inner().token),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(refused.message().starts_with("the ledger is not available: "), "{refused:?}");
    // A missing file is not opened again, and neither is an older copy: acknowledged grants would be forgotten and
    // given again.
    let aside = directory.path().join("aside");
    std::fs::rename(&path, &aside).unwrap();
    let gone = running.client.get_identity(get(0)).await.unwrap_err();
    assert_eq!((gone.code(), path.exists()), (Code::Unavailable, false), "{gone:?}");
    std::fs::copy(&older, &path).unwrap();
    let older = running.client.acquire_identity(acquire(1)).await.unwrap_err();
    assert_eq!(older.code(), Code::Unavailable, "{older:?}");
    assert!(older.message().contains("it is an older copy"), "{older:?}");
    std::fs::rename(&aside, &path).unwrap();
    // The file has been opened again: it can still be read.
    for (n, token) in tokens.iter().enumerate() {
        let record =
            running.client.get_identity(get(n)).await.unwrap().into_inner().record.unwrap();
        assert_eq!((record.holder_uid, record.token), (format!("u-{n}"), *token));
    }
    running.kill();

    let mut running = Running::start(&path).await;
    let next = running.client.acquire_identity(acquire(tokens.len())).await.unwrap().into_inner();
    assert!(next.token > *tokens.last().unwrap(), "{next:?}");
    let answer = running.client.acquire_identity(acquire(0)).await.unwrap().into_inner();
    assert_eq!((&*answer.outcome, answer.token), ("AlreadyHeld", tokens[0]));
    running.kill();
}

/// Ledgers in memory, each begun a moment after the one before.
#[tokio::test]
async fn a_ledger_that_is_begun_anew_gives_larger_tokens() {
    let mut highest = 0;
    for _ in 0..5 {
        let mut running = Running::of(spawn_by(&mut serve())).await;
        for n in 0..3 {
            let request = AcquireIdentityRequest {
                namespace: NAMESPACE.into(),
                name: format!("pet-{n}"),
                uid: "u".into(),
                node_name: String::new(),
                actor: "me".into(),
            };
            let answer = running.client.acquire_identity(request).await.unwrap().into_inner();
            assert!(answer.token > highest, "{} after {highest}", answer.token);
            highest = answer.token;
        }
        running.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_lost_or_given_twice_by_a_kill() {
    let started = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let mut replay = Replay::default();
    let clients = Arc::new(Mutex::new(Clients::new(u64::from(std::process::id()))));
    let mut n_unanswered = 0;
    for _ in 0..N_KILLS {
        let is_killed_early = clients.lock().unwrap().chance.is(30);
        if is_killed_early {
            // While the server creates, opens or repairs the file.
            let mut child = spawn(&path);
            let until_killed = clients.lock().unwrap().chance.below(40_000);
            tokio::time::sleep(Duration::from_micros(until_killed)).await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let mut running = Running::start(&path).await;
        check(&mut running.client, &mut replay, &clients).await;
        let sending: Vec<_> = (0..N_CLIENTS)
            .map(|_| tokio::spawn(send_until_gone(clients.clone(), running.client.clone())))
            .collect();
        let until_killed = clients.lock().unwrap().chance.below(60_000);
        tokio::time::sleep(Duration::from_micros(until_killed)).await;
        running.kill();
        for task in sending {
            task.await.unwrap();
        }
        n_unanswered += clients.lock().unwrap().n_unanswered();
    }
    let mut running = Running::start(&path).await;
    check(&mut running.client, &mut replay, &clients).await;
    // Reads from the beginning: no kill changed a line that had been read before.
    let mut whole = Replay::default();
    read_on(&mut running.client, &mut whole).await;
    assert_eq!(whole.lines, replay.lines);
    running.kill();
    let n_requests = clients.lock().unwrap().n_requests;
    println!(
        "{N_KILLS} kills under way, {n_requests} requests, {n_unanswered} unanswered, {} changes, {:?}",
        replay.lines.len(),
        started.elapsed()
    );
    assert!(replay.lines.len() > 500, "too little happened: {}", replay.lines.len());
    assert!(n_unanswered > 100, "the kills came too late: {n_unanswered}");
}
