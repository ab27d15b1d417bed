//! Report of a trace's replay.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Latency;
use super::number::{counted, grouped};
use super::table::{table, time};
use crate::trace::expected::{Comparison, Difference};
use crate::trace::recount::Recount;
use crate::trace::replay::{Replay, TaskPlacement};
use crate::trace::{Order, Trace};

/// Report of a replay; `-o json` prints its serialised form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayReport {
    /// The replayed events.
    pub order: Order,
    /// Nodes of the trace.
    pub n_nodes: usize,
    /// Tasks of the trace.
    pub n_pods: usize,
    /// Tasks with a node.
    pub n_placed: usize,
    /// Tasks that fit no node when they arrived.
    pub n_pending: usize,
    /// Tasks that left a node during the replay.
    pub n_departures: usize,
    /// Wall-clock time of the replay in seconds.
    pub elapsed_seconds: f64,
    /// Times of the `Place` calls.
    pub latency: Latency,
    /// Result of the independent recount.
    pub recount: Recount,
    /// Comparison with the recorded placements; absent without a recording.
    pub comparison: Option<Comparison>,
}

impl ReplayReport {
    /// Builds the report from its parts.
    pub fn new(
        trace: &Trace,
        order: Order,
        elapsed: Duration,
        replay: Replay,
        recount: Recount,
        comparison: Option<Comparison>,
    ) -> Self {
        let n_placed = replay.answers.iter().filter(|answer| answer.node.is_some()).count();
        Self {
            order,
            n_nodes: trace.nodes.len(),
            n_pods: trace.tasks.len(),
            n_placed,
            n_pending: replay.answers.len() - n_placed,
            n_departures: replay.n_departures,
            elapsed_seconds: elapsed.as_secs_f64(),
            latency: replay.latency,
            recount,
            comparison,
        }
    }

    /// Whether no node was overcommitted and all placements equal the recording, if there is one.
    pub fn is_good(&self) -> bool {
        self.recount.is_clean() && self.comparison.as_ref().is_none_or(Comparison::is_equal)
    }

    /// The report as text, ending in a line break.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let order = match self.order {
            Order::Arrive => "arrive",
            Order::Events => "events",
        };
        let (nodes, pods) =
            (counted(self.n_nodes as u64, "node"), counted(self.n_pods as u64, "pod"));
        writeln!(text, "openb, order {order}: {nodes}, {pods}").ok();
        writeln!(
            text,
            "{} placed, {} pending, {} in {:.1} s; Place p50 {}, p99 {}",
            grouped(self.n_placed as u64),
            grouped(self.n_pending as u64),
            counted(self.n_departures as u64, "departure"),
            self.elapsed_seconds,
            time(self.latency.p50_us),
            time(self.latency.p99_us)
        )
        .ok();
        let recount = &self.recount;
        writeln!(
            text,
            "{} of {}",
            counted(recount.n_overcommitted_instants as u64, "overcommitted instant"),
            grouped(recount.n_instants as u64)
        )
        .ok();
        if let Some(first) = &recount.first {
            writeln!(text, "  first {first}").ok();
        }
        if recount.n_unknown_nodes > 0 {
            writeln!(
                text,
                "{} on nodes that the trace does not have",
                counted(recount.n_unknown_nodes as u64, "pod")
            )
            .ok();
        }
        if let Some(comparison) = &self.comparison {
            writeln!(text, "\n{}", equalities(comparison)).ok();
            for difference in &comparison.first_differences {
                writeln!(text, "{}", described(difference)).ok();
            }
        }
        text
    }
}

fn equalities(comparison: &Comparison) -> comfy_table::Table {
    let mut table = table(&["equal to the recording", "equal", "of"], 1);
    for (column, n_equal) in [
        ("placements", comparison.n_equal_nodes),
        ("totals", comparison.n_equal_totals),
        ("feasible counts", comparison.n_equal_feasible),
        ("best counts", comparison.n_equal_best),
    ] {
        let [n_equal, n_pods] = [n_equal, comparison.n_pods].map(|n| grouped(n as u64));
        table.add_row([column.to_owned(), n_equal, n_pods]);
    }
    table
}

fn described(difference: &Difference) -> String {
    let side = |answer: &Option<TaskPlacement>| match answer {
        None => "no answer".to_owned(),
        Some(answer) => format!(
            "{} total {} feasible {} best {}",
            answer.node.as_deref().unwrap_or("pending"),
            answer.total.map_or_else(|| "none".to_owned(), |total| total.to_string()),
            answer.n_feasible,
            answer.n_best
        ),
    };
    format!(
        "{}: recorded {}; answered {}",
        difference.pod,
        side(&difference.recorded),
        side(&difference.answered)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::{Comparison, Latency, Order, Recount, Replay, ReplayReport, Trace};
    use crate::trace::replay::TaskPlacement;

    fn report(node: &str, recount: Recount) -> ReplayReport {
        let answer = |node: &str| TaskPlacement {
            pod: "p".to_owned(),
            node: Some(node.to_owned()),
            total: Some(467),
            n_feasible: 3,
            n_best: 1,
        };
        let trace = Trace { nodes: Vec::new(), tasks: Vec::new() };
        let comparison = Some(Comparison::of(&[answer("n1")], &[answer(node)]));
        let latency = Latency::of(&Histogram::new(3).unwrap());
        let replay =
            Replay { answers: vec![answer(node)], n_departures: 0, latency, left: Vec::new() };
        ReplayReport::new(
            &trace,
            Order::Events,
            Duration::from_secs(1),
            replay,
            recount,
            comparison,
        )
    }

    #[test]
    fn differences_are_shown_side_by_side_and_fail() {
        let good = report("n1", Recount::default());
        assert!(good.is_good() && good.render().contains("0 overcommitted instants of 0"));
        let bad = report("n2", Recount::default());
        assert!(!bad.is_good());
        let line =
            "p: recorded n1 total 467 feasible 3 best 1; answered n2 total 467 feasible 3 best 1";
        assert!(bad.render().ends_with(&format!("{line}\n")), "{}", bad.render());
        assert!(bad.render().contains("placements"));
    }

    #[test]
    fn an_overcommitted_instant_fails_even_if_all_placements_equal_the_recording() {
        let first = Some("after `p` node `n1` is over its cpu".to_owned());
        let recount =
            Recount { n_instants: 9, n_overcommitted_instants: 2, n_unknown_nodes: 0, first };
        let report = report("n1", recount);
        assert!(!report.is_good());
        assert!(report.render().contains("2 overcommitted instants of 9\n  first after `p`"));
    }
}
