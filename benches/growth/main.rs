//! Growth of a decision's time with the cluster: 5,000 to 100,000 nodes with 30 pods each, on a pool of all cores; and what
//! else is done with the largest cluster.
//!
//! ```console
//! $ cargo bench --bench growth                                  # about five minutes and 10 GB
//! $ cargo bench --bench growth -- --svg ../docs/growth.svg      # and draws the curves
//! ```

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

mod operations;

use std::process::ExitCode;
use std::time::Duration;

use berth_benches::trial::{N_TIMED, N_WARM_UP, Trial, percentile};
use berth_benches::{Workload, incoming};
use berth_loadgen::report::svg::{self, Axis, Chart};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Numbers of nodes.
const SIZES: [usize; 5] = [5_000, 10_000, 20_000, 50_000, 100_000];
const PODS_PER_NODE: usize = 30;

/// A kind of rule whose cost could grow differently, and the budgets for its decisions at the largest size, in turn and
/// for a new shape, in µs.
struct Line {
    workload: Workload,
    in_turn_us: f64,
    new_shape_us: f64,
    is_drawn: bool,
}

const LINES: [Line; 5] = [
    line(Workload::Basic, 25.0, true),
    line(Workload::SpreadHardZone, 150.0, true),
    line(Workload::SpreadSoft, 150.0, false),
    line(Workload::AntiAffinityHost4000, 150.0, true),
    line(Workload::PreferredAffinity, 150.0, false),
];

const fn line(workload: Workload, in_turn_us: f64, is_drawn: bool) -> Line {
    Line { workload, in_turn_us, new_shape_us: 300.0, is_drawn }
}

/// Medians of one workload at one size, in µs.
#[derive(Copy, Clone)]
struct Point {
    n_nodes: usize,
    in_turn: f64,
    row_changed: f64,
    new_shape: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let path = match arguments.as_slice() {
        [] => None,
        [option, path] if option == "--svg" => Some(path),
        _ => {
            eprintln!("growth: takes nothing, or `--svg FILE`");
            return ExitCode::FAILURE;
        }
    };
    // First, in memory that nothing has used before.
    if let Some(n_nodes) = SIZES.last() {
        operations::measure(*n_nodes);
    }
    println!("| workload | nodes | in turn µs | one row changed µs | new shape µs |");
    println!("|---|---|---|---|---|");
    let mut curves = Vec::new();
    for line in &LINES {
        let points: Vec<Point> =
            SIZES.iter().map(|n_nodes| point(line.workload, *n_nodes)).collect();
        curves.push((line, points));
    }
    println!();
    for (line, points) in &curves {
        judge(line, points);
    }
    match path.map(|path| std::fs::write(path, drawn(&curves)).map_err(|error| (path, error))) {
        Some(Err((path, error))) => {
            eprintln!("growth: {path}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Measures a workload at a size, and prints its row.
fn point(workload: Workload, n_nodes: usize) -> Point {
    let mut trial = Trial::new(workload, n_nodes, PODS_PER_NODE);
    let mut new_shapes: Vec<_> = (0..N_TIMED).map(|_| trial.time_new_shape()).collect();
    // The first ones find memory that nobody had.
    let new_shapes = new_shapes.split_off(N_WARM_UP);
    let changed = (0..N_TIMED).map(|_| trial.known_shape(1)).collect::<Vec<_>>();
    let sequence = (0..N_WARM_UP + N_TIMED).map(|k| trial.time_decision(&incoming(k, workload)));
    let sequence: Vec<_> = sequence.skip(N_WARM_UP).collect();
    let us = |times: Vec<Duration>| percentile(times.into_iter(), 50).as_secs_f64() * 1e6;
    let (in_turn, row_changed, new_shape) = (us(sequence), us(changed), us(new_shapes));
    let name = workload.name();
    println!("| {name} | {n_nodes} | {in_turn:.1} | {row_changed:.1} | {new_shape:.1} |");
    Point { n_nodes, in_turn, row_changed, new_shape }
}

/// Compares the largest size with the budgets, and with the smallest one.
fn judge(line: &Line, points: &[Point]) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let times = last.n_nodes / first.n_nodes;
    let what = format!("growth/{}/{}-nodes", line.workload.name(), last.n_nodes);
    let say = |of: &str, us: f64, ratio: f64, budget: f64| {
        let (in_budget, is_linear) = (met(us <= budget), met(ratio <= times as f64));
        println!(
            "{what} {of}: {us:.0} µs; budget ≤ {budget} µs, {in_budget}; \
             {ratio:.1} × that of {} nodes; budget ≤ {times} ×, {is_linear}",
            first.n_nodes
        );
    };
    say("in turn", last.in_turn, last.in_turn / first.in_turn, line.in_turn_us);
    say("new shape", last.new_shape, last.new_shape / first.new_shape, line.new_shape_us);
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// The curves as an SVG file.
fn drawn(curves: &[(&Line, Vec<Point>)]) -> String {
    let chart = |title, of: fn(&Point) -> f64| {
        let curve = |(line, points): &(&Line, Vec<Point>)| {
            let points = points.iter().map(|point| (point.n_nodes as f64, of(point)));
            (line.workload.name(), points.collect::<Vec<_>>())
        };
        let lines: Vec<_> = curves.iter().filter(|(line, _)| line.is_drawn).map(curve).collect();
        let all = || lines.iter().flat_map(|(_, points)| points).map(|point| point.1);
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(1.0, f64::max));
        Chart {
            title,
            x: Axis::linear("nodes, with 30 pods each", 100_000.0),
            y: Axis::log("median of a decision, µs", least, most, |us| format!("{us}")),
            lines,
        }
    };
    let charts = [
        chart("Decisions for pods in turn, by nodes", |point| point.in_turn),
        chart("Decisions after one row has changed, by nodes", |point| point.row_changed),
        chart("Decisions for new shapes, by nodes", |point| point.new_shape),
    ];
    svg::file("Time of a decision by the size of the cluster", &charts)
}
