//! Callers: each of them reserves, confirms, extends and releases through any of the replicas, places gangs and commits
//! sessions, and records what it was told.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::session_service_client::SessionServiceClient;
use berth_proto::berth_v1::{
    AssumedPod, BatchEntry, CommittedPod, ConfirmRequest, ExtendRequest, Gang, ListAssumedRequest,
    PlaceBatchRequest, PlaceMode, PlaceResult, PlaceStreamRequest, PodKey, ReleaseRequest,
    SessionServiceCommitRequest, SessionServiceOpenRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::feeds::Feeds;
use super::history::{Operation, Reservation, What};
use crate::ledger::workload::Chance;
use crate::reservations::{Client, entry, reserved};
use crate::served::PATIENCE;

/// Messages of a stream, and pods of one.
const N_MESSAGES: u64 = 4;
const N_OF_MESSAGE: u64 = 12;
/// Least number of reservations without a time to live at which callers rather give back.
const MANY: usize = 600;
/// Time to live of what is confirmed, or given back.
pub(super) const LONG: Duration = Duration::from_secs(30);
const LONG_MS: u64 = 30_000;
/// Time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A reservation that a caller may change.
#[derive(Copy, Clone, Debug)]
struct Held {
    pod: u64,
    token: u64,
    node: u32,
    /// Whether it ends soon by itself.
    is_short: bool,
    /// When it is over by itself, perhaps; `None` if never.
    until: Option<Duration>,
}

/// What the callers share.
pub(crate) struct Shared {
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) began: Instant,
    /// The connections that callers use now.
    pub(crate) channels: Mutex<Vec<Channel>>,
    pub(crate) operations: Mutex<Vec<Operation>>,
    held: Mutex<Vec<Held>>,
    next_pod: AtomicU64,
    pub(crate) n_refused: AtomicUsize,
    pub(crate) n_reserved: AtomicUsize,
    pub(crate) stop: AtomicBool,
    /// What must not be, however it comes.
    pub(crate) complaints: Mutex<Vec<String>>,
}

/// One caller.
pub(crate) struct Caller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) chance: Chance,
}

type Told = Result<(), Status>;

/// Whether a server sent `status`. What tonic's client makes of a connection that a server closes is `INTERNAL` too, and
/// has a source.
fn is_sent(status: &Status) -> bool {
    std::error::Error::source(status).is_none()
}

/// Whether a reservation does not exist, by the answer to a call that names it.
fn is_denial(status: &Status) -> bool {
    matches!(status.code(), Code::NotFound | Code::FailedPrecondition)
}

impl Shared {
    pub(crate) fn new(channels: Vec<Channel>, feeds: Arc<Feeds>) -> Shared {
        Shared {
            feeds,
            began: Instant::now(),
            channels: Mutex::new(channels),
            operations: Mutex::default(),
            held: Mutex::default(),
            next_pod: AtomicU64::new(1),
            n_refused: AtomicUsize::new(0),
            n_reserved: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            complaints: Mutex::default(),
        }
    }

    pub(crate) fn complain(&self, text: String) {
        self.complaints.lock().unwrap().push(text);
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn record(&self, invoked: Duration, what: What) {
        let operation = Operation { invoked, returned: self.now(), what };
        self.operations.lock().unwrap().push(operation);
    }

    /// Records what a response has reserved.
    fn reserved(&self, invoked: Duration, results: Vec<PlaceResult>, ttl: Option<Duration>) {
        self.told(invoked, read(results), ttl);
    }

    fn told(&self, invoked: Duration, pods: Vec<Reservation>, ttl: Option<Duration>) {
        self.n_reserved.fetch_add(pods.len(), Ordering::Relaxed);
        let is_short = ttl.is_some_and(|ttl| ttl < LONG);
        // Most of the short ones are left to end by themselves.
        let n_kept = if is_short { pods.len().min(1) } else { pods.len() };
        let until = ttl.map(|ttl| self.now() + ttl);
        let held = |&Reservation { pod, token, node }: &Reservation| Held {
            pod,
            token,
            node,
            is_short,
            until,
        };
        let held: Vec<Held> = pods[..n_kept].iter().map(held).collect();
        if !pods.is_empty() {
            self.record(invoked, What::Reserved { pods, ttl });
        }
        self.held.lock().unwrap().extend(held);
    }

    /// Forgets what is over by itself; says whether much is left that is not.
    fn are_many(&self) -> bool {
        let (now, mut held) = (self.now(), self.held.lock().unwrap());
        held.retain(|it| it.until.is_none_or(|until| until > now));
        held.iter().filter(|it| !it.is_short).count() > MANY
    }

    /// Takes note of a new time to live.
    fn extended(&self, invoked: Duration, token: u64, ttl: Option<Duration>) {
        self.record(invoked, What::Extended { token, ttl });
        let (now, mut held) = (self.now(), self.held.lock().unwrap());
        if let Some(it) = held.iter_mut().find(|it| it.token == token) {
            it.until = ttl.map(|ttl| now + ttl);
        }
    }

    /// Numbers of pods that are asked for the first time.
    fn pods(&self, n: u64) -> Vec<BatchEntry> {
        let first = self.next_pod.fetch_add(n, Ordering::Relaxed);
        (first..first + n).map(|n| entry(&format!("p{n}"), 0)).collect()
    }
}

/// The reservations in a response.
fn read(results: Vec<PlaceResult>) -> Vec<Reservation> {
    let reserved = reserved(results).into_iter();
    reserved.map(|((pod, token), node)| reservation(&pod, token, &node)).collect()
}

/// Pods and nodes are a letter and a number.
fn reservation(pod: &str, token: u64, node: &str) -> Reservation {
    Reservation { pod: pod[1..].parse().unwrap(), token, node: node[1..].parse().unwrap() }
}

impl Caller {
    /// Makes calls until it is told to stop.
    pub(crate) async fn work(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let calling = tokio::time::timeout(PATIENCE, self.call()).await;
            let Ok(told) = calling else {
                return self.shared.complain("a call has no end".to_owned());
            };
            if let Err(status) = told {
                self.shared.n_refused.fetch_add(1, Ordering::Relaxed);
                let is_wrong = matches!(
                    status.code(),
                    Code::InvalidArgument | Code::Internal | Code::Unimplemented
                );
                if is_wrong && is_sent(&status) {
                    self.shared.complain(format!("{status:?}"));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    async fn call(&mut self) -> Told {
        let are_many = self.shared.are_many();
        match self.chance.below(100) {
            0..25 => self.stream().await,
            25..35 if !are_many => self.gang().await,
            35..45 if !are_many => self.named().await,
            45..48 if !are_many => self.session().await,
            48..55 => self.confirm().await,
            55..60 => self.extend().await,
            60..65 => self.bind().await,
            _ => self.release().await,
        }
    }

    fn channel(&mut self) -> Channel {
        let channels = self.shared.channels.lock().unwrap();
        let n = self.chance.below(channels.len() as u64);
        channels[usize::try_from(n).unwrap()].clone()
    }

    pub(super) fn client(&mut self) -> Client {
        Client::new(self.channel())
    }

    fn any_held(&mut self) -> Option<Held> {
        let held = self.shared.held.lock().unwrap();
        let n = self.chance.below(held.len().max(1) as u64);
        held.get(usize::try_from(n).unwrap()).copied()
    }

    /// Takes one of the reservations, which nobody else changes any more.
    fn take(&mut self) -> Option<Held> {
        let mut held = self.shared.held.lock().unwrap();
        let n = self.chance.below(held.len().max(1) as u64);
        let n = usize::try_from(n).unwrap();
        (n < held.len()).then(|| held.swap_remove(n))
    }

    /// Reserves on a stream, for a short time.
    async fn stream(&mut self) -> Told {
        let ttl = Duration::from_millis(300 + self.chance.below(1_500));
        let message = |entries| PlaceStreamRequest {
            entries,
            mode: PlaceMode::Assume.into(),
            assume_ttl_ms: Some(u64::try_from(ttl.as_millis()).unwrap()),
            ..PlaceStreamRequest::default()
        };
        let messages: Vec<_> =
            (0..N_MESSAGES).map(|_| message(self.shared.pods(N_OF_MESSAGE))).collect();
        let (mut client, invoked) = (self.client(), self.shared.now());
        let mut request = Request::new(tokio_stream::iter(messages));
        request.set_timeout(TIMEOUT);
        let mut answers = client.place_stream(request).await?.into_inner();
        while let Some(answer) = answers.message().await? {
            self.shared.reserved(invoked, answer.results, Some(ttl));
        }
        Ok(())
    }

    async fn gang(&mut self) -> Told {
        let entries = self.shared.pods(3 + self.chance.below(5));
        let (mut client, invoked) = (self.client(), self.shared.now());
        let mut request = batch(entries, Some(Gang::default()));
        // One whose response is lost ends by itself.
        request.get_mut().assume_ttl_ms = Some(LONG_MS);
        let answer = client.place_batch(request).await?.into_inner();
        self.shared.reserved(invoked, answer.results, Some(LONG));
        Ok(())
    }

    /// Makes a named request at two replicas at once, again until one answers, and once more.
    async fn named(&mut self) -> Told {
        let entries = self.shared.pods(2);
        let first = entries[0].pod.as_ref().unwrap().to_pod().unwrap();
        let name = format!("named-{}", first.metadata.unwrap().name);
        let invoked = self.shared.now();
        let mut is_answered = false;
        loop {
            let request = || {
                let mut request = batch(entries.clone(), None);
                request.metadata_mut().insert("berth-request-id", name.parse().unwrap());
                request
            };
            let (mut one, mut other) = (self.client(), self.client());
            let (one, other) =
                tokio::join!(one.place_batch(request()), other.place_batch(request()));
            for answer in [one, other] {
                match answer {
                    Ok(answer) if is_answered => {
                        let pods = read(answer.into_inner().results);
                        self.shared.record(invoked, What::Repeated { pods });
                        return Ok(());
                    }
                    Ok(answer) => {
                        let results = answer.into_inner().results;
                        // What has reserved nothing may be decided anew.
                        let is_empty = reserved(results.clone()).is_empty();
                        self.shared.reserved(invoked, results, None);
                        if is_empty {
                            return Ok(());
                        }
                        is_answered = true;
                    }
                    Err(status) => {
                        self.shared.n_refused.fetch_add(1, Ordering::Relaxed);
                        let is_passing = matches!(
                            status.code(),
                            Code::Unavailable
                                | Code::Cancelled
                                | Code::Unknown
                                | Code::DeadlineExceeded
                                | Code::ResourceExhausted
                        );
                        if !is_passing && is_sent(&status) {
                            self.shared.complain(format!("{status:?}"));
                        }
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Places some pods in a session, and commits it through another replica.
    async fn session(&mut self) -> Told {
        let mut sessions = SessionServiceClient::new(self.channel());
        let opened = sessions.open(SessionServiceOpenRequest {}).await?.into_inner();
        let mut request = batch(self.shared.pods(4), None);
        request.get_mut().session_id.clone_from(&opened.session_id);
        request.get_mut().assume_ttl_ms = None;
        self.client().place_batch(request).await?;
        let mut sessions = SessionServiceClient::new(self.channel());
        let invoked = self.shared.now();
        let session_id = opened.session_id;
        let mut request =
            Request::new(SessionServiceCommitRequest { session_id, assume_ttl_ms: Some(LONG_MS) });
        request.set_timeout(TIMEOUT);
        let committed = sessions.commit(request).await?.into_inner().assumed_pods;
        let read = |it: CommittedPod| {
            reservation(&it.pod.unwrap().name, it.assumption.unwrap().token, &it.node_name)
        };
        self.shared.told(invoked, committed.into_iter().map(read).collect(), Some(LONG));
        Ok(())
    }

    async fn confirm(&mut self) -> Told {
        let Some(Held { pod, token, is_short, .. }) = self.any_held() else { return Ok(()) };
        if is_short {
            return Ok(());
        }
        let (mut client, invoked) = (self.client(), self.shared.now());
        let mut request = Request::new(ConfirmRequest { pod: key(pod), token });
        request.set_timeout(TIMEOUT);
        match client.confirm(request).await {
            Ok(_) => self.shared.extended(invoked, token, None),
            Err(status) => self.note_denial(invoked, token, status)?,
        }
        Ok(())
    }

    async fn extend(&mut self) -> Told {
        let Some(Held { pod, token, is_short, .. }) = self.any_held() else { return Ok(()) };
        // Never shorter than what is left.
        let ttl = is_short.then_some(Duration::from_secs(2));
        let ttl_ms = Some(ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap()));
        let (mut client, invoked) = (self.client(), self.shared.now());
        let mut request = Request::new(ExtendRequest { pod: key(pod), token, ttl_ms });
        request.set_timeout(TIMEOUT);
        match client.extend(request).await {
            Ok(_) => self.shared.extended(invoked, token, ttl),
            Err(status) => self.note_denial(invoked, token, status)?,
        }
        Ok(())
    }

    /// Binds a pod, so that each replica hears of it from its feed, and deletes it after a while.
    async fn bind(&mut self) -> Told {
        let Some(Held { pod, token, node, is_short, .. }) = self.take() else { return Ok(()) };
        if is_short {
            return Ok(());
        }
        let (shared, time) = (self.shared.clone(), Duration::from_millis(self.chance.below(2_000)));
        shared.record(shared.now(), What::Bound { token });
        shared.feeds.bind(pod, node);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            shared.record(shared.now(), What::Deleted { token });
            shared.feeds.delete(pod);
        });
        Ok(())
    }

    async fn release(&mut self) -> Told {
        let Some(held @ Held { pod, token, .. }) = self.take() else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            return Ok(());
        };
        let (mut client, invoked) = (self.client(), self.shared.now());
        let mut request = Request::new(ReleaseRequest { pod: key(pod), token, nomination: false });
        request.set_timeout(TIMEOUT);
        let answer = client.release(request).await;
        // It may have been carried out all the same, and is asked for again.
        self.shared.record(invoked, What::Released { token, is_certain: answer.is_ok() });
        if answer.as_ref().is_err_and(|status| !is_denial(status)) {
            self.shared.held.lock().unwrap().push(held);
        }
        if answer.is_ok() && self.chance.is(10) {
            let confirmed = self.client().confirm(ConfirmRequest { pod: key(pod), token }).await;
            if confirmed.is_ok() {
                self.shared.complain(format!("{token} is confirmed after its release"));
            }
        }
        answer.map(drop)
    }

    /// Records that a reservation does not exist, if the status says so.
    fn note_denial(&self, invoked: Duration, token: u64, status: Status) -> Told {
        if is_denial(&status) {
            self.shared.record(invoked, What::Denied { token });
            self.shared.held.lock().unwrap().retain(|it| it.token != token);
            return Ok(());
        }
        Err(status)
    }

    /// Lists all reservations at a replica that has counted what was acknowledged before.
    pub(crate) async fn list(&mut self) -> Told {
        let mut request = batch(self.shared.pods(1), None);
        let (mut client, began) = (self.client(), self.shared.now());
        request.get_mut().assume_ttl_ms = Some(500);
        let probe = client.place_batch(request).await?;
        let revision = probe.metadata().get("berth-ledger-revision").unwrap().clone();
        let ttl = Some(Duration::from_millis(500));
        self.shared.reserved(began, probe.into_inner().results, ttl);
        // What is acknowledged from here on may be missing.
        let mut request = all();
        request.metadata_mut().insert("berth-min-ledger-revision", revision);
        let listed = self.client().list_assumed(request).await?.into_inner();
        assert_eq!(listed.next_page_token, "");
        // One whose caller has not been told has no token yet.
        let read = |it: AssumedPod| {
            let token = it.assumption?.token;
            Some(reservation(&it.pod.unwrap().name, token, &it.node_name))
        };
        let pods = listed.pods.into_iter().filter_map(read);
        self.shared.record(began, What::Listed { pods: pods.collect() });
        Ok(())
    }
}

fn batch(entries: Vec<BatchEntry>, gang: Option<Gang>) -> Request<PlaceBatchRequest> {
    let mut request = Request::new(PlaceBatchRequest {
        entries,
        mode: PlaceMode::Assume.into(),
        assume_ttl_ms: Some(0),
        gang,
        ..PlaceBatchRequest::default()
    });
    request.set_timeout(TIMEOUT);
    request
}

/// Name of a pod.
pub(super) fn key(pod: u64) -> Option<PodKey> {
    Some(PodKey { name: format!("p{pod}"), ..PodKey::default() })
}

/// A request for all reservations.
pub(super) fn all() -> Request<ListAssumedRequest> {
    let mut request =
        Request::new(ListAssumedRequest { page_size: 5_000, ..ListAssumedRequest::default() });
    request.set_timeout(TIMEOUT);
    request
}
