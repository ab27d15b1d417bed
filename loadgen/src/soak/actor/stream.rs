//! Placements by `PlaceStream`, which stays open during recounts and is sometimes reopened.

use std::collections::VecDeque;

use berth_proto::berth_v1::{PlaceStreamRequest, PlaceStreamResponse};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Actor;
use super::place::{entries, mode, record_results, ttl};
use super::pods::ActorPods;
use crate::soak::names::{self, Names};
use crate::soak::world::World;

/// Limit of the requests that are sent before their responses are read.
const DEPTH: usize = 4;

/// The actor of `PlaceStream`, with at most one open stream.
pub(super) struct Stream {
    rng: ChaCha8Rng,
    names: Names,
    pods: ActorPods,
    open: Option<OpenStream>,
    sequence: u64,
}

/// An open `PlaceStream`.
struct OpenStream {
    requests: mpsc::Sender<PlaceStreamRequest>,
    responses: Streaming<PlaceStreamResponse>,
}

/// A request in flight.
struct InFlight {
    sequence: u64,
    pods: Vec<Pod>,
    assume: bool,
}

impl Stream {
    pub(super) fn new(seed: u64, max_pods: usize) -> Stream {
        let (rng, names) = (names::random_stream(seed, 3), Names::new("stream"));
        Stream { rng, names, pods: ActorPods::new(max_pods), open: None, sequence: 0 }
    }

    fn request(&mut self, world: &World) -> (PlaceStreamRequest, InFlight) {
        let (entries, pods) = entries(&mut self.names, world, &mut self.rng);
        let assume = self.rng.random_bool(0.6);
        self.sequence += 1;
        let sequence = self.sequence;
        let request = PlaceStreamRequest {
            sequence,
            entries,
            mode: mode(assume),
            assume_ttl_ms: ttl(assume),
            ..PlaceStreamRequest::default()
        };
        (request, InFlight { sequence, pods, assume })
    }

    /// Sends some requests and reads their responses.
    async fn exchange(&mut self, world: &World) -> Result<(), Status> {
        let mut sent = VecDeque::new();
        let n_requests = self.rng.random_range(1..=DEPTH);
        let mut requests = Vec::new();
        for _ in 0..n_requests {
            let (request, waiting) = self.request(world);
            requests.push(request);
            sent.push_back(waiting);
        }
        let outcome = self.send_and_read(world, requests, &mut sent).await;
        for unanswered in sent.iter().filter(|request| request.assume) {
            world.uncertain(&unanswered.pods);
        }
        outcome
    }

    async fn send_and_read(
        &mut self,
        world: &World,
        requests: Vec<PlaceStreamRequest>,
        sent: &mut VecDeque<InFlight>,
    ) -> Result<(), Status> {
        let mut open = match self.open.take() {
            Some(open) => {
                for request in requests {
                    // If the stream is closed, the responses carry the reason.
                    drop(open.requests.send(request).await);
                }
                open
            }
            None => {
                let (sender, receiver) = mpsc::channel(DEPTH);
                for request in requests {
                    // A server may delay its response headers until the first message.
                    drop(sender.try_send(request));
                }
                let mut placement = world.client.placement(3);
                let opening = placement.place_stream(ReceiverStream::new(receiver));
                let responses = world.call("PlaceStream opened", opening).await?;
                OpenStream { requests: sender, responses }
            }
        };
        while let Some(waiting) = sent.front() {
            let reading = async { open.responses.message().await.map(tonic::Response::new) };
            let answer = world.call("PlaceStream", reading).await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
            if answer.sequence != waiting.sequence {
                let (due, came) = (waiting.sequence, answer.sequence);
                world.differs(format!("PlaceStream answered request {came} instead of {due}"));
                return Err(Status::internal("a response is out of order"));
            }
            record_results(&mut self.pods, world, &waiting.pods, &answer.results, waiting.assume);
            sent.pop_front();
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Actor for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    async fn step(&mut self, world: &World) {
        if self.pods.is_full() || self.rng.random_bool(0.7) {
            for _ in 0..8 {
                self.pods.update_one(world, &mut self.rng).await;
            }
            return;
        }
        if self.rng.random_bool(0.05) {
            self.open = None;
        }
        // Failures are counted where they occur; the next step opens another stream.
        drop(self.exchange(world).await);
    }
}
