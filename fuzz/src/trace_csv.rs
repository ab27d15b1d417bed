//! Recorded traces: the CSV files of nodes, of tasks and of recorded decisions.

use std::path::Path;

use berth_engine::Cluster;
use berth_loadgen::trace::{Order, Trace, TraceError, expected, openb};

use crate::work::bounded;
use crate::world;

const BYTES_EACH: u64 = 1 << 10;
const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n";
const TASKS: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n";
const ANSWERS: &str = "pod,node,total,feasible,best\n";

/// Checks a file: the first byte chooses its header, the rest follows below the header.
pub fn run(data: &[u8]) {
    let path = Path::new("trace.csv");
    let Some((choice, rest)) = data.split_first() else { return };
    let header = ["", NODES, TASKS, ANSWERS][usize::from(*choice) % 4];
    let text = [header.as_bytes(), rest].concat();
    let mut trace = Trace { nodes: Vec::new(), tasks: Vec::new() };
    if matches!(header, "" | NODES) {
        let nodes = bounded(text.len(), BYTES_EACH, || openb::read_nodes(path, &*text));
        trace.nodes = nodes.map_err(|error| check(&error)).unwrap_or_default();
    }
    if matches!(header, "" | TASKS) {
        let tasks = bounded(text.len(), BYTES_EACH, || openb::read_tasks(path, &*text));
        trace.tasks = tasks.map_err(|error| check(&error)).unwrap_or_default();
    }
    if matches!(header, "" | ANSWERS) {
        let answers = bounded(text.len(), BYTES_EACH, || expected::read_from(path, &*text));
        answers.map_err(|error| check(&error)).ok();
    }
    world::within(|world| check_trace(&world.cluster, &trace));
}

/// Checks that a cluster accepts the objects of a trace, unless a name is invalid, and that every task arrives once.
fn check_trace(cluster: &Cluster, trace: &Trace) {
    for node in &trace.nodes {
        if let Err(error) = cluster.compile_node(&node.to_wire()) {
            assert!(error.field.starts_with("metadata."), "{error}");
        }
    }
    for task in &trace.tasks {
        if let Err(error) = cluster.compile_pod(&task.to_wire()) {
            let is_a_name = error.field.starts_with("metadata.") || error.field.contains("ffinity");
            assert!(is_a_name, "{error}");
        }
    }
    assert_eq!(trace.events(Order::Arrive).len(), trace.tasks.len());
    let n_leaving = trace.tasks.iter().filter(|task| task.deletion_time.is_some()).count();
    assert_eq!(trace.events(Order::Events).len(), trace.tasks.len() + n_leaving);
}

fn check(error: &TraceError) {
    let text = error.to_string();
    assert!(text.contains("trace.csv"), "{text}");
}
