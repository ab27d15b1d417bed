//! Survey: the verdict on each of some nodes for a pod, and the scores of the feasible ones, for extenders. Rules:
//! S-EXT-12, S-EXT-16; filters and scores as in an attempt, without the nominated node's precedence (S-CYC-3).

use super::promised::refusals_with_promised;
use super::{Evaluation, pre_filter_refusal};
use crate::error::EngineError;
use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::place::ranking::Feasible;
use crate::plan::Plan;
use crate::plan::counted::{Filtering, Scoring};
use crate::plugin::{Plugin, StatusCode};
use crate::policy::Policy;
use crate::rows::{NodeRow, ROWS, RowSet};
use crate::snapshot::shard::Shard;
use crate::snapshot::{Generation, Snapshot};

/// A request to survey nodes for one pod under one policy.
#[derive(Copy, Clone, Debug)]
pub struct SurveyRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile to evaluate with. Its PreEnqueue plugins are ignored.
    pub policy: &'a Policy,
    /// Whether to compute the totals of feasible nodes.
    pub with_totals: bool,
}

/// The verdict on each surveyed node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The snapshot of the survey.
    pub generation: Generation,
    /// One entry for each name, in the order of the names.
    pub standings: Vec<Standing>,
    /// The distinct refusals, in the order of their first occurrence.
    pub refusals: Vec<NodeRefusal>,
}

/// The verdict on one surveyed node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every filter passes.
    Feasible {
        /// Weighted sum of the scores, normalized over the surveyed feasible nodes (S-SEL-1); 0 where totals are not
        /// requested.
        total: i32,
    },
    /// A filter fails: a position in [`Survey::refusals`].
    Refused(u32),
    /// The cluster has no node of this name.
    Unknown,
    /// The name occurred earlier in the list; the verdict is there.
    Repeated,
}

/// Why a node is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    /// The first filter that failed; `None` when a PreFilter result left the node out (S-PF-6).
    pub plugin: Option<Plugin>,
    /// Whether eviction might help.
    pub code: StatusCode,
    /// The reasons, in the order in which they are checked.
    pub reasons: Vec<String>,
}

/// The surveyed names as rows.
pub(crate) struct SurveyedNodes {
    /// The result of each name, in the order of the names.
    named: Vec<Named>,
    by_shard: Vec<RowSet>,
}

#[derive(Copy, Clone)]
enum Named {
    Row(NodeRow),
    Unknown,
    Repeated,
}

impl SurveyedNodes {
    /// Resolves names to rows. Cost: a lookup in two maps for each name.
    pub(crate) fn of<'n>(
        snapshot: &Snapshot,
        names: impl IntoIterator<Item = &'n str>,
    ) -> SurveyedNodes {
        let mut by_shard = vec![RowSet::EMPTY; snapshot.shards.len()];
        let named = names.into_iter().map(|name| {
            let Some(row) = snapshot.row_named(name) else { return Named::Unknown };
            let rows = &mut by_shard[row.shard()];
            if rows.contains(row.row()) {
                return Named::Repeated;
            }
            rows.insert(row.row());
            Named::Row(row)
        });
        SurveyedNodes { named: named.collect(), by_shard }
    }
}

/// Surveys nodes; `evaluation` may hold the results of earlier attempts of the same shape and policy.
///
/// Cost: filtering the shards that changed since, and one visit to each surveyed node.
pub(crate) fn survey(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    surveyed: &SurveyedNodes,
    with_totals: bool,
) -> Result<Survey, EngineError> {
    let mut account = Account::new(surveyed.by_shard.len());
    if let Some((plugin, text)) = pre_filter_refusal(plan)? {
        account.refuse_all(surveyed, plugin, text);
        return Ok(account.survey(plan, surveyed));
    }
    plan.filtering(evaluation, |plan, evaluation| {
        evaluation.filter(plan);
        let feasible = evaluation.feasible_among(plan, &surveyed.by_shard)?;
        for (i, named) in surveyed.by_shard.iter().enumerate() {
            let rows = feasible.as_ref().map_or(RowSet::EMPTY, |feasible| feasible.by_shard()[i]);
            rows.iter().for_each(|row| account.rows[i][row] = Standing::Feasible { total: 0 });
            let refused = named.without(&rows);
            if !refused.is_empty() {
                account.refuse(plan, &plan.snapshot().shards[i], refused);
            }
        }
        if let Some(feasible) = feasible.filter(|_| with_totals) {
            plan.check_scoring()?;
            score(&plan.scoring(evaluation), evaluation, &feasible, &mut account);
        }
        Ok(account.survey(plan, surveyed))
    })
}

fn score(
    plan: &Scoring<'_, '_>,
    evaluation: &mut Evaluation,
    feasible: &Feasible,
    account: &mut Account,
) {
    evaluation.totals(plan, feasible, |shard, rows, totals, constant| {
        for row in rows.iter() {
            account.rows[shard][row] = Standing::Feasible { total: totals[row] + constant };
        }
    });
}

/// Results by row.
struct Account {
    rows: Vec<[Standing; ROWS]>,
    refusals: Vec<(Option<Plugin>, Refusal)>,
    /// The refusal by a PreFilter of the pod as a whole.
    whole: Option<NodeRefusal>,
}

impl Account {
    fn new(n_shards: usize) -> Account {
        Account {
            rows: vec![[Standing::Unknown; ROWS]; n_shards],
            refusals: Vec::new(),
            whole: None,
        }
    }

    /// Records a PreFilter's refusal of the pod: it applies to every node (S-PF-2).
    fn refuse_all(&mut self, surveyed: &SurveyedNodes, plugin: Plugin, text: String) {
        for (standings, rows) in self.rows.iter_mut().zip(&surveyed.by_shard) {
            rows.iter().for_each(|row| standings[row] = Standing::Refused(0));
        }
        let code = StatusCode::UnschedulableAndUnresolvable;
        self.whole = Some(NodeRefusal { plugin: Some(plugin), code, reasons: vec![text] });
    }

    /// Finds the first refusal of each row that is not feasible, as an attempt would (S-PLG-3).
    fn refuse(&mut self, plan: &Filtering<'_, '_>, shard: &Shard, mut rows: RowSet) {
        let standings = &mut self.rows[shard.index];
        let refusals = &mut self.refusals;
        let candidates = plan.candidates(shard);
        let left_out = rows.without(&candidates);
        if !left_out.is_empty() {
            let at = at(refusals, None, Refusal::of(Reason::PreFilterNodeAffinity));
            left_out.iter().for_each(|row| standings[row] = Standing::Refused(at));
            rows.intersect(&candidates);
        }
        for (row, (plugin, refusal)) in refusals_with_promised(plan, shard, &rows) {
            standings[row] = Standing::Refused(at(refusals, Some(plugin), refusal));
            rows.remove(row);
        }
        for filter in plan.filters() {
            if rows.is_empty() {
                break;
            }
            let before = rows;
            (filter.run)(plan, shard, &mut rows);
            for row in before.without(&rows).iter() {
                let refusal = filter.refusal(plan, shard, row);
                standings[row] = Standing::Refused(at(refusals, Some(filter.plugin), refusal));
            }
        }
        debug_assert!(rows.is_empty(), "a row that is not feasible has a refusal");
    }

    fn survey(self, plan: &Plan<'_>, surveyed: &SurveyedNodes) -> Survey {
        let standing = |named: &Named| match named {
            Named::Row(row) => self.rows[row.shard()][row.row()],
            Named::Unknown => Standing::Unknown,
            Named::Repeated => Standing::Repeated,
        };
        let names = plan.names();
        let node_refusal = |(plugin, refusal): &(Option<Plugin>, Refusal)| NodeRefusal {
            plugin: *plugin,
            code: refusal.code,
            reasons: refusal.texts(names),
        };
        Survey {
            generation: plan.snapshot().generation,
            standings: surveyed.named.iter().map(standing).collect(),
            refusals: self
                .whole
                .iter()
                .cloned()
                .chain(self.refusals.iter().map(node_refusal))
                .collect(),
        }
    }
}

/// The position of a refusal in the list, which nearly always is one of the last.
fn at(known: &mut Vec<(Option<Plugin>, Refusal)>, plugin: Option<Plugin>, refusal: Refusal) -> u32 {
    let is_it = |(p, r): &(Option<Plugin>, Refusal)| *p == plugin && *r == refusal;
    let at = known.iter().rposition(is_it).unwrap_or_else(|| {
        known.push((plugin, refusal));
        known.len() - 1
    });
    at as u32
}
