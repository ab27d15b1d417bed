//! Elsewhere: where victims could be placed after their eviction. Berth's own option, off by default.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use super::eviction::Eviction;
use super::outcome::{Candidate, Elsewhere};
use crate::model::{Node, Pod};
use crate::place::decision::Outcome;
use crate::place::{self, Evaluation};
use crate::plan::Plan;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::snapshot::AssumptionStamp;
use crate::snapshot::draft::Draft;

/// The largest number of evictions that are compared by placing their victims.
const MAX_COMPARED: usize = 256;

/// Counts for each eviction the victims that could not be placed anywhere, for evictions that are tied so far.
/// Evictions that are not compared get the highest count.
///
/// Cost: a fork for each of at most [`MAX_COMPARED`] evictions, and a decision for each of their victims.
pub(super) fn rank(
    plan: &Plan<'_>,
    versions: &Arc<AtomicU64>,
    evictions: &mut [Eviction],
    cancelled: &(dyn Fn() -> bool + Sync),
) {
    let snapshot = plan.snapshot();
    let name = |eviction: &Eviction| snapshot.node(eviction.row).map(Node::name);
    let mut in_order: Vec<&mut Eviction> = evictions.iter_mut().collect();
    in_order.sort_unstable_by(|a, b| a.rank.cmp(&b.rank).then_with(|| name(a).cmp(&name(b))));
    let fewest = in_order.first().map(|eviction| eviction.rank.n_violations);
    in_order.par_iter_mut().enumerate().for_each(|(i, eviction)| {
        let is_compared = i < MAX_COMPARED && Some(eviction.rank.n_violations) == fewest;
        if !is_compared || cancelled() {
            eviction.rank.n_homeless = u32::MAX;
            return;
        }
        let placed = place_victims(plan, versions, eviction);
        let homeless = placed.iter().filter(|found| matches!(found, Elsewhere::Nowhere(_)));
        eviction.rank.n_homeless = homeless.count() as u32;
    });
}

/// Records for each victim of a candidate where it could go.
pub(super) fn report(
    plan: &Plan<'_>,
    versions: &Arc<AtomicU64>,
    eviction: &Eviction,
    candidate: &mut Candidate,
) {
    let placed = place_victims(plan, versions, eviction);
    for (victim, elsewhere) in candidate.victims.iter_mut().zip(placed) {
        victim.elsewhere = Some(elsewhere);
    }
}

/// Places the victims one after another, the most important first, on a fork where they are removed and the preemptor
/// is placed.
fn place_victims(
    plan: &Plan<'_>,
    versions: &Arc<AtomicU64>,
    eviction: &Eviction,
) -> Vec<Elsewhere> {
    let snapshot = plan.snapshot();
    let pods = snapshot.shards[eviction.row.shard()].pods.of(eviction.row.row());
    let victims: Vec<&Pod> = eviction.victims.iter().map(|at| &pods[*at as usize].pod).collect();
    let mut draft = Draft::fork(snapshot, versions.clone());
    victims.iter().for_each(|victim| draft.remove_pod(eviction.row, victim));
    let preemptor = plan.pod();
    draft.clear_nomination(preemptor.key());
    if let Some(node) = snapshot.node(eviction.row) {
        draft.add_pod(
            eviction.row,
            preemptor.on_node(node.facts().name.clone()),
            Some(AssumptionStamp::OF_A_DRAFT),
        );
    }
    victims.iter().map(|victim| place_one(plan, &mut draft, victim)).collect()
}

fn place_one(plan: &Plan<'_>, draft: &mut Draft, victim: &Pod) -> Elsewhere {
    let pod = victim.without_node();
    let decided = {
        let policy = plan.policy();
        let request =
            PlaceRequest { pod: &pod, policy, tie_break: TieBreak::Lexicographic, now: None };
        let mut plan = Plan::new(&draft.snapshot, &request, plan.kernels);
        place::decide(&mut plan, &mut Evaluation::default(), request.tie_break)
    };
    match decided.map(|decided| (decided.chosen, decided.decision.outcome)) {
        Ok((Some(chosen), Outcome::Placed(placement))) => {
            draft.add_pod(
                chosen.row,
                pod.on_node(placement.node.clone()),
                Some(AssumptionStamp::OF_A_DRAFT),
            );
            draft.assume_bindings(&pod, chosen.row, &placement.bindings());
            Elsewhere::Node(placement.node)
        }
        Ok((_, Outcome::Unschedulable(unschedulable))) => Elsewhere::Nowhere(unschedulable.message),
        Ok((_, Outcome::Gated { reasons, .. })) => Elsewhere::Nowhere(reasons.join(", ")),
        Ok((None, Outcome::Placed(_))) => Elsewhere::Nowhere(String::new()),
        Err(error) => Elsewhere::Nowhere(error.to_string()),
    }
}
