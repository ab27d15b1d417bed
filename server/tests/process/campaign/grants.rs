//! Grants: callers that change the ledger's names, volumes and fences beside the reservations, and the comparison of what
//! they were told with its journal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use berth_proto::berth_v1::AcquireIdentityRequest;
use tokio::task::JoinHandle;
use tonic::Code;

use super::callers::Shared;
use crate::crash::{self, Client, Clients};
use crate::ledger::replay::Replay;
use crate::ledger::workload::NAMESPACE;
use crate::served::PATIENCE;

const N_CLIENTS: usize = 2;
/// Pause between two changes of a client.
const PAUSE: Duration = Duration::from_millis(10);

/// The clients, and what is known of the ledger.
pub(super) struct Grants {
    shared: Arc<Shared>,
    clients: Arc<Mutex<Clients>>,
    replay: Replay,
    stop: Arc<AtomicBool>,
    sending: Vec<JoinHandle<()>>,
    n_asked: u64,
}

impl Grants {
    /// Begins to send changes.
    pub(super) fn new(shared: &Arc<Shared>) -> Grants {
        let mut grants = Grants {
            shared: shared.clone(),
            clients: Arc::new(Mutex::new(Clients::new(u64::from(std::process::id())))),
            replay: Replay::default(),
            stop: Arc::default(),
            sending: Vec::new(),
            n_asked: 0,
        };
        grants.begin();
        grants
    }

    fn begin(&mut self) {
        self.stop = Arc::default();
        let send =
            |_| tokio::spawn(send(self.clients.clone(), self.shared.clone(), self.stop.clone()));
        self.sending = (0..N_CLIENTS).map(send).collect();
    }

    /// Stops for as long as it takes to compare everything that was told with the journal.
    pub(super) async fn compare(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.sending.drain(..) {
            task.await.unwrap();
        }
        let mut client = self.committer().await;
        crash::check(&mut client, &mut self.replay, &self.clients).await;
        self.begin();
    }

    /// A client of the replica that commits.
    async fn committer(&mut self) -> Client {
        let began = Instant::now();
        loop {
            let channels = self.shared.channels.lock().unwrap().clone();
            for channel in channels {
                self.n_asked += 1;
                let request = AcquireIdentityRequest {
                    namespace: NAMESPACE.into(),
                    name: format!("probe-{}", self.n_asked),
                    uid: "u".into(),
                    node_name: String::new(),
                    actor: format!("probe-{}", self.n_asked),
                };
                let mut client = Client::new(channel);
                if client.acquire_identity(request).await.is_ok() {
                    return client;
                }
            }
            assert!(began.elapsed() < PATIENCE, "no replica commits");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends; returns the number of changes that the journal has.
    pub(super) fn finish(self) -> usize {
        self.sending.iter().for_each(JoinHandle::abort);
        self.replay.lines.len()
    }
}

/// Sends changes to any of the replicas until it is told to stop.
async fn send(clients: Arc<Mutex<Clients>>, shared: Arc<Shared>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let (request, floor, mut client) = {
            let clients = &mut *clients.lock().unwrap();
            let (request, floor) = clients.next_request();
            let channels = shared.channels.lock().unwrap();
            let n = usize::try_from(clients.chance.below(channels.len() as u64)).unwrap();
            (request, floor, Client::new(channels[n].clone()))
        };
        let answering = crash::call(&mut client, request.clone());
        let answer = tokio::time::timeout(PATIENCE, answering).await.expect("each call has an end");
        clients.lock().unwrap().heard(request, answer.as_ref().ok(), floor);
        if let Err(status) = answer {
            assert_ne!(status.code(), Code::InvalidArgument, "{status:?}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}
