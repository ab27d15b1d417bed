//! Rows: the table of placements. Pods of a large workload that have the same outcome share a row.

use std::collections::HashMap;

use berth_proto::berth_v1::{Decision, PlaceResult, decision::Outcome, place_result};
use berth_proto::core_v1::Pod;

use crate::cli::{manifest, output};
use crate::feed::handed::Member;

/// The largest number of pods of one workload that have a row each.
const MAX_ROWS: usize = 10;

/// Numbers of pods by outcome.
#[derive(Default)]
pub(super) struct Tally {
    n_placed: u64,
    n_pending: u64,
    n_gated: u64,
    n_refused: u64,
    n_others: usize,
}

impl Tally {
    /// The numbers as text; `placed` is the word for those with a node.
    pub(super) fn text(&self, placed: &str) -> String {
        let part = |n: u64, what: &str| format!("{} {what}", output::grouped(n));
        let mut parts = vec![part(self.n_placed, placed), part(self.n_pending, "pending")];
        parts.extend((self.n_gated > 0).then(|| part(self.n_gated, "gated")));
        parts.extend((self.n_refused > 0).then(|| part(self.n_refused, "refused")));
        let n_others = self.n_others;
        parts.extend(
            (n_others > 0).then(|| format!("{} not considered", output::grouped(n_others))),
        );
        parts.join(", ")
    }
}

/// The outcome of one pod, or of several that have the same.
struct Row<'a> {
    name: &'a str,
    n_pods: usize,
    node: Option<&'a str>,
    score: Range,
    feasible: Range,
    best: Range,
    message: String,
}

/// The smallest and the largest of some numbers; `None` without a number.
#[derive(Copy, Clone, Default)]
struct Range(Option<(i64, i64)>);

impl Range {
    fn of(number: impl Into<i64>) -> Range {
        let number = number.into();
        Range(Some((number, number)))
    }

    fn add(&mut self, other: Range) {
        self.0 = match (self.0, other.0) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    fn text(self) -> String {
        match self.0 {
            None => "-".to_owned(),
            Some((from, to)) if from == to => from.to_string(),
            Some((from, to)) => format!("{from}..{to}"),
        }
    }
}

/// The table of the results, of which there is one for each member, and of pods that are not considered.
pub(super) fn table(
    members: &[Member],
    results: &[PlaceResult],
    others: &[Pod],
) -> (String, Tally) {
    let mut tally = Tally { n_others: others.len(), ..Tally::default() };
    let mut n_pods: HashMap<usize, usize> = HashMap::new();
    for workload in members.iter().filter_map(|member| member.workload) {
        *n_pods.entry(workload).or_default() += 1;
    }
    let is_large = |workload: &usize| n_pods.get(workload).is_some_and(|n| *n > MAX_ROWS);
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut shared: HashMap<(usize, Option<&str>, String), usize> = HashMap::new();
    for (member, result) in members.iter().zip(results) {
        let row = row(&member.name, result, &mut tally);
        let Some(workload) = member.workload.filter(is_large) else {
            rows.push(row);
            continue;
        };
        let at = *shared.entry((workload, row.node, row.message.clone())).or_insert(rows.len());
        match rows.get_mut(at) {
            Some(first) => {
                first.n_pods += 1;
                first.score.add(row.score);
                first.feasible.add(row.feasible);
                first.best.add(row.best);
            }
            None => rows.push(row),
        }
    }
    let mut table = output::Table::new(&["POD", "NODE", "SCORE", "FEASIBLE", "BEST", "MESSAGE"])
        .wrapping(5)
        .dropping([4, 3, 2]);
    for Row { name, n_pods, node, score, feasible, best, message } in rows {
        let name = match n_pods {
            1 => name.to_owned(),
            n => format!("{name} and {} more", output::grouped(n - 1)),
        };
        let [score, feasible, best] = [score, feasible, best].map(Range::text);
        table.add_row([name.as_str(), node.unwrap_or("-"), &score, &feasible, &best, &message]);
    }
    for pod in others {
        let scheduler = pod.spec.as_ref().map_or("", |spec| spec.scheduler_name.as_str());
        let message = format!("not considered: asks for scheduler `{scheduler}`");
        table.add_row([manifest::name_of(pod).as_str(), "-", "-", "-", "-", &message]);
    }
    (table.text(), tally)
}

fn row<'a>(name: &'a str, result: &'a PlaceResult, tally: &mut Tally) -> Row<'a> {
    let none = Range::default();
    let blank = Row {
        name,
        n_pods: 1,
        node: None,
        score: none,
        feasible: none,
        best: none,
        message: String::new(),
    };
    match outcome(result) {
        Ok(Outcome::Placement(placement)) => {
            tally.n_placed += 1;
            Row {
                node: Some(&placement.node_name),
                score: placement.total_score.map(Range::of).unwrap_or_default(),
                feasible: Range::of(placement.n_feasible_nodes),
                best: Range::of(placement.n_best_nodes),
                message: placement.volumes.as_ref().map(output::volumes).unwrap_or_default(),
                ..blank
            }
        }
        Ok(Outcome::Unschedulable(unschedulable)) => {
            tally.n_pending += 1;
            let message = unschedulable.message.clone();
            Row { feasible: Range::of(0), message, ..blank }
        }
        Ok(Outcome::Gated(gated)) => {
            tally.n_gated += 1;
            Row { message: gated.reasons.join(", "), ..blank }
        }
        Err(reason) => {
            tally.n_refused += 1;
            Row { message: format!("refused: {reason}"), ..blank }
        }
    }
}

fn outcome(result: &PlaceResult) -> Result<&Outcome, String> {
    match &result.result {
        Some(place_result::Result::Decision(Decision { outcome: Some(outcome), .. })) => {
            Ok(outcome)
        }
        Some(place_result::Result::Error(error)) => Err(error.message.clone()),
        Some(place_result::Result::Decision(_)) | None => {
            Err("the answer holds no decision".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::berth_v1::Placement;

    use super::*;

    fn placed(node: &str, score: i64) -> PlaceResult {
        let placement = Placement {
            node_name: node.to_owned(),
            total_score: Some(score),
            n_feasible_nodes: 2,
            n_best_nodes: 1,
            ..Placement::default()
        };
        let outcome = Some(Outcome::Placement(placement));
        let decision = Decision { outcome, ..Decision::default() };
        PlaceResult { result: Some(place_result::Result::Decision(decision)) }
    }

    fn members(n: i64, workload: Option<usize>) -> Vec<Member> {
        (0..n).map(|i| Member { name: format!("d/web-{i}"), workload }).collect()
    }

    #[test]
    fn pods_of_a_large_workload_share_rows() {
        let results: Vec<PlaceResult> =
            (0..12).map(|i| placed(if i % 2 == 0 { "n1" } else { "n2" }, 400 - i)).collect();
        let (text, tally) = table(&members(12, Some(0)), &results, &[]);
        let expected = "\
POD                   NODE  SCORE     FEASIBLE  BEST  MESSAGE
d/web-0 and 5 more    n1    390..400  2         1
d/web-1 and 5 more    n2    389..399  2         1";
        let squeeze = |text: &str| {
            let lines =
                text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(squeeze(&text), squeeze(expected));
        assert_eq!(tally.text("placed"), "12 placed, 0 pending");
    }

    #[test]
    fn few_pods_and_pods_of_their_own_have_a_row_each() {
        let results: Vec<PlaceResult> = (0..12).map(|_| placed("n1", 1)).collect();
        let n_rows = |members: &[Member]| {
            let (text, _) = table(members, &results[..members.len()], &[]);
            text.lines().count() - 1
        };
        assert_eq!(n_rows(&members(10, Some(0))), 10);
        assert_eq!(n_rows(&members(11, Some(0))), 1);
        assert_eq!(n_rows(&members(12, None)), 12);
    }
}
