//! Prepared: what filters and scores need of a request, worked out once before the shards are walked.

use smallvec::SmallVec;

use super::decision::{Decision, Outcome};
use super::request::PlaceRequest;
use crate::error::EngineError;
use crate::filter::{Filter, node_resources_fit};
use crate::kernel::Kernels;
use crate::model::Pod;
use crate::model::intern::{Interner, Symbol};
use crate::model::resources::Resource;
use crate::model::selector::{NodePreferences, NodeSelector};
use crate::model::shape::ShapeFacts;
use crate::plugin::Plugin;
use crate::policy::Policy;
use crate::score::Score;
use crate::score::normalize::Normalize;
use crate::snapshot::Snapshot;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;

/// A request against a snapshot.
pub(crate) struct Prepared<'a> {
    pub(crate) kernels: Kernels,
    snapshot: &'a Snapshot,
    pod: &'a Pod,
    policy: &'a Policy,
    /// Filters that can refuse something, in the policy's order.
    filters: SmallVec<[&'static Filter; 8]>,
    /// Scores that contribute and are not normalised, with their weights.
    plain_scores: SmallVec<[(&'static Score, i32); 4]>,
    /// Those that are normalised over the feasible nodes.
    normalized_scores: SmallVec<[(&'static Score, i32); 2]>,
    node_name: Option<Symbol>,
    added_required: Option<NodeSelector>,
    added_preferred: Option<NodePreferences>,
    fit_resources: SmallVec<[(Resource, i64); 4]>,
    balance_resources: SmallVec<[Resource; 4]>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        request: &PlaceRequest<'a>,
        kernels: Kernels,
    ) -> Prepared<'a> {
        let names = snapshot.model.names();
        let spec = request.policy.spec();
        let added = spec.node_affinity.added_affinity.as_ref();
        let added_required = added
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|selector| NodeSelector::compile(selector, names));
        let added_preferred = added
            .map(|a| &a.preferred_during_scheduling_ignored_during_execution)
            .filter(|terms| !terms.is_empty())
            .and_then(|terms| NodePreferences::compile(terms, names).ok());
        let fit_resources = spec.node_resources_fit.scoring.resources().iter();
        let balance_resources = spec.balanced_allocation.resources.iter();
        let mut prepared = Prepared {
            kernels,
            snapshot,
            pod: request.pod,
            policy: request.policy,
            filters: SmallVec::new(),
            plain_scores: SmallVec::new(),
            normalized_scores: SmallVec::new(),
            // A name that was never seen is no node's.
            node_name: request.pod.node_name().map(|name| names.get(name).unwrap_or(Symbol::EMPTY)),
            added_required,
            added_preferred,
            fit_resources: fit_resources
                .filter_map(|r| Some((Resource::from_name(&r.name, names)?, r.weight)))
                .collect(),
            balance_resources: balance_resources
                .filter_map(|name| Resource::from_name(name, names))
                .collect(),
        };
        let filters = spec.filter.iter().filter_map(|plugin| Filter::of(*plugin));
        prepared.filters = filters.filter(|filter| (filter.applies)(&prepared)).collect();
        for (plugin, weight) in &spec.score {
            let Some(score) = Score::of(*plugin).filter(|score| (score.applies)(&prepared)) else {
                continue;
            };
            // The policy bounds the sum of weights far below 2³¹.
            let weighted = (score, *weight as i32);
            match score.normalize {
                Normalize::No => prepared.plain_scores.push(weighted),
                Normalize::Default | Normalize::Reverse => {
                    prepared.normalized_scores.push(weighted)
                }
            }
        }
        prepared
    }

    pub(crate) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub(crate) fn pod(&self) -> &'a Pod {
        self.pod
    }

    pub(crate) fn shape(&self) -> &'a ShapeFacts {
        &self.pod.shape().facts
    }

    pub(crate) fn policy(&self) -> &'a Policy {
        self.policy
    }

    pub(crate) fn names(&self) -> &'a Interner {
        self.snapshot.model.names()
    }

    /// Nodes of the snapshot.
    pub(crate) fn n_nodes(&self) -> usize {
        self.snapshot.n_nodes()
    }

    pub(crate) fn filters(&self) -> &[&'static Filter] {
        &self.filters
    }

    pub(crate) fn plain_scores(&self) -> &[(&'static Score, i32)] {
        &self.plain_scores
    }

    pub(crate) fn normalized_scores(&self) -> &[(&'static Score, i32)] {
        &self.normalized_scores
    }

    /// `spec.nodeName`.
    pub(crate) fn node_name(&self) -> Option<Symbol> {
        self.node_name
    }

    /// The required part of the policy's added affinity (S-NAF-3).
    pub(crate) fn added_required(&self) -> Option<&NodeSelector> {
        self.added_required.as_ref()
    }

    /// Preferred terms: the policy's first, then the pod's (S-NA-2).
    pub(crate) fn preferences(&self) -> impl Iterator<Item = &NodePreferences> {
        self.added_preferred.iter().chain(&self.shape().preferred_affinity)
    }

    /// Tracked resources of NodeResourcesFit's score with their weights, in configured order.
    pub(crate) fn fit_resources(&self) -> &[(Resource, i64)] {
        &self.fit_resources
    }

    /// Tracked resources of NodeResourcesBalancedAllocation, in configured order.
    pub(crate) fn balance_resources(&self) -> &[Resource] {
        &self.balance_resources
    }

    /// Whether the policy leaves an extended resource out of the fit (S-FIT-11).
    pub(crate) fn is_ignored(&self, name: Symbol) -> bool {
        let args = &self.policy.spec().node_resources_fit;
        if args.ignored_resources.is_empty() && args.ignored_resource_groups.is_empty() {
            return false;
        }
        node_resources_fit::is_ignored(
            &self.names().name(name),
            &args.ignored_resources,
            &args.ignored_resource_groups,
        )
    }

    /// The node names to which NodeAffinity's PreFilter narrows the search (S-NAF-2).
    pub(crate) fn narrowing(&self) -> Option<&'a [Symbol]> {
        let names = self.shape().required_affinity.as_ref()?.names.as_deref()?;
        self.policy.spec().pre_filter.contains(&Plugin::NodeAffinity).then_some(names)
    }

    /// The rows of a shard that are filtered at all (S-PF-6).
    pub(crate) fn candidates(&self, shard: &Shard) -> RowSet {
        let Some(names) = self.narrowing() else {
            return shard.nodes.rows;
        };
        names.iter().filter_map(|name| shard.nodes.row_of_name.get(name).copied()).collect()
    }

    /// Whether the answer depends on nothing of the pod but its shape, so that it may be remembered.
    pub(crate) fn is_rememberable(&self) -> bool {
        self.node_name.is_none() && self.narrowing().is_none() && self.pod.facts().resized.is_none()
    }

    /// Refuses a pod that needs a plugin which is enabled but not built.
    pub(crate) fn check_evaluated(&self) -> Result<(), EngineError> {
        let spec = self.policy.spec();
        for (plugin, field) in &self.shape().not_evaluated {
            if spec.filter.contains(plugin) || spec.score.iter().any(|(p, _)| p == plugin) {
                return Err(EngineError::NotEvaluated {
                    field: (*field).to_owned(),
                    plugin: *plugin,
                });
            }
        }
        Ok(())
    }

    /// A preferred term that does not parse fails the attempt once it comes to scoring (S-NA-2).
    pub(crate) fn check_scoring(&self) -> Result<(), EngineError> {
        if !self.normalized_scores.iter().any(|(score, _)| score.plugin == Plugin::NodeAffinity) {
            return Ok(());
        }
        match self.preferences().find_map(|preferences| preferences.invalid.as_ref()) {
            Some(why) => Err(EngineError::SchedulerError {
                message: format!(
                    "running PreScore plugin \"NodeAffinity\": preferred node affinity: {why}"
                ),
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn decision(&self, outcome: Outcome) -> Decision {
        Decision {
            pod: self.pod.key().clone(),
            uid: self.pod.facts().uid.clone(),
            generation: self.snapshot.generation,
            outcome,
        }
    }
}
