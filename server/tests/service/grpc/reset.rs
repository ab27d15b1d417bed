//! Callers that reset their streams or lose their connections: they leave no pod assumed that they do not know of.
//!
//! The frames of HTTP/2 are read by hand too, so that the tests know to the byte what arrived.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ApplyRequest, BatchEntry, Delta, GetClusterRequest, PlaceBatchRequest, PlaceMode, PlaceRequest,
    PreemptRequest,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::grpc::preemption::{prioritised, running};
use crate::grpc::world::{World, eventually, key, pod};
use crate::http2::{
    ACK, DATA, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, WINDOW_UPDATE, frame,
    initial_window, request,
};

const CANCEL: [u8; 4] = [0, 0, 0, 8];

const PLACE: &str = "/berth.v1.PlacementService/Place";
const PLACE_BATCH: &str = "/berth.v1.PlacementService/PlaceBatch";
const PREEMPT: &str = "/berth.v1.PreemptionService/Preempt";
const APPLY: &str = "/berth.v1.ClusterService/Apply";

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL)
}

fn place(name: &str) -> PlaceRequest {
    let pod = Some(pod(name, "1m").into());
    PlaceRequest { pod, mode: PlaceMode::Assume as i32, ..PlaceRequest::default() }
}

fn deletion(name: &str) -> ApplyRequest {
    ApplyRequest { deltas: vec![Delta { change: Some(Change::DeletePod(key(name))) }] }
}

/// A connection of a caller.
struct Caller {
    stream: TcpStream,
    received: Vec<u8>,
    /// Streams whose response began, that is, has a message.
    begun: HashSet<u32>,
    /// Streams whose response arrived whole.
    answered: HashSet<u32>,
    n_pings: usize,
}

impl Caller {
    async fn connect(address: SocketAddr) -> Caller {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        // Windows that never close: INITIAL_WINDOW_SIZE, and that of the connection.
        let preface = [
            PREFACE.to_vec(),
            initial_window(0x7fff_ffff),
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]),
        ];
        stream.write_all(&preface.concat()).await.unwrap();
        let (received, begun, answered) = Default::default();
        Caller { stream, received, begun, answered, n_pings: 0 }
    }

    async fn send(&mut self, frames: &[u8]) {
        self.stream.write_all(frames).await.unwrap();
    }

    /// Reads once; returns whether the connection is still open.
    async fn read(&mut self) -> bool {
        let n_read = self.stream.read_buf(&mut self.received).await.unwrap();
        let mut frames = self.received.as_slice();
        while let [a, b, c, kind, flags, s0, s1, s2, s3, rest @ ..] = frames {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some(rest) = rest.get(length..) else { break };
            let stream = u32::from_be_bytes([*s0, *s1, *s2, *s3]);
            match *kind {
                DATA => drop(self.begun.insert(stream)),
                HEADERS if flags & END_STREAM != 0 && self.begun.contains(&stream) => {
                    self.answered.insert(stream);
                }
                PING if flags & ACK != 0 => self.n_pings += 1,
                _ => {}
            }
            frames = rest;
        }
        self.received = frames.to_vec();
        n_read > 0
    }

    /// Reads until the stream is answered.
    async fn answer(&mut self, stream: u32) {
        while !self.answered.contains(&stream) {
            assert!(self.read().await, "the connection has ended");
        }
    }

    /// Reads all that the server has written to the streams that it does not know to be reset.
    async fn settle(&mut self) {
        let before = self.n_pings;
        self.send(&frame(PING, 0, 0, &[0; 8])).await;
        while self.n_pings == before {
            assert!(self.read().await, "the connection has ended");
        }
    }
}

/// A sequence of numbers without a pattern, the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn is_one_of(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a pod's caller knows about it in the end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Expected {
    Assumed,
    Gone,
    /// Its deletion was under way together with its answer, or the message of its answer arrived without a status.
    Either,
}

/// Places pods, resets some of the streams and deletes some of the pods, at random moments and in random order; returns
/// what is expected of each pod.
async fn act(address: SocketAddr, number: u64) -> HashMap<String, Expected> {
    let mut rng = Numbers(number);
    let mut caller = Caller::connect(address).await;
    let (mut sent, mut stream) = (Vec::new(), 1);
    for i in 0..150 {
        let name = format!("pod-{number}-{i}");
        let resets = rng.is_one_of(60);
        let (is_at_once, is_deleted) = (rng.is_one_of(30), rng.is_one_of(40));
        let mut frames = if rng.is_one_of(20) {
            let entries = vec![BatchEntry { pod: Some(pod(&name, "1m").into()), replicas: 1 }];
            let mode = PlaceMode::Assume as i32;
            let batch = PlaceBatchRequest { entries, mode, ..PlaceBatchRequest::default() };
            request(stream, PLACE_BATCH, &batch)
        } else {
            request(stream, PLACE, &place(&name))
        };
        if resets && is_at_once {
            frames.extend(reset(stream));
        }
        caller.send(&frames).await;
        if resets && !is_at_once {
            let wait = Duration::from_micros(rng.below(600));
            let until = std::time::Instant::now() + wait;
            while std::time::Instant::now() < until {
                tokio::task::yield_now().await;
            }
            caller.send(&reset(stream)).await;
        }
        let waits = !resets && rng.is_one_of(50);
        if waits {
            caller.answer(stream).await;
        }
        let was_answered = caller.answered.contains(&stream);
        if is_deleted {
            caller.send(&request(stream + 2, APPLY, &deletion(&name))).await;
        }
        sent.push((name, stream, resets, was_answered, is_deleted));
        stream += 4;
        if i % 12 == 11 {
            // A server that has not come to 20 reset streams, on a loaded machine, ends the connection.
            caller.settle().await;
        }
    }
    for (_, stream, resets, _, _) in &sent {
        if !resets {
            caller.answer(*stream).await;
        }
    }
    // A deletion is carried out after the requests before it were read, and its answer comes after it.
    for (_, stream, _, _, is_deleted) in &sent {
        if *is_deleted {
            caller.answer(*stream + 2).await;
        }
    }
    caller.settle().await;
    sent.into_iter()
        .map(|(name, stream, _, was_answered, is_deleted)| {
            let was_begun = caller.begun.contains(&stream);
            let expected = match (caller.answered.contains(&stream), is_deleted) {
                (false, _) if was_begun => Expected::Either,
                (false, _) => Expected::Gone,
                (true, false) => Expected::Assumed,
                (true, true) if was_answered => Expected::Gone,
                (true, true) => Expected::Either,
            };
            (name, expected)
        })
        .collect()
}

/// Acknowledged pods that were not deleted are assumed, and no others, in any order of reset, deletion and answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_that_is_reset_leaves_no_pod_behind() {
    let mut world = World::start().await;
    world.nodes(50, 64).await;
    let address = world.server.grpc_address();
    let acting: Vec<_> = (0..6).map(|number| tokio::spawn(act(address, number))).collect();
    let mut expected = HashMap::new();
    for one in acting {
        expected.extend(one.await.unwrap());
    }
    let mut assumed = HashSet::new();
    let mut wrong = Vec::new();
    // What is given back on another thread may take a moment.
    for _ in 0..100 {
        let listed = world.list_pods().await;
        assumed =
            listed.into_iter().filter(|it| it.assumed).map(|it| it.key.unwrap().name).collect();
        let is_wrong = |(name, expected): &(&String, &Expected)| match expected {
            Expected::Assumed => !assumed.contains(*name),
            Expected::Gone => assumed.contains(*name),
            Expected::Either => false,
        };
        wrong = expected.iter().filter(is_wrong).collect();
        if wrong.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:?}", wrong.len(), expected.len());
    let count = |wanted| expected.values().filter(|it| **it == wanted).count();
    assert!(count(Expected::Assumed) > 50 && count(Expected::Gone) > 50);
    assert!(assumed.iter().all(|name| expected.contains_key(name)));
}

/// An answer may have been written and not read when its connection is reset: nothing is left of it either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_is_reset_leaves_no_pod_behind() {
    let mut world = World::start().await;
    world.nodes(50, 64).await;
    for i in 0..100 {
        let mut caller = Caller::connect(world.server.grpc_address()).await;
        caller.send(&request(1, PLACE, &place(&format!("pod-{i}")))).await;
        // Some are reset before the answer, some after it was written.
        tokio::time::sleep(Duration::from_micros(200 * (i % 10))).await;
        caller.stream.set_zero_linger().unwrap();
    }
    let cluster = world.cluster.clone();
    eventually("no pod is assumed", async || {
        let counts = cluster.clone().get_cluster(GetClusterRequest::default()).await;
        counts.unwrap().into_inner().n_assumed_pods == 0
    })
    .await;
}

/// A nomination is withdrawn if its caller's connection is reset, whether before the response or after it was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_is_reset_leaves_no_nomination_behind() {
    let mut world = World::start().await;
    world.nodes(1, 2).await;
    world.apply([running("low", "2", 1, "n0")]).await;
    for i in 0..100 {
        let mut caller = Caller::connect(world.server.grpc_address()).await;
        let pod = Some(prioritised(&format!("pod-{i}"), "2", 10));
        let preempt = PreemptRequest { pod, nominate: true, ..PreemptRequest::default() };
        caller.send(&request(1, PREEMPT, &preempt)).await;
        tokio::time::sleep(Duration::from_micros(200 * (i % 10))).await;
        caller.stream.set_zero_linger().unwrap();
    }
    let cluster = world.cluster.clone();
    eventually("no pod is nominated", async || {
        let counts = cluster.clone().get_cluster(GetClusterRequest::default()).await;
        counts.unwrap().into_inner().n_pending_pods == 0
    })
    .await;
    let told = Some(prioritised("told", "2", 10));
    let preempt = PreemptRequest { pod: told, nominate: true, ..PreemptRequest::default() };
    world.preemption.preempt(preempt).await.unwrap();
    assert_eq!(world.counts().await.n_pending_pods, 1);
}
