//! Comparison with kube-scheduler for pods with claims for devices, by its own procedure: a table of median times.
//!
//! The measurements are made with 5,000 nodes of eight devices, half of which 20,000 claims hold, on one thread. Each
//! run loads a fresh cluster and places 20 pods to warm up and 120 that are timed, each with a claim of its own, which
//! is assumed with its pod before the next is decided; each column gives the median of three runs. kube-scheduler's
//! figures are medians on the same kind of machine, with two cores for its 16 workers and every node considered.
//!
//! | column | timed work |
//! |---|---|
//! | decision | `Cluster::place`, which is closest to kube-scheduler's figure |
//! | with reading and assuming | all that Berth does for a pod and its claim: reading both, entering the claim, the decision, and a second decision to publish the cluster with pod and allocation in it |
//! | in turn | reading pod and claim, entering the claim, and the decision that is published at once: what a caller waits for that assumes |
//! | new shape | the decision for 120 further pods, each with a claim unlike all before; its expression, if it has one, is new too |
//! | first | the first decision on a cluster after its load |
//!
//! The last line is the memory of 40,000 devices: how much the process grows when 5,000 slices are read and entered.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use berth_benches::process::Process;
use berth_benches::trial::device::DeviceTrial;
use berth_benches::trial::device::PodTimes;
use berth_benches::trial::{N_TIMED, N_WARM_UP, percentile};
use berth_benches::{DeviceWorkload, N_NODES};
use berth_engine::{Cluster, ClusterState};
use berth_loadgen::report::number::rounded;
use berth_synthetic::baseline::device::slice;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_RUNS: usize = 3;

const HEADER: &str = "\
| workload | kube-scheduler p50 µs | decision p50 µs | p99 µs | faster | with reading and assuming p50 µs | faster | in turn p50 µs | a second | new shape p50 µs | faster | first µs |
|---|---|---|---|---|---|---|---|---|---|---|---|";

fn main() -> ExitCode {
    // Without this flag the bench runs as a test, and the library's tests place the pods already.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match print_table() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot print: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_table() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", memory())?;
    writeln!(out, "\n{HEADER}")?;
    for workload in DeviceWorkload::ALL {
        writeln!(out, "{}", row(workload))?;
        out.flush()?;
    }
    writeln!(out)
}

/// Times of one run in microseconds.
struct Run {
    decide_p50: f64,
    decide_p99: f64,
    whole_p50: f64,
    in_turn_p50: f64,
    new_shape_p50: f64,
    first: f64,
}

impl Run {
    fn of(workload: DeviceWorkload) -> Run {
        let mut trial = DeviceTrial::new(workload, N_NODES);
        let times: Vec<_> = (0..N_WARM_UP + N_TIMED).map(|_| trial.time_next()).collect();
        let new_shapes: Vec<_> = (0..N_TIMED).map(|_| trial.time_new_shape().decide).collect();
        let in_turn = (0..N_TIMED).map(|_| trial.time_in_turn()).collect::<Vec<_>>();
        let timed = &times[N_WARM_UP..];
        let of = |column: fn(&PodTimes) -> Duration, percent| {
            microseconds(percentile(timed.iter().map(column), percent))
        };
        Run {
            decide_p50: of(|times| times.decide, 50),
            decide_p99: of(|times| times.decide, 99),
            whole_p50: of(PodTimes::whole, 50),
            in_turn_p50: microseconds(percentile(in_turn.into_iter(), 50)),
            new_shape_p50: microseconds(percentile(new_shapes.into_iter(), 50)),
            first: microseconds(times[0].decide),
        }
    }
}

fn row(workload: DeviceWorkload) -> String {
    let runs: Vec<Run> = (0..N_RUNS).map(|_| Run::of(workload)).collect();
    let peer_us = workload.kube_scheduler_us();
    let decide = median(&runs, |run| run.decide_p50);
    let whole = median(&runs, |run| run.whole_p50);
    let in_turn = median(&runs, |run| run.in_turn_p50);
    let new_shape = median(&runs, |run| run.new_shape_p50);
    let faster = |own_us: f64| format!("{} ×", rounded(f64::from(peer_us) / own_us));
    format!(
        "| {} | {} | {decide:.1} | {:.1} | {} | {whole:.1} | {} | {in_turn:.1} | {} | {new_shape:.1} | {} | {:.0} |",
        workload.name(),
        rounded(f64::from(peer_us)),
        median(&runs, |run| run.decide_p99),
        faster(decide),
        faster(whole),
        rounded(1e6 / in_turn),
        faster(new_shape),
        median(&runs, |run| run.first),
    )
}

/// The median of one figure over all runs.
fn median<R>(runs: &[R], column: fn(&R) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(column).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// How much the process grows by the slices of 5,000 nodes.
fn memory() -> String {
    let cluster = Cluster::new();
    let before = Process::own().resident_bytes();
    let compile = |i| cluster.compile_object(&slice(i));
    let objects: Result<Vec<_>, _> = (0..N_NODES).map(compile).collect();
    let Ok(objects) = objects else { return "the slices are refused".to_owned() };
    cluster.replace(ClusterState { objects, ..ClusterState::default() });
    match (before, Process::own().resident_bytes()) {
        (Ok(before), Ok(after)) => {
            let grown = after.saturating_sub(before) as f64 / 1e6;
            format!("40,000 devices in 5,000 slices: {grown:.1} MB")
        }
        _ => "40,000 devices in 5,000 slices: this system does not tell a process's memory"
            .to_owned(),
    }
}
