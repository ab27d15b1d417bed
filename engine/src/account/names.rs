//! Names: the node's own name, and the features that it declares. Rules: S-NAM-1, S-PF-6, S-NDF-2.

use std::sync::Arc;

use super::at::{At, Judged};
use super::comparison::{Compared, Comparison, N_LISTED};
use crate::model::feature::FEATURES;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;

/// `spec.nodeName`.
pub(super) fn by_name(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let (Some(name), Some(node)) = (plan.pod().node_name(), at.shard.nodes.node(at.row)) else {
        return Vec::new();
    };
    vec![(*node.facts().name == *name, Compared::NodeName { asked: vec![name.into()] })]
}

/// The first few names by text to which required node affinity narrows the nodes.
pub(super) fn narrowed_to(plan: &Filtering<'_, '_>) -> Vec<Arc<str>> {
    let asked = plan.narrowing().unwrap_or_default().iter();
    let mut asked: Vec<_> = asked.map(|name| plan.names().name(*name)).collect();
    asked.sort_unstable();
    asked.truncate(N_LISTED);
    asked
}

/// Whether required node affinity narrows the nodes to others; `narrowed_to` are the names that it leaves.
pub(super) fn by_pre_filter(
    plan: &Filtering<'_, '_>,
    narrowed_to: &[Arc<str>],
    at: At<'_>,
) -> Vec<Comparison> {
    let (Some(asked), Some(node)) = (plan.narrowing(), at.shard.nodes.node(at.row)) else {
        return Vec::new();
    };
    let is_met = asked.binary_search(&node.facts().symbol).is_ok();
    let compared = Compared::NodeName { asked: narrowed_to.to_vec() };
    vec![Comparison { plugin: Plugin::NodeAffinity, is_met, compared }]
}

/// The features that the pod needs.
pub(super) fn features(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let declared = at.shard.nodes.features.iter().zip(FEATURES).enumerate();
    let needed = declared.filter(|(i, _)| plan.shape().features.contains(*i));
    let judged =
        needed.map(|(_, (rows, name))| (rows.contains(at.row), Compared::Feature { name }));
    judged.collect()
}
