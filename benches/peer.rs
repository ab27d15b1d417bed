//! Comparison with kube-scheduler by its own procedure: a table of median times for all workloads of the baseline.
//!
//! The measurements are made with 5,000 nodes on one thread. Each run loads a fresh cluster, places 20 pods to warm up
//! and 120 that are timed, each assumed before the next is decided; each column gives the median of three runs. Before
//! a workload is timed, Berth's decisions on it must equal kube-scheduler's recorded decisions. kube-scheduler's
//! figures are those of `kube_scheduler.rs`: on the same kind of machine with two cores for its 16 workers, with every
//! node considered unless the column says otherwise.
//!
//! | column | timed work |
//! |---|---|
//! | decision | `Cluster::place`, which is closest to kube-scheduler's figure |
//! | with reading and assuming | all that Berth does for a pod that it assumes: reading its wire object, deciding it under the writer's lock, and publishing the cluster with the pod in it. Timed on a cluster of its own. kube-scheduler's figure includes the update of its snapshot, but neither the reading nor the assuming |
//! | new shape | the decision for 120 further pods of new shapes, for which nothing is cached |
//! | first | the first decision on a cluster after its load |
//!
//! A second table covers the workloads in which no node has room and pods of lower priority are chosen as victims. No
//! pod is evicted, so that all pods meet the same cluster. The timed call is `Cluster::preempt`, the whole attempt.
//!
//! | column | timed work |
//! |---|---|
//! | attempt | an attempt on one thread, for a known shape |
//! | two threads | an attempt on two threads, for a known shape |
//! | row changed | an attempt on one thread after a node changed |
//! | new shape, first | attempts for new shapes and the first attempt, on one thread |
//!
//! Below a table are the figures for 150,000 pods that have a budget.
//!
//! A free argument selects the rows whose name contains it, such as `d-spread` or `150k`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use berth_benches::expected::Expected;
use berth_benches::kube_scheduler;
use berth_benches::trial::preemption::{PreemptionTrial, threads};
use berth_benches::trial::{N_TIMED, N_WARM_UP, Trial, percentile};
use berth_benches::workload::full_cluster;
use berth_benches::{N_NODES, PreemptionWorkload, Workload, cluster, incoming};
use berth_loadgen::report::number::rounded;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_NODE: [usize; 2] = [10, 30];
const N_RUNS: usize = 3;

const HEADER: &str = "\
| workload | existing pods | kube-scheduler p50 µs (as it ships) | decision p50 µs | p99 µs | faster | with reading and assuming p50 µs | faster | new shape p50 µs | faster | first µs |
|---|---|---|---|---|---|---|---|---|---|---|";

const PREEMPTION_HEADER: &str = "\
| workload | existing pods | kube-scheduler p50 µs | attempt p50 µs | p99 µs | faster | two threads p50 µs | faster | row changed p50 µs | faster | new shape p50 µs | faster | first µs |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// Budgets of a workload with 150,000 pods, in µs: with reading and assuming, and for a new shape.
struct Budget {
    whole_us: f64,
    /// How many times faster than kube-scheduler that has to be.
    faster: f64,
    new_shape_us: Option<f64>,
}

impl Budget {
    fn of(workload: Workload) -> Budget {
        let (whole_us, new_shape_us) = match workload {
            Workload::Basic => (6.5, Some(10.0)),
            Workload::NodeAffinity => (6.0, None),
            Workload::Taints => (7.0, Some(16.0)),
            Workload::SpreadHardZone => (12.0, None),
            Workload::SpreadSoft | Workload::SpreadSystemDefaults => (22.0, None),
            Workload::AntiAffinityHost1000 => (20.0, Some(45.0)),
            Workload::AntiAffinityHost4000 => (16.0, Some(45.0)),
            Workload::AffinityZone => (18.0, None),
            Workload::PreferredAffinity => (22.0, None),
            Workload::Mixed => (28.0, None),
        };
        let faster = if workload == Workload::NodeAffinity { 800.0 } else { 1_000.0 };
        Budget { whole_us, faster, new_shape_us }
    }
}

/// A row of a table, and what is said of its budgets.
struct Row {
    text: String,
    verdicts: Vec<String>,
}

fn verdict(workload: &str, what: &str, figure: &str, budget: &str, is_met: bool) -> String {
    let met = if is_met { "met" } else { "not met" };
    format!("peer/{workload} {what}: {figure}; budget {budget}, {met}")
}

fn main() -> ExitCode {
    // Without this flag the bench runs as a test, and the library's tests check the decisions already.
    if !std::env::args().any(|arg| arg == "--bench") {
        return ExitCode::SUCCESS;
    }
    let expected = Expected::read();
    let filter = filter(std::env::args().skip(1));
    match print_tables(expected.as_ref(), filter.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot print: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the tables; returns whether the decisions on all workloads are as recorded.
fn print_tables(expected: Option<&Expected>, filter: Option<&str>) -> io::Result<bool> {
    let placing = Workload::ALL.map(|workload| Line {
        workload: workload.name(),
        check: Box::new(move |expected, n| {
            expected.check(&cluster(workload, N_NODES, n), workload, n)
        }),
        row: Box::new(move |n| row(workload, n)),
    });
    let preempting = PreemptionWorkload::ALL.map(|workload| Line {
        workload: workload.name(),
        check: Box::new(move |expected, n| {
            expected.check_preemption(&full_cluster(N_NODES, n), workload, n)
        }),
        row: Box::new(move |n| preemption_row(workload, n)),
    });
    let is_right = print_table(HEADER, &placing, expected, filter)?;
    Ok(print_table(PREEMPTION_HEADER, &preempting, expected, filter)? && is_right)
}

type Check = dyn Fn(&Expected, usize) -> Result<(), String>;

/// A workload with a row for each number of pods a node.
struct Line {
    workload: &'static str,
    /// Checks the decisions on a separate cluster, so that nothing is cached when the workload is timed.
    check: Box<Check>,
    row: Box<dyn Fn(usize) -> Row>,
}

/// Prints each row as soon as it is measured; returns whether the decisions on all workloads are as recorded.
fn print_table(
    header: &str,
    lines: &[Line],
    expected: Option<&Expected>,
    filter: Option<&str>,
) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let mut all_right = true;
    let mut n_rows = 0;
    let mut verdicts = Vec::new();
    for line in lines {
        for pods_per_node in PODS_PER_NODE {
            let n_thousand_pods = N_NODES * pods_per_node / 1000;
            let name = format!("peer/{}/{n_thousand_pods}k-pods", line.workload);
            if filter.is_some_and(|wanted| !name.contains(wanted)) {
                continue;
            }
            if n_rows == 0 {
                writeln!(out, "{header}")?;
            }
            n_rows += 1;
            let checked = expected.map_or(Ok(()), |it| (line.check)(it, pods_per_node));
            if let Err(error) = checked {
                eprintln!("{name}: not timed, for it decides otherwise: {error}");
                all_right = false;
                continue;
            }
            let row = (line.row)(pods_per_node);
            writeln!(out, "{}", row.text)?;
            out.flush()?;
            if pods_per_node == 30 {
                verdicts.extend(row.verdicts);
            }
        }
    }
    if n_rows > 0 {
        writeln!(out)?;
        verdicts.iter().try_for_each(|verdict| writeln!(out, "{verdict}"))?;
        writeln!(out)?;
    }
    Ok(all_right)
}

/// Times of one run in microseconds.
struct Run {
    decide_p50: f64,
    decide_p99: f64,
    whole_p50: f64,
    new_shape_p50: f64,
    first: f64,
}

impl Run {
    fn of(workload: Workload, pods_per_node: usize) -> Run {
        let (decisions, new_shapes) = {
            let mut trial = Trial::new(workload, N_NODES, pods_per_node);
            let decide = |k| trial.time_decision(&incoming(k, workload));
            let decisions: Vec<_> = (0..N_WARM_UP + N_TIMED).map(decide).collect();
            let new_shapes: Vec<_> = (0..N_TIMED).map(|_| trial.time_new_shape()).collect();
            (decisions, new_shapes)
        };
        let trial = Trial::new(workload, N_NODES, pods_per_node);
        let time_whole = |k| trial.time_whole(&incoming(k, workload));
        let whole: Vec<_> = (0..N_WARM_UP + N_TIMED).map(time_whole).collect();
        let of =
            |times: &[Duration], percent| microseconds(percentile(times.iter().copied(), percent));
        Run {
            decide_p50: of(&decisions[N_WARM_UP..], 50),
            decide_p99: of(&decisions[N_WARM_UP..], 99),
            whole_p50: of(&whole[N_WARM_UP..], 50),
            new_shape_p50: of(&new_shapes, 50),
            first: microseconds(decisions[0]),
        }
    }
}

fn row(workload: Workload, pods_per_node: usize) -> Row {
    let runs: Vec<Run> = (0..N_RUNS).map(|_| Run::of(workload, pods_per_node)).collect();
    let peer = kube_scheduler::times(workload, pods_per_node);
    let peer_text = peer.map_or_else(
        || "–".to_owned(),
        |peer| format!("{} ({})", us(peer.all_nodes_us), us(peer.sampled_us)),
    );
    let peer_us = peer.map(|peer| peer.all_nodes_us);
    let decide = median(&runs, |run| run.decide_p50);
    let whole = median(&runs, |run| run.whole_p50);
    let new_shape = median(&runs, |run| run.new_shape_p50);
    let Budget { whole_us, faster: times, new_shape_us } = Budget::of(workload);
    let say = |what, us: f64, budget_us: f64| {
        let (figure, budget) = (format!("{us:.1} µs"), format!("≤ {budget_us} µs"));
        verdict(workload.name(), what, &figure, &budget, us <= budget_us)
    };
    let mut verdicts = vec![say("with reading and assuming", whole, whole_us)];
    if let Some(peer_us) = peer_us {
        let ratio = f64::from(peer_us) / whole;
        let (figure, budget) = (format!("{ratio:.0} × kube-scheduler"), format!("≥ {times} ×"));
        let what = "with reading and assuming";
        verdicts.push(verdict(workload.name(), what, &figure, &budget, ratio >= times));
    }
    verdicts.extend(new_shape_us.map(|budget_us| say("new shape", new_shape, budget_us)));
    let text = format!(
        "| {} | {} | {peer_text} | {decide:.1} | {:.1} | {} | {whole:.1} | {} | {new_shape:.1} | {} | {:.0} |",
        workload.name(),
        rounded((N_NODES * pods_per_node) as f64),
        median(&runs, |run| run.decide_p99),
        faster(peer_us, decide),
        faster(peer_us, whole),
        faster(peer_us, new_shape),
        median(&runs, |run| run.first),
    );
    Row { text, verdicts }
}

/// Times of one run of preemption attempts in microseconds.
struct PreemptionRun {
    p50: f64,
    p99: f64,
    two_threads_p50: f64,
    row_changed_p50: f64,
    new_shape_p50: f64,
    first: f64,
}

impl PreemptionRun {
    fn of(workload: PreemptionWorkload, pods_per_node: usize) -> PreemptionRun {
        const N: u64 = N_TIMED as u64;
        let (one, two) = (threads(1), threads(2));
        let mut trial = PreemptionTrial::new(workload, N_NODES, pods_per_node);
        let first = microseconds(trial.first(&one));
        let timed = trial.time_sequence(&one, N);
        let of =
            |times: Vec<Duration>, percent| microseconds(percentile(times.into_iter(), percent));
        PreemptionRun {
            p50: of(timed.clone(), 50),
            p99: of(timed, 99),
            two_threads_p50: of(trial.time_sequence(&two, N), 50),
            row_changed_p50: of(trial.one_row_changed(&one, N), 50),
            new_shape_p50: of(trial.new_shapes(&one, N), 50),
            first,
        }
    }
}

fn preemption_row(workload: PreemptionWorkload, pods_per_node: usize) -> Row {
    let runs: Vec<PreemptionRun> =
        (0..N_RUNS).map(|_| PreemptionRun::of(workload, pods_per_node)).collect();
    let peer_us = kube_scheduler::preemption_us(workload, pods_per_node);
    let [one, two, row_changed, new_shape] = [
        median(&runs, |run| run.p50),
        median(&runs, |run| run.two_threads_p50),
        median(&runs, |run| run.row_changed_p50),
        median(&runs, |run| run.new_shape_p50),
    ];
    let say = |what, us: f64, budget_us: f64| {
        let (figure, budget) = (format!("{us:.0} µs"), format!("≤ {budget_us} µs"));
        verdict(workload.name(), what, &figure, &budget, us <= budget_us)
    };
    let verdicts = match (workload, peer_us) {
        (PreemptionWorkload::Sampled, Some(peer_us)) => {
            let ratio = f64::from(peer_us) / one;
            let figure = format!("{ratio:.0} × kube-scheduler");
            vec![verdict(workload.name(), "attempt", &figure, "≥ 500 ×", ratio >= 500.0)]
        }
        (PreemptionWorkload::Sampled, None) => Vec::new(),
        (PreemptionWorkload::All, _) => {
            vec![say("attempt", one, 100.0), say("new shape, one thread", new_shape, 600.0)]
        }
    };
    let text = format!(
        "| {} | {} | {} | {one:.1} | {:.1} | {} | {two:.1} | {} | {row_changed:.1} | {} | {new_shape:.1} | {} | {:.0} |",
        workload.name(),
        rounded((N_NODES * pods_per_node) as f64),
        peer_us.map_or_else(|| "–".to_owned(), us),
        median(&runs, |run| run.p99),
        faster(peer_us, one),
        faster(peer_us, two),
        faster(peer_us, row_changed),
        faster(peer_us, new_shape),
        median(&runs, |run| run.first),
    );
    Row { text, verdicts }
}

/// The median of one figure over all runs.
fn median<R>(runs: &[R], column: fn(&R) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(column).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn faster(peer_us: Option<u32>, own_us: f64) -> String {
    peer_us.map_or_else(
        || "–".to_owned(),
        |peer_us| format!("{} ×", rounded(f64::from(peer_us) / own_us)),
    )
}

fn us(value: u32) -> String {
    rounded(f64::from(value))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The first free argument, as distinguished from the values of criterion's flags, which every bench receives.
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
