//! Survey: what each of some nodes is to a pod, and how those that could take it compare. What an extender is asked.
//! Rules: S-EXT-12, S-EXT-16; filters and scores as in an attempt, without the nominated node's precedence (S-CYC-3).

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

/// One pod under one policy, and how much is wanted.
#[derive(Copy, Clone, Debug)]
pub struct SurveyRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile to look by. Its PreEnqueue plugins are not asked.
    pub policy: &'a Policy,
    /// Whether the totals of feasible nodes are wanted.
    pub with_totals: bool,
}

/// What each asked node is to the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The snapshot looked at.
    pub generation: Generation,
    /// One a name, in the order of the names.
    pub standings: Vec<Standing>,
    /// The distinct refusals, in the order in which they came up.
    pub refusals: Vec<NodeRefusal>,
}

/// What one asked node is to the pod.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every filter passes.
    Feasible {
        /// Weighted sum of the scores, normalised over the asked feasible nodes (S-SEL-1); 0 where totals are not wanted.
        total: i32,
    },
    /// A filter fails: a position in [`Survey::refusals`].
    Refused(u32),
    /// The cluster has no node of this name.
    Unknown,
    /// The name stood earlier among those asked; what it is is told there.
    Repeated,
}

/// Why nodes are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    /// The first filter that failed; `None` when a PreFilter result left the node out (S-PF-6).
    pub plugin: Option<Plugin>,
    /// Whether eviction might help.
    pub code: StatusCode,
    /// The reasons, in the order in which they are checked.
    pub reasons: Vec<String>,
}

/// The asked names as rows.
pub(crate) struct Asked {
    /// In the order of the names.
    named: Vec<Named>,
    by_shard: Vec<RowSet>,
}

#[derive(Copy, Clone)]
enum Named {
    Row(NodeRow),
    Unknown,
    Repeated,
}

impl Asked {
    /// Cost: a look into two directories for each name.
    pub(crate) fn of<'n>(snapshot: &Snapshot, names: impl IntoIterator<Item = &'n str>) -> Asked {
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
        Asked { named: named.collect(), by_shard }
    }
}

/// Looks at the asked nodes; `evaluation` may hold what earlier attempts of the same shape and policy found.
///
/// Cost: filtering the shards that changed since, and for the asked nodes one visit each.
pub(crate) fn survey(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    asked: &Asked,
    with_totals: bool,
) -> Result<Survey, EngineError> {
    plan.check_evaluated()?;
    let mut account = Account::new(asked.by_shard.len());
    if let Some((plugin, text)) = pre_filter_refusal(plan)? {
        account.refuse_all(asked, plugin, text);
        return Ok(account.told(plan, asked));
    }
    plan.filtering(evaluation, |plan, evaluation| {
        evaluation.filter(plan);
        let feasible = evaluation.feasible_among(plan, &asked.by_shard);
        for (i, asked) in asked.by_shard.iter().enumerate() {
            let rows = feasible.as_ref().map_or(RowSet::EMPTY, |feasible| feasible.by_shard()[i]);
            rows.iter().for_each(|row| account.rows[i][row] = Standing::Feasible { total: 0 });
            let refused = asked.without(&rows);
            if !refused.is_empty() {
                account.refuse(plan, &plan.snapshot().shards[i], refused);
            }
        }
        if let Some(feasible) = feasible.filter(|_| with_totals) {
            plan.check_scoring()?;
            score(&plan.scoring(evaluation), evaluation, &feasible, &mut account);
        }
        Ok(account.told(plan, asked))
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

/// What is found, by row.
struct Account {
    rows: Vec<[Standing; ROWS]>,
    refusals: Vec<(Option<Plugin>, Refusal)>,
    /// A PreFilter's refusal of the pod as a whole.
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

    /// A PreFilter refuses the pod: every node has its status (S-PF-2).
    fn refuse_all(&mut self, asked: &Asked, plugin: Plugin, text: String) {
        for (standings, rows) in self.rows.iter_mut().zip(&asked.by_shard) {
            rows.iter().for_each(|row| standings[row] = Standing::Refused(0));
        }
        let code = StatusCode::UnschedulableAndUnresolvable;
        self.whole = Some(NodeRefusal { plugin: Some(plugin), code, reasons: vec![text] });
    }

    /// Finds for rows that are not feasible who refuses them first, as an attempt's account does (S-PLG-3).
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

    fn told(self, plan: &Plan<'_>, asked: &Asked) -> Survey {
        let standing = |named: &Named| match named {
            Named::Row(row) => self.rows[row.shard()][row.row()],
            Named::Unknown => Standing::Unknown,
            Named::Repeated => Standing::Repeated,
        };
        let names = plan.names();
        let told = |(plugin, refusal): &(Option<Plugin>, Refusal)| NodeRefusal {
            plugin: *plugin,
            code: refusal.code,
            reasons: refusal.texts(names),
        };
        Survey {
            generation: plan.snapshot().generation,
            standings: asked.named.iter().map(standing).collect(),
            refusals: self.whole.iter().cloned().chain(self.refusals.iter().map(told)).collect(),
        }
    }
}

/// The position of a refusal, which nearly always is one of the last.
fn at(known: &mut Vec<(Option<Plugin>, Refusal)>, plugin: Option<Plugin>, refusal: Refusal) -> u32 {
    let is_it = |(p, r): &(Option<Plugin>, Refusal)| *p == plugin && *r == refusal;
    let at = known.iter().rposition(is_it).unwrap_or_else(|| {
        known.push((plugin, refusal));
        known.len() - 1
    });
    at as u32
}
