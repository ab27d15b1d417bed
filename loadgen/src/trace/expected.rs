//! Recorded placements and their comparison with those of a replay.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use super::replay::TaskPlacement;
use super::{TraceError, rows};

/// Reads a CSV file of `pod,node,total,feasible,best`; a pod that fits no node has neither node nor total.
pub fn read(path: &Path) -> Result<Vec<TaskPlacement>, TraceError> {
    read_from(path, rows::open(path)?)
}

/// Reads recorded placements from an open source; errors name it as `path`.
pub fn read_from(path: &Path, source: impl Read) -> Result<Vec<TaskPlacement>, TraceError> {
    let mut names = BTreeMap::new();
    rows::read_from(path, source, &["pod", "node", "total", "feasible", "best"], |row| {
        let pod = row.name("pod")?.to_owned();
        if names.insert(pod.clone(), ()).is_some() {
            return Err(row.error("pod", &format!("`{pod}` occurs twice")));
        }
        let node = Some(row.text("node")).filter(|node| !node.is_empty()).map(str::to_owned);
        let total = row.integer("total")?;
        if node.is_some() != total.is_some() {
            return Err(row.error("total", "must be given exactly when `node` is"));
        }
        Ok(TaskPlacement {
            pod,
            node,
            total,
            n_feasible: row.amount("feasible")?,
            n_best: row.amount("best")?,
        })
    })
}

/// Counts of the replay's placements that equal the recorded ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Pods that are recorded or replayed.
    pub n_pods: usize,
    /// Pods on the recorded node, or pending as recorded.
    pub n_equal_nodes: usize,
    /// Pods with the recorded total, or without one as recorded.
    pub n_equal_totals: usize,
    /// Pods with the recorded number of feasible nodes.
    pub n_equal_feasible: usize,
    /// Pods with the recorded number of nodes that share the best total.
    pub n_equal_best: usize,
    /// The first few pods that differ.
    pub first_differences: Vec<Difference>,
}

/// A pod whose replayed placement differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The pod's name.
    pub pod: String,
    /// The recorded placement; absent if none was recorded.
    pub recorded: Option<TaskPlacement>,
    /// The replayed placement; absent if the replay has no such pod.
    pub answered: Option<TaskPlacement>,
}

/// Limit of the differences that are kept.
const MAX_DIFFERENCES: usize = 10;

impl Comparison {
    /// Compares by pod name, in the order of `answered`; recorded pods that were not replayed come last.
    pub fn of(recorded: &[TaskPlacement], answered: &[TaskPlacement]) -> Self {
        let mut by_pod: BTreeMap<&str, &TaskPlacement> =
            recorded.iter().map(|row| (row.pod.as_str(), row)).collect();
        let mut comparison = Self::default();
        for answer in answered {
            let row = by_pod.remove(answer.pod.as_str());
            comparison.count(row, Some(answer));
        }
        for row in recorded {
            if by_pod.contains_key(row.pod.as_str()) {
                comparison.count(Some(row), None);
            }
        }
        comparison
    }

    fn count(&mut self, recorded: Option<&TaskPlacement>, answered: Option<&TaskPlacement>) {
        self.n_pods += 1;
        if let (Some(recorded), Some(answered)) = (recorded, answered) {
            self.n_equal_nodes += usize::from(recorded.node == answered.node);
            self.n_equal_totals += usize::from(recorded.total == answered.total);
            self.n_equal_feasible += usize::from(recorded.n_feasible == answered.n_feasible);
            self.n_equal_best += usize::from(recorded.n_best == answered.n_best);
        }
        if recorded != answered && self.first_differences.len() < MAX_DIFFERENCES {
            let pod = recorded.or(answered).map(|row| row.pod.clone()).unwrap_or_default();
            self.first_differences.push(Difference {
                pod,
                recorded: recorded.cloned(),
                answered: answered.cloned(),
            });
        }
    }

    /// Whether all placements equal the recorded ones in all columns.
    pub fn is_equal(&self) -> bool {
        let equal =
            [self.n_equal_nodes, self.n_equal_totals, self.n_equal_feasible, self.n_equal_best];
        equal.iter().all(|n_equal| *n_equal == self.n_pods)
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, TaskPlacement};

    fn answer(
        pod: &str,
        node: Option<&str>,
        total: Option<i64>,
        n_feasible: i64,
        n_best: i64,
    ) -> TaskPlacement {
        TaskPlacement {
            pod: pod.to_owned(),
            node: node.map(str::to_owned),
            total,
            n_feasible,
            n_best,
        }
    }

    #[test]
    fn every_column_counts_for_itself() {
        let recorded = [
            answer("a", Some("n1"), Some(400), 5, 2),
            answer("b", None, None, 0, 0),
            answer("c", Some("n2"), Some(300), 1, 1),
            answer("gone", Some("n2"), Some(300), 1, 1),
        ];
        let mut answered = recorded[..3].to_vec();
        assert!(Comparison::of(&recorded[..3], &answered).is_equal());

        answered[0].node = Some("n3".to_owned());
        answered[1].n_feasible = 1;
        answered[2].total = None;
        answered.push(answer("new", None, None, 0, 0));
        let comparison = Comparison::of(&recorded, &answered);
        assert!(!comparison.is_equal());
        let Comparison {
            n_pods,
            n_equal_nodes,
            n_equal_totals,
            n_equal_feasible,
            n_equal_best,
            ..
        } = comparison;
        assert_eq!(
            (n_pods, n_equal_nodes, n_equal_totals, n_equal_feasible, n_equal_best),
            (5, 2, 2, 2, 3)
        );
        let differing: Vec<_> =
            comparison.first_differences.iter().map(|d| d.pod.as_str()).collect();
        assert_eq!(differing, ["a", "b", "c", "new", "gone"]);
        assert!(comparison.first_differences[3].recorded.is_none());
        assert!(comparison.first_differences[4].answered.is_none());
    }

    #[test]
    fn recorded_pods_that_were_not_replayed_are_not_equal() {
        let recorded = [answer("a", None, None, 0, 0)];
        assert!(!Comparison::of(&recorded, &[]).is_equal());
        assert!(Comparison::of(&[], &[]).is_equal());
    }
}
