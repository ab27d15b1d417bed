//! Who goes first, and who takes in whom: the order of candidates, and where their pods may go meanwhile.

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

/// What nodes cost an hour, in whatever unit.
#[derive(Copy, Clone, Debug, Default)]
pub struct NodePrices<'a> {
    /// The label whose value says what a node costs.
    pub label: &'a str,
    /// By that value.
    pub by_label: Option<&'a BTreeMap<String, f64>>,
    /// By node name; what stands here counts.
    pub by_node: Option<&'a BTreeMap<String, f64>>,
}

impl NodePrices<'_> {
    /// The price of the node of a row, where one is known.
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

/// The dearest first; of equal ones the emptiest, then the one with the fewest pods, then by name.
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

/// The nodes of a plan that is being made.
pub(super) struct Line {
    /// Nodes that stay, whatever comes: no candidates, found to be needed, or taking in pods.
    staying: Rows,
    /// Candidates whose turn is still to come.
    waiting: Rows,
    /// The turns of all candidates, by row.
    turns: FxHashMap<NodeRow, usize>,
    /// Those that waited and took in pods of the node whose turn it is.
    taking_in: Vec<NodeRow>,
}

impl Line {
    pub(super) fn new(staying: Rows, candidates: &[Candidate]) -> Line {
        let rows = || candidates.iter().map(|candidate| candidate.row);
        let turns = rows().enumerate().map(|(turn, row)| (row, turn)).collect();
        Line { staying, waiting: rows().collect(), turns, taking_in: Vec::new() }
    }

    /// Whether a candidate still waits; if so its turn is now.
    pub(super) fn call(&mut self, row: NodeRow) -> bool {
        let waits = self.waiting.contains(row);
        self.waiting.remove(row);
        waits
    }

    /// Where a pod goes: to a node that stays, as a placement would choose; and if none takes it, to the candidate of the latest
    /// turn that does, which therefore stays.
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
        open.sort_unstable_by_key(|row| Reverse(self.turns.get(row)));
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

    /// The node whose turn it was goes; answers the turns of the candidates that stay because they took in its pods.
    pub(super) fn goes(&mut self) -> Vec<usize> {
        let hosts = std::mem::take(&mut self.taking_in);
        hosts.iter().filter_map(|row| self.turns.get(row).copied()).collect()
    }

    /// The node whose turn it was stays, and nobody took in anything.
    pub(super) fn stays(&mut self, row: NodeRow) {
        for back in self.taking_in.drain(..) {
            self.staying.remove(back);
            self.waiting.insert(back);
        }
        self.staying.insert(row);
    }
}
