//! Consolidate: which nodes can go, in which order, and where their pods move. Rules: S-SD-1 to S-SD-8 for each node,
//! S-CAS-8.
//!
//! One pass over the candidates, the most expensive and emptiest first, on one copy of the cluster; moves of earlier
//! candidates stay in effect. Pods go to nodes that stay; where these have no room left, the last candidate in the
//! order that has room takes them in, and stays. So no pod is moved onto a node that goes later, and none moves twice.

mod line;
pub(crate) mod outcome;

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::error::EngineError;
use crate::model::PodKey;
use crate::model::drainability::OwnerKind;
use crate::plan::request::TieBreak;
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::simulate::drain::budget::{Budgets, Waves, is_risky};
use crate::simulate::drain::eligibility::{NodeRules, measured, refused};
use crate::simulate::drain::emptying::{NoPlace, Occupant, clear, moving, occupants, rehouse};
use crate::simulate::drain::outcome::{NodeDrain, NodeOutcome, PodVerdict, UnremovableReason};
use crate::simulate::drain::rule::{Context, DrainRules, Ruling};
use crate::simulate::drain::{check_names, staying};
use crate::simulate::scene::Scene;
use crate::snapshot::Snapshot;
pub use line::NodePrices;
use line::{Candidate, Line, sort};
use outcome::{Consolidation, ConsolidationEnd, ConsolidationStep, Disruption, KeptNode, Savings};

/// A question about which nodes of the cluster can be removed.
#[derive(Copy, Clone)]
pub struct ConsolidateRequest<'a> {
    /// The profile that decides where pods go, whatever scheduler they name.
    pub policy: &'a Policy,
    /// How ties between equal total scores are broken.
    pub tie_break: TieBreak,
    /// Names of the nodes that may go, each once; `None` for all.
    pub candidates: Option<&'a [Arc<str>]>,
    /// Rules on which candidates stay whatever their pods are.
    pub node_rules: NodeRules<'a>,
    /// Rules on which pods may move.
    pub rules: DrainRules,
    /// Whether all nodes go at once, so that all moves together stay within every disruption budget. Otherwise a node
    /// goes when all pods of the node before it are ready elsewhere, and its own pods leave in waves.
    pub together: bool,
    /// The largest number of nodes that may go.
    pub max_nodes: usize,
    /// Prices of nodes.
    pub prices: NodePrices<'a>,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// Called before each node and each pod; once it returns true, the call ends with [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Cluster {
    /// Plans which nodes can go, and how. The cluster is not changed.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a candidate that is named twice; [`EngineError::Cancelled`].
    pub fn consolidate(
        &self,
        request: &ConsolidateRequest<'_>,
    ) -> Result<Consolidation, EngineError> {
        check_names("candidate_node_names", request.candidates.unwrap_or_default())?;
        let snapshot = self.snapshot();
        let (candidates, kept) = candidates(&snapshot, request);
        let mut staying = staying(&snapshot);
        candidates.iter().for_each(|candidate| staying.remove(candidate.row));
        let mut plan = Plan {
            request,
            base: &snapshot,
            scene: Scene::of(self, &snapshot, request.policy),
            budgets: Budgets::of(&snapshot),
            waves: Waves::default(),
            line: Line::new(staying, &candidates),
            steps: Vec::new(),
            kept,
        };
        let mut end = ConsolidationEnd::Exhausted;
        for candidate in &candidates {
            if (request.cancelled)() {
                return Err(EngineError::Cancelled);
            }
            if plan.steps.len() >= request.max_nodes {
                end = ConsolidationEnd::MaxNodes;
                break;
            }
            if plan.line.call(candidate.row) {
                plan.decide(candidate, &candidates)?;
            }
        }
        let Plan { steps, kept, .. } = plan;
        let (mut savings, mut disruption) = (Savings::default(), Disruption::default());
        for step in &steps {
            savings.add(&step.savings);
            disruption.add(&step.disruption);
        }
        let generation = snapshot.generation;
        Ok(Consolidation { generation, steps, kept, end, savings, disruption })
    }
}

/// The nodes that may go, in their order, and the requested nodes that stay whatever their pods are.
fn candidates(
    snapshot: &Snapshot,
    request: &ConsolidateRequest<'_>,
) -> (Vec<Candidate>, Vec<KeptNode>) {
    let ConsolidateRequest { node_rules, now, prices, .. } = request;
    let (mut candidates, mut kept) = (Vec::new(), Vec::new());
    let all = || {
        let shards = snapshot.shards.iter().enumerate();
        let rows = shards
            .flat_map(|(at, shard)| shard.nodes.rows.iter().map(move |row| NodeRow::new(at, row)));
        let name = |row| snapshot.node(row).map(|node| node.facts().name.clone());
        let mut names: Vec<Arc<str>> = rows.filter_map(name).collect();
        names.sort_unstable();
        names
    };
    let names = request.candidates.map_or_else(all, <[Arc<str>]>::to_vec);
    let recently = node_rules.recently();
    for name in names {
        let Some(row) = snapshot.row_named(&name) else {
            let (reason, message) = (UnremovableReason::NoNodeInfo, "is not in the cluster".into());
            kept.push(KeptNode {
                node: name,
                utilization: None,
                reason,
                message,
                blocking_pod: None,
            });
            continue;
        };
        let utilization = measured(snapshot, row, node_rules, *now);
        if let Some((reason, message)) =
            refused(snapshot, row, node_rules, &recently, utilization.as_ref())
        {
            kept.push(KeptNode { node: name, utilization, reason, message, blocking_pod: None });
            continue;
        }
        let n_pods =
            snapshot.shards.get(row.shard()).map_or(0, |shard| shard.pods.count(row.row()));
        candidates.push(Candidate {
            row,
            name,
            utilization,
            price: prices.of(snapshot, row),
            n_pods,
        });
    }
    sort(&mut candidates);
    (candidates, kept)
}

/// A plan in the making, with the cluster as it is after the plan's steps.
struct Plan<'r, 'a> {
    request: &'r ConsolidateRequest<'r>,
    base: &'a Snapshot,
    scene: Scene<'a>,
    budgets: Budgets<'a>,
    waves: Waves,
    line: Line,
    steps: Vec<ConsolidationStep>,
    kept: Vec<KeptNode>,
}

/// Why a candidate stays: reason, message, and blocking pod.
type Kept = (UnremovableReason, String, Option<PodKey>);

impl Plan<'_, '_> {
    /// Decides about a candidate: either it goes, or it stays and the scene is unchanged.
    fn decide(&mut self, candidate: &Candidate, order: &[Candidate]) -> Result<(), EngineError> {
        let ConsolidateRequest { rules, now, .. } = self.request;
        let context = Context { rules, snapshot: self.base, now: *now };
        let occupants = occupants(&mut self.scene, candidate.row, &context, &mut self.budgets);
        let kept = match self.objection(&occupants) {
            Some(kept) => Some(kept),
            None => {
                let saved = self.scene.save();
                match self.rehouse_all(candidate, &occupants)? {
                    Ok(verdicts) => {
                        self.go(candidate, &occupants, verdicts, order);
                        None
                    }
                    Err(kept) => {
                        self.scene.restore(saved);
                        Some(kept)
                    }
                }
            }
        };
        if let Some(kept) = kept {
            self.line.stays(candidate.row);
            self.keep(candidate, kept);
        }
        Ok(())
    }

    /// Why a node cannot go, even if all its pods fit elsewhere.
    fn objection(&self, occupants: &[Occupant]) -> Option<Kept> {
        for Occupant { pod, ruling, .. } in occupants {
            if let Ruling::Block(_, message) = ruling {
                let message = format!("pod `{}`: {message}", pod.key());
                return Some((UnremovableReason::BlockedByPod, message, Some(pod.key().clone())));
            }
        }
        let waits = occupants.iter().find(|occupant| occupant.ruling == Ruling::Wait);
        if let Some(Occupant { pod, .. }) = waits {
            let message = format!("pod `{}` is to be waited for until it completes", pod.key());
            let reason = UnremovableReason::BlockedByOnCompletionPod;
            return Some((reason, message, Some(pod.key().clone())));
        }
        let moved = occupants.iter().filter(|occupant| occupant.moves());
        let uses = self.budgets.uses(moved.map(|occupant| &occupant.covering));
        if !self.request.together || !is_risky(&uses) {
            return None;
        }
        let used = uses.iter().find(|used| i64::from(used.n_moved) > used.n_allowed)?;
        let message = format!(
            "moves {} pods of disruption budget `{}/{}`, which allows {} more: not together with the others",
            used.n_moved, used.namespace, used.name, used.n_allowed
        );
        Some((UnremovableReason::BlockedByPod, message, None))
    }

    /// Finds a node for every pod that moves, or returns the pod that fits nowhere. Pods already moved are not moved
    /// back.
    fn rehouse_all(
        &mut self,
        candidate: &Candidate,
        occupants: &[Occupant],
    ) -> Result<Result<Vec<PodVerdict>, Kept>, EngineError> {
        let Plan { request, scene, line, .. } = self;
        clear(scene, candidate.row, occupants);
        let mut verdicts: Vec<PodVerdict> =
            occupants.iter().map(Occupant::initial_verdict).collect();
        for at in moving(occupants) {
            if (request.cancelled)() {
                return Err(EngineError::Cancelled);
            }
            let pod = occupants[at].pod.key();
            let place = rehouse(scene, &occupants[at], |scene, pod| {
                line.choose(scene, pod, request.tie_break)
            })?;
            let (reason, message) = match place {
                Ok(row) => {
                    let node = scene.node(row).map(|node| node.facts().name.clone());
                    verdicts[at] = PodVerdict::Moves { node: node.unwrap_or_default(), wave: 0 };
                    continue;
                }
                Err(NoPlace::NoRoom) => (
                    UnremovableReason::NoPlaceToMovePods,
                    format!("pod `{pod}`: no node that stays takes it"),
                ),
                Err(NoPlace::Failed(error)) => {
                    (UnremovableReason::UnexpectedError, format!("pod `{pod}`: {error}"))
                }
            };
            return Ok(Err((reason, message, Some(pod.clone()))));
        }
        Ok(Ok(verdicts))
    }

    /// Removes a candidate and records the step.
    fn go(
        &mut self,
        candidate: &Candidate,
        occupants: &[Occupant],
        mut verdicts: Vec<PodVerdict>,
        order: &[Candidate],
    ) {
        let moved = moving(occupants);
        let covering = || moved.iter().map(|at| &occupants[*at].covering);
        let budgets = self.budgets.uses(covering());
        if self.request.together {
            self.budgets.take(covering());
        } else {
            self.waves.end();
        }
        let before = self.waves.len();
        for at in &moved {
            let Occupant { pod, covering, .. } = &occupants[*at];
            let joined = self.waves.join(pod.key(), covering, &self.budgets);
            if let (PodVerdict::Moves { wave, .. }, Some(joined)) = (&mut verdicts[*at], joined) {
                *wave = joined;
            }
        }
        let n_waves = match (self.request.together, moved.is_empty()) {
            (_, true) => 0,
            (true, false) => 1,
            (false, false) => self.waves.len() - before,
        };
        self.scene.remove_node(candidate.row);
        for host in self.line.goes() {
            let message = format!("takes in pods of `{}`", candidate.name);
            self.keep(&order[host], (UnremovableReason::NotUnneededOtherReason, message, None));
        }
        let pods = occupants.iter().zip(verdicts);
        self.steps.push(ConsolidationStep {
            savings: self.savings(candidate),
            disruption: disruption(occupants),
            drain: NodeDrain {
                node: candidate.name.clone(),
                utilization: candidate.utilization.clone(),
                outcome: NodeOutcome::Removable { risky: is_risky(&budgets) },
                pods: pods.map(|(pod, verdict)| pod.pod_drain(verdict, &self.budgets)).collect(),
                n_waves,
                budgets,
            },
        });
    }

    fn savings(&self, candidate: &Candidate) -> Savings {
        let allocatable = self.base.node(candidate.row).map(|node| &node.facts().allocatable);
        Savings {
            milli_cpu: allocatable.map_or(0, |allocatable| allocatable.milli_cpu),
            memory: allocatable.map_or(0, |allocatable| allocatable.memory),
            price_per_hour: candidate.price,
        }
    }

    fn keep(&mut self, candidate: &Candidate, (reason, message, blocking_pod): Kept) {
        let (node, utilization) = (candidate.name.clone(), candidate.utilization.clone());
        self.kept.push(KeptNode { node, utilization, reason, message, blocking_pod });
    }
}

fn disruption(occupants: &[Occupant]) -> Disruption {
    let mut disruption = Disruption::default();
    for Occupant { pod, ruling, covering } in occupants {
        match ruling {
            Ruling::Move => {
                disruption.n_moved += 1;
                let owner = pod.facts().drainability.owner;
                disruption.n_without_controller += u32::from(owner == OwnerKind::None);
                disruption.n_under_budget += u32::from(!covering.is_empty());
            }
            Ruling::Daemon | Ruling::Mirror => disruption.n_ended += 1,
            Ruling::LongTerminating | Ruling::Wait | Ruling::Block(..) => {}
        }
    }
    disruption
}
