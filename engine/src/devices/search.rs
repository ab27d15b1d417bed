//! Search: the devices of all claims to allocate on one node, the first complete solution in kube-scheduler's order.
//! Rules: S-DRA-41 to S-DRA-54, S-DRA-58, S-DRA-59, S-DRA-74.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Fatal;
use super::asked::{Asked, AskedDemand, AskedRequest, MAX_RESULTS};
use super::capacity::{self, Drawn};
use super::constraint::{ConstraintState, For};
use super::counters::Counters;
use super::sight::{Candidate, Sight};
use crate::model::device::amount::NotedAmount;
use crate::model::device::request::AllocationMode;
use crate::model::device::verdicts::Verdict;
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::{PoolState, Viewer};

/// Most steps of a search: devices that are tried. Upstream stops after ten seconds instead (S-DRA-50).
const MAX_STEPS: u32 = 2_000_000;

/// Most requests and devices that are under way at a time.
const MAX_DEPTH: usize = 2_048;

/// A device chosen for a request.
#[derive(Clone, Debug)]
pub(crate) struct Picked<'a> {
    pub(crate) claim: usize,
    pub(crate) request: usize,
    /// Position among the request's alternatives; 0 for a request without any.
    pub(crate) alternative: usize,
    pub(crate) candidate: Candidate<'a>,
    /// What the device gives, if it is allocated in shares (S-DRA-73).
    pub(crate) consumed: Option<Vec<(Arc<str>, NotedAmount)>>,
}

/// What a search found.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// The devices, in the order of their allocation.
    Solution(Vec<Picked<'a>>),
    Nothing,
}

/// How a part of the search ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum End {
    Solved,
    Failed,
    /// A claim would have more results than it may (S-DRA-49).
    TooMany,
}

/// Searches devices for all claims together.
pub(crate) fn search<'s, 'a>(
    claims: &'s [&'s Asked<'s>],
    sight: &'s Sight<'a>,
    devices: &'a Devices,
    viewer: Viewer<'s>,
) -> Result<Found<'a>, Fatal> {
    let mut search = Search::new(claims, sight, devices, viewer);
    search.fix_all()?;
    Ok(match search.claim(0)? {
        End::Solved => Found::Solution(search.picked),
        End::Failed | End::TooMany => Found::Nothing,
    })
}

/// Position of a demand: claim, request, alternative.
#[derive(Copy, Clone, Debug)]
struct At {
    claim: usize,
    request: usize,
    alternative: usize,
}

struct Search<'s, 'a> {
    claims: &'s [&'s Asked<'s>],
    sight: &'s Sight<'a>,
    devices: &'a Devices,
    viewer: Viewer<'s>,
    /// State of each demand, in the order of [`Search::index`].
    demands: Vec<DemandState>,
    /// Index of the first demand of each request.
    first_demands: Vec<Vec<usize>>,
    picked: Vec<Picked<'a>>,
    /// Number of results of each claim so far.
    n_results: Vec<i64>,
    constraints: Vec<Vec<ConstraintState<'s>>>,
    /// Claims that chose a candidate exclusively.
    chosen_by: Vec<SmallVec<[u32; 1]>>,
    /// What was drawn of each candidate's capacities; `None` for one that was never shared.
    drawn: Vec<Option<Drawn>>,
    counters: Counters<'a>,
    /// Whether any candidate draws from counters.
    has_counters: bool,
    n_steps: u32,
    depth: usize,
}

#[derive(Default)]
struct DemandState {
    /// Number of devices that the demand needs.
    n_devices: i64,
    /// The devices of `All`, in their order (S-DRA-41).
    all: Vec<usize>,
    /// Whether a candidate is selectable, as far as known.
    selectable: Vec<Option<bool>>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(
        claims: &'s [&'s Asked<'s>],
        sight: &'s Sight<'a>,
        devices: &'a Devices,
        viewer: Viewer<'s>,
    ) -> Search<'s, 'a> {
        let n_candidates = sight.candidates.len();
        let mut n_demands = 0;
        let mut first_demands = Vec::with_capacity(claims.len());
        let mut demands = Vec::new();
        for claim in claims {
            let mut firsts = Vec::with_capacity(claim.requests.len());
            for request in &claim.requests {
                firsts.push(n_demands);
                n_demands += request.demands.len();
                demands.extend(request.demands.iter().map(|asked| DemandState {
                    n_devices: asked.demand.count.max(0),
                    all: Vec::new(),
                    selectable: vec![None; n_candidates],
                }));
            }
            first_demands.push(firsts);
        }
        let states =
            |claim: &&'s Asked<'s>| claim.constraints.iter().map(ConstraintState::new).collect();
        Search {
            claims,
            sight,
            devices,
            viewer,
            demands,
            first_demands,
            picked: Vec::new(),
            n_results: vec![0; claims.len()],
            constraints: claims.iter().map(states).collect(),
            chosen_by: vec![SmallVec::new(); n_candidates],
            drawn: vec![None; n_candidates],
            counters: Counters::default(),
            has_counters: sight.candidates.iter().any(|found| !found.device.consumes.is_empty()),
            n_steps: 0,
            depth: 0,
        }
    }

    fn request(&self, at: At) -> &'s AskedRequest<'s> {
        &self.claims[at.claim].requests[at.request]
    }

    fn demand(&self, at: At) -> &'s AskedDemand<'s> {
        &self.request(at).demands[at.alternative]
    }

    fn index(&self, at: At) -> usize {
        self.first_demands[at.claim][at.request] + at.alternative
    }

    fn asking(&self, at: At) -> For<'s> {
        let alternative = self.demand(at).alternative.map(|name| &**name);
        For { request: self.request(at).name, alternative }
    }

    /// How errors name a request: by an alternative alone, or by the request.
    fn name(&self, at: At) -> &'s Arc<str> {
        self.demand(at).alternative.unwrap_or(self.request(at).name)
    }

    /// Fixes the devices of every `All`, and checks the least number of devices of each claim (S-DRA-41, S-DRA-42).
    fn fix_all(&mut self) -> Result<(), Fatal> {
        for (claim, asked) in self.claims.iter().enumerate() {
            let mut least = 0_i64;
            for (request, of_claim) in asked.requests.iter().enumerate() {
                for alternative in 0..of_claim.demands.len() {
                    let at = At { claim, request, alternative };
                    if self.demand(at).demand.mode == AllocationMode::All {
                        let all = self.all_devices(at)?;
                        let index = self.index(at);
                        self.demands[index].n_devices = all.len() as i64;
                        self.demands[index].all = all;
                    }
                }
                let first = self.first_demands[claim][request];
                let of_request = &self.demands[first..first + of_claim.demands.len()];
                let fewest = of_request.iter().map(|demand| demand.n_devices).min();
                least = least.saturating_add(fewest.unwrap_or(0));
            }
            if least > MAX_RESULTS {
                return Err(Fatal(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}",
                    asked.key
                )));
            }
        }
        Ok(())
    }

    /// Every device that a demand for all devices selects (S-DRA-35, S-DRA-41).
    fn all_devices(&mut self, at: At) -> Result<Vec<usize>, Fatal> {
        if let Some((pool, state)) = self.sight.fault {
            let key = self.sight.pools[pool].key;
            let what = match state {
                PoolState::Invalid => "currently invalid",
                PoolState::Incomplete | PoolState::Valid => "currently being updated",
            };
            return Err(Fatal(format!(
                "claim {}, request {}: asks for all devices, but resource pool {}/{} is {what}",
                self.claims[at.claim].key,
                self.name(at),
                key.driver,
                key.pool
            )));
        }
        let mut all = Vec::new();
        for candidate in 0..self.sight.candidates.len() {
            if self.is_selectable(at, candidate)? && self.has_capacity(at, candidate) {
                all.push(candidate);
            }
        }
        Ok(all)
    }

    /// Goes on with a claim.
    fn claim(&mut self, claim: usize) -> Result<End, Fatal> {
        if claim == self.claims.len() {
            return Ok(End::Solved);
        }
        self.next_request(claim, 0)
    }

    /// Goes on with a request of a claim.
    fn next_request(&mut self, claim: usize, request: usize) -> Result<End, Fatal> {
        let requests = &self.claims[claim].requests;
        if request == requests.len() {
            // Too many of the next claim is a failure for this one (S-DRA-49).
            return Ok(match self.deeper(|search| search.claim(claim + 1))? {
                End::TooMany => End::Failed,
                end => end,
            });
        }
        let of_request = &requests[request];
        if !of_request.has_alternatives {
            return self
                .deeper(|search| search.device(At { claim, request, alternative: 0 }, 0, 0));
        }
        let mut are_all_too_many = true;
        for alternative in 0..of_request.demands.len() {
            let at = At { claim, request, alternative };
            match self.deeper(|search| search.device(at, 0, 0))? {
                End::Solved => return Ok(End::Solved),
                End::Failed => are_all_too_many = false,
                End::TooMany => {}
            }
        }
        Ok(if are_all_too_many { End::TooMany } else { End::Failed })
    }

    /// Chooses the next device of a demand, the `number`th, among the candidates from `from` on, and whatever follows.
    fn device(&mut self, at: At, number: i64, from: usize) -> Result<End, Fatal> {
        let index = self.index(at);
        let is_all = self.demand(at).demand.mode == AllocationMode::All;
        if is_all && self.demands[index].all.is_empty() {
            return Ok(End::Failed);
        }
        let n_devices = self.demands[index].n_devices;
        if number >= n_devices {
            return self.deeper(|search| search.next_request(at.claim, at.request + 1));
        }
        if self.n_results[at.claim] + n_devices - number > MAX_RESULTS {
            return Ok(End::TooMany);
        }
        if is_all {
            let candidate = usize::try_from(number).ok();
            let candidate =
                candidate.and_then(|number| self.demands[index].all.get(number).copied());
            let Some(candidate) = candidate else { return Ok(End::Failed) };
            self.count_step()?;
            if !self.is_free(at, candidate) || !self.allocate(at, candidate)? {
                return Ok(End::Failed);
            }
            let end = self.deeper(|search| search.device(at, number + 1, 0))?;
            if end != End::Solved {
                self.give_back(at, candidate);
            }
            return Ok(end);
        }
        let needed = n_devices - number;
        let mut n_left = self.n_left(at, from);
        for candidate in from..self.sight.candidates.len() {
            if n_left.is_some_and(|n_left| n_left < needed) {
                return Ok(End::Failed);
            }
            self.count_step()?;
            if self.is_free(at, candidate)
                && self.demands[index].selectable[candidate] == Some(true)
            {
                n_left = n_left.map(|n_left| n_left - 1);
            }
            if !self.is_free(at, candidate)
                || !self.is_selectable(at, candidate)?
                || !self.has_capacity(at, candidate)
                || !self.allocate(at, candidate)?
            {
                continue;
            }
            let end = self.deeper(|search| search.device(at, number + 1, candidate + 1))?;
            if end == End::Solved {
                return Ok(end);
            }
            self.give_back(at, candidate);
            if end == End::TooMany {
                return Ok(end);
            }
        }
        Ok(End::Failed)
    }

    /// Number of devices from a candidate on that a demand might still choose, once each of them was looked at: an error
    /// on one of them comes first. `None` if that is not so, or if choices leave traces (S-DRA-54).
    ///
    /// Without this look ahead a demand for one device more than there are walks all subsets of them (S-DRA-50).
    fn n_left(&self, at: At, from: usize) -> Option<i64> {
        if self.has_counters {
            return None;
        }
        let selectable = &self.demands[self.index(at)].selectable;
        let mut n_left = 0;
        for candidate in (from..selectable.len()).filter(|i| self.is_free(at, *i)) {
            n_left += i64::from(selectable[candidate]?);
        }
        Some(n_left)
    }

    /// Whether a device is left for a demand (S-DRA-51).
    fn is_free(&self, at: At, candidate: usize) -> bool {
        let chosen_by = &self.chosen_by[candidate];
        if self.demand(at).demand.is_admin {
            return !chosen_by.iter().any(|claim| *claim as usize == at.claim);
        }
        self.sight.candidates[candidate].is_free && chosen_by.is_empty()
    }

    /// Whether the selectors of class and request select a device that the node may use (S-DRA-51).
    fn is_selectable(&mut self, at: At, candidate: usize) -> Result<bool, Fatal> {
        let index = self.index(at);
        if let Some(known) = self.demands[index].selectable[candidate] {
            return Ok(known);
        }
        let found = self.sight.candidates[candidate];
        let is_selectable = self.is_selected(at, &found)? && found.is_for(self.viewer)?;
        self.demands[index].selectable[candidate] = Some(is_selectable);
        Ok(is_selectable)
    }

    fn is_selected(&self, at: At, candidate: &Candidate<'a>) -> Result<bool, Fatal> {
        let demand = self.demand(at);
        let n_of_class = demand.class.selectors.len();
        for (i, selector) in demand.selectors().enumerate() {
            let (verdict, why) = match &selector.0 {
                // Only a class may have one: requests were checked.
                None => (Verdict::Failed, String::from("CEL expression empty")),
                Some(selector) => {
                    let verdict = candidate.slice.verdicts(selector)[candidate.at];
                    let why = match verdict {
                        Verdict::Failed => selector.failure(candidate.device),
                        Verdict::Refused | Verdict::Selected => String::new(),
                    };
                    (verdict, why)
                }
            };
            match verdict {
                Verdict::Selected => {}
                Verdict::Refused => return Ok(false),
                Verdict::Failed => {
                    return Err(Fatal(if i < n_of_class {
                        format!("class {}: selector #{i}: {why}", demand.class.name)
                    } else {
                        let i = i - n_of_class;
                        format!("claim {}: selector #{i}: {why}", self.claims[at.claim].key)
                    }));
                }
            }
        }
        Ok(true)
    }

    fn has_capacity(&self, at: At, candidate: usize) -> bool {
        let device = self.sight.candidates[candidate].device;
        let held = self.devices.allocated.of(device.id);
        capacity::fits(device, self.demand(at).demand, held, self.drawn[candidate].as_ref())
    }

    /// Allocates a device tentatively, if counters, taints and constraints allow it (S-DRA-53, S-DRA-54).
    fn allocate(&mut self, at: At, candidate: usize) -> Result<bool, Fatal> {
        let found = self.sight.candidates[candidate];
        let (device, asked) = (found.device, self.demand(at));
        let demand = asked.demand;
        if !device.consumes.is_empty() && !self.has_drawn(candidate) {
            let is_drawn = self.counters.draw(device, self.sight, self.devices);
            if !is_drawn {
                return Ok(false);
            }
        }
        if !device.taints.iter().all(|taint| taint.is_tolerated(&demand.tolerations)) {
            return Ok(false);
        }
        let asking = self.asking(at);
        let constraints = &mut self.constraints[at.claim];
        let refused = constraints.iter_mut().position(|constraint| !constraint.add(asking, device));
        if let Some(refused) = refused {
            if demand.mode == AllocationMode::All {
                return Err(Fatal(format!(
                    "claim {}, request {}: cannot add device {}/{}/{} because a claim constraint would not be satisfied",
                    self.claims[at.claim].key,
                    self.name(at),
                    device.driver,
                    device.pool,
                    device.name
                )));
            }
            constraints[..refused].iter_mut().for_each(|constraint| constraint.remove(asking));
            return Ok(false);
        }
        if !device.is_shareable {
            self.chosen_by[candidate].push(at.claim as u32);
        }
        // `All` chose its devices before anything was drawn (S-DRA-74).
        if !self.has_capacity(at, candidate) {
            return Ok(false);
        }
        let consumed = device.is_shareable.then(|| capacity::consumed(device, demand));
        if let Some(consumed) = &consumed {
            let n = device.capacities.len();
            let drawn = self.drawn[candidate].get_or_insert_with(|| vec![Default::default(); n]);
            drawn.iter_mut().zip(consumed).for_each(|(drawn, (_, amount))| *drawn += amount.value);
        }
        let At { claim, request, alternative } = at;
        self.picked.push(Picked { claim, request, alternative, candidate: found, consumed });
        self.n_results[at.claim] += 1;
        Ok(true)
    }

    /// Whether a shared device has drawn from its counters before (S-DRA-62).
    fn has_drawn(&self, candidate: usize) -> bool {
        let device = self.sight.candidates[candidate].device;
        if !device.is_shareable {
            return false;
        }
        let held = self.devices.allocated.of(device.id);
        let is_consumed =
            held.is_some_and(|held| held.shares.values().any(|share| !share.is_empty()));
        is_consumed || self.drawn[candidate].is_some()
    }

    /// Gives back the device that was allocated last.
    fn give_back(&mut self, at: At, candidate: usize) {
        let device = self.sight.candidates[candidate].device;
        let asking = self.asking(at);
        self.constraints[at.claim].iter_mut().for_each(|constraint| constraint.remove(asking));
        let picked = self.picked.pop();
        self.n_results[at.claim] -= 1;
        match picked.and_then(|picked| picked.consumed) {
            // The counters of a shared device stay drawn (S-DRA-54).
            Some(consumed) => {
                let Some(drawn) = &mut self.drawn[candidate] else { return };
                drawn.iter_mut().zip(&consumed).for_each(|(drawn, (_, amount))| {
                    *drawn += -amount.value;
                });
                // A device without capacities stays as it is (S-DRA-62).
                if !drawn.is_empty() && drawn.iter().all(|amount| amount.is_zero()) {
                    self.drawn[candidate] = None;
                }
            }
            None => {
                self.chosen_by[candidate].retain(|claim| *claim as usize != at.claim);
                if !device.consumes.is_empty() {
                    self.counters.give_back(device);
                }
            }
        }
    }

    fn count_step(&mut self) -> Result<(), Fatal> {
        self.n_steps += 1;
        if self.n_steps > MAX_STEPS { Err(self.timed_out()) } else { Ok(()) }
    }

    fn deeper(
        &mut self,
        go_on: impl FnOnce(&mut Self) -> Result<End, Fatal>,
    ) -> Result<End, Fatal> {
        if self.depth == MAX_DEPTH {
            return Err(self.timed_out());
        }
        self.depth += 1;
        let end = go_on(self);
        self.depth -= 1;
        end
    }

    /// Upstream's error for a search that takes ten seconds (S-DRA-24).
    fn timed_out(&self) -> Fatal {
        let node = self.viewer.names.name(self.viewer.node);
        Fatal(format!("node {node}: timed out trying to allocate devices"))
    }
}
