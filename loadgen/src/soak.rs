//! A soak: everything that callers do with a server, at a steady rate for a long time, and a recount of the cluster every few
//! seconds.
//!
//! ```text
//!   actors ── step by step ──► server          model: what the server acknowledged
//!      └── gate: closed for each recount ──►   survey (ListNodes, ListPods, GetCluster) = model?   sample: memory, descriptors
//! ```
//!
//! Each actor has names of its own, so that what is there at any moment follows from the answers alone. Calls that are cut or
//! cancelled leave it open whether their pods were assumed: those are deleted before each recount, and have to be gone then.

mod actor;
mod model;
mod names;
pub mod process;
mod proxy;
mod recount;
pub mod report;
pub(crate) mod scrape;
pub mod slope;
mod survey;
mod tally;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_client::{Client, ClientError, Credentials};
use berth_synthetic::cluster::{ClusterSpec, SpecError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use actor::Actor;
use process::{Process, ProcessError};
pub use report::SoakReport;
use report::{Bounds, Sample};
use scrape::Http;
pub use scrape::HttpError;
pub use tally::Done;
use world::World;

/// What a soak does, and to whom.
#[derive(Debug, Clone)]
pub struct SoakSpec {
    /// The server's gRPC address, as it is also dialled for connections that are cut.
    pub server: String,
    /// What to trust and what to show.
    pub credentials: Credentials,
    /// The server's HTTP address, to be scraped and to be sent garbage; nothing of it is asked without.
    pub http: Option<String>,
    /// The server's process on this machine; nothing is read of it without.
    pub pid: Option<u32>,
    /// For how long to go on.
    pub duration: Duration,
    /// Steps a second that are aimed at, over all actors.
    pub rate: f64,
    /// Nodes of the cluster that is fed at the beginning; as many again come and go at most.
    pub n_nodes: usize,
    /// Pods that the actors keep at most, besides those of the cluster.
    pub n_pods: usize,
    /// Chooses everything that the other fields leave open.
    pub seed: u64,
    /// From one recount to the next.
    pub interval: Duration,
    /// Up to what growth memory and descriptors count as flat.
    pub bounds: Bounds,
}

/// Why a soak could not be made. What it found wrong is in its report.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// A field of the specification that cannot be used.
    #[error("`{field}`: {reason}")]
    Spec {
        /// The field, as its flag is called.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster cannot be generated.
    #[error("`{}`: {}", .0.field, .0.reason)]
    Cluster(#[from] SpecError),
    /// The server cannot be reached or fed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server refused objects of the first feed.
    #[error("the server refused {n} objects of the cluster, first {first}")]
    Refused {
        /// How many.
        n: usize,
        /// The first one with field and reason.
        first: String,
    },
    /// The server's process cannot be looked at.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The server's HTTP address cannot be asked.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl SoakSpec {
    /// Refuses what cannot be done, naming the flag.
    pub fn check(&self) -> Result<(), SoakError> {
        let refuse =
            |field, reason: &str| Err(SoakError::Spec { field, reason: reason.to_owned() });
        if self.duration.is_zero() {
            return refuse("duration", "must be longer than nothing");
        }
        if !(self.rate > 0.0 && self.rate <= 100_000.0) {
            return refuse("rate", "must be above 0 and at most 100,000 steps a second");
        }
        if !(1..=100_000).contains(&self.n_nodes) {
            return refuse("nodes", "must be between 1 and 100,000");
        }
        if !(10..=1_000_000).contains(&self.n_pods) {
            return refuse("pods", "must be between 10 and 1,000,000");
        }
        if self.interval.is_zero() {
            return refuse("interval", "must be longer than nothing");
        }
        Ok(())
    }

    fn cluster(&self) -> ClusterSpec {
        ClusterSpec {
            n_nodes: self.n_nodes,
            pods_per_node: 10,
            utilization: 0.4,
            n_deployments: 100,
            images_per_node: 5,
            seed: self.seed,
            ..ClusterSpec::default()
        }
    }
}

/// Connections that are kept all the time.
const N_CONNECTIONS: usize = 4;

/// Replaces the server's cluster, churns it for the duration or until `interrupted`, and tells what came of it. At the end every
/// pod that came since is deleted.
///
/// `on_sample` hears of every recount as it is made.
pub async fn run(
    spec: SoakSpec,
    interrupted: impl Future<Output = ()>,
    mut on_sample: impl FnMut(&Sample),
) -> Result<SoakReport, SoakError> {
    spec.check()?;
    let process = spec.pid.map(Process::open).transpose()?;
    let http = spec.http.as_deref().map(|url| Http::open(url, &spec.credentials)).transpose()?;
    let client = Client::connect_with(&spec.server, N_CONNECTIONS, &spec.credentials).await?;
    let world = Arc::new(World::begin(client, spec.clone(), http).await?);
    let start = Instant::now();
    let (stop, stopping) = watch::channel(false);
    let mut actors = actor::spawn_all(&world, &stopping);
    let mut samples = Vec::new();
    let mut tick = tokio::time::interval(spec.interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_interrupted = false;
    tokio::pin!(interrupted);
    while start.elapsed() < spec.duration {
        tokio::select! {
            _ = tick.tick() => {}
            () = tokio::time::sleep(spec.duration.saturating_sub(start.elapsed())) => break,
            () = &mut interrupted => {
                is_interrupted = true;
                break;
            }
        }
        let sample = look(&world, process.as_ref(), start).await;
        on_sample(&sample);
        samples.push(sample);
        if world.has_lost_track() {
            break;
        }
    }
    stop.send_replace(true);
    end(&mut actors, &world).await;
    samples.push(look(&world, process.as_ref(), start).await);
    world.release_all().await;
    let last = look(&world, process.as_ref(), start).await;
    on_sample(&last);
    samples.push(last);
    let (done, errors, differences) = world.into_account();
    let mut report = SoakReport::new(&spec, start.elapsed(), samples, done, errors, differences);
    report.interrupted = is_interrupted;
    Ok(report)
}

/// Waits for the actors' last steps. One that panicked is a fault of this program, and is said.
async fn end(actors: &mut JoinSet<&'static str>, world: &World) {
    while let Some(ended) = actors.join_next().await {
        if let Err(error) = ended {
            world.differs(format!("an actor ended by an error of its own: {error}"));
        }
    }
}

/// One recount, with nothing of ours under way, and what the process has at that moment.
async fn look(world: &World, process: Option<&Process>, start: Instant) -> Sample {
    let _closed = world.gate.write().await;
    let mut sample = recount::recount(world).await;
    sample.at_seconds = start.elapsed().as_secs_f64();
    sample.n_steps = world.n_steps();
    if let Some(process) = process {
        match process.read() {
            Ok(usage) => sample.usage = Some(usage),
            Err(error) => world.lose_track(format!("the server's process is gone: {error}")),
        }
    }
    if let Some(http) = &world.http {
        match http.get("/metrics").await {
            Ok(text) => sample.n_sessions = scrape::value(&text, "berth_sessions"),
            Err(error) => world.failed("GET /metrics", "HTTP", &error.to_string()),
        }
    }
    sample
}

/// Steps a second of an actor, with its share of all.
fn period(rate: f64, share: f64) -> Duration {
    Duration::from_secs_f64((1.0 / (rate * share)).clamp(1e-5, 3_600.0))
}

/// Takes steps, one in each period at most, whenever the gate is open.
async fn churn(
    world: Arc<World>,
    mut actor: impl Actor,
    period: Duration,
    mut stopping: watch::Receiver<bool>,
) -> &'static str {
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // A dropped sender is the end of the soak, too.
            _ = stopping.wait_for(|&stop| stop) => return actor.name(),
            _ = tick.tick() => {}
        }
        let _open = world.gate.read().await;
        actor.step(&world).await;
        world.count_step();
    }
}
