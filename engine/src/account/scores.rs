//! Scores: the facts of a node that each plugin's raw score was computed from, in words.

use super::at::At;
use super::spread::domain_name;
use super::wording::{Rounding, amount_text, requirement};
use crate::census::demand::SoftConstraint;
use crate::filter::node_resources_fit::{allocatable, requested};
use crate::model::resources::Resource;
use crate::model::selector::Term;
use crate::plan::counted::Scoring;
use crate::plugin::Plugin;
use crate::policy::ScoringStrategy;
use crate::score::utilization::utilizations;
use crate::score::volume_binding::delayed;
use crate::snapshot::matching::matching_term;
use crate::snapshot::shard::Shard;

/// A line for each thing that a plugin's score of a row read.
pub(crate) fn basis(
    plan: &Scoring<'_, '_>,
    plugin: Plugin,
    shard: &Shard,
    row: usize,
) -> Vec<String> {
    let at = At { shard, row };
    match plugin {
        Plugin::NodeResourcesFit => utilization(plan, at),
        Plugin::NodeResourcesBalancedAllocation => balance(plan, at),
        Plugin::ImageLocality => images(plan, at),
        Plugin::TaintToleration => soft_taints(plan, at),
        Plugin::NodeAffinity => preferred_terms(plan, at),
        Plugin::PodTopologySpread => soft_spread(plan, at),
        Plugin::InterPodAffinity => preferences(plan, at),
        Plugin::VolumeBinding => storage(plan, at),
        // Plugins without a score.
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeZone
        | Plugin::DynamicResources
        | Plugin::DefaultPreemption
        | Plugin::DefaultBinder
        | Plugin::NodeDeclaredFeatures => Vec::new(),
    }
}

/// Rules: S-RS-1 to S-RS-3.
fn utilization(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let strategy = match &plan.policy().spec().node_resources_fit.scoring {
        ScoringStrategy::LeastAllocated { .. } => "LeastAllocated",
        ScoringStrategy::MostAllocated { .. } => "MostAllocated",
        ScoringStrategy::RequestedToCapacityRatio { .. } => "RequestedToCapacityRatio",
    };
    let lines = utilizations(plan, at.shard, at.row).map(|used| {
        let name = used.resource.name(plan.names());
        let amount = |amount, rounding| amount_text(&name, amount, rounding);
        let (with, of) =
            (amount(used.requested, Rounding::Up), amount(used.allocatable, Rounding::Down));
        format!("{strategy}: {name} {with} of {of} with the pod, weight {}", used.weight)
    });
    lines.collect()
}

/// Rules: S-137-4 to S-137-12.
fn storage(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(binding) = delayed(plan) {
        binding.storage_uses(at.shard, &at.rows(), |_, uses| {
            lines.extend(uses.iter().map(|used| {
                let asked = amount_text("memory", used.requested, Rounding::Up);
                let capacity = amount_text("memory", used.capacity, Rounding::Down);
                let class = plan.names().name(used.class);
                format!("class {class}: {asked} of {capacity}, {} %", used.utilization())
            }));
        });
    }
    lines
}

/// Rules: S-BA-2, S-BA-3.
fn balance(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let percent = |part: i64, whole: i64| i128::from(part.min(whole)) * 100 / i128::from(whole);
    let line = |resource: &Resource| {
        let room = allocatable(at.shard, at.row, *resource);
        let pod = plan.pod().footprint().requested.get(*resource);
        if room == 0 || (pod == 0 && matches!(resource, Resource::Scalar(_))) {
            return None;
        }
        let used = requested(at.shard, at.row, *resource);
        let (before, with) = (percent(used, room), percent(used.saturating_add(pod), room));
        Some(format!("{} {before} % in use, {with} % with the pod", resource.name(plan.names())))
    };
    plan.balance_resources().iter().filter_map(line).collect()
}

/// Rules: S-IL-2, S-IL-5.
fn images(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let line = |image| {
        let state = at.shard.nodes.image(at.row, image)?;
        let size = amount_text("memory", state.size_bytes, Rounding::Down);
        let (name, n_nodes) = (plan.names().name(image), state.n_nodes);
        Some(format!("{name}: {size}, on {n_nodes} of {} nodes", plan.n_nodes()))
    };
    plan.shape().images.iter().filter_map(|image| line(*image)).collect()
}

/// Rule: S-TT-1.
fn soft_taints(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let here = at.shard.nodes.soft_taints.iter().filter(|(_, rows)| rows.contains(at.row));
    let tolerations = &plan.shape().tolerations;
    let untolerated = here.filter(|(taint, _)| !tolerations.tolerates_softly(taint));
    untolerated.map(|(taint, _)| format!("not tolerated: {}", taint.text(plan.names()))).collect()
}

/// Rule: S-NA-2.
fn preferred_terms(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let names = plan.names();
    let terms = plan.preferences().flat_map(|preferences| &preferences.terms);
    let matched = terms
        .filter(|(_, term)| !matching_term(term, &at.shard.nodes, at.rows(), names).is_empty());
    let line = |(weight, term): &(i32, Term)| {
        let labels: Vec<String> = term.labels.iter().map(|it| requirement(it, names)).collect();
        format!("preferred, weight {weight}: {}", labels.join(","))
    };
    matched.map(line).collect()
}

/// Rules: S-TS-5 to S-TS-7.
fn soft_spread(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let line = |constraint: &SoftConstraint| {
        let key = plan.names().name(constraint.key);
        let Some(domain) = domain_name(plan, at.shard, at.row, constraint.key) else {
            return format!("{key}: no such label");
        };
        let id = at.shard.nodes.domain_of(at.row, constraint.key);
        let n_pods = match constraint.sum {
            Some(sum) => plan.census().sum(sum).of(id),
            None => {
                let counts = plan.census().on_shard(constraint.subject, at.shard);
                counts.get(at.row).map_or(0, |count| i64::from(*count))
            }
        };
        format!("{key} {domain}: matching pods {n_pods}, maxSkew {}", constraint.max_skew)
    };
    plan.demand().soft.list.iter().map(line).collect()
}

/// Rules: S-IS-3, S-IS-5.
fn preferences(plan: &Scoring<'_, '_>, at: At<'_>) -> Vec<String> {
    let line = |sum: &usize| {
        let sums = plan.census().sum(*sum);
        let weight = sums.of(at.shard.nodes.domain_of(at.row, sums.key()));
        let domain = domain_name(plan, at.shard, at.row, sums.key())?;
        Some(format!("{} {domain}: weight {weight}", plan.names().name(sums.key())))
    };
    plan.demand().preferences.iter().filter_map(line).collect()
}
