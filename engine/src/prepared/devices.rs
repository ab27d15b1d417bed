//! Devices: the claims of a request's pod, and what the nodes give to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::devices::Fatal;
use crate::devices::claims::PodClaims;
use crate::devices::fit::{Answer, Fit, Single};
use crate::devices::outcome::{Lack, Outcome, Searched, unavailable};
use crate::devices::stock::NodeStock;
use crate::model::device::assigned::AssignedDevices;
use crate::model::device::claim::ResourceClaim;
use crate::model::device::shape::ClaimShapeId;
use crate::model::{Model, Pod};
use crate::plugin::Plugin;
use crate::policy::Policy;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::devices::Devices;
use crate::snapshot::shard::Shard;

/// The claims of a request's pod for devices; empty for a pod without any, and where DynamicResources is disabled.
pub(crate) struct PreparedDevices<'a>(Option<Box<Found<'a>>>);

pub(crate) struct Found<'a> {
    pub(crate) claims: PodClaims<'a>,
    /// The claims, if they are such that bits tell whether they fit.
    single: Option<Single<'a>>,
    devices: &'a Devices,
    model: &'a Model,
    pod_uid: &'a str,
    /// The present time in seconds since 1970, if the request has one.
    now: Option<i64>,
    /// Seconds after which conditions of an allocation should have come.
    timeout: i64,
    /// Rows on which an error ended the search.
    failed: Mutex<BTreeMap<NodeRow, Fatal>>,
}

/// What a remembered evaluation depends on, of a pod's claims: the shapes of those that have to be allocated, in order,
/// and whether the pod names any claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClaimsKey {
    shapes: SmallVec<[ClaimShapeId; 2]>,
    names_any: bool,
}

impl<'a> PreparedDevices<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        pod: &'a Pod,
        policy: &Policy,
        now: Option<i64>,
    ) -> PreparedDevices<'a> {
        let facts = pod.facts();
        if facts.device_claims.is_none() && pod.shape().facts.extended.is_none() {
            return PreparedDevices(None);
        }
        if !policy.spec().filter.contains(&Plugin::DynamicResources) {
            return PreparedDevices(None);
        }
        let claims = PodClaims::of(pod, &snapshot.devices);
        PreparedDevices(claims.map(|claims| {
            Box::new(Found {
                single: Single::of(&claims, &snapshot.devices),
                claims,
                devices: &snapshot.devices,
                model: &snapshot.model,
                pod_uid: &facts.uid,
                now,
                timeout: policy.spec().dynamic_resources.binding_timeout_seconds,
                failed: Mutex::default(),
            })
        }))
    }

    /// The facts; `None` for a pod without claims.
    pub(crate) fn found(&self) -> Option<&Found<'a>> {
        self.0.as_deref()
    }

    /// The devices that the node of a feasible row gives (S-DRA-85).
    pub(crate) fn assigned(&self, shard: &Shard, row: usize) -> Option<AssignedDevices> {
        let found = self.found()?;
        match found.searched().on(shard, row) {
            Ok(Outcome::Gives(given)) => Some(found.searched().written(shard, row, &given)),
            Ok(Outcome::Nothing | Outcome::Lacks(_)) | Err(_) => None,
        }
    }

    /// The rows of a shard on which an error ended the search since the request was prepared.
    pub(crate) fn failed_rows(&self, shard: &Shard) -> RowSet {
        let Some(found) = self.found() else { return RowSet::EMPTY };
        let failed = found.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let of_shard = failed.keys().filter(|row| row.shard() == shard.index);
        of_shard.map(|row| row.row()).collect()
    }

    /// Whether an error ended the search on any row.
    pub(crate) fn has_failed(&self) -> bool {
        let Some(found) = self.found() else { return false };
        !found.failed.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The error that ended the search on the first of some rows.
    pub(crate) fn failure(&self, is_reached: impl Fn(NodeRow) -> bool) -> Option<String> {
        let failed = self.found()?.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reached = failed.iter().filter(|(row, _)| is_reached(**row));
        reached.next().map(|(_, fatal)| fatal.0.clone())
    }
}

impl<'a> Found<'a> {
    fn searched(&self) -> Searched<'_, 'a> {
        let Found { claims, devices, model, pod_uid, .. } = self;
        Searched { claims, devices, model, pod_uid }
    }

    /// Whether the search can refuse a node: something has to be allocated, or may have to be.
    pub(crate) fn is_searched(&self) -> bool {
        self.claims.has_to_allocate() || self.claims.extended.is_some()
    }

    /// Whether an allocated claim can keep the pod from nodes.
    pub(crate) fn is_bound_to_nodes(&self) -> bool {
        self.claims.allocated().any(|claim| {
            let allocation = claim.allocation.as_ref();
            allocation.is_some_and(|allocation| {
                allocation.node_selector.is_some()
                    || allocation.results.iter().any(|result| !result.binding_conditions.is_empty())
            })
        })
    }

    /// Prepares for several rows of a shard; `None` where every row has to be searched.
    pub(crate) fn fit<'s>(&self, shard: &'s Shard) -> Option<Fit<'s>> {
        self.single.as_ref().map(|single| single.on(shard))
    }

    /// What the node of a row lacks; `None` where it lacks nothing, and where an error ended the search, which is noted.
    pub(crate) fn lack(&self, fit: Option<&Fit<'_>>, shard: &Shard, row: usize) -> Option<Lack> {
        match fit.map_or(Answer::Unknown, |fit| fit.answer(row)) {
            Answer::Gives(_) => return None,
            Answer::Lacks => return Some(Lack::Devices),
            Answer::Unknown => {}
        }
        match self.searched().on(shard, row) {
            Ok(Outcome::Lacks(lack)) => Some(lack),
            Ok(Outcome::Nothing | Outcome::Gives(_)) => None,
            Err(fatal) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.insert(NodeRow::new(shard.index, row), fatal);
                None
            }
        }
    }

    /// What a row has for each request; `None` where nothing can be counted.
    pub(crate) fn stock(&self, shard: &Shard, row: usize) -> Option<NodeStock<'a>> {
        self.searched().stock(shard, row)
    }

    /// The requested extended resources that a row has none of and no class provides.
    pub(crate) fn unprovided(&self, shard: &Shard, row: usize) -> impl Iterator<Item = Arc<str>> {
        self.searched().unprovided(shard, row).cloned()
    }

    /// The raw score of a row (S-DRA-90).
    pub(crate) fn score(&self, fit: Option<&Fit<'_>>, shard: &Shard, row: usize) -> i32 {
        if let Some(Answer::Gives(taken)) = fit.map(|fit| fit.answer(row)) {
            return self.claims.score(|_, _, alternative| alternative == taken);
        }
        match self.searched().on(shard, row) {
            Ok(Outcome::Gives(given)) => given.score(&self.claims),
            Ok(Outcome::Nothing | Outcome::Lacks(_)) | Err(_) => 0,
        }
    }

    /// The rows among some that allocated claims keep the pod from (S-DRA-22).
    pub(crate) fn unavailable(&self, shard: &Shard, rows: RowSet) -> RowSet {
        let mut all = RowSet::EMPTY;
        for claim in self.claims.allocated() {
            all.union(&self.unavailable_by(claim, shard, rows));
        }
        all
    }

    /// The rows among some that one allocated claim keeps the pod from (S-DRA-22).
    pub(crate) fn unavailable_by(
        &self,
        claim: &ResourceClaim,
        shard: &Shard,
        rows: RowSet,
    ) -> RowSet {
        unavailable(claim, (self.now, self.timeout), shard, rows, self.model)
    }

    /// What a remembered evaluation depends on; `None` where nothing may be remembered.
    pub(crate) fn key(&self) -> Option<ClaimsKey> {
        let claims = &self.claims;
        let has_alternatives = claims.allocated().any(|claim| {
            claim.shape.requests().iter().any(|request| !request.first_available.is_empty())
        });
        if has_alternatives || claims.existing().is_some() {
            return None;
        }
        Some(ClaimsKey {
            shapes: claims.to_allocate().map(|own| own.claim.shape.id).collect(),
            names_any: !claims.claims.is_empty(),
        })
    }
}
