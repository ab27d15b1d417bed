//! NodeUnschedulable and TaintToleration: the cordon and the taints of the node. Rules: S-UNS-1, S-TNT-1.

use super::at::{At, Judged};
use super::comparison::Compared;
use crate::model::intern::Symbol;
use crate::model::taint::{Effect, Taint};
use crate::plan::counted::Filtering;

/// Whether the node is cordoned and the pod does not tolerate that.
pub(super) fn cordon(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let taint = Taint {
        key: Symbol::UNSCHEDULABLE_TAINT,
        value: Symbol::EMPTY,
        effect: Effect::NoSchedule,
    };
    let is_cordoned = at.shard.nodes.unschedulable.contains(at.row);
    let is_met = !is_cordoned || plan.shape().tolerations.tolerates(&taint);
    vec![(is_met, Compared::Cordon)]
}

/// Each of the node's taints that can keep pods off.
pub(super) fn taints(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(node) = at.shard.nodes.node(at.row) else {
        return Vec::new();
    };
    let hard = node.facts().taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    let judged = hard.map(|taint| {
        let (key, value) = (plan.names().name(taint.key), plan.names().name(taint.value));
        let compared = Compared::Taint { key, value, effect: taint.effect.name() };
        (plan.shape().tolerations.tolerates(taint), compared)
    });
    judged.collect()
}
