//! `PlaceStream`, kept open over recounts and opened anew now and then.

use std::collections::VecDeque;

use berth_proto::berth_v1::{PlaceStreamRequest, PlaceStreamResponse};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Actor;
use super::held::Held;
use super::place::{entries, mode, take};
use crate::soak::names::{self, Names};
use crate::soak::world::World;

/// Requests that are sent before their answers are read.
const DEPTH: usize = 4;

/// One stream after another.
pub(super) struct Stream {
    rng: ChaCha8Rng,
    names: Names,
    held: Held,
    open: Option<Open>,
    sequence: u64,
}

struct Open {
    requests: mpsc::Sender<PlaceStreamRequest>,
    answers: Streaming<PlaceStreamResponse>,
}

/// A request that waits for its answer.
struct Sent {
    sequence: u64,
    pods: Vec<Pod>,
    assume: bool,
}

impl Stream {
    pub(super) fn new(seed: u64, most: usize) -> Stream {
        let (rng, names) = (names::stream(seed, 3), Names::of("stream"));
        Stream { rng, names, held: Held::new(most), open: None, sequence: 0 }
    }

    fn request(&mut self, world: &World) -> (PlaceStreamRequest, Sent) {
        let (entries, pods) = entries(&mut self.names, world, &mut self.rng);
        let assume = self.rng.random_bool(0.6);
        self.sequence += 1;
        let sequence = self.sequence;
        let request = PlaceStreamRequest {
            sequence,
            entries,
            mode: mode(assume),
            ..PlaceStreamRequest::default()
        };
        (request, Sent { sequence, pods, assume })
    }

    /// Sends some requests and reads their answers.
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
        for lost in sent.iter().filter(|lost| lost.assume) {
            world.unsettled(&lost.pods);
        }
        outcome
    }

    async fn send_and_read(
        &mut self,
        world: &World,
        requests: Vec<PlaceStreamRequest>,
        sent: &mut VecDeque<Sent>,
    ) -> Result<(), Status> {
        let mut open = match self.open.take() {
            Some(open) => {
                for request in requests {
                    // Why it is closed, the answers say.
                    drop(open.requests.send(request).await);
                }
                open
            }
            None => {
                let (sender, receiver) = mpsc::channel(DEPTH);
                for request in requests {
                    // A server may hold its headers back until the first message.
                    drop(sender.try_send(request));
                }
                let mut placement = world.client.placement(3);
                let opening = placement.place_stream(ReceiverStream::new(receiver));
                let answers = world.call("PlaceStream opened", opening).await?;
                Open { requests: sender, answers }
            }
        };
        while let Some(waiting) = sent.front() {
            let reading = async { open.answers.message().await.map(tonic::Response::new) };
            let answer = world.call("PlaceStream", reading).await?;
            let answer = answer.ok_or_else(|| Status::unavailable("the stream ended"))?;
            if answer.sequence != waiting.sequence {
                let (due, came) = (waiting.sequence, answer.sequence);
                world.differs(format!("PlaceStream answered {came} where {due} was due"));
                return Err(Status::internal("an answer out of order"));
            }
            take(&mut self.held, world, &waiting.pods, &answer.results, waiting.assume);
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
        if self.held.is_full() || self.rng.random_bool(0.7) {
            for _ in 0..8 {
                self.held.tend(world, &mut self.rng).await;
            }
            return;
        }
        if self.rng.random_bool(0.05) {
            self.open = None;
        }
        // Counted where it failed; the next step opens another stream.
        drop(self.exchange(world).await);
    }
}
