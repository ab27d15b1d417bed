//! Over gRPC on loopback, client beside server: `Place` against an empty handler, batches and streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_benches::{N_NODES, Workload, existing, incoming, node, objects};
use berth_engine::ClusterState;
use berth_loadgen::client::Client;
use berth_proto::berth_v1::placement_service_server::{PlacementService, PlacementServiceServer};
use berth_proto::berth_v1::{
    BatchEntry, ExplainRequest, ExplainResponse, PlaceBatchRequest, PlaceBatchResponse,
    PlaceRequest, PlaceResponse, PlaceStreamRequest, PlaceStreamResponse,
};
use berth_server::runtime::{Server, ServerOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use tokio_stream::{Empty, StreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Calls in flight, over this many connections.
const N_CALLERS: usize = 16;
const N_CONNECTIONS: usize = 2;
/// Pods in one stream message, and distinct pods that callers send.
const STREAM_CHUNK: usize = 500;
const N_PODS: usize = 64;

fn grpc(criterion: &mut Criterion) {
    let Ok(runtime) = Runtime::new() else { return eprintln!("skipped: no runtime") };
    let (server, empty) = match runtime.block_on(start()) {
        Ok(started) => started,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let mut group = criterion.benchmark_group("grpc/5000-nodes");
    group.sample_size(20);
    for (name, address) in [("empty-handler", empty), ("place", server.grpc_address())] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| {
            let client = Arc::new(connect(&runtime, address));
            bencher.iter_custom(|n_calls| runtime.block_on(unary(client.clone(), n_calls)));
        });
    }
    let client = connect(&runtime, server.grpc_address());
    group.throughput(Throughput::Elements(STREAM_CHUNK as u64));
    group.bench_function("place-stream", |bencher| {
        bencher.iter_custom(|n_messages| runtime.block_on(stream(&client, n_messages)));
    });
    group.throughput(Throughput::Elements(5000));
    group.bench_function("place-batch-5000-replicas", |bencher| {
        bencher.iter(|| runtime.block_on(batch(&client)));
    });
    group.finish();
    runtime.block_on(server.shutdown());
}

/// Berth with the baseline cluster, and a server whose handlers do nothing.
async fn start() -> Result<(Server, SocketAddr), Box<dyn std::error::Error>> {
    let server = Server::start(ServerOptions::default()).await?;
    let cluster = server.cluster();
    let nodes = (0..N_NODES).map(|i| cluster.compile_node(&node(i, Workload::Basic)));
    let pods = (0..30 * N_NODES)
        .map(|j| cluster.compile_pod(&existing(j, N_NODES, Workload::Basic)))
        .collect::<Result<_, _>>()?;
    cluster.replace(ClusterState {
        nodes: nodes.collect::<Result<_, _>>()?,
        objects: objects(cluster, Workload::Basic),
        pods,
    });
    server.freshness().note_applied();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    let service = PlacementServiceServer::new(EmptyHandler);
    tokio::spawn(
        tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming),
    );
    Ok((server, address))
}

fn connect(runtime: &Runtime, address: SocketAddr) -> Client {
    match runtime.block_on(Client::connect(&format!("http://{address}"), N_CONNECTIONS)) {
        Ok(client) => client,
        Err(error) => unreachable!("a server on loopback is reachable: {error}"),
    }
}

/// Time for `n_calls` unary calls by a fixed number of callers.
async fn unary(client: Arc<Client>, n_calls: u64) -> Duration {
    let start = Instant::now();
    let callers: Vec<_> = (0..N_CALLERS)
        .map(|caller| {
            let mut service = client.placement(caller);
            let share = n_calls / N_CALLERS as u64
                + u64::from((caller as u64) < n_calls % N_CALLERS as u64);
            tokio::spawn(async move {
                let pods: Vec<_> = (0..N_PODS).map(|k| incoming(k, Workload::Basic)).collect();
                for call in 0..share as usize {
                    let request = PlaceRequest {
                        pod: Some(pods[call % N_PODS].clone()),
                        ..PlaceRequest::default()
                    };
                    assert!(service.place(request).await.is_ok());
                }
            })
        })
        .collect();
    for caller in callers {
        assert!(caller.await.is_ok());
    }
    start.elapsed()
}

/// Time for `n_messages` stream messages of [`STREAM_CHUNK`] pods each, sent without waiting for answers.
async fn stream(client: &Client, n_messages: u64) -> Duration {
    let entries: Vec<_> = (0..STREAM_CHUNK)
        .map(|k| BatchEntry { pod: Some(incoming(k % N_PODS, Workload::Basic)), replicas: 1 })
        .collect();
    let messages = (0..n_messages).map(move |sequence| PlaceStreamRequest {
        sequence,
        entries: entries.clone(),
        ..PlaceStreamRequest::default()
    });
    let start = Instant::now();
    let answers = client.placement(0).place_stream(tokio_stream::iter(messages)).await;
    let Ok(mut answers) = answers.map(Response::into_inner) else {
        unreachable!("the stream opens")
    };
    let mut n_results = 0;
    while let Some(Ok(answer)) = answers.next().await {
        n_results += answer.results.len() as u64;
    }
    assert_eq!(n_results, n_messages * STREAM_CHUNK as u64);
    start.elapsed()
}

/// One dry-run batch of 5,000 replicas of one shape.
async fn batch(client: &Client) {
    let entry = BatchEntry { pod: Some(incoming(0, Workload::Basic)), replicas: 5000 };
    let request = PlaceBatchRequest { entries: vec![entry], ..PlaceBatchRequest::default() };
    let answer = client.placement(0).place_batch(request).await;
    assert!(answer.is_ok_and(|answer| answer.get_ref().results.len() == 5000));
}

/// Reads a request and answers nothing.
struct EmptyHandler;

#[tonic::async_trait]
impl PlacementService for EmptyHandler {
    async fn place(&self, _: Request<PlaceRequest>) -> Result<Response<PlaceResponse>, Status> {
        Ok(Response::new(PlaceResponse::default()))
    }

    async fn place_batch(
        &self,
        _: Request<PlaceBatchRequest>,
    ) -> Result<Response<PlaceBatchResponse>, Status> {
        Ok(Response::new(PlaceBatchResponse::default()))
    }

    type PlaceStreamStream = Empty<Result<PlaceStreamResponse, Status>>;

    async fn place_stream(
        &self,
        _: Request<Streaming<PlaceStreamRequest>>,
    ) -> Result<Response<Self::PlaceStreamStream>, Status> {
        Ok(Response::new(tokio_stream::empty()))
    }

    async fn explain(
        &self,
        _: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(ExplainResponse::default()))
    }
}

criterion_group!(benches, grpc);
criterion_main!(benches);
