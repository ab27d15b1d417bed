//! A soak: calls of all kinds at a steady rate for a long time, with a recount of the cluster every few seconds.
//!
//! ```text
//!   actors ── one step at a time ──► server       model: every object that the server acknowledged
//!      └── gate: closed for each recount ──►     survey (ListNodes, ListPods, GetCluster) = model?   sample: memory, descriptors
//! ```
//!
//! Each actor uses names of its own, so the expected cluster follows from the responses alone. A call that is cut or
//! cancelled may or may not have assumed its pods: these pods are deleted before each recount, which then expects them
//! to be absent.

mod actor;
mod attack;
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
pub use tally::{Done, Latency};
use world::World;

/// Settings of a soak.
#[derive(Debug, Clone)]
pub struct SoakSpec {
    /// gRPC address of the server; the connections that are cut lead there too.
    pub server: String,
    /// Credentials of the client.
    pub credentials: Credentials,
    /// HTTP address of the server, which is probed, scraped and sent garbage; not used when absent.
    pub http: Option<String>,
    /// Id of the server's process on this machine, whose memory, descriptors and threads are read; not read when
    /// absent.
    pub pid: Option<u32>,
    /// Duration of the soak.
    pub duration: Duration,
    /// Intended steps a second, over all actors.
    pub rate: f64,
    /// Nodes of the initial cluster; the feed adds and removes up to as many again.
    pub n_nodes: usize,
    /// Limit of the pods that the actors keep, besides those of the initial cluster.
    pub n_pods: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Interval of the recounts.
    pub interval: Duration,
    /// Growth up to which memory and descriptors count as flat.
    pub bounds: Bounds,
    /// Number of attackers, who take what they can beside the actors.
    pub n_attackers: usize,
    /// Credentials of the attackers, of a user with the role of a reader.
    pub attacker_credentials: Credentials,
}

/// Reason why a soak could not be run. Differences that a soak finds are in its report instead.
#[derive(Debug, thiserror::Error)]
pub enum SoakError {
    /// A field of the specification that cannot be used.
    #[error("`{field}`: {reason}")]
    Spec {
        /// Name of the field's flag.
        field: &'static str,
        /// Reason why the value is refused.
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
        /// Number of refused objects.
        n: usize,
        /// The first refused object with field and reason.
        first: String,
    },
    /// The server's process cannot be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The server's HTTP address cannot be used.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl SoakSpec {
    /// Refuses values out of range, naming the flag.
    pub fn check(&self) -> Result<(), SoakError> {
        let refuse =
            |field, reason: &str| Err(SoakError::Spec { field, reason: reason.to_owned() });
        if self.duration.is_zero() {
            return refuse("duration", "must be positive");
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
            return refuse("interval", "must be positive");
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

/// Connections that stay open for the whole soak.
const N_CONNECTIONS: usize = 4;

/// Replaces the server's cluster, runs the actors for the duration or until `interrupted`, and reports. At the end all
/// pods of the actors are deleted.
///
/// `on_sample` receives each recount.
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
    attack::spawn_all(&mut actors, &world, spec.n_attackers, &spec.attacker_credentials, &stopping);
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
        let taken = sample(&world, process.as_ref(), start).await;
        on_sample(&taken);
        samples.push(taken);
        if world.has_lost_track() {
            break;
        }
    }
    stop.send_replace(true);
    join(&mut actors, &world).await;
    samples.push(sample(&world, process.as_ref(), start).await);
    world.release_all().await;
    let last = sample(&world, process.as_ref(), start).await;
    on_sample(&last);
    samples.push(last);
    let mut report = SoakReport::new(&spec, start.elapsed(), samples, world.take_tally());
    report.interrupted = is_interrupted;
    Ok(report)
}

/// Waits for the actors' last steps. An actor that panicked, a bug of this program, is reported as a difference.
async fn join(actors: &mut JoinSet<&'static str>, world: &World) {
    while let Some(ended) = actors.join_next().await {
        if let Err(error) = ended {
            world.differs(format!("an actor crashed: {error}"));
        }
    }
}

/// Closes the gate, recounts the cluster, and reads the usage of the server's process at the same moment.
async fn sample(world: &World, process: Option<&Process>, start: Instant) -> Sample {
    let _closed = world.gate.write().await;
    let mut sample = recount::recount(world).await;
    sample.at_seconds = start.elapsed().as_secs_f64();
    sample.n_steps = world.n_steps();
    if let Some(process) = process {
        match process.read() {
            Ok(usage) => sample.usage = Some(usage),
            Err(error) => world.lose_track(format!("cannot read the server's process: {error}")),
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

/// Time between two steps of an actor with `share` of all steps.
fn period(rate: f64, share: f64) -> Duration {
    Duration::from_secs_f64((1.0 / (rate * share)).clamp(1e-5, 3_600.0))
}

/// Runs an actor: at most one step in each period, while the gate is open, until `stopping`.
async fn run_actor(
    world: Arc<World>,
    mut actor: impl Actor,
    period: Duration,
    mut stopping: watch::Receiver<bool>,
) -> &'static str {
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // A dropped sender also ends the soak.
            _ = stopping.wait_for(|&stop| stop) => return actor.name(),
            _ = tick.tick() => {}
        }
        let _open = world.gate.read().await;
        actor.step(&world).await;
        world.count_step();
    }
}
