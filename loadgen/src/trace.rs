//! Recorded traces: nodes, tasks that arrive and leave, and their replay through a running server.

pub mod expected;
pub mod openb;
pub mod recount;
pub mod replay;
pub mod rows;

use std::path::PathBuf;

/// Nodes and tasks of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// In file order.
    pub nodes: Vec<TraceNode>,
    /// By creation time, then in file order.
    pub tasks: Vec<Task>,
}

/// A machine of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Unique in the trace.
    pub name: String,
    /// What it has; `pods` is how many it admits.
    pub allocatable: Amounts,
    /// Model of its GPUs, when recorded.
    pub gpu_model: Option<String>,
}

/// A task of the trace: one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Unique in the trace.
    pub name: String,
    /// What it asks for; `pods` is 1.
    pub requests: Amounts,
    /// GPU models that it accepts; empty means any.
    pub gpu_models: Vec<String>,
    /// Seconds.
    pub creation_time: i64,
    /// Seconds; absent when it never leaves.
    pub deletion_time: Option<i64>,
}

/// Amounts of the four resources of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_milli: i64,
    /// MiB.
    pub memory_mib: i64,
    /// Thousandths of a GPU.
    pub gpu_milli: i64,
    /// Pods.
    pub pods: i64,
}

/// Which of a trace's times are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Tasks arrive one after another and never leave.
    Arrive,
    /// Tasks also leave.
    Events,
}

/// One step of a replay; the number is the task's position in [`Trace::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The task is to be placed.
    Arrive(usize),
    /// The task leaves, if it is on a node.
    Leave(usize),
}

impl Trace {
    /// The steps of a replay: by time; at equal times departures first, then arrivals; then in the tasks' order.
    ///
    /// A task that is deleted no later than it is created is deleted before it arrives, so it stays for ever. The
    /// recorded answers of openb's events order show the same (one task is such).
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

/// Why a trace's file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("`{}`: cannot read: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's account.
        source: std::io::Error,
    },
    /// The header lacks a column.
    #[error("`{}` line 1: column `{column}` is missing", .path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// The column's name.
        column: &'static str,
    },
    /// A line is not a CSV record of the header's shape.
    #[error("`{}` line {line}: {reason}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1, the header's line being the first.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A field of a line is bad.
    #[error("`{}` line {line}: column `{column}`: {reason}", .path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// From 1, the header's line being the first.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// What is wrong with it.
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
