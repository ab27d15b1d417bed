//! Benches over gRPC on loopback, with generator and server on the same cores: `Place` compared with an empty handler,
//! batches and streams, and the latency at half of the highest load. One line a figure, with its budget.
//!
//! The empty handler reads the same requests and returns responses of the same size over the same transport, without
//! Berth's handling around a call. Both are measured alternately, so that other load on the machine affects both.
//!
//! `cargo bench -p berth-benches --bench grpc` runs all; the arguments `-- calls 5000` make only 5,000 calls of
//! `Place`, for a profiler, and `-- empty 5000` the same number of calls of the empty handler; `-- stream 50000` and
//! `-- entries 50000` place so many pods in streams, and as entries of batches. `-- journal` compares a server that
//! writes a journal with one that does not.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use berth_benches::pause::Pauses;
use berth_benches::served::{self, Failure, load, median};
use berth_benches::{Workload, incoming};
use berth_client::{Client, Mode};
use berth_loadgen::load::{Arrival, Limit, LoadSpec};
use berth_loadgen::report::{Latency, LoadReport};
use berth_proto::berth_v1::placement_service_server::{PlacementService, PlacementServiceServer};
use berth_proto::berth_v1::{
    ConfirmRequest, ConfirmResponse, ExplainRequest, ExplainResponse, ExtendRequest,
    ExtendResponse, ListAssumedRequest, ListAssumedResponse, PlaceBatchRequest, PlaceBatchResponse,
    PlaceRequest, PlaceResponse, PlaceStreamRequest, PlaceStreamResponse, ReleaseRequest,
    ReleaseResponse, ReserveRequest, ReserveResponse,
};
use berth_server::runtime::{JournalOptions, ServerOptions, transport};
use tokio_stream::Empty;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of calls in flight, and of connections.
const N_CALLERS: usize = 16;
const N_CONNECTIONS: usize = 2;
/// Pods in one stream message, and stream messages in flight.
const STREAM_CHUNK: usize = 500;
const N_STREAM_MESSAGES: usize = 8;
/// Replicas of one batch, and batches in flight.
const REPLICAS: usize = 5_000;
const N_BATCHES: usize = 4;
/// Number of alternating rounds of the empty handler and `Place`, and the duration of each.
const N_ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_secs(1);
/// Duration of the other measurements.
const LONG: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    // Cargo adds the argument `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| text != "--bench").collect();
    let outcome = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(measure(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("grpc: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &[String]) -> Result<(), Failure> {
    let server = served::start(ServerOptions::default()).await?;
    let place = connect(server.grpc_address()).await?;
    let request =
        PlaceRequest { pod: Some(incoming(0, Workload::Basic).into()), ..PlaceRequest::default() };
    let answer = place.placement(0).place(request).await?.into_inner();
    let empty = connect(start_empty(answer).await?).await?;
    match arguments {
        [what, n] => {
            let limit = Limit::Pods(n.parse()?);
            let (client, spec) = match &**what {
                "empty" => (&empty, unary()),
                "stream" => (&place, stream()),
                "entries" => (&place, entries()),
                _ => (&place, unary()),
            };
            load(client, LoadSpec { limit, ..spec }).await?;
        }
        [what] if what == "journal" => journal(&place).await?,
        _ => figures(&place, &empty).await?,
    }
    server.shutdown().await;
    Ok(())
}

async fn figures(place: &Client, empty: &Client) -> Result<(), Failure> {
    for client in [empty, place] {
        load(client, LoadSpec { limit: Limit::Pods(5_000), ..unary() }).await?;
    }
    let mut rounds = Vec::new();
    for _ in 0..N_ROUNDS {
        rounds.push(Round::measure(place, empty).await?);
    }
    print_rounds(&rounds);

    say_placements(
        "PlaceStream",
        &format!("{STREAM_CHUNK} pods a message"),
        &load(place, stream()).await?,
        250_000,
    );
    say_placements(
        "PlaceBatch",
        &format!("{REPLICAS} replicas a call"),
        &load(place, LoadSpec { batch_size: REPLICAS, replicas: 5_000, ..entries() }).await?,
        1_000_000,
    );
    say_placements(
        "PlaceBatch",
        &format!("{STREAM_CHUNK} entries a call"),
        &load(place, entries()).await?,
        250_000,
    );
    Ok(())
}

/// The rates of a server that records everything, beside those of one that does not.
async fn journal(place: &Client) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let journal = JournalOptions {
        directory: folder.path().to_owned(),
        max_bytes: 1 << 30,
        max_age: Duration::from_secs(3_600),
    };
    let options = ServerOptions { journal: Some(journal), ..ServerOptions::default() };
    let server = served::start(options).await?;
    let recorded = connect(server.grpc_address()).await?;
    let replicas = LoadSpec { batch_size: REPLICAS, replicas: 5_000, ..entries() };
    let kinds = [
        ("Place", unary()),
        ("PlaceStream", stream()),
        ("PlaceBatch of entries", entries()),
        ("PlaceBatch of replicas", replicas),
    ];
    for (what, spec) in kinds {
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for _ in 0..N_ROUNDS {
            let spec = LoadSpec { limit: Limit::Duration(ROUND), ..spec.clone() };
            let without = load(place, spec.clone()).await?.decisions_per_second;
            let with = load(&recorded, spec).await?.decisions_per_second;
            ratios.push(with / without);
            rates.push(with);
        }
        let (ratio, rate) = (median(ratios), median(rates));
        let text = format!(
            "{rate:.0} placements/s with a journal, {:.1} % of those without",
            ratio * 100.0
        );
        say(what, &text, "≥ 95 %", ratio >= 0.95);
    }
    server.shutdown().await;
    Ok(())
}

/// One round of measurements. Rounds alternate because the speed of a machine varies over minutes, so values to be
/// compared are measured close together.
struct Round {
    /// Calls a second of a closed loop.
    rate: f64,
    empty_rate: f64,
    /// Latency in an open loop at half of `rate`, measured from the intended start of each request.
    at_half: Latency,
    empty_at_half: Latency,
    /// Pauses of the machine, which are part of each other measurement.
    pauses: Pauses,
}

impl Round {
    async fn measure(place: &Client, empty: &Client) -> Result<Round, Failure> {
        let pauses = tokio::task::spawn_blocking(|| Pauses::watch(ROUND / 2)).await?;
        let empty_rate = load(empty, unary()).await?.decisions_per_second;
        let rate = load(place, unary()).await?.decisions_per_second;
        let half = LoadSpec {
            arrival: Arrival::Open { pods_per_second: rate / 2.0 },
            limit: Limit::Duration(2 * ROUND),
            // Enough callers that no due request waits for one.
            concurrency: 256,
            ..unary()
        };
        let empty_at_half = load(empty, half.clone()).await?.latency;
        let at_half = load(place, half).await?.latency;
        Ok(Round { rate, empty_rate, at_half, empty_at_half, pauses })
    }
}

fn print_rounds(rounds: &[Round]) {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let (rate, floor) = (of(|round| round.rate), of(|round| round.empty_rate));
    let share = of(|round| round.rate / round.empty_rate);
    let text =
        format!("{rate:.0} calls/s, {:.0} % of an empty handler's {floor:.0}", share * 100.0);
    say("Place", &text, "≥ 88 %", share >= 0.88);
    let p99 = of(|round| round.at_half.p99_us);
    let text = format!(
        "p99 {p99:.0} µs at {:.0} calls/s, from the intended start (p50 {:.0} µs, p99.9 {:.0} µs; p99 of the empty handler {:.0} µs)",
        rate / 2.0,
        of(|round| round.at_half.p50_us),
        of(|round| round.at_half.p999_us),
        of(|round| round.empty_at_half.p99_us),
    );
    say("Place at half load", &text, "≤ 2 ms", p99 <= 2_000.0);
    let pauses = rounds.iter().fold(Pauses::default(), |all, round| all.and(round.pauses));
    let (share, longest) = (pauses.share() * 100.0, pauses.longest);
    eprintln!(
        "grpc/the machine: a core that was wanted stood still for 1 ms and more {share:.2} % of the time, for {longest:.1?} at most"
    );
}

fn say_placements(what: &str, how: &str, report: &LoadReport, budget: u32) {
    let rate = report.decisions_per_second;
    let is_met = rate >= f64::from(budget);
    say(what, &format!("{rate:.0} placements/s, {how}"), &format!("≥ {budget}"), is_met);
}

fn say(what: &str, figure: &str, budget: &str, is_met: bool) {
    served::say("grpc", what, figure, budget, is_met);
}

/// Returns the specification of a closed loop with a fixed number of callers.
fn unary() -> LoadSpec {
    LoadSpec { concurrency: N_CALLERS, limit: Limit::Duration(ROUND), ..LoadSpec::default() }
}

/// Returns the specification of streams.
fn stream() -> LoadSpec {
    LoadSpec {
        mode: Mode::Stream,
        batch_size: STREAM_CHUNK,
        concurrency: N_STREAM_MESSAGES,
        limit: Limit::Duration(LONG),
        ..LoadSpec::default()
    }
}

/// Returns the specification of batches whose entries are one pod each.
fn entries() -> LoadSpec {
    LoadSpec {
        mode: Mode::Batch,
        batch_size: STREAM_CHUNK,
        replicas: 1,
        concurrency: N_BATCHES,
        limit: Limit::Duration(LONG),
        ..LoadSpec::default()
    }
}

/// A server over Berth's transport whose `Place` returns `answer` for every request.
async fn start_empty(answer: PlaceResponse) -> Result<SocketAddr, Failure> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    let mut transport = transport(&ServerOptions::default().limits);
    let service = PlacementServiceServer::new(EmptyHandler { answer });
    tokio::spawn(transport.add_service(service).serve_with_incoming(incoming));
    Ok(address)
}

async fn connect(address: SocketAddr) -> Result<Client, Failure> {
    Ok(Client::connect(&format!("http://{address}"), N_CONNECTIONS).await?)
}

/// A handler that decodes the request and returns a constant response.
struct EmptyHandler {
    answer: PlaceResponse,
}

#[tonic::async_trait]
impl PlacementService for EmptyHandler {
    async fn place(&self, _: Request<PlaceRequest>) -> Result<Response<PlaceResponse>, Status> {
        Ok(Response::new(self.answer.clone()))
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

    async fn reserve(
        &self,
        _: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        Ok(Response::new(ReserveResponse::default()))
    }

    async fn confirm(
        &self,
        _: Request<ConfirmRequest>,
    ) -> Result<Response<ConfirmResponse>, Status> {
        Ok(Response::new(ConfirmResponse::default()))
    }

    async fn extend(&self, _: Request<ExtendRequest>) -> Result<Response<ExtendResponse>, Status> {
        Ok(Response::new(ExtendResponse::default()))
    }

    async fn release(
        &self,
        _: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        Ok(Response::new(ReleaseResponse::default()))
    }

    async fn list_assumed(
        &self,
        _: Request<ListAssumedRequest>,
    ) -> Result<Response<ListAssumedResponse>, Status> {
        Ok(Response::new(ListAssumedResponse::default()))
    }

    async fn explain(
        &self,
        _: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(ExplainResponse::default()))
    }
}
