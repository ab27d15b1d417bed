//! The figures of a comparison, as values and as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_proto::Time;
use serde::Serialize;

use super::super::output::{Table, grouped};
use crate::compare::{Compared, Figures, Sample, Usage};

/// All columns.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    pub(super) from: Option<Time>,
    pub(super) until: Option<Time>,
    pub(super) policies: Vec<Column>,
}

/// The figures under one policy. Averages are over time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) n_came: u64,
    pub(super) n_placed: u64,
    pub(super) n_waiting_at_end: u64,
    pub(super) wait: Wait,
    pub(super) evictions_by_priority: BTreeMap<i32, u64>,
    pub(super) resources: BTreeMap<Arc<str>, Resource>,
    /// The shares that were requested when a pod waited for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shares_when_first_refused: Option<BTreeMap<Arc<str>, f64>>,
    pub(super) busy_nodes_average: Option<f64>,
    pub(super) emptiable_nodes_at_end: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decisions: Option<Decisions>,
}

/// How long pods waited for a node, those included that wait still.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    pub(super) total_seconds: f64,
    pub(super) p50_seconds: f64,
    pub(super) p99_seconds: f64,
    pub(super) longest_seconds: f64,
}

/// How a resource was used: shares, from 0 to 1.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) requested_average: f64,
    pub(super) requested_at_end: f64,
    pub(super) fragmentation_average: f64,
    pub(super) fragmentation_at_end: f64,
    pub(super) imbalance_average: f64,
    pub(super) zone_skew_average: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Decisions {
    pub(super) n: usize,
    pub(super) p50_micros: f64,
    pub(super) p99_micros: f64,
}

impl Comparison {
    pub(super) fn of(names: &[String], compared: &Compared) -> Comparison {
        let (from, until) = compared.span;
        let columns = names.iter().zip(&compared.figures);
        Comparison {
            from: time(from),
            until: time(until),
            policies: columns.map(|(name, figures)| Column::of(name, figures)).collect(),
        }
    }

    /// A table with a row for each figure.
    pub(super) fn text(&self) -> String {
        let mut headings = vec!["FIGURE"];
        headings.extend(self.policies.iter().map(|column| column.name.as_str()));
        let mut table = Table::new(&headings);
        for (name, cells) in self.rows() {
            table.add_row(std::iter::once(name).chain(cells));
        }
        table.text()
    }

    /// The rows of the table: a name, and a cell for each policy.
    pub(super) fn rows(&self) -> Vec<(String, Vec<String>)> {
        let mut rows = Rows { columns: &self.policies, rows: Vec::new() };
        rows.add("pods that came", |it| grouped(it.n_came));
        rows.add("placed", |it| grouped(it.n_placed));
        rows.add("waiting at the end", |it| grouped(it.n_waiting_at_end));
        rows.add("wait, half of the pods at most", |it| seconds(it.wait.p50_seconds));
        rows.add("wait, 99 of 100 at most", |it| seconds(it.wait.p99_seconds));
        rows.add("wait, longest", |it| seconds(it.wait.longest_seconds));
        rows.add("wait, all together", |it| seconds(it.wait.total_seconds));
        let priorities: BTreeSet<i32> =
            self.policies.iter().flat_map(|it| it.evictions_by_priority.keys().copied()).collect();
        for priority in priorities {
            rows.add(&format!("evicted, of priority {priority}"), |it| {
                grouped(it.evictions_by_priority.get(&priority).copied().unwrap_or_default())
            });
        }
        self.add_resources(&mut rows);
        rows.add("nodes in use, on average", |it| decimal(it.busy_nodes_average));
        rows.add("nodes that could be emptied at the end", |it| {
            it.emptiable_nodes_at_end.map_or_else(none, grouped)
        });
        if self.policies.iter().any(|it| it.cost.is_some()) {
            rows.add("cost of nodes in use", |it| decimal(it.cost));
        }
        rows.add("a decision, half of them at most", |it| latency(it, |it| it.p50_micros));
        rows.add("a decision, 99 of 100 at most", |it| latency(it, |it| it.p99_micros));
        rows.rows
    }

    fn add_resources(&self, rows: &mut Rows<'_>) {
        let names: BTreeSet<&Arc<str>> =
            self.policies.iter().flat_map(|it| it.resources.keys()).collect();
        for name in names {
            let of = |figure: fn(&Resource) -> f64| {
                move |it: &Column| {
                    it.resources.get(name).map_or_else(none, |it| percent(figure(it)))
                }
            };
            rows.add(&format!("{name} requested, on average"), of(|it| it.requested_average));
            rows.add(&format!("{name} requested at the end"), of(|it| it.requested_at_end));
            if self.policies.iter().any(|it| it.shares_when_first_refused.is_some()) {
                rows.add(&format!("{name} requested when first a pod waited"), |it| {
                    let shares = it.shares_when_first_refused.as_ref();
                    shares.and_then(|it| it.get(name)).map_or_else(none, |it| percent(*it))
                });
            }
            rows.add(&format!("{name} idle and unusable"), of(|it| it.fragmentation_average));
            rows.add(&format!("{name} imbalance of nodes"), of(|it| it.imbalance_average));
            rows.add(&format!("{name} difference of zones"), of(|it| it.zone_skew_average));
        }
    }
}

struct Rows<'c> {
    columns: &'c [Column],
    rows: Vec<(String, Vec<String>)>,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, cell: impl Fn(&Column) -> String) {
        self.rows.push((name.to_owned(), self.columns.iter().map(cell).collect()));
    }
}

impl Column {
    fn of(name: &str, figures: &Figures) -> Column {
        let shares = |sample: &Sample| -> BTreeMap<Arc<str>, f64> {
            sample.resources.iter().map(|(name, usage)| (name.clone(), usage.share())).collect()
        };
        let n_decisions = figures.n_decisions();
        Column {
            name: name.to_owned(),
            n_came: figures.n_came,
            n_placed: figures.n_placed,
            n_waiting_at_end: figures.n_left,
            wait: Wait {
                total_seconds: figures.waited().as_secs_f64(),
                p50_seconds: figures.wait(50).as_secs_f64(),
                p99_seconds: figures.wait(99).as_secs_f64(),
                longest_seconds: figures.wait(100).as_secs_f64(),
            },
            evictions_by_priority: figures.evictions.clone(),
            resources: resources(figures),
            shares_when_first_refused: figures.first_refused.as_ref().map(shares),
            busy_nodes_average: figures.average(|sample| Some(as_f64(sample.n_busy))),
            emptiable_nodes_at_end: figures.n_emptiable,
            cost: figures.cost(),
            decisions: (n_decisions > 0).then(|| Decisions {
                n: n_decisions,
                p50_micros: micros(figures.decision(50)),
                p99_micros: micros(figures.decision(99)),
            }),
        }
    }
}

fn resources(figures: &Figures) -> BTreeMap<Arc<str>, Resource> {
    let Some(end) = figures.samples.last() else { return BTreeMap::new() };
    let resource = |(name, usage): (&Arc<str>, &Usage)| {
        let average = |figure: fn(&Usage) -> f64| {
            figures.average(|sample| sample.resources.get(name).map(figure)).unwrap_or_default()
        };
        let resource = Resource {
            requested_average: average(Usage::share),
            requested_at_end: usage.share(),
            fragmentation_average: average(|it| it.fragmentation),
            fragmentation_at_end: usage.fragmentation,
            imbalance_average: average(|it| it.imbalance),
            zone_skew_average: average(|it| it.zone_skew),
        };
        (name.clone(), resource)
    };
    end.resources.iter().map(resource).collect()
}

pub(super) fn time(unix_micros: u64) -> Option<Time> {
    Some(Time::from_unix_seconds(i64::try_from(unix_micros / 1_000_000).ok()?))
}

fn none() -> String {
    "-".to_owned()
}

fn latency(column: &Column, figure: impl Fn(&Decisions) -> f64) -> String {
    column.decisions.as_ref().map_or_else(none, |it| format!("{:.1} µs", figure(it)))
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn decimal(figure: Option<f64>) -> String {
    figure.map_or_else(none, |it| format!("{it:.2}"))
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_f64(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_that_is_read_at_once() {
        let found = [0.04, 119.0, 120.0, 7_199.0, 90_000.0].map(seconds);
        assert_eq!(found, ["0.0 s", "119.0 s", "2.0 min", "120.0 min", "25.0 h"]);
    }

    #[test]
    fn a_table_has_a_column_for_each_policy_and_only_rows_that_tell_something() {
        let (mut one, mut two) = (Figures::default(), Figures::default());
        (one.n_came, two.n_came) = (1_200, 1_200);
        one.evictions = [(7, 3)].into();
        let compared = Compared { span: (0, 1), figures: vec![one, two] };
        let text = Comparison::of(&["a".to_owned(), "b".to_owned()], &compared).text();
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>())
        };
        assert_eq!(row("pods that came"), Some(vec!["1,200", "1,200"]), "{text}");
        assert_eq!(row("evicted, of priority 7"), Some(vec!["0", "3"]), "{text}");
        assert_eq!(row("cost"), None, "{text}");
    }
}
