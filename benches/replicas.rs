//! Replicas that share what they reserve in etcd: durable reservations a second, their latency beside a bare transaction
//! of etcd, dry runs at the replicas beside a server alone, and the time until the next replica commits.
//!
//! ```text
//! cargo bench -p berth-benches --bench replicas
//! ```
//!
//! Needs `etcd` on the path. Etcd, the servers and the callers share the machine; what is compared alternates.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_benches::{N_NODES, Workload, existing, incoming, node, objects};
use berth_client::{Client, Mode, PlaceOptions};
use berth_engine::ClusterState;
use berth_etcd::rpc::TxnRequest;
use berth_etcd::{ClientOptions, transaction};
use berth_loadgen::load::{Limit, LoadSpec, run};
use berth_loadgen::report::LoadReport;
use berth_proto::berth_v1::{PlaceMode, PlaceRequest};
use berth_proto::core_v1::Pod;
use berth_server::ledger::EtcdOptions;
use berth_server::runtime::{Limits, LoadLimits, Server, ServerOptions};
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use tonic::{Code, Request};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_REPLICAS: usize = 3;
/// Number of different pods.
const N_PODS: usize = 64;
/// Number of alternating rounds, and the duration of a measurement in one.
const N_ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);
/// Bytes of a value of the bare transaction: about those of a reservation.
const VALUE_BYTES: usize = 600;
/// Pods in a stream's message, and messages in flight.
const STREAM_CHUNK: usize = 200;
const N_STREAM_MESSAGES: usize = 8;
/// Longest time to wait for a state.
const PATIENCE: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let outcome = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(measure()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replicas: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A replica with connections to it.
struct Replica {
    server: Server,
    client: Client,
}

async fn measure() -> Result<(), Failure> {
    let Some(etcd) = Etcd::start(1, &[]) else { return Err("needs `etcd` on the path".into()) };
    let alone = start(None).await?;
    let mut replicas = Vec::new();
    for n in 0..N_REPLICAS {
        replicas.push(start(Some((&etcd, n))).await?);
        // The first one commits.
        await_committing(&replicas[0]).await?;
    }
    await_committing(&replicas[N_REPLICAS - 1]).await?;
    let bare = berth_etcd::Client::new(&ClientOptions {
        endpoints: etcd.endpoints(),
        tls: None,
        password: None,
        timeout: Duration::from_secs(5),
    })?;
    latency(&bare, &replicas).await?;
    streamed(&replicas).await?;
    dry_runs(&alone, &replicas).await?;
    hand_over(replicas).await?;
    alone.server.shutdown().await;
    Ok(())
}

/// The latency of one reservation after another beside that of a bare transaction.
async fn latency(bare: &berth_etcd::Client, replicas: &[Replica]) -> Result<(), Failure> {
    let (mut bares, mut at_committer, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..N_ROUNDS {
        bares.extend(transactions(bare, round).await?);
        let spec = LoadSpec { concurrency: 1, ..assuming(Mode::Unary, 1) };
        at_committer.push(load(&replicas[0].client, spec.clone()).await?.latency);
        elsewhere.push(load(&replicas[1].client, spec).await?.latency);
    }
    let bare_p99 = percentile(&mut bares, 99);
    let bare_p50 = percentile(&mut bares, 50);
    for (what, latencies) in [("committer", at_committer), ("another replica", elsewhere)] {
        let p50 = median(latencies.iter().map(|it| it.p50_us).collect());
        let p99 = median(latencies.iter().map(|it| it.p99_us).collect());
        let ratio = p99 / bare_p99;
        let figure = format!(
            "p50 {p50:.0} µs, p99 {p99:.0} µs, {ratio:.2} × the p99 of a bare transaction (p50 {bare_p50:.0} µs, p99 {bare_p99:.0} µs)"
        );
        say(&format!("Place with ASSUME at the {what}"), &figure, "≤ 4 ×", ratio <= 4.0);
    }
    Ok(())
}

/// Times of bare transactions, one after another, in microseconds.
async fn transactions(bare: &berth_etcd::Client, round: usize) -> Result<Vec<f64>, Failure> {
    let (started, mut times) = (Instant::now(), Vec::new());
    let value = "x".repeat(VALUE_BYTES);
    while started.elapsed() < ROUND {
        let key = format!("bare/{round}/{}", times.len());
        let request = TxnRequest {
            compare: vec![transaction::created_at(&*key, 0)],
            success: vec![transaction::put(key.clone(), &*value, 0)],
            ..TxnRequest::default()
        };
        let sent = Instant::now();
        let answer = bare.transact(request).await?;
        times.push(sent.elapsed().as_secs_f64() * 1e6);
        if !answer.succeeded {
            return Err(format!("`{key}` exists").into());
        }
    }
    Ok(times)
}

/// Durable reservations a second over streams.
async fn streamed(replicas: &[Replica]) -> Result<(), Failure> {
    let spec = LoadSpec { concurrency: N_STREAM_MESSAGES, ..assuming(Mode::Stream, STREAM_CHUNK) };
    for (what, replica) in [("the committer", &replicas[0]), ("another replica", &replicas[1])] {
        let mut rates = Vec::new();
        for _ in 0..N_ROUNDS {
            rates.push(load(&replica.client, spec.clone()).await?.decisions_per_second);
        }
        let rate = median(rates);
        let figure = format!("{rate:.0} reservations/s, {STREAM_CHUNK} pods a message");
        say(&format!("PlaceStream with ASSUME at {what}"), &figure, "≥ 20,000", rate >= 20_000.0);
    }
    Ok(())
}

/// Dry runs a second at a replica that does not commit, beside a server alone.
async fn dry_runs(alone: &Replica, replicas: &[Replica]) -> Result<(), Failure> {
    let spec = LoadSpec { limit: Limit::Duration(ROUND), ..LoadSpec::default() };
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 0..2 * N_ROUNDS {
        let alone = load(&alone.client, spec.clone()).await?.decisions_per_second;
        let replica = &replicas[1 + round % (N_REPLICAS - 1)];
        let rate = load(&replica.client, spec.clone()).await?.decisions_per_second;
        rates.push(rate);
        ratios.push(rate / alone);
    }
    let (ratio, rate) = (median(ratios), median(rates));
    let figure = format!("{rate:.0} calls/s, {:.0} % of a server alone", ratio * 100.0);
    say("Place dry runs at another replica", &figure, "≥ 90 %", ratio >= 0.9);
    Ok(())
}

/// Time from the beginning of a committer's shutdown until another replica has reserved.
async fn hand_over(mut replicas: Vec<Replica>) -> Result<(), Failure> {
    let mut times = Vec::new();
    while replicas.len() > 1 {
        let Replica { server, client } = replicas.remove(0);
        drop(client);
        let began = Instant::now();
        let ending = tokio::spawn(async move { server.shutdown().await });
        let name = format!("after-{}", replicas.len());
        reserve(&replicas[0].client, &name, Some(began)).await?;
        times.push(began.elapsed());
        ending.await?;
    }
    let longest = times.into_iter().max().unwrap_or_default();
    let figure = format!("{:.0} ms until another one has reserved", longest.as_secs_f64() * 1e3);
    say("a committer that shuts down", &figure, "≤ 500 ms", longest <= Duration::from_millis(500));
    for replica in replicas {
        replica.server.shutdown().await;
    }
    Ok(())
}

/// A load that reserves, and releases at its end.
fn assuming(mode: Mode, batch_size: usize) -> LoadSpec {
    LoadSpec {
        mode,
        batch_size,
        options: PlaceOptions { mode: PlaceMode::Assume, ..PlaceOptions::default() },
        limit: Limit::Duration(ROUND),
        release: true,
        ..LoadSpec::default()
    }
}

fn say(what: &str, figure: &str, budget: &str, is_met: bool) {
    let met = if is_met { "met" } else { "not met" };
    eprintln!("replicas/{N_NODES}-nodes {what}: {figure}; budget {budget}, {met}");
}

fn median(figures: Vec<f64>) -> f64 {
    let mut figures = figures;
    percentile(&mut figures, 50)
}

fn percentile(figures: &mut [f64], percent: usize) -> f64 {
    figures.sort_by(f64::total_cmp);
    let rank = (figures.len() * percent).div_ceil(100);
    figures.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn pods() -> Vec<Pod> {
    (0..N_PODS).map(|k| incoming(k, Workload::Basic)).collect()
}

/// # Errors
/// A failed call is an error too, because a call that is not carried out would count as fast.
async fn load(client: &Client, spec: LoadSpec) -> Result<LoadReport, Failure> {
    let report = run(client, pods().into(), &spec, Arc::new(|_| ())).await?;
    match report.errors.iter().next() {
        None => Ok(report),
        Some((code, count)) => {
            Err(format!("{} pods failed with {code}: {}", count.n_pods, count.example).into())
        }
    }
}

/// Waits until a reservation through this replica succeeds.
async fn await_committing(replica: &Replica) -> Result<(), Failure> {
    reserve(&replica.client, "first", None).await
}

/// Reserves for a pod that needs nothing, again until it is done; `since` is for the error.
async fn reserve(client: &Client, name: &str, since: Option<Instant>) -> Result<(), Failure> {
    let until = since.unwrap_or_else(Instant::now) + PATIENCE;
    let mut pod = incoming(0, Workload::Basic);
    let metadata = pod.metadata.get_or_insert_default();
    (metadata.name, metadata.uid) = (name.to_owned(), name.to_owned());
    loop {
        let mut request = Request::new(PlaceRequest {
            pod: Some(Box::new(pod.clone())),
            mode: PlaceMode::Assume.into(),
            ..PlaceRequest::default()
        });
        request.metadata_mut().insert("berth-request-id", name.parse()?);
        match client.placement(0).place(request).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::Unavailable && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(status) => return Err(status.into()),
        }
    }
}

/// A server with the baseline cluster; a replica on this etcd, or alone.
async fn start(replica: Option<(&Etcd, usize)>) -> Result<Replica, Failure> {
    let grpc_address = match replica {
        Some(_) => free_address(),
        None => SocketAddr::from(([127, 0, 0, 1], 0)),
    };
    let etcd = replica.map(|(etcd, n)| EtcdOptions {
        endpoints: etcd.endpoints(),
        name: format!("r{n}"),
        address: format!("http://{grpc_address}"),
        ..EtcdOptions::default()
    });
    let max_queue_time = Duration::from_secs(60);
    let load = LoadLimits { max_queue_time, ..LoadLimits::default() };
    let limits = Limits { load, ..Limits::default() };
    let options = ServerOptions { grpc_address, etcd, limits, ..ServerOptions::default() };
    let server = Server::start(options).await?;
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
    let client = Client::connect(&format!("http://{}", server.grpc_address()), 2).await?;
    Ok(Replica { server, client })
}
