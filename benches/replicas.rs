//! Replicas that share what they reserve in etcd: durable reservations a second, their latency beside a bare transaction
//! of etcd, dry runs at the replicas beside a server alone, and the time until the next replica commits.
//!
//! ```text
//! cargo bench -p berth-benches --bench replicas
//! ```
//!
//! `-- streamed` (or `latency`, `dry-runs`, `hand-over`) makes one of the measurements only.
//!
//! Needs `etcd` on the path. Etcd, the servers and the callers share the machine; what is compared alternates.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_benches::served::{self, Failure, load, median};
use berth_benches::{Workload, incoming};
use berth_client::{Client, Mode, PlaceOptions};
use berth_etcd::rpc::TxnRequest;
use berth_etcd::{ClientOptions, transaction};
use berth_loadgen::load::{Limit, LoadSpec};
use berth_loadgen::report::LoadReport;
use berth_proto::berth_v1::{ListAssumedRequest, PlaceMode, PlaceRequest};
use berth_server::ledger::EtcdOptions;
use berth_server::runtime::{Limits, LoadLimits, Server, ServerOptions};
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use tonic::{Code, Request};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_MEMBERS: usize = 3;
const N_REPLICAS: usize = 3;
/// Number of alternating rounds, and the duration of a measurement in one.
const N_ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(1);
/// Duration of a measurement of streams.
const STREAMED: Duration = Duration::from_secs(3);
/// Bytes of a value of the bare transaction: about those of a reservation.
const VALUE_BYTES: usize = 600;
/// Pods in a stream's message, and messages in flight.
const STREAM_CHUNK: usize = 500;
const N_STREAM_MESSAGES: usize = 16;
/// Longest time to wait for a state.
const PATIENCE: Duration = Duration::from_secs(60);

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
    let Some(etcd) = Etcd::start(N_MEMBERS, &[]) else {
        return Err("needs `etcd` on the path".into());
    };
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
    // Cargo adds the argument `--bench`.
    let chosen = std::env::args().skip(1).find(|text| text != "--bench");
    let is_chosen = |what: &str| chosen.as_ref().is_none_or(|chosen| chosen == what);
    if is_chosen("latency") {
        latency(&bare, &replicas).await?;
    }
    if is_chosen("streamed") {
        streamed(&bare, &replicas, &etcd).await?;
    }
    if is_chosen("dry-runs") {
        dry_runs(&alone, &replicas).await?;
    }
    if is_chosen("hand-over") {
        hand_over(replicas).await?;
    }
    alone.server.shutdown().await;
    Ok(())
}

/// The latency of one reservation after another beside that of a bare transaction.
async fn latency(bare: &berth_etcd::Client, replicas: &[Replica]) -> Result<(), Failure> {
    let (mut bares, mut at_committer, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..N_ROUNDS {
        bares.extend(transactions(bare, round).await?);
        let spec = LoadSpec { concurrency: 1, ..assuming(Mode::Unary, 1) };
        at_committer.push(reserving(replicas, &replicas[0], spec.clone()).await?.latency);
        elsewhere.push(reserving(replicas, &replicas[1], spec).await?.latency);
    }
    let bare_p99 = percentile(&mut bares, 99);
    let bare_p50 = percentile(&mut bares, 50);
    for (what, latencies) in [("the committer", at_committer), ("another replica", elsewhere)] {
        let p50 = median(latencies.iter().map(|it| it.p50_us).collect());
        let p99 = median(latencies.iter().map(|it| it.p99_us).collect());
        let ratio = p99 / bare_p99;
        let figure = format!(
            "p50 {p50:.0} µs, p99 {p99:.0} µs, {ratio:.2} × the p99 of a bare transaction (p50 {bare_p50:.0} µs, p99 {bare_p99:.0} µs)"
        );
        say(&format!("Place with ASSUME at {what}"), &figure, "≤ 4 ×", ratio <= 4.0);
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

/// Durable reservations a second over streams, and what they take of etcd.
async fn streamed(
    bare: &berth_etcd::Client,
    replicas: &[Replica],
    etcd: &Etcd,
) -> Result<(), Failure> {
    let (concurrency, limit) = (N_STREAM_MESSAGES, Limit::Duration(STREAMED));
    let spec = LoadSpec { concurrency, limit, ..assuming(Mode::Stream, STREAM_CHUNK) };
    for (what, replica) in [("the committer", &replicas[0]), ("another replica", &replicas[1])] {
        let (mut rates, mut n_reserved, before) = (Vec::new(), 0, Taken::now(bare, etcd).await?);
        for _ in 0..N_ROUNDS {
            let report = reserving(replicas, replica, spec.clone()).await?;
            rates.push(report.decisions_per_second);
            n_reserved += report.n_placed;
        }
        let rate = median(rates);
        let figure = format!("{rate:.0} reservations/s, {STREAM_CHUNK} pods a message");
        say(&format!("PlaceStream with ASSUME at {what}"), &figure, "≥ 20,000", rate >= 20_000.0);
        let Taken { n_bytes, n_transactions, cpu } = Taken::now(bare, etcd).await?.since(&before);
        let each = n_reserved.max(1) as f64;
        eprintln!(
            "replicas/etcd for each of {n_reserved} reservations and its end: {:.0} bytes of its database, {:.1} to a transaction, {:.0} µs of a core for each member",
            n_bytes as f64 / each,
            each / n_transactions.max(1) as f64,
            cpu.as_secs_f64() * 1e6 / each / N_MEMBERS as f64,
        );
    }
    Ok(())
}

/// Size of etcd's database, number of its transactions and time of its cores, from its start until now.
struct Taken {
    /// Size of the database of one member.
    n_bytes: i64,
    n_transactions: i64,
    /// Time of cores, of all members.
    cpu: Duration,
}

impl Taken {
    async fn now(bare: &berth_etcd::Client, etcd: &Etcd) -> Result<Taken, Failure> {
        let status = bare.status().await?;
        let n_transactions = status.header.unwrap_or_default().revision;
        Ok(Taken { n_bytes: status.db_size, n_transactions, cpu: etcd.cpu_time() })
    }

    fn since(&self, before: &Taken) -> Taken {
        Taken {
            n_bytes: self.n_bytes - before.n_bytes,
            n_transactions: self.n_transactions - before.n_transactions,
            cpu: self.cpu.saturating_sub(before.cpu),
        }
    }
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
    let longest = times.iter().max().copied().unwrap_or_default();
    let figure = format!("{times:.0?} until another one has reserved");
    say("a committer that shuts down", &figure, "≤ 500 ms", longest <= Duration::from_millis(500));
    for replica in replicas {
        replica.server.shutdown().await;
    }
    Ok(())
}

/// A load that reserves.
fn assuming(mode: Mode, batch_size: usize) -> LoadSpec {
    LoadSpec {
        mode,
        batch_size,
        options: PlaceOptions { mode: PlaceMode::Assume, ..PlaceOptions::default() },
        limit: Limit::Duration(ROUND),
        ..LoadSpec::default()
    }
}

fn say(what: &str, figure: &str, budget: &str, is_met: bool) {
    served::say("replicas", what, figure, budget, is_met);
}

fn percentile(figures: &mut [f64], percent: usize) -> f64 {
    figures.sort_by(f64::total_cmp);
    let rank = (figures.len() * percent).div_ceil(100);
    figures.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Runs a load that reserves, and gives everything back.
async fn reserving(
    replicas: &[Replica],
    at: &Replica,
    spec: LoadSpec,
) -> Result<LoadReport, Failure> {
    let report = served::load(&at.client, spec).await?;
    loop {
        let request = ListAssumedRequest { page_size: 1_000, ..ListAssumedRequest::default() };
        let listed = replicas[0].client.placement(0).list_assumed(request).await?.into_inner();
        let keys: Vec<_> = listed.pods.into_iter().filter_map(|listed| listed.pod).collect();
        if keys.is_empty() {
            return Ok(report);
        }
        // Each replica is fed by itself.
        for replica in replicas {
            replica.client.delete_pods(&keys).await?;
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
            pod: Some((&pod).into()),
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
    let server = served::start(options).await?;
    let client = Client::connect(&format!("http://{}", server.grpc_address()), 2).await?;
    Ok(Replica { server, client })
}
