//! Plan: which filters and scores a request runs, in which order, and what its attempt may rest on.

use smallvec::SmallVec;

use super::decision::{Decision, Outcome};
use super::request::PlaceRequest;
use crate::error::EngineError;
use crate::filter::Filter;
use crate::kernel::Kernels;
use crate::model::intern::Symbol;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::score::Score;
use crate::score::normalize::Normalize;
use crate::snapshot::Snapshot;
use crate::snapshot::row_set::RowSet;
use crate::snapshot::shard::Shard;

/// A request against a snapshot, ready to be carried out.
pub(crate) struct Plan<'a> {
    pub(crate) prepared: Prepared<'a>,
    /// Filters that can refuse something, in the policy's order.
    filters: SmallVec<[&'static Filter; 8]>,
    /// Scores that contribute and are not normalised, with their weights.
    plain_scores: SmallVec<[(&'static Score, i32); 4]>,
    /// Those that are normalised over the feasible nodes.
    normalized_scores: SmallVec<[(&'static Score, i32); 2]>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        request: &PlaceRequest<'a>,
        kernels: Kernels,
    ) -> Plan<'a> {
        let prepared = Prepared::new(snapshot, request.pod, request.policy, kernels);
        let spec = request.policy.spec();
        let filters = spec.filter.iter().filter_map(|plugin| Filter::of(*plugin));
        let filters = filters.filter(|filter| (filter.applies)(&prepared)).collect();
        let (mut plain_scores, mut normalized_scores) = (SmallVec::new(), SmallVec::new());
        for (plugin, weight) in &spec.score {
            let Some(score) = Score::of(*plugin).filter(|score| (score.applies)(&prepared)) else {
                continue;
            };
            // The policy bounds the sum of weights far below 2³¹.
            let weighted = (score, *weight as i32);
            match score.normalize {
                Normalize::No => plain_scores.push(weighted),
                Normalize::Default | Normalize::Reverse => normalized_scores.push(weighted),
            }
        }
        Plan { prepared, filters, plain_scores, normalized_scores }
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

    /// The node names to which NodeAffinity's PreFilter narrows the search (S-NAF-2).
    pub(crate) fn narrowing(&self) -> Option<&'a [Symbol]> {
        let names = self.prepared.shape().required_affinity.as_ref()?.names.as_deref()?;
        self.prepared.policy().spec().pre_filter.contains(&Plugin::NodeAffinity).then_some(names)
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
        self.prepared.node_name().is_none()
            && self.narrowing().is_none()
            && self.prepared.pod().facts().resized.is_none()
    }

    /// Refuses a pod that needs a plugin which is enabled but not built.
    pub(crate) fn check_evaluated(&self) -> Result<(), EngineError> {
        let spec = self.prepared.policy().spec();
        for (plugin, field) in &self.prepared.shape().not_evaluated {
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
        match self.prepared.preferences().find_map(|preferences| preferences.invalid.as_ref()) {
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
            pod: self.prepared.pod().key().clone(),
            uid: self.prepared.pod().facts().uid.clone(),
            generation: self.prepared.snapshot().generation,
            outcome,
        }
    }
}
