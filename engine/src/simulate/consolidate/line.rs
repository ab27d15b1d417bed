//! The order in which candidates go, and the nodes that may take in their pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::error::EngineError;
use crate::model::Pod;
use crate::plan::request::TieBreak;
use crate::rows::NodeRow;
use crate::simulate::drain::eligibility::node_group;
use crate::simulate::drain::outcome::NodeUtilization;
use crate::simulate::rows::Rows;
use crate::simulate::scene::Scene;
use crate::snapshot::Snapshot;

/// Prices of nodes per hour, in any unit.
#[derive(Copy, Clone, Debug, Default)]
pub struct NodePrices<'a> {
    /// The label whose value determines a node's price.
    pub label: &'a str,
    /// Prices by value of that label.
    pub by_label: Option<&'a BTreeMap<String, f64>>,
    /// Prices by node name; these take precedence.
    pub by_node: Option<&'a BTreeMap<String, f64>>,
}

impl NodePrices<'_> {
    /// The price of the node of a row, if known.
    pub(super) fn of(&self, snapshot: &Snapshot, row: NodeRow) -> Option<f64> {
        let name = snapshot.node(row)?.name();
        self.by_node.and_then(|prices| prices.get(name)).copied().or_else(|| {
            let value = node_group(snapshot, row, self.label)?;
            self.by_label?.get(&*value).copied()
        })
    }
}

/// A node that may go.
pub(super) struct Candidate {
    pub(super) row: NodeRow,
    pub(super) name: Arc<str>,
    pub(super) utilization: Option<NodeUtilization>,
    pub(super) price: Option<f64>,
    pub(super) n_pods: usize,
}

/// Sorts the most expensive first; equal ones the emptiest first, then the one with the fewest pods, then by name.
pub(super) fn sort(candidates: &mut [Candidate]) {
    let ratio = |candidate: &Candidate| {
        candidate.utilization.as_ref().map_or(f64::INFINITY, |utilization| utilization.ratio)
    };
    candidates.sort_by(|a, b| {
        let by_price = b.price.unwrap_or(0.0).total_cmp(&a.price.unwrap_or(0.0));
        by_price
            .then_with(|| ratio(a).total_cmp(&ratio(b)))
            .then_with(|| a.n_pods.cmp(&b.n_pods))
            .then_with(|| a.name.cmp(&b.name))
    });
}

/// The nodes of a plan in the making.
pub(super) struct Line {
    /// Nodes that stay: not candidates, found to be needed, or taking in pods.
    staying: Rows,
    /// Candidates that are still to be decided about.
    waiting: Rows,
    /// Positions of all candidates in the order, by row.
    positions: FxHashMap<NodeRow, usize>,
    /// Waiting candidates that took in pods of the current node.
    taking_in: Vec<NodeRow>,
}

impl Line {
    pub(super) fn new(staying: Rows, candidates: &[Candidate]) -> Line {
        let rows = || candidates.iter().map(|candidate| candidate.row);
        let positions = rows().enumerate().map(|(position, row)| (row, position)).collect();
        Line { staying, waiting: rows().collect(), positions, taking_in: Vec::new() }
    }

    /// Makes a candidate the current node; returns whether it was still waiting.
    pub(super) fn call(&mut self, row: NodeRow) -> bool {
        let waits = self.waiting.contains(row);
        self.waiting.remove(row);
        waits
    }

    /// The node for a pod: one that stays, chosen as a placement would; if none takes it, the last waiting candidate
    /// that does, which therefore stays.
    pub(super) fn choose(
        &mut self,
        scene: &mut Scene<'_>,
        pod: &Pod,
        tie_break: TieBreak,
    ) -> Result<Option<NodeRow>, EngineError> {
        if let Some(row) = scene.decide(pod, tie_break, Some(&self.staying))? {
            return Ok(Some(row));
        }
        let feasible = scene.feasible(pod)?;
        let mut open: Vec<NodeRow> =
            self.waiting.iter().filter(|row| feasible.contains(*row)).collect();
        open.sort_unstable_by_key(|row| Reverse(self.positions.get(row)));
        for row in open {
            let only: Rows = [row].into_iter().collect();
            if scene.decide(pod, tie_break, Some(&only))?.is_some() {
                self.waiting.remove(row);
                self.staying.insert(row);
                self.taking_in.push(row);
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Records that the current node goes; returns the positions of the candidates that stay because they took in its
    /// pods.
    pub(super) fn goes(&mut self) -> Vec<usize> {
        let hosts = std::mem::take(&mut self.taking_in);
        hosts.iter().filter_map(|row| self.positions.get(row).copied()).collect()
    }

    /// Records that the current node stays; candidates that took in its pods wait again.
    pub(super) fn stays(&mut self, row: NodeRow) {
        for back in self.taking_in.drain(..) {
            self.staying.remove(back);
            self.waiting.insert(back);
        }
        self.staying.insert(row);
    }
}
