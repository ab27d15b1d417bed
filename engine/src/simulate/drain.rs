//! Drain: whether nodes can be emptied, where each of their pods goes, and what blocks it. Rules: S-SD-1 to S-SD-8,
//! S-CAS-8.
//!
//! The result is the final state: every moving pod has a node once all pods have moved. In between, pods leave in waves
//! that no disruption budget forbids; a wave begins when the pods of the wave before are ready again.

pub(crate) mod budget;
pub(crate) mod eligibility;
pub(crate) mod emptying;
pub(crate) mod outcome;
pub(crate) mod rule;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cluster::Cluster;
use crate::error::EngineError;
use crate::model::label::clip;
use crate::model::{ModelError, Pod, PodKey};
use crate::plan::request::TieBreak;
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::simulate::rows::Rows;
use crate::simulate::scene::Scene;
use crate::snapshot::Snapshot;
use budget::{Budgets, Waves, is_risky};
use eligibility::{NodeRules, Recently, measured, refused};
use emptying::{NewNode, NoPlace, Occupant, clear, moving, no_room, occupants, rehouse};
use outcome::{
    BlockingReason, Drain, NodeDrain, NodeOutcome, NodeUtilization, PodDrain, PodVerdict,
    UnremovableReason,
};
use rule::{Context, DrainRules};

/// How the drains of several nodes affect each other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DrainMode {
    /// Each node by itself, as if the request named no other.
    #[default]
    OneByOne,
    /// All nodes at once, in order: pods stay moved, drained nodes are removed, and budgets are charged for earlier
    /// nodes (S-SD-6).
    Together,
    /// One after another, in order: as together, but a node begins only when all pods of the node before it are ready
    /// elsewhere, and budgets have recovered.
    InTurn,
}

/// Nodes to be emptied.
#[derive(Copy, Clone)]
pub struct DrainRequest<'a> {
    /// The profile that decides where pods go, whatever scheduler they name.
    pub policy: &'a Policy,
    /// How ties between equal total scores are broken.
    pub tie_break: TieBreak,
    /// Names of the nodes, each once, in the order in which they go.
    pub nodes: &'a [Arc<str>],
    /// How the nodes affect each other.
    pub mode: DrainMode,
    /// Names of the nodes that may take pods; they may include nodes of the request that are drained later. `None` for
    /// all others that are not being removed: all but the node itself with [`DrainMode::OneByOne`], else all but those
    /// of the request.
    pub destinations: Option<&'a [Arc<str>]>,
    /// For some pods, a node that is tried before any other.
    pub hints: &'a [(PodKey, Arc<str>)],
    /// Rules on which nodes may go.
    pub node_rules: NodeRules<'a>,
    /// Rules on which pods may move.
    pub rules: DrainRules,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// Called before each node and each pod; once it returns true, the call ends with [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Cluster {
    /// Decides whether nodes can be emptied, and how. The cluster is not changed.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a node that is named twice and for a destination that does not exist,
    /// [`EngineError::Cancelled`]. Errors that concern one pod or node are in the result of that pod or node.
    pub fn simulate_drain(&self, request: &DrainRequest<'_>) -> Result<Drain, EngineError> {
        check_names("node_names", request.nodes)?;
        let snapshot = self.snapshot();
        let mut simulation = Simulation {
            request,
            base: &snapshot,
            scene: Scene::of(self, &snapshot, request.policy),
            budgets: Budgets::of(&snapshot),
            waves: Waves::default(),
            destinations: destinations(&snapshot, request)?,
            recently: request.node_rules.recently(),
            hints: request.hints.iter().map(|(pod, node)| (pod, &**node)).collect(),
        };
        let mut nodes = Vec::with_capacity(request.nodes.len());
        for name in request.nodes {
            if (request.cancelled)() {
                return Err(EngineError::Cancelled);
            }
            nodes.push(simulation.drain(name)?);
        }
        let n_waves = nodes.iter().flat_map(|node| &node.pods).map(wave_of).max().unwrap_or(0);
        Ok(Drain { generation: snapshot.generation, nodes, n_waves })
    }
}

/// Checks that no name is listed twice: such a node would be removed twice.
pub(crate) fn check_names(field: &str, names: &[Arc<str>]) -> Result<(), ModelError> {
    let mut seen = FxHashSet::default();
    match names.iter().position(|name| !seen.insert(name)) {
        None => Ok(()),
        Some(i) => {
            let reason = format!("`{}` stands in the list twice", clip(&names[i]));
            Err(ModelError::new(format!("{field}[{i}]"), reason))
        }
    }
}

fn wave_of(pod: &PodDrain) -> u32 {
    match &pod.verdict {
        PodVerdict::Moves { wave, .. } => *wave,
        _ => 0,
    }
}

/// The nodes that may take pods before any node is drained.
fn destinations(snapshot: &Snapshot, request: &DrainRequest<'_>) -> Result<Rows, ModelError> {
    if let Some(names) = request.destinations {
        let row = |(i, name): (usize, &Arc<str>)| {
            let reason = || format!("the cluster has no node `{}`", clip(name));
            let unknown = || ModelError::new(format!("destination_node_names[{i}]"), reason());
            snapshot.row_named(name).ok_or_else(unknown)
        };
        return names.iter().enumerate().map(row).collect();
    }
    let mut all = staying(snapshot);
    if request.mode != DrainMode::OneByOne {
        let going = request.nodes.iter().filter_map(|name| snapshot.row_named(name));
        going.for_each(|row| all.remove(row));
    }
    Ok(all)
}

/// The nodes that are not being removed.
pub(crate) fn staying(snapshot: &Snapshot) -> Rows {
    let mut rows =
        Rows::from(snapshot.shards.iter().map(|shard| shard.nodes.rows).collect::<Vec<_>>());
    let goes =
        |row: &NodeRow| snapshot.node(*row).is_some_and(|node| node.facts().removal.is_under_way);
    let going: Vec<NodeRow> = rows.iter().filter(goes).collect();
    going.into_iter().for_each(|row| rows.remove(row));
    rows
}

/// Drains in progress, with the cluster as it is after them.
struct Simulation<'r, 'a> {
    request: &'r DrainRequest<'r>,
    base: &'a Snapshot,
    scene: Scene<'a>,
    budgets: Budgets<'a>,
    waves: Waves,
    destinations: Rows,
    recently: Recently<'r>,
    hints: FxHashMap<&'r PodKey, &'r str>,
}

impl Simulation<'_, '_> {
    fn drain(&mut self, name: &Arc<str>) -> Result<NodeDrain, EngineError> {
        let DrainRequest { node_rules, now, .. } = self.request;
        let Some(row) = self.base.row_named(name) else {
            let refusal = (UnremovableReason::NoNodeInfo, "is not in the cluster".to_owned());
            return Ok(untouched(name, None, refusal));
        };
        let utilization = measured(self.base, row, node_rules, *now);
        if let Some(refusal) =
            refused(self.base, row, node_rules, &self.recently, utilization.as_ref())
        {
            return Ok(untouched(name, utilization, refusal));
        }
        let was_destination = self.destinations.contains(row);
        self.destinations.remove(row);
        let drained = self.empty(name, row, utilization)?;
        if was_destination && self.scene.node(row).is_some() {
            self.destinations.insert(row);
        }
        Ok(drained)
    }

    /// Empties a node that may go. If it cannot go, or if nodes are drained independently, the scene is restored.
    fn empty(
        &mut self,
        name: &Arc<str>,
        row: NodeRow,
        utilization: Option<NodeUtilization>,
    ) -> Result<NodeDrain, EngineError> {
        let DrainRequest { rules, mode, now, .. } = self.request;
        let context = Context { rules, snapshot: self.base, now: *now };
        let occupants = occupants(&mut self.scene, row, &context, &mut self.budgets);
        let saved = self.scene.save();
        clear(&mut self.scene, row, &occupants);
        let order = moving(&occupants);
        let mut verdicts: Vec<PodVerdict> =
            occupants.iter().map(Occupant::initial_verdict).collect();
        for at in &order {
            verdicts[*at] = self.verdict(&occupants[*at])?;
        }
        let moved = || order.iter().map(|at| &occupants[*at].covering);
        let (mut budgets, mut n_waves) = (Vec::new(), 0);
        let mut outcome = outcome(&occupants, &verdicts);
        if outcome.is_removable() {
            budgets = self.budgets.uses(moved());
            outcome = NodeOutcome::Removable { risky: is_risky(&budgets) };
            n_waves = self.assign_waves(&occupants, &order, &mut verdicts);
        }
        if outcome.is_removable() && *mode != DrainMode::OneByOne {
            self.scene.remove_node(row);
            if *mode == DrainMode::Together {
                self.budgets.take(moved());
            }
        } else {
            self.scene.restore(saved);
        }
        let pods = occupants.iter().zip(verdicts);
        Ok(NodeDrain {
            node: name.clone(),
            utilization,
            outcome,
            pods: pods
                .map(|(occupant, verdict)| occupant.pod_drain(verdict, &self.budgets))
                .collect(),
            n_waves,
            budgets,
        })
    }

    /// The verdict on a movable pod: its new node, or why no node takes it.
    fn verdict(&mut self, occupant: &Occupant) -> Result<PodVerdict, EngineError> {
        let Simulation { request, scene, destinations, hints, .. } = self;
        if (request.cancelled)() {
            return Err(EngineError::Cancelled);
        }
        let hint = hints.get(occupant.pod.key()).copied();
        let place: NewNode = rehouse(scene, occupant, |scene, pod| {
            choose(scene, pod, hint, destinations, request.tie_break)
        })?;
        Ok(match place {
            Ok(row) => {
                let node =
                    scene.node(row).map_or_else(|| "".into(), |node| node.facts().name.clone());
                PodVerdict::Moves { node, wave: 0 }
            }
            Err(NoPlace::Failed(error)) => failed(&error),
            Err(NoPlace::NoRoom) => match no_room(scene, occupant, destinations) {
                Ok(verdict) => verdict,
                Err(error) => failed(&error),
            },
        })
    }

    /// Assigns a wave to each moving pod; returns how many waves the node takes.
    fn assign_waves(
        &mut self,
        occupants: &[Occupant],
        order: &[usize],
        verdicts: &mut [PodVerdict],
    ) -> u32 {
        match self.request.mode {
            DrainMode::OneByOne => self.waves = Waves::default(),
            DrainMode::Together => {}
            DrainMode::InTurn => self.waves.end(),
        }
        let (mut first, mut last) = (u32::MAX, 0);
        for at in order {
            let Occupant { pod, covering, .. } = &occupants[*at];
            let joined = self.waves.join(pod.key(), covering, &self.budgets);
            if let (PodVerdict::Moves { wave, .. }, Some(joined)) = (&mut verdicts[*at], joined) {
                *wave = joined;
                (first, last) = (first.min(joined), last.max(joined));
            }
        }
        (last + 1).saturating_sub(first.min(last + 1))
    }
}

/// The hinted node if it takes the pod, else the one that a placement among `destinations` would choose.
fn choose(
    scene: &mut Scene<'_>,
    pod: &Pod,
    hint: Option<&str>,
    destinations: &Rows,
    tie_break: TieBreak,
) -> Result<Option<NodeRow>, EngineError> {
    let hinted = hint.and_then(|name| scene.snapshot().row_named(name));
    if let Some(row) = hinted.filter(|row| destinations.contains(*row)) {
        let only: Rows = [row].into_iter().collect();
        if let Some(row) = scene.decide(pod, tie_break, Some(&only))? {
            return Ok(Some(row));
        }
    }
    scene.decide(pod, tie_break, Some(destinations))
}

fn failed(error: &EngineError) -> PodVerdict {
    PodVerdict::Blocked { reason: BlockingReason::UnexpectedError, message: error.to_string() }
}

/// Whether a node whose pods have these verdicts can go (S-SD-4, S-SD-8).
fn outcome(occupants: &[Occupant], verdicts: &[PodVerdict]) -> NodeOutcome {
    let pods = || occupants.iter().map(|occupant| occupant.pod.key()).zip(verdicts);
    let blocked = pods().find_map(|(pod, verdict)| match verdict {
        PodVerdict::Blocked { reason, message } => Some((pod, *reason, message)),
        _ => None,
    });
    if let Some((pod, reason, message)) = blocked {
        return NodeOutcome::Unremovable {
            reason: match reason {
                BlockingReason::UnexpectedError => UnremovableReason::UnexpectedError,
                _ => UnremovableReason::BlockedByPod,
            },
            message: format!("pod `{pod}`: {message}"),
            blocking_pod: Some(pod.clone()),
        };
    }
    let homeless: Vec<(&PodKey, &String)> = pods()
        .filter_map(|(pod, verdict)| match verdict {
            PodVerdict::NoRoom { message, .. } => Some((pod, message)),
            _ => None,
        })
        .collect();
    let Some((pod, message)) = homeless.first() else {
        return NodeOutcome::Removable { risky: false };
    };
    let others = match homeless.len() - 1 {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    NodeOutcome::Unremovable {
        reason: UnremovableReason::NoPlaceToMovePods,
        message: format!("pod `{pod}`: {message}{others}"),
        blocking_pod: Some((*pod).clone()),
    }
}

fn untouched(
    name: &Arc<str>,
    utilization: Option<NodeUtilization>,
    refusal: (UnremovableReason, String),
) -> NodeDrain {
    let (reason, message) = refusal;
    let outcome = NodeOutcome::Unremovable { reason, message, blocking_pod: None };
    let (pods, budgets) = (Vec::new(), Vec::new());
    NodeDrain { node: name.clone(), utilization, outcome, pods, n_waves: 0, budgets }
}
