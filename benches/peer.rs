//! Berth beside kube-scheduler, by kube-scheduler's own procedure: a table of medians for every workload of its baseline.
//!
//! 5,000 nodes, one thread. Each run loads a fresh cluster, places 20 pods to warm up and 120 that are timed, each assumed
//! before the next is decided; the median of three runs is given per column. Before it is timed, a workload must decide as
//! kube-scheduler is recorded to have decided. kube-scheduler's figures are those of `kube_scheduler.rs`: on the same kind of
//! machine with two cores for its 16 workers, every node considered unless the column says otherwise.
//!
//! | column | what is timed |
//! |---|---|
//! | decision | `Cluster::place`: what kube-scheduler's figure is nearest to |
//! | with reading and assuming | all that Berth does for a pod: its wire object read, the decision, and the decision taken once more to publish the cluster with the pod in it. kube-scheduler's figure holds the update of its snapshot, but neither the reading nor the assuming |
//! | new shape | the decision for 120 more pods, of shapes never seen: nothing is remembered of them |
//! | first | the decision for the very first pod of a cluster just loaded |
//!
//! A free argument keeps only the rows whose name contains it, such as `d-spread` or `150k`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use berth_benches::expected::Expected;
use berth_benches::kube_scheduler;
use berth_benches::trial::{N_TIMED, N_WARM_UP, Trial, Turn, percentile};
use berth_benches::{N_NODES, Workload, cluster, incoming};
use berth_loadgen::report::number::rounded;

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_NODE: [usize; 2] = [10, 30];
const N_RUNS: usize = 3;

const HEADER: &str = "\
| workload | existing pods | kube-scheduler p50 µs (as it ships) | decision p50 µs | p99 µs | faster | with reading and assuming p50 µs | faster | new shape p50 µs | faster | first µs |
|---|---|---|---|---|---|---|---|---|---|---|";

fn main() -> ExitCode {
    // Without this flag it is run as a test, and the library's own tests check the decisions already.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    match print_table(filter(std::env::args().skip(1)).as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot print: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a row as soon as it is measured; whether all workloads decide as they should.
fn print_table(filter: Option<&str>) -> io::Result<bool> {
    let expected = Expected::read()
        .inspect_err(|error| eprintln!("skipped: decisions are not checked: {error}"))
        .ok();
    let mut out = io::stdout().lock();
    let mut all_right = true;
    let mut n_rows = 0;
    for workload in Workload::ALL {
        for pods_per_node in PODS_PER_NODE {
            let n_thousand_pods = N_NODES * pods_per_node / 1000;
            let name = format!("peer/{}/{n_thousand_pods}k-pods", workload.name());
            if filter.is_some_and(|wanted| !name.contains(wanted)) {
                continue;
            }
            if n_rows == 0 {
                writeln!(out, "{HEADER}")?;
            }
            n_rows += 1;
            if let Err(error) = check(expected.as_ref(), workload, pods_per_node) {
                eprintln!("{name}: not timed, for it decides otherwise: {error}");
                all_right = false;
                continue;
            }
            writeln!(out, "{}", row(workload, pods_per_node))?;
            out.flush()?;
        }
    }
    Ok(all_right)
}

/// Its decisions are taken on a cluster of their own, lest anything of them be remembered when it is timed.
fn check(
    expected: Option<&Expected>,
    workload: Workload,
    pods_per_node: usize,
) -> Result<(), String> {
    let Some(expected) = expected else { return Ok(()) };
    expected.check(&cluster(workload, N_NODES, pods_per_node), workload, pods_per_node)
}

/// What one run found, in microseconds.
struct Run {
    decide_p50: f64,
    decide_p99: f64,
    whole_p50: f64,
    new_shape_p50: f64,
    first: f64,
}

impl Run {
    fn of(workload: Workload, pods_per_node: usize) -> Run {
        let mut trial = Trial::new(workload, N_NODES, pods_per_node);
        let turns: Vec<_> =
            (0..N_WARM_UP + N_TIMED).map(|k| trial.turn(&incoming(k, workload))).collect();
        let new_shapes: Vec<_> = (0..N_TIMED).map(|_| trial.turn_of_new_shape()).collect();
        let timed = &turns[N_WARM_UP..];
        let of = |column: fn(&Turn) -> Duration, percent| {
            microseconds(percentile(timed.iter().map(column), percent))
        };
        Run {
            decide_p50: of(|turn| turn.decide, 50),
            decide_p99: of(|turn| turn.decide, 99),
            whole_p50: of(Turn::whole, 50),
            new_shape_p50: microseconds(percentile(new_shapes.into_iter(), 50)),
            first: microseconds(turns[0].decide),
        }
    }
}

fn row(workload: Workload, pods_per_node: usize) -> String {
    let runs: Vec<Run> = (0..N_RUNS).map(|_| Run::of(workload, pods_per_node)).collect();
    let median = |column: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(column).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let peer = kube_scheduler::times(workload, pods_per_node);
    let peer_text = peer.map_or_else(
        || "–".to_owned(),
        |peer| format!("{} ({})", us(peer.all_nodes_us), us(peer.sampled_us)),
    );
    let faster = |own_us: f64| {
        peer.map_or_else(
            || "–".to_owned(),
            |peer| format!("{} ×", rounded(f64::from(peer.all_nodes_us) / own_us)),
        )
    };
    let decide = median(|run| run.decide_p50);
    let whole = median(|run| run.whole_p50);
    let new_shape = median(|run| run.new_shape_p50);
    format!(
        "| {} | {} | {peer_text} | {decide:.1} | {:.1} | {} | {whole:.1} | {} | {new_shape:.1} | {} | {:.0} |",
        workload.name(),
        rounded((N_NODES * pods_per_node) as f64),
        median(|run| run.decide_p99),
        faster(decide),
        faster(whole),
        faster(new_shape),
        median(|run| run.first),
    )
}

fn us(value: u32) -> String {
    rounded(f64::from(value))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The first free argument, told apart from the values of criterion's flags, which are given to every bench alike.
fn filter(arguments: impl Iterator<Item = String>) -> Option<String> {
    const WITH_VALUE: [&str; 12] = [
        "--baseline",
        "--color",
        "--confidence-level",
        "--measurement-time",
        "--noise-threshold",
        "--nresamples",
        "--output-format",
        "--profile-time",
        "--sample-size",
        "--save-baseline",
        "--significance-level",
        "--warm-up-time",
    ];
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with('-') {
            return Some(argument);
        }
    }
    None
}
