//! Broken callers: connections that are cut in the middle of a call, calls that are cancelled, and random bytes.

use std::time::Duration;

use berth_client::Client;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    BeginSnapshot, Delta, DeltaBatch, ListPodsRequest, PlaceBatchRequest, PlaceRequest,
    PlaceStreamRequest, SessionServiceOpenRequest, SyncRequest, sync_request,
};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Actor;
use super::place::{entries, mode, ttl};
use crate::soak::names::{Names, random_stream};
use crate::soak::proxy::{Cut, Proxy};
use crate::soak::world::World;

/// Time after which a connection is cut at the latest.
const MAX_LIFETIME: Duration = Duration::from_millis(300);
/// The HTTP/2 connection preface with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Limit of the sessions whose response may have been cut: they exist until they expire.
const MAX_SESSIONS: usize = 10;

/// The actor of broken calls. All its pods are uncertain.
pub(super) struct BrokenCalls {
    rng: ChaCha8Rng,
    names: Names,
    n_sessions: usize,
}

impl BrokenCalls {
    pub(super) fn new(seed: u64) -> BrokenCalls {
        BrokenCalls { rng: random_stream(seed, 8), names: Names::new("broken"), n_sessions: 0 }
    }

    /// A random way to cut a connection.
    fn random_cut(&mut self) -> Cut {
        Cut {
            after_bytes: self.rng.random_range(1..20_000),
            after: MAX_LIFETIME.mul_f64(self.rng.random_range(0.02..1.0)),
            resets: self.rng.random_bool(0.5),
            stalls: self.rng.random_bool(0.2),
        }
    }

    fn entries(&mut self, world: &World) -> PlaceBatchRequest {
        let (entries, pods) = entries(&mut self.names, world, &mut self.rng);
        world.uncertain(&pods);
        let (mode, assume_ttl_ms) = (mode(true), ttl(true));
        PlaceBatchRequest { entries, mode, assume_ttl_ms, ..PlaceBatchRequest::default() }
    }

    fn pod(&mut self, world: &World) -> Pod {
        let pod = self.names.pod(&world.pod_templates, &mut self.rng);
        world.uncertain([&pod]);
        pod
    }

    /// Makes a random call over a connection that is cut during the call.
    async fn cut_off(&mut self, world: &World) {
        let (scheme, target) =
            world.spec.server.split_once("://").unwrap_or(("http", &world.spec.server));
        let target = target.trim_end_matches('/').to_owned();
        let cut = self.random_cut();
        let proxy = match Proxy::open(target, cut).await {
            Ok(proxy) => proxy,
            Err(error) => return world.failed("a proxy", "", &error.to_string()),
        };
        let url = format!("{scheme}://{}", proxy.address);
        let call = self.call(world, &url);
        // The response does not matter: the connection is cut.
        drop(tokio::time::timeout(2 * MAX_LIFETIME, call).await);
        drop(proxy.ended(2 * MAX_LIFETIME).await);
        world.count("connections cut", 1);
    }

    async fn call(&mut self, world: &World, url: &str) -> Option<()> {
        let client = Client::connect_with(url, 1, &world.spec.credentials).await.ok()?;
        let what = self.rng.random_range(0..6);
        match what {
            0 => {
                let request = PlaceRequest {
                    pod: Some(self.pod(world).into()),
                    mode: mode(true),
                    assume_ttl_ms: ttl(true),
                    ..Default::default()
                };
                client.placement(0).place(request).await.ok().map(drop)
            }
            1 => {
                let request = self.entries(world);
                client.placement(0).place_batch(request).await.ok().map(drop)
            }
            2 => self.stream(world, &client).await,
            3 => self.half_a_snapshot(world, &client).await,
            4 if self.n_sessions < MAX_SESSIONS => {
                self.n_sessions += 1;
                client.session().open(SessionServiceOpenRequest {}).await.ok().map(drop)
            }
            _ => {
                let request = ListPodsRequest { page_size: 5_000, ..Default::default() };
                client.cluster().list_pods(request).await.ok().map(drop)
            }
        }
    }

    /// Sends a stream of requests and reads only some of the responses.
    async fn stream(&mut self, world: &World, client: &Client) -> Option<()> {
        let requests: Vec<PlaceStreamRequest> = (0..self.rng.random_range(1..20))
            .map(|sequence| {
                let PlaceBatchRequest { entries, mode, assume_ttl_ms, .. } = self.entries(world);
                PlaceStreamRequest { sequence, entries, mode, assume_ttl_ms, ..Default::default() }
            })
            .collect();
        let n_read = self.rng.random_range(0..=requests.len());
        let mut placement = client.placement(0);
        let answers = placement.place_stream(tokio_stream::iter(requests)).await.ok()?;
        let mut answers = answers.into_inner();
        for _ in 0..n_read {
            answers.message().await.ok()??;
        }
        Some(())
    }

    /// Sends a snapshot without its end, which must not change the cluster.
    async fn half_a_snapshot(&mut self, world: &World, client: &Client) -> Option<()> {
        let pods = (0..self.rng.random_range(1..200))
            .map(|_| self.names.pod(&world.pod_templates, &mut self.rng));
        let deltas = pods.map(|pod| Delta { change: Some(Change::UpsertPod(pod)) }).collect();
        let messages = [
            sync_request::Message::BeginSnapshot(BeginSnapshot {}),
            sync_request::Message::Batch(DeltaBatch { deltas, position: 0 }),
        ];
        let requests = messages.map(|message| SyncRequest { message: Some(message) });
        let mut cluster = client.cluster();
        let answers = cluster.sync(tokio_stream::iter(requests)).await.ok()?;
        let mut answers = answers.into_inner();
        while answers.message().await.ok()?.is_some() {}
        Some(())
    }

    /// Cancels a call over a good connection.
    async fn cancel(&mut self, world: &World) {
        let timeout = Duration::from_micros(self.rng.random_range(1..3_000));
        let mut placement = world.client.placement(0);
        if self.rng.random_bool(0.5) {
            let pod = Some(self.pod(world).into());
            let (mode, assume_ttl_ms) = (mode(true), ttl(true));
            let request = PlaceRequest { pod, mode, assume_ttl_ms, ..Default::default() };
            drop(tokio::time::timeout(timeout, placement.place(request)).await);
        } else {
            let request = self.entries(world);
            drop(tokio::time::timeout(timeout, placement.place_batch(request)).await);
        }
        world.count("calls given up", 1);
    }

    /// Sends random bytes to either port, some of them after a valid start.
    async fn garbage(&mut self, world: &World) {
        let grpc = world.spec.server.rsplit("://").next().unwrap_or_default().to_owned();
        let stream = match &world.http {
            Some(http) if self.rng.random_bool(0.5) => http.connect().await,
            _ => TcpStream::connect(grpc.trim_end_matches('/')).await,
        };
        let Ok(mut stream) = stream else {
            return world.failed("a connection for garbage", "", "refused");
        };
        let mut bytes = match self.rng.random_range(0..4) {
            0 => PREFACE.to_vec(),
            1 => PREFACE[..self.rng.random_range(1..PREFACE.len())].to_vec(),
            2 => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            _ => Vec::new(),
        };
        let n_random = self.rng.random_range(0..600);
        bytes.extend((0..n_random).map(|_| self.rng.random::<u8>()));
        // The server may have closed the connection already.
        drop(stream.write_all(&bytes).await);
        if self.rng.random_bool(0.5) {
            let timeout = MAX_LIFETIME.mul_f64(self.rng.random_range(0.01..0.5));
            drop(tokio::time::timeout(timeout, stream.read(&mut [0; 64])).await);
        }
        if self.rng.random_bool(0.5) {
            drop(stream.set_zero_linger());
        }
        world.count("connections with garbage", 1);
    }
}

impl Actor for BrokenCalls {
    fn name(&self) -> &'static str {
        "broken"
    }

    async fn step(&mut self, world: &World) {
        match self.rng.random_range(0..4) {
            0 | 1 => self.cut_off(world).await,
            2 => self.cancel(world).await,
            _ => self.garbage(world).await,
        }
    }
}
