//! Plan: a prepared request with the filters and scores that it runs, in the policy's order.
//!
//! A [`Plan`] derefs to its request's [`Prepared`] facts. Its filters that read other pods, and its scores, run only
//! within the scopes of `counted`.

pub(crate) mod counted;
pub(crate) mod promised;
pub(crate) mod request;

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::EngineError;
use crate::filter::ledger_fence::FENCE;
use crate::filter::{Filter, PreFilterFailure, Scope};
use crate::kernel::Kernels;
use crate::model::device::assigned::AssignedDevices;
use crate::model::intern::Symbol;
use crate::plan::promised::Promised;
use crate::plan::request::PlaceRequest;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::rows::{NodeRow, RowSet};
use crate::score::normalize::Normalize;
use crate::score::{Raw, Score, ScoreClasses, ScoreCluster};
use crate::snapshot::Snapshot;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::shard::Shard;

/// Most subjects and sums of a request that is remembered: each takes a kibibyte for each shard.
const MAX_REMEMBERED_COUNTS: usize = 64;

/// A prepared request, with its filters and scores.
pub(crate) struct Plan<'a> {
    prepared: Prepared<'a>,
    /// The check for fences and the policy's filters in their order, as far as they can refuse something.
    filters: SmallVec<[&'static Filter; 8]>,
    /// Whether any of the filters runs in every attempt; whether all of these read counts only.
    has_request_filters: bool,
    filters_by_class: bool,
    /// Scores that contribute and are not normalized, with their weights.
    plain_scores: SmallVec<[(&'static Score, i32); 4]>,
    /// Scores that are normalized over the feasible nodes, with their weights.
    normalized_scores: SmallVec<[(&'static Score, i32); 2]>,
    /// Normalized scores that read all feasible rows together, with their weights.
    cluster_scores: SmallVec<[(ClusterScore, i32); 2]>,
    /// Rows whose nodes have nominated pods of no lower priority, with those pods.
    promised: Promised<'a>,
}

/// A score that reads all feasible rows together.
#[derive(Copy, Clone)]
pub(crate) struct ClusterScore {
    pub(crate) plugin: Plugin,
    pub(crate) score: ScoreCluster,
    pub(crate) by_class: Option<ScoreClasses>,
    pub(crate) normalize: Normalize,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        request: &PlaceRequest<'a>,
        kernels: Kernels,
    ) -> Plan<'a> {
        let prepared = Prepared::new(snapshot, (request.pod, request.policy), request.now, kernels);
        let spec = request.policy.spec();
        let mut filters: SmallVec<[&'static Filter; 8]> = SmallVec::new();
        // S-FNC-1: fences come first, whatever the policy has.
        filters.extend((FENCE.applies)(&prepared).then_some(&FENCE));
        for plugin in &spec.filter {
            for filter in Filter::all_of(*plugin) {
                if (filter.applies)(&prepared) {
                    filters.push(filter);
                }
            }
        }
        let has_request_filters = filters.iter().any(|filter| !filter.scope.is_row());
        let filters_by_class = filters.iter().all(|filter| !matches!(filter.scope, Scope::Request));
        let (mut plain_scores, mut normalized_scores) = (SmallVec::new(), SmallVec::new());
        let mut cluster_scores = SmallVec::new();
        for (plugin, weight) in &spec.score {
            let mut scores = Score::all_of(*plugin).iter();
            let Some(score) = scores.find(|score| (score.applies)(&prepared)) else { continue };
            // The policy bounds the sum of weights far below 2³¹.
            let weight = *weight as i32;
            let Score { plugin, normalize, .. } = *score;
            let of_cluster = |score, by_class| ClusterScore { plugin, score, by_class, normalize };
            match (score.raw, normalize) {
                (Raw::Row(_), Normalize::No) => plain_scores.push((score, weight)),
                (Raw::Row(_), _) => normalized_scores.push((score, weight)),
                (Raw::Cluster(all), _) => cluster_scores.push((of_cluster(all, None), weight)),
                (Raw::Counts(all, by_class), _) => {
                    cluster_scores.push((of_cluster(all, Some(by_class)), weight));
                }
            }
        }
        Plan {
            prepared,
            filters,
            has_request_filters,
            filters_by_class,
            plain_scores,
            normalized_scores,
            cluster_scores,
            promised: Promised::of(snapshot, request.pod),
        }
    }

    /// What placing the pod on a feasible row takes besides room.
    pub(crate) fn bindings(&self, row: NodeRow) -> Bindings {
        Bindings { volumes: self.volumes().bindings(row), devices: self.assigned_devices(row) }
    }

    /// The devices that the node of a feasible row gives to the pod's claims; `None` where nothing is allocated.
    pub(crate) fn assigned_devices(&self, row: NodeRow) -> Option<Arc<AssignedDevices>> {
        let shard = &self.snapshot().shards[row.shard()];
        self.devices().assigned(shard, row.row()).map(Arc::new)
    }

    /// Rows whose nodes have nominated pods of no lower priority.
    pub(crate) fn promised(&self) -> &Promised<'a> {
        &self.promised
    }

    /// The filters whose verdicts are valid until a row changes; they need no counts.
    pub(crate) fn row_filters(&self) -> impl Iterator<Item = &'static Filter> + '_ {
        self.filters.iter().copied().filter(|filter| filter.scope.is_row())
    }

    /// Whether all verdicts and scores of a row are valid until the row changes.
    pub(crate) fn is_by_row(&self) -> bool {
        !self.has_request_filters && self.cluster_scores.is_empty() && self.promised.is_empty()
    }

    /// Whether, besides rows by themselves, only counts are read, so that all rows of a class get one verdict and one score.
    pub(crate) fn is_by_class(&self) -> bool {
        self.filters_by_class
            && self.cluster_scores.iter().all(|(score, _)| score.by_class.is_some())
            && self.promised.is_empty()
    }

    pub(crate) fn cluster_scores(&self) -> &[(ClusterScore, i32)] {
        &self.cluster_scores
    }

    pub(crate) fn plain_scores(&self) -> &[(&'static Score, i32)] {
        &self.plain_scores
    }

    pub(crate) fn normalized_scores(&self) -> &[(&'static Score, i32)] {
        &self.normalized_scores
    }

    /// The first PreFilter, in the policy's order, that ends the attempt.
    pub(crate) fn pre_filter_failure(&self) -> Option<(Plugin, PreFilterFailure)> {
        let plugins = self.policy().spec().pre_filter.iter();
        plugins.copied().find_map(|plugin| {
            let filter = Filter::of(plugin)?;
            (filter.pre_filter)(&self.prepared).err().map(|failure| (plugin, failure))
        })
    }

    /// The node names to which NodeAffinity's PreFilter narrows the search (S-NAF-2). No other built-in PreFilter
    /// returns such a set, so no sets have to be intersected (S-PF-5).
    pub(crate) fn narrowing(&self) -> Option<&'a [Symbol]> {
        let names = self.named_nodes()?;
        self.policy().spec().pre_filter.contains(&Plugin::NodeAffinity).then_some(names)
    }

    /// The rows of a shard that are filtered (S-PF-6).
    pub(crate) fn candidates(&self, shard: &Shard) -> RowSet {
        let Some(names) = self.narrowing() else {
            return shard.nodes.rows;
        };
        names.iter().filter_map(|name| shard.nodes.row_of_name.get(name).copied()).collect()
    }

    /// Whether results for a row depend only on the pod's shape and on the shapes of its claims, and are small enough, so
    /// that they may be remembered.
    pub(crate) fn is_rememberable(&self) -> bool {
        let n_counted = self.demand().subjects.len() + self.demand().sums.len();
        n_counted <= MAX_REMEMBERED_COUNTS
            && self.narrowing().is_none()
            && self.pod().facts().resized.is_none()
            && !self.pod().shape().id.is_apart()
    }

    /// Fails the attempt before scoring for a preferred term that does not parse (S-NA-2).
    pub(crate) fn check_scoring(&self) -> Result<(), EngineError> {
        if let Some(why) = &self.shape().spread.invalid_soft
            && self.cluster_scores.iter().any(|(s, _)| s.plugin == Plugin::PodTopologySpread)
        {
            let message = format!("running PreScore plugin \"PodTopologySpread\": {why}");
            return Err(EngineError::SchedulerError { message });
        }
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
}

impl<'a> Deref for Plan<'a> {
    type Target = Prepared<'a>;

    #[inline]
    fn deref(&self) -> &Prepared<'a> {
        &self.prepared
    }
}
