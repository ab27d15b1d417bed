//! Headroom: how many more of a pod fit, where, and what runs out first.
//!
//! Copies are placed one after another on a fork, each by a whole attempt that sees those before it. Where copies on
//! one node cannot affect copies on other nodes, and the limit is not reached, the order does not matter and each
//! node's share is a division ([`share`]).

mod account;
pub(crate) mod outcome;
mod share;

use crate::cluster::Cluster;
use crate::cluster::fork::Fork;
use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::{ModelError, Pod, PodKey};
use crate::place::decision::Outcome;
use crate::place::{self, Evaluation, message};
use crate::plan::counted::Filtering;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::plugin::StatusCode;
use crate::policy::Policy;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::simulate::among::decide_among;
use crate::simulate::fit::candidates;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::{Generation, Snapshot};
use account::Filled;
use outcome::{Headroom, HeadroomEnd};

/// A question about how many more copies of a pod fit.
#[derive(Copy, Clone)]
pub struct HeadroomRequest<'a> {
    /// The pod to copy: copies have its spec, labels and owner, and names and uids of their own, as replicas have. Its
    /// `spec.nodeName` and nomination are ignored; the caller has to remove a status that changes the pod's requests.
    pub pod: &'a Pod,
    /// The profile to decide by.
    pub policy: &'a Policy,
    /// How ties between equal total scores are broken.
    pub tie_break: TieBreak,
    /// The largest number of copies to place.
    pub limit: usize,
    /// Names of the nodes that may take copies; `None` for all.
    pub nodes: Option<&'a [String]>,
    /// Called every few copies; once it returns true, the call ends with [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Number of copies between two checks for cancellation.
const PATIENCE: usize = 64;

impl Cluster {
    /// Computes how many more copies of a pod fit, where, and which resources run out first; the cluster is not
    /// changed.
    ///
    /// Cost: an attempt for each copy, or one pass over the cluster where the order does not matter; and an account of
    /// every node.
    ///
    /// # Errors
    /// Errors of a placement attempt; [`EngineError::Model`] for `nodes` that the cluster does not have,
    /// [`EngineError::Cancelled`].
    pub fn headroom(&self, request: &HeadroomRequest<'_>) -> Result<Headroom, EngineError> {
        let snapshot = self.snapshot();
        let among = match request.nodes {
            Some(names) => rows_named(&snapshot, names)?,
            None => snapshot.shards.iter().map(|shard| shard.nodes.rows).collect(),
        };
        let mut filling = Filling {
            fork: self.fork_of(&snapshot),
            kernels: self.kernels(),
            request,
            template: request.pod.without_node().nominated_to(None),
            among,
            copies: vec![0; snapshot.shards.len() * ROWS],
            n_fit: 0,
            number: 0,
        };
        let generation = snapshot.generation();
        let (open, shares) = match filling.before()? {
            Before::Ended(end) => return Ok(Headroom::none(generation, end)),
            Before::Open(open, shares) => (open, shares),
        };
        match shares {
            Some(shares) => filling.fill(&shares)?,
            None => filling.place_one_by_one()?,
        }
        let n_fit = filling.n_fit;
        Ok(Headroom { generation, n_fit, ..filling.after(&snapshot, &open)? })
    }
}

impl Headroom {
    fn none(generation: Generation, end: HeadroomEnd) -> Headroom {
        let (nodes, stops, resources) = (Vec::new(), Vec::new(), Vec::new());
        Headroom { generation, n_fit: 0, end, nodes, n_open: 0, stops, resources }
    }
}

fn n_rows(among: &[RowSet]) -> usize {
    among.iter().map(|rows| rows.len() as usize).sum()
}

/// The rows of these names, by shard.
fn rows_named(snapshot: &Snapshot, names: &[String]) -> Result<Vec<RowSet>, ModelError> {
    let mut rows = vec![RowSet::EMPTY; snapshot.shards.len()];
    for (i, name) in names.iter().enumerate() {
        let row = candidates::named(snapshot, i, name)?;
        rows[row.shard()].insert(row.row());
    }
    Ok(rows)
}

/// A fork of the cluster that is being filled with copies.
struct Filling<'a> {
    fork: Fork<'a>,
    kernels: Kernels,
    request: &'a HeadroomRequest<'a>,
    /// The pod to copy, without a node.
    template: Pod,
    /// The rows of each shard that may take copies.
    among: Vec<RowSet>,
    /// Number of copies on each row.
    copies: Vec<usize>,
    n_fit: usize,
    /// Number in the next copy's name.
    number: usize,
}

/// Result of the look at the cluster before the first copy is placed.
enum Before {
    /// No copy is placed.
    Ended(HeadroomEnd),
    /// The rows that would take the first copy, and each row's share where shares can be computed at once.
    Open(Vec<RowSet>, Option<Vec<(NodeRow, usize)>>),
}

impl Filling<'_> {
    fn before(&mut self) -> Result<Before, EngineError> {
        let limit = self.request.limit;
        let among = self.among.clone();
        self.ask(|plan, evaluation| {
            match place::before_filtering(plan)? {
                Some(Outcome::Unschedulable(unschedulable)) => {
                    let unschedulable = match unschedulable.pre_filter {
                        Some(refusal) => message::refused_by_pre_filter(n_rows(&among), refusal),
                        None => unschedulable,
                    };
                    return Ok(Before::Ended(HeadroomEnd::Unschedulable(unschedulable)));
                }
                Some(Outcome::Gated { plugin, reasons }) => {
                    return Ok(Before::Ended(HeadroomEnd::Gated { plugin, reasons }));
                }
                Some(Outcome::Placed(_)) | None => {}
            }
            evaluation.filter(plan);
            let open = evaluation.feasible_among(plan, &among)?;
            if open.as_ref().is_some_and(|open| open.len() > 1) {
                plan.check_scoring()?;
            }
            let none = || vec![RowSet::EMPTY; among.len()];
            let open = open.map_or_else(none, |open| open.by_shard().to_vec());
            let shares = share::shares(plan, &open, limit);
            Ok(Before::Open(open, shares))
        })
    }

    /// Puts its share of copies onto each row.
    fn fill(&mut self, shares: &[(NodeRow, usize)]) -> Result<(), EngineError> {
        for (row, n) in shares {
            for _ in 0..*n {
                self.check_patience()?;
                let copy = self.copy();
                self.fork.put(&copy, *row, &Bindings::default());
                self.count(*row);
            }
        }
        Ok(())
    }

    fn place_one_by_one(&mut self) -> Result<(), EngineError> {
        while self.n_fit < self.request.limit {
            self.check_patience()?;
            let copy = self.copy();
            let chosen = match self.request.nodes {
                None => self.place(&copy)?,
                Some(_) => self.place_among(&copy)?,
            };
            match chosen {
                Some(row) => self.count(row),
                None => break,
            }
        }
        Ok(())
    }

    fn place(&mut self, copy: &Pod) -> Result<Option<NodeRow>, EngineError> {
        let HeadroomRequest { policy, tie_break, .. } = *self.request;
        let request = PlaceRequest { pod: copy, policy, tie_break, now: None };
        let decided = self.fork.decide(&request, self.kernels)?;
        self.fork.commit(copy, &decided);
        Ok(decided.chosen.map(|chosen| chosen.row))
    }

    fn place_among(&mut self, copy: &Pod) -> Result<Option<NodeRow>, EngineError> {
        let HeadroomRequest { policy, tie_break, .. } = *self.request;
        let request = PlaceRequest { pod: copy, policy, tie_break, now: None };
        let among = &self.among;
        let (chosen, bindings) = self.fork.ask(&request, self.kernels, |plan, evaluation| {
            let chosen = decide_among(plan, evaluation, tie_break, among);
            let bindings = |row| plan.bindings(row);
            let bindings = chosen.as_ref().ok().copied().flatten().map(bindings);
            (chosen, bindings)
        });
        let chosen = chosen?;
        if let (Some(row), Some(bindings)) = (chosen, bindings) {
            self.fork.put(copy, row, &bindings);
        }
        Ok(chosen)
    }

    fn after(&mut self, before: &Snapshot, open: &[RowSet]) -> Result<Headroom, EngineError> {
        let (among, copies) = (self.among.clone(), std::mem::take(&mut self.copies));
        let n_nodes = n_rows(&among);
        self.ask(|plan, _| {
            let headroom = account::after(plan, before, &Filled { among, open, copies });
            // Volume bindings of the placed copies may leave no volume for the next copy on any node.
            Ok(match place::pre_filter_refusal(plan)? {
                None => headroom,
                Some((plugin, text)) => {
                    let refusal = (plugin, StatusCode::UnschedulableAndUnresolvable, vec![text]);
                    let end = message::refused_by_pre_filter(n_nodes, refusal);
                    Headroom { end: HeadroomEnd::Unschedulable(end), ..headroom }
                }
            })
        })
    }

    /// Evaluates the next copy after the filters' counts of other pods are made.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Filtering<'_, '_>, &mut Evaluation) -> T) -> T {
        let HeadroomRequest { policy, tie_break, .. } = *self.request;
        let copy = self.copy();
        let request = PlaceRequest { pod: &copy, policy, tie_break, now: None };
        self.fork.ask(&request, self.kernels, |plan, evaluation| {
            plan.filtering(evaluation, |plan, evaluation| ask(plan, evaluation))
        })
    }

    /// The next copy, named like the next replica. Names of pods that have a nomination or assumed volume bindings are
    /// skipped: these belong to another pod.
    fn copy(&mut self) -> Pod {
        let PodKey { namespace, name } = self.template.key();
        let key = |n: usize| PodKey::new(namespace, &format!("{name}-{n}"));
        let mut copied = key(self.number);
        let base = self.fork.base;
        while base.nominations.has(&copied) || base.storage.has_assumed(&copied) {
            self.number += 1;
            copied = key(self.number);
        }
        let n = self.number;
        let uid = match self.template.uid() {
            "" => String::new(),
            uid => format!("{uid}-{n}"),
        };
        self.template.with_identity(copied, &uid)
    }

    fn count(&mut self, row: NodeRow) {
        self.copies[row.index()] += 1;
        self.n_fit += 1;
        self.number += 1;
    }

    fn check_patience(&self) -> Result<(), EngineError> {
        if self.n_fit.is_multiple_of(PATIENCE) && (self.request.cancelled)() {
            return Err(EngineError::Cancelled);
        }
        Ok(())
    }
}
