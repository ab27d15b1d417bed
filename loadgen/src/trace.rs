//! Recorded traces of nodes and of tasks that arrive and leave, and their replay through a running server.

pub mod expected;
pub mod openb;
pub mod recount;
pub mod replay;
pub mod rows;

use std::path::PathBuf;

/// Nodes and tasks of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Nodes in file order.
    pub nodes: Vec<TraceNode>,
    /// Tasks by creation time, then in file order.
    pub tasks: Vec<Task>,
}

/// A machine of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Name, unique in the trace.
    pub name: String,
    /// Allocatable amounts; `pods` is the number of pods that the node admits.
    pub allocatable: Amounts,
    /// Model of the GPUs, if recorded.
    pub gpu_model: Option<String>,
}

/// A task of the trace: one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Name, unique in the trace.
    pub name: String,
    /// Requested amounts; `pods` is 1.
    pub requests: Amounts,
    /// Accepted GPU models; empty means any.
    pub gpu_models: Vec<String>,
    /// Arrival in seconds.
    pub creation_time: i64,
    /// Departure in seconds; absent if the task never leaves.
    pub deletion_time: Option<i64>,
}

/// Amounts of the four resources of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// GPUs in thousandths of one.
    pub gpu_milli: i64,
    /// Number of pods.
    pub pods: i64,
}

/// The events of a trace that are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Arrivals only: tasks never leave.
    Arrive,
    /// Arrivals and departures.
    Events,
}

/// One step of a replay; the number is the task's position in [`Trace::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The task arrives and is placed.
    Arrive(usize),
    /// The task leaves its node, if it has one.
    Leave(usize),
}

impl Trace {
    /// The steps of a replay: by time; at equal times departures first, then arrivals; then in the tasks' order.
    ///
    /// A task whose deletion is not after its creation is deleted before it arrives, so it stays for ever. The recorded
    /// placements of openb agree (one task is like this).
    pub fn events(&self, order: Order) -> Vec<Event> {
        let arrivals =
            self.tasks.iter().enumerate().map(|(task, row)| (row.creation_time, 1, task));
        let departures = self
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(task, row)| Some((row.deletion_time?, 0, task)));
        let mut steps: Vec<(i64, u8, usize)> = match order {
            Order::Arrive => arrivals.collect(),
            Order::Events => arrivals.chain(departures).collect(),
        };
        steps.sort_unstable();
        let event = |(_, kind, task)| {
            if kind == 0 { Event::Leave(task) } else { Event::Arrive(task) }
        };
        steps.into_iter().map(event).collect()
    }
}

/// Reason why a file of a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("`{}`: cannot read: {source}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The header lacks a column.
    #[error("`{}` line 1: column `{column}` is missing", .path.display())]
    MissingColumn {
        /// Path of the file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
    },
    /// A line is not a CSV record of the header's shape.
    #[error("`{}` line {line}: {reason}", .path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number from 1; the header is line 1.
        line: u64,
        /// Description of the error.
        reason: String,
    },
    /// A field of a line is invalid.
    #[error("`{}` line {line}: column `{column}`: {reason}", .path.display())]
    Field {
        /// Path of the file.
        path: PathBuf,
        /// Line number from 1; the header is line 1.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// Description of the error.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::Event::{Arrive, Leave};
    use super::{Amounts, Order, Task, Trace};

    fn trace(times: &[(i64, Option<i64>)]) -> Trace {
        let task = |(number, (creation_time, deletion_time)): (usize, &(i64, Option<i64>))| Task {
            name: format!("t{number}"),
            requests: Amounts::default(),
            gpu_models: Vec::new(),
            creation_time: *creation_time,
            deletion_time: *deletion_time,
        };
        Trace { nodes: Vec::new(), tasks: times.iter().enumerate().map(task).collect() }
    }

    #[test]
    fn at_equal_times_departures_come_first() {
        let trace = trace(&[(0, Some(5)), (5, Some(9)), (5, Some(5)), (9, None)]);
        assert_eq!(trace.events(Order::Arrive), [Arrive(0), Arrive(1), Arrive(2), Arrive(3)]);
        let expected = [Arrive(0), Leave(0), Leave(2), Arrive(1), Arrive(2), Leave(1), Arrive(3)];
        assert_eq!(trace.events(Order::Events), expected);
    }
}
