//! Dry runs beside the writer: how much longer they take while deltas are applied at a steady rate. One thread decides,
//! another one applies; for comparison the one that decides also applies them itself, between decisions.
//!
//! ```console
//! $ cargo bench --bench beside            # 5,000 nodes with 150,000 pods: half a minute
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_benches::churn::{Cargo, churn};
use berth_benches::served::{median, say};
use berth_benches::trial::percentile;
use berth_benches::{N_NODES, Workload, cluster, incoming};
use berth_engine::{Cluster, Delta, PlaceRequest, Pod, Policy, TieBreak};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Deltas a second, and how many are applied at a time.
const RATE: f64 = 200_000.0;
const BATCH: usize = 1_000;
/// Number of pods that come, and then go.
const N_CHURNED: usize = 20_000;
/// Number of times that a phase without the writer is followed by one beside it, and the time of each.
const N_ROUNDS: usize = 5;
const PHASE: Duration = Duration::from_secs(2);
/// Number of decisions between two pauses, and their length.
const BURST: usize = 8;
const PAUSE: Duration = Duration::from_micros(100);
/// Budget: the p99 beside the writer by that without it.
const MAX_RATIO: f64 = 3.0;

fn main() {
    let cluster = cluster(Workload::Mixed, N_NODES, 30);
    let pods: Vec<Pod> = (0..Workload::Mixed.n_kinds())
        .filter_map(|k| cluster.compile_pod(&incoming(k, Workload::Mixed)).ok())
        .collect();
    let batches = batches(&cluster);
    let writer = Writer::default();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&cluster, &batches));
        let (mut quiet, mut beside, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        let mut in_turn = Vec::new();
        for _ in 0..N_ROUNDS {
            quiet.push(phase(&cluster, &pods, &[]));
            in_turn.push(phase(&cluster, &pods, &batches));
            writer.n_applied.store(0, Ordering::Relaxed);
            writer.is_on.store(true, Ordering::Relaxed);
            beside.push(phase(&cluster, &pods, &[]));
            let n_applied = writer.n_applied.load(Ordering::Relaxed);
            writer.is_on.store(false, Ordering::Relaxed);
            rates.push(n_applied as f64 / PHASE.as_secs_f64());
        }
        writer.is_over.store(true, Ordering::Relaxed);
        let rate = median(rates);
        let (least, figure) = (0.95 * RATE, format!("{rate:.0} a second"));
        say("beside", "deltas applied", &figure, &format!("≥ {least}"), rate >= least);
        for (percent, of) in [(50, 0), (99, 1)] {
            let us = |phases: &[[f64; 2]]| median(phases.iter().map(|phase| phase[of]).collect());
            let beside = us(&beside);
            let what = format!("dry runs, p{percent}");
            for (than, of, most) in [
                ("without the deltas", us(&quiet), (percent == 99).then_some(MAX_RATIO)),
                ("with the deltas applied between decisions", us(&in_turn), None),
            ] {
                let ratio = beside / of;
                let figure = format!("{beside:.1} µs, {of:.1} µs {than}: {ratio:.2} ×");
                let budget = most.map_or("none".to_owned(), |most| format!("≤ {most} ×"));
                say("beside", &what, &figure, &budget, most.is_none_or(|most| ratio <= most));
            }
        }
    });
}

/// Deltas that add pods all over the cluster, and then such that remove them.
fn batches(cluster: &Cluster) -> Vec<Vec<Delta>> {
    let of = |from: usize| (from..from + BATCH).map(|k| churn(cluster, k, N_NODES, Cargo::Labels));
    let (come, go): (Vec<_>, Vec<_>) =
        (0..N_CHURNED).step_by(BATCH).map(|from| of(from).unzip()).unzip();
    come.into_iter().chain(go).collect()
}

/// Switches of the thread that applies deltas, and the number of deltas that it has applied.
#[derive(Default)]
struct Writer {
    is_on: AtomicBool,
    is_over: AtomicBool,
    n_applied: AtomicUsize,
}

impl Writer {
    fn run(&self, cluster: &Cluster, batches: &[Vec<Delta>]) {
        let mut next = Instant::now();
        for batch in batches.iter().cycle() {
            while !self.is_on.load(Ordering::Relaxed) {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
                next = Instant::now();
            }
            black_box(cluster.apply(batch.clone()));
            self.n_applied.fetch_add(batch.len(), Ordering::Relaxed);
            next += Duration::from_secs_f64(BATCH as f64 / RATE);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
}

/// Decides for the pods in turn for a while; returns the median and the p99, in µs. Between decisions it applies those of
/// the batches that are due.
fn phase(cluster: &Cluster, pods: &[Pod], batches: &[Vec<Delta>]) -> [f64; 2] {
    let policy = Policy::default();
    let (began, mut times) = (Instant::now(), Vec::new());
    let mut due = (0_usize..).zip(batches.iter().cycle()).peekable();
    while began.elapsed() < PHASE {
        let n_due = (began.elapsed().as_secs_f64() * RATE / BATCH as f64) as usize;
        if let Some((_, batch)) = due.next_if(|(n, _)| *n < n_due) {
            black_box(cluster.apply(batch.clone()));
        }
        for pod in pods.iter().cycle().skip(times.len() % pods.len()).take(BURST) {
            let request =
                PlaceRequest { pod, policy: &policy, tie_break: TieBreak::Seeded(0), now: None };
            let from = Instant::now();
            let decided = black_box(cluster.place(&request));
            times.push(from.elapsed());
            assert!(decided.is_ok(), "the baseline's pods are decided");
        }
        std::thread::sleep(PAUSE);
    }
    [50, 99].map(|percent| percentile(times.iter().copied(), percent).as_secs_f64() * 1e6)
}
