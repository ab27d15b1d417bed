//! Outcome: what a node can give to a pod's claims. Rules: S-DRA-21 to S-DRA-26, S-DRA-90, S-DRA-104.

use std::sync::Arc;

use berth_proto::resource_v1;

use super::Fatal;
use super::asked::Asked;
use super::binding::{Readiness, has_timed_out, readiness};
use super::claims::PodClaims;
use super::extended::ExtendedAsked;
use super::result::Written;
use super::search::{Found, Picked, search};
use super::sight::Sight;
use super::stock::{NodeStock, stock};
use crate::model::Model;
use crate::model::device::assigned::{AssignedClaim, AssignedDevices, AssignedExtended};
use crate::model::device::claim::ResourceClaim;
use crate::model::device::class::DeviceClass;
use crate::model::device::request::DeviceRequest;
use crate::rows::RowSet;
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::{PoolState, Viewer};
use crate::snapshot::matching::matching;
use crate::snapshot::shard::Shard;

/// Why a node cannot give what a pod's claims need.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// No devices satisfy all claims.
    Devices,
    /// The same, and a pool that the node sees is invalid.
    InvalidPools,
    /// The claim for extended resources was made in an earlier attempt.
    ExtendedClaimExists,
    /// The node lists an extended resource nowhere, and no class provides it.
    ExtendedResource,
}

/// What a node can give to the claims that have to be allocated.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// Nothing has to be allocated here.
    Nothing,
    Lacks(Lack),
    Gives(Given<'a>),
}

/// Devices that a node gives.
#[derive(Debug)]
pub(crate) struct Given<'a> {
    picked: Vec<Picked<'a>>,
    /// The requests of the claim for extended resources here; it comes after all others.
    extended: Option<ExtendedAsked>,
}

/// A pod and what it needs to be searched for on nodes.
#[derive(Copy, Clone)]
pub(crate) struct Searched<'s, 'a> {
    pub(crate) claims: &'s PodClaims<'a>,
    pub(crate) devices: &'a Devices,
    pub(crate) model: &'s Model,
    pub(crate) pod_uid: &'s str,
}

impl<'a> Searched<'_, 'a> {
    /// Searches the node of a row for devices.
    pub(crate) fn on(self, shard: &Shard, row: usize) -> Result<Outcome<'a>, Fatal> {
        let Some(viewer) = self.viewer(shard, row) else { return Ok(Outcome::Nothing) };
        let extended = match self.extended_on(shard, row) {
            Err(lack) => return Ok(Outcome::Lacks(lack)),
            Ok(extended) => extended,
        };
        let asked = match &self.claims.asked {
            Ok(asked) => asked,
            Err(fatal) => return Err(fatal.clone()),
        };
        if asked.is_empty() && extended.is_none() {
            return Ok(Outcome::Nothing);
        }
        let requests = extended.as_ref().map(|extended| extended.compile(self.model));
        let special = self.special(requests.as_deref())?;
        let all: Vec<&Asked<'_>> = asked.iter().chain(&special).collect();
        let sight = Sight::of(self.devices, viewer)?;
        let picked = match search(&all, &sight, self.devices, viewer)? {
            Found::Solution(picked) => picked,
            Found::Nothing => {
                let is_invalid = sight.pools.iter().any(|pool| pool.state == PoolState::Invalid);
                let lack = if is_invalid { Lack::InvalidPools } else { Lack::Devices };
                return Ok(Outcome::Lacks(lack));
            }
        };
        let given = Given { picked, extended };
        // A selector that cannot be written is an error, and nothing else of the allocation can be one.
        self.allocations(&given, &all, viewer)?;
        Ok(Outcome::Gives(given))
    }

    /// What the node of a row has for each request; `None` where nothing can be counted.
    pub(crate) fn stock(self, shard: &Shard, row: usize) -> Option<NodeStock<'a>> {
        let viewer = self.viewer(shard, row)?;
        let asked = self.claims.asked.as_ref().ok()?;
        let extended = self.extended_on(shard, row).ok()?;
        let requests = extended.as_ref().map(|extended| extended.compile(self.model));
        let special = self.special(requests.as_deref()).ok()?;
        let all: Vec<&Asked<'_>> = asked.iter().chain(&special).collect();
        let sight = Sight::of(self.devices, viewer).ok()?;
        stock(&all, &sight, self.devices, viewer).ok()
    }

    /// The requested extended resources that a node has none of and no class provides.
    pub(crate) fn unprovided(
        self,
        shard: &Shard,
        row: usize,
    ) -> impl Iterator<Item = &'a Arc<str>> {
        let extended = self.claims.extended.iter();
        let resources = extended.flat_map(|extended| &extended.resources);
        resources
            .filter(move |resource| {
                let column = shard.nodes.allocatable.scalar(resource.symbol);
                resource.class.is_none() && column.is_none_or(|column| column[row] <= 0)
            })
            .map(|resource| resource.name)
    }

    /// The devices as they are written for the node of a row.
    pub(crate) fn written(self, shard: &Shard, row: usize, given: &Given<'a>) -> AssignedDevices {
        let mut assigned = AssignedDevices::default();
        let (Some(viewer), Ok(asked)) = (self.viewer(shard, row), &self.claims.asked) else {
            return assigned;
        };
        let requests = given.extended.as_ref().map(|extended| extended.compile(self.model));
        let Ok(special) = self.special(requests.as_deref()) else { return assigned };
        let all: Vec<&Asked<'_>> = asked.iter().chain(&special).collect();
        let Ok(allocations) = self.allocations(given, &all, viewer) else { return assigned };
        for (i, (claim, allocation)) in all.iter().zip(allocations).enumerate() {
            match &given.extended {
                Some(ExtendedAsked { requests, mappings }) if i == asked.len() => {
                    let (requests, mappings) = (requests.clone(), mappings.clone());
                    assigned.extended = Some(AssignedExtended { requests, mappings, allocation });
                }
                _ => assigned
                    .claims
                    .push(AssignedClaim { claim: claim.key.name.clone(), allocation }),
            }
        }
        assigned
    }

    /// The allocation of each claim.
    fn allocations(
        self,
        given: &Given<'a>,
        asked: &[&Asked<'_>],
        viewer: Viewer<'_>,
    ) -> Result<Vec<resource_v1::AllocationResult>, Fatal> {
        let node = viewer.names.name(viewer.node);
        let none = resource_v1::DeviceClaim::default();
        let allocation = |(i, asked): (usize, &&Asked<'_>)| {
            let claim = self.claims.claims.iter().find(|own| own.key == asked.key);
            let spec = claim.and_then(|own| own.claim.object.spec.as_ref()?.devices.as_ref());
            let picked = given.picked.iter().filter(|picked| picked.claim == i).collect();
            let (spec, node) = (spec.unwrap_or(&none), &*node);
            Written { asked, picked, spec, node, pod_uid: self.pod_uid }.allocation()
        };
        asked.iter().enumerate().map(allocation).collect()
    }

    /// The demands of the claim for extended resources, as the search takes them.
    fn special<'q>(
        &'q self,
        requests: Option<&'q [DeviceRequest]>,
    ) -> Result<Option<Asked<'q>>, Fatal> {
        let key = self.claims.extended.as_ref().map(|extended| &extended.key);
        let Some((requests, key)) = requests.zip(key) else { return Ok(None) };
        Asked::of(key.clone(), requests, &[], self.devices).map(Some)
    }

    fn viewer<'v>(&'v self, shard: &'v Shard, row: usize) -> Option<Viewer<'v>> {
        let node = shard.nodes.node(row)?.facts().symbol;
        Some(Viewer { shard, row, node, names: self.model.names() })
    }

    /// The requests of the claim for extended resources on a node; `None` where it is not needed there (S-DRA-104).
    fn extended_on(self, shard: &Shard, row: usize) -> Result<Option<ExtendedAsked>, Lack> {
        let Some(extended) = &self.claims.extended else { return Ok(None) };
        let has_requests = |claim: &ResourceClaim| !claim.shape.requests().is_empty();
        if extended.existing.is_some_and(has_requests) {
            return Err(Lack::ExtendedClaimExists);
        }
        let mut from_devices: Vec<(&Arc<str>, &DeviceClass)> = Vec::new();
        for resource in &extended.resources {
            let column = shard.nodes.allocatable.scalar(resource.symbol);
            let has_any = column.is_some_and(|column| column[row] > 0);
            match resource.class {
                _ if has_any => {}
                Some(class) => from_devices.push((resource.name, class)),
                None => return Err(Lack::ExtendedResource),
            }
        }
        if from_devices.is_empty() && self.claims.claims.is_empty() {
            return Ok(None);
        }
        Ok(Some(ExtendedAsked::of(extended.requests, &from_devices)))
    }
}

impl Given<'_> {
    /// The alternative that the first device was taken for.
    #[cfg(test)]
    pub(super) fn first_alternative(&self) -> usize {
        self.picked.first().map_or(0, |picked| picked.alternative)
    }

    /// The raw score of the node (S-DRA-90).
    pub(crate) fn score(&self, claims: &PodClaims<'_>) -> i32 {
        claims.score(|claim, request, alternative| {
            self.picked.iter().any(|picked| {
                (picked.claim, picked.request, picked.alternative) == (claim, request, alternative)
            })
        })
    }
}

impl PodClaims<'_> {
    /// The raw score of a node (S-DRA-90): 8 less the position of each alternative that is taken, also by claims that
    /// are allocated already. `is_taken` tells it of a claim to allocate, by its position among these, and a request.
    pub(crate) fn score(&self, is_taken: impl Fn(usize, usize, usize) -> bool) -> i32 {
        let mut to_allocate = 0;
        let mut score = 0;
        for own in &self.claims {
            let requests = own.claim.shape.requests().iter().enumerate();
            let requests = requests.filter(|(_, request)| !request.first_available.is_empty());
            for (at, request) in requests {
                for i in 0..request.first_available.len() {
                    let is_taken = match own.allocation() {
                        None => is_taken(to_allocate, at, i),
                        Some(allocation) => {
                            let alternative = &request.first_available[i].name;
                            let name = format!("{}/{alternative}", request.name);
                            allocation.results.iter().any(|result| *result.request == *name)
                        }
                    };
                    score += if is_taken { 8 - i as i32 } else { 0 };
                }
            }
            to_allocate += usize::from(own.allocation().is_none());
        }
        score
    }
}

/// The rows among some whose nodes an allocated claim keeps out (S-DRA-22).
pub(crate) fn unavailable(
    claim: &ResourceClaim,
    (now, timeout): (Option<i64>, i64),
    shard: &Shard,
    rows: RowSet,
    model: &Model,
) -> RowSet {
    let Some(allocation) = &claim.allocation else { return RowSet::EMPTY };
    let is_lost = match readiness(claim) {
        Readiness::Ready => false,
        Readiness::Failed { .. } => true,
        Readiness::Pending => has_timed_out(allocation, now, timeout),
    };
    if is_lost {
        return rows;
    }
    match &allocation.node_selector {
        None => RowSet::EMPTY,
        Some(selector) => {
            rows.without(&matching(&selector.compiled, &shard.nodes, rows, model.names()))
        }
    }
}
