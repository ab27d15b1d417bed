//! The demo with replicas: servers that share what they reserve in etcd, of which the one that commits is killed while
//! clients reserve through all of them.

mod processes;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_client::Client;
use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::{ListAssumedRequest, PlaceMode, PlaceRequest, PlaceResponse};
use berth_proto::core_v1::Pod;
use berth_synthetic::workload::{self, WorkloadSpec};
use tokio::task::JoinSet;
use tonic::{Code, Request, Response, Status};

use super::feeding::{failed, feed};
use crate::cli::output::{self, Table};
use crate::cli::{CliError, manifest};
use crate::clock;
use processes::Processes;

/// Pods to place without `--pods`.
const DEFAULT_PODS: usize = 5_000;
/// Clients that reserve at once.
const N_CLIENTS: usize = 16;
/// Longest time for which a request is repeated.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a request is repeated at another replica.
const PAUSE: Duration = Duration::from_millis(20);
/// Assumed pods of a page.
const PAGE: u32 = 1_000;

/// Size of the demo, and the seed of its cluster and its pods.
pub(super) struct Spec {
    pub(super) n_replicas: u32,
    pub(super) n_nodes: usize,
    pub(super) n_pods: Option<usize>,
    pub(super) seed: u64,
}

/// A reserved pod, with its token.
type Reserved = (String, u64);

/// State of the clients that reserve: the pods that wait, the replicas to ask, and the answers.
#[derive(Default)]
struct Shared {
    /// The replicas that were not killed.
    clients: Mutex<Vec<Client>>,
    waiting: Mutex<std::vec::IntoIter<Pod>>,
    told: Mutex<Told>,
    n_answered: AtomicUsize,
}

/// The answers that all clients together have got.
#[derive(Default)]
struct Told {
    /// The nodes of reserved pods.
    reserved: BTreeMap<Reserved, String>,
    n_pending: usize,
    /// Requests that were repeated, and responses that say why they failed for good.
    n_repeated: usize,
    errors: Vec<String>,
    /// Times of the responses.
    at: Vec<Instant>,
    /// The last commit that a response has counted.
    revision: u64,
}

/// Starts the replicas, places pods through all of them, kills the one that commits, and compares what the others know
/// with what the clients were told.
///
/// # Errors
/// There is no etcd, a process does not start, no replica commits.
pub(super) async fn story(spec: &Spec) -> Result<(Processes, ExitCode), CliError> {
    let Spec { n_replicas, n_nodes, seed, .. } = *spec;
    let mut processes = Processes::start(n_replicas).await?;
    let n_pods = spec.n_pods.unwrap_or(DEFAULT_PODS);
    let pods = workload::generate(&WorkloadSpec { n_pods, seed, ..WorkloadSpec::default() });
    let mut clients = Vec::new();
    for replica in &processes.replicas {
        let client = Client::connect(&replica.url(), 1).await.map_err(failed)?;
        feed(&client, (n_nodes, seed), &pods).await?;
        clients.push(client);
    }
    let committer = processes.committer().await?;
    output::show(&table(&processes, committer))?;
    let shared = Arc::new(Shared::default());
    *lock(&shared.clients) = clients;
    *lock(&shared.waiting) = pods.into_iter();
    let began = clock::now();
    let mut tasks = JoinSet::new();
    (0..N_CLIENTS).for_each(|n| drop(tasks.spawn(reserve_all(shared.clone(), n))));
    while shared.n_answered.load(Ordering::Relaxed) < n_pods / 2 && !tasks.is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    let committer = processes.committer().await?;
    let killed = processes.kill(committer);
    let killed_at = clock::now();
    lock(&shared.clients).remove(committer);
    tasks.join_all().await;
    let elapsed = clock::now() - began;
    let next = processes.committer().await?;
    let told = std::mem::take(&mut *lock(&shared.told));
    let gap = longest_gap(&told.at, killed_at);
    let next = processes.replicas.get(next).map_or("", |replica| &replica.name);
    output::show(&format!(
        "\n{killed}, which committed, was killed (SIGKILL) after {}: {:.1} s later {next} committed",
        output::count(n_pods / 2, "pod"),
        gap.as_secs_f64(),
    ))?;
    let n_wrong = compare(&shared, &told).await?;
    output::show(&outcome(&told, n_pods, elapsed, n_wrong))?;
    let is_success = n_wrong == 0 && told.errors.is_empty();
    Ok((processes, if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Reserves for one pod after another, each through another replica, until none waits.
async fn reserve_all(shared: Arc<Shared>, first: usize) {
    for n in first.. {
        let Some(pod) = lock(&shared.waiting).next() else { return };
        reserve(&shared, pod, n).await;
        shared.n_answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reserves for one pod; where there is no answer, again at another replica, under the same name.
async fn reserve(shared: &Shared, pod: Pod, first: usize) {
    let name = manifest::name_of(&pod);
    let until = clock::now() + PATIENCE;
    for n in first.. {
        let mode = PlaceMode::Assume.into();
        let pod = Some(pod.clone().into());
        let mut request = Request::new(PlaceRequest { pod, mode, ..PlaceRequest::default() });
        if let Ok(id) = format!("demo-{name}").parse() {
            request.metadata_mut().insert("berth-request-id", id);
        }
        let mut client = {
            let clients = lock(&shared.clients);
            clients[n % clients.len()].placement(0)
        };
        let answered = client.place(request).await;
        if lock(&shared.told).note(&name, answered, clock::now() < until) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Told {
    /// Notes an answer; returns whether it is the last one.
    fn note(
        &mut self,
        name: &str,
        answered: Result<Response<PlaceResponse>, Status>,
        has_time: bool,
    ) -> bool {
        let response = match answered {
            Ok(response) => response,
            Err(status) if is_passing(status.code()) && has_time => {
                self.n_repeated += 1;
                return false;
            }
            Err(status) => {
                self.errors.push(format!("{name}: {}", status.message()));
                return true;
            }
        };
        self.at.push(clock::now());
        let revision = response.metadata().get("berth-ledger-revision");
        let revision = revision.and_then(|it| it.to_str().ok()?.parse().ok());
        self.revision = self.revision.max(revision.unwrap_or(0));
        match response.into_inner().decision.and_then(|it| it.outcome) {
            Some(Outcome::Placement(placement)) => {
                let token = placement.assumption.map_or(0, |it| it.token);
                self.reserved.insert((name.to_owned(), token), placement.node_name);
            }
            _ => self.n_pending += 1,
        }
        true
    }
}

/// Whether another replica may answer what one has not.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Cancelled | Code::Unknown | Code::DeadlineExceeded)
}

/// Counts the differences between what each replica has and what the clients were told.
async fn compare(shared: &Shared, told: &Told) -> Result<usize, CliError> {
    let clients = lock(&shared.clients).clone();
    let mut n_wrong = 0;
    for client in clients {
        let found = assumed(&client, told.revision).await.map_err(failed)?;
        let is_told =
            |(reserved, node): (&Reserved, &String)| told.reserved.get(reserved) == Some(node);
        let n_same = found.iter().filter(|it| is_told(*it)).count();
        n_wrong += (found.len() - n_same) + (told.reserved.len() - n_same);
    }
    Ok(n_wrong)
}

/// All assumed pods of a replica with their nodes, once it has counted a commit.
async fn assumed(client: &Client, revision: u64) -> Result<BTreeMap<Reserved, String>, Status> {
    let (mut found, mut page_token) = (BTreeMap::new(), String::new());
    loop {
        let request = ListAssumedRequest { page_size: PAGE, page_token, ..Default::default() };
        let mut request = Request::new(request);
        request.metadata_mut().insert("berth-min-ledger-revision", revision.into());
        request.set_timeout(PATIENCE);
        let page = client.placement(0).list_assumed(request).await?.into_inner();
        for pod in page.pods {
            let key = pod.pod.unwrap_or_default();
            let token = pod.assumption.map_or(0, |it| it.token);
            found.insert((format!("{}/{}", key.namespace, key.name), token), pod.node_name);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}

/// The longest time without a response after a time.
fn longest_gap(answered: &[Instant], after: Instant) -> Duration {
    let mut times: Vec<Instant> = answered.iter().copied().filter(|at| *at > after).collect();
    times.sort_unstable();
    let mut last = after;
    let gap = |at: Instant| at - std::mem::replace(&mut last, at);
    times.into_iter().map(gap).max().unwrap_or_default()
}

/// The replicas, and which one commits.
fn table(processes: &Processes, committer: usize) -> String {
    let mut table = Table::new(&["REPLICA", "GRPC", "COMMITS"]);
    for (at, replica) in processes.replicas.iter().enumerate() {
        let commits = if at == committer { "yes" } else { "" };
        table.add_row([&*replica.name, &replica.url(), commits]);
    }
    format!("\n{}", table.text())
}

fn outcome(told: &Told, n_pods: usize, elapsed: Duration, n_wrong: usize) -> String {
    let Told { reserved, n_pending, n_repeated, errors, .. } = told;
    let mut lines = vec![format!(
        "reserved room for {} of {} through all replicas in {:.1} s, {} pending; {} repeated under their names",
        output::grouped(reserved.len()),
        output::count(n_pods, "pod"),
        elapsed.as_secs_f64(),
        output::grouped(*n_pending),
        output::count(*n_repeated, "request"),
    )];
    lines.push(match n_wrong {
        0 => "each replica that is left has every reservation that was acknowledged, and no other"
            .to_owned(),
        n => format!(
            "{n} reservations differ between what was acknowledged and what replicas have: a bug"
        ),
    });
    lines.extend(errors.iter().take(3).map(|error| format!("failed: {error}")));
    lines.join("\n")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Plain values: a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_begins_at_the_kill() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let answered = [at(950), at(0), at(100), at(900), at(2_000)];
        assert_eq!(longest_gap(&answered, at(150)), Duration::from_millis(1_050));
        assert_eq!(longest_gap(&answered, at(1_000)), Duration::from_millis(1_000));
        assert_eq!(longest_gap(&answered, at(5_000)), Duration::ZERO);
    }
}
