//! The figures of a comparison as a table.

use std::collections::BTreeSet;

use berth_proto::berth_v1::{
    CompareResponse, DecisionFigures, PolicyFigures, ResourceFigures, WaitFigures,
};

use super::super::output::{Table, grouped};

/// A comparison, to be shown.
pub(super) struct Comparison<'a>(pub(super) &'a CompareResponse);

impl Comparison<'_> {
    /// A table with a row for each figure.
    pub(super) fn text(&self) -> String {
        let mut headings = vec!["FIGURE"];
        headings.extend(self.0.policies.iter().map(|column| column.name.as_str()));
        let mut table = Table::new(&headings);
        for (name, cells) in self.rows() {
            table.add_row(std::iter::once(name).chain(cells));
        }
        table.text()
    }

    /// The rows of the table: a name, and a cell for each policy.
    pub(super) fn rows(&self) -> Vec<(String, Vec<String>)> {
        let mut rows = Rows { columns: &self.0.policies, rows: Vec::new() };
        rows.add("pods that came", |it| grouped(it.n_came));
        rows.add("placed", |it| grouped(it.n_placed));
        rows.add("waiting at the end", |it| grouped(it.n_waiting_at_end));
        rows.add("wait, half of the pods at most", |it| wait(it, |it| it.p50_seconds));
        rows.add("wait, 99 of 100 at most", |it| wait(it, |it| it.p99_seconds));
        rows.add("wait, longest", |it| wait(it, |it| it.longest_seconds));
        rows.add("wait, all together", |it| wait(it, |it| it.total_seconds));
        let priorities: BTreeSet<i32> =
            self.0.policies.iter().flat_map(|it| &it.evictions).map(|it| it.priority).collect();
        for priority in priorities {
            rows.add(&format!("evicted, of priority {priority}"), |it| {
                let evicted = it.evictions.iter().find(|it| it.priority == priority);
                grouped(evicted.map_or(0, |it| it.n_pods))
            });
        }
        self.add_resources(&mut rows);
        rows.add("nodes in use, on average", |it| decimal(it.busy_nodes_average));
        rows.add("nodes that could be emptied at the end", |it| {
            it.emptiable_nodes_at_end.map_or_else(none, grouped)
        });
        if self.0.policies.iter().any(|it| it.cost.is_some()) {
            rows.add("cost of nodes in use", |it| decimal(it.cost));
        }
        rows.add("a decision, half of them at most", |it| latency(it, |it| it.p50_micros));
        rows.add("a decision, 99 of 100 at most", |it| latency(it, |it| it.p99_micros));
        rows.rows
    }

    fn add_resources(&self, rows: &mut Rows<'_>) {
        let names: BTreeSet<&String> =
            self.0.policies.iter().flat_map(|it| it.resources.keys()).collect();
        for name in names {
            let of = |figure: fn(&ResourceFigures) -> f64| {
                move |it: &PolicyFigures| {
                    it.resources.get(name).map_or_else(none, |it| percent(figure(it)))
                }
            };
            rows.add(&format!("{name} requested, on average"), of(|it| it.requested_average));
            rows.add(&format!("{name} requested at the end"), of(|it| it.requested_at_end));
            if self.0.policies.iter().any(|it| !it.shares_when_first_refused.is_empty()) {
                rows.add(&format!("{name} requested when first a pod waited"), |it| {
                    let share = it.shares_when_first_refused.get(name);
                    share.map_or_else(none, |it| percent(*it))
                });
            }
            rows.add(&format!("{name} idle and unusable"), of(|it| it.fragmentation_average));
            rows.add(&format!("{name} imbalance of nodes"), of(|it| it.imbalance_average));
            rows.add(&format!("{name} difference of zones"), of(|it| it.zone_skew_average));
        }
    }
}

struct Rows<'c> {
    columns: &'c [PolicyFigures],
    rows: Vec<(String, Vec<String>)>,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, cell: impl Fn(&PolicyFigures) -> String) {
        self.rows.push((name.to_owned(), self.columns.iter().map(cell).collect()));
    }
}

fn none() -> String {
    "-".to_owned()
}

fn wait(column: &PolicyFigures, figure: impl Fn(&WaitFigures) -> f64) -> String {
    column.wait.as_ref().map_or_else(none, |it| seconds(figure(it)))
}

fn latency(column: &PolicyFigures, figure: impl Fn(&DecisionFigures) -> f64) -> String {
    column.decisions.as_ref().map_or_else(none, |it| format!("{:.1} µs", figure(it)))
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn decimal(figure: Option<f64>) -> String {
    figure.map_or_else(none, |it| format!("{it:.2}"))
}

/// A time with the unit that suits it.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::berth_v1::EvictionFigures;

    #[test]
    fn durations_have_a_unit_that_is_read_at_once() {
        let found = [0.04, 119.0, 120.0, 7_199.0, 90_000.0].map(seconds);
        assert_eq!(found, ["0.0 s", "119.0 s", "2.0 min", "120.0 min", "25.0 h"]);
    }

    #[test]
    fn a_table_has_a_column_for_each_policy_and_only_rows_that_tell_something() {
        let of = |name: &str, evictions: Vec<EvictionFigures>| PolicyFigures {
            name: name.to_owned(),
            n_came: 1_200,
            evictions,
            ..PolicyFigures::default()
        };
        let policies =
            vec![of("a", vec![EvictionFigures { priority: 7, n_pods: 3 }]), of("b", Vec::new())];
        let response = CompareResponse { policies, ..CompareResponse::default() };
        let text = Comparison(&response).text();
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>())
        };
        assert_eq!(row("pods that came"), Some(vec!["1,200", "1,200"]), "{text}");
        assert_eq!(row("evicted, of priority 7"), Some(vec!["0", "3"]), "{text}");
        assert_eq!(row("cost"), None, "{text}");
    }
}
