//! The search: depth first over claims, requests, subrequests and devices. Rules: S-DRA-41 to S-DRA-54, S-DRA-59 to
//! S-DRA-64, S-DRA-73, S-DRA-74, S-DRA-81, S-DRA-82.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::resource_v1::{
    Device, DeviceClaim, DeviceTaint, DeviceToleration, ResourceClaim, ResourceSlice,
};

use super::allocated::{self, Id};
use super::constraint::Constraint;
use super::pools::{self, Pool, State, spec};
use super::request::Ask;
use super::{Given, Outcome, World, capacity, selector};
use crate::naive::quantity::{Nanos, nanos};

/// Most results of a claim (S-DRA-49).
const MAX_RESULTS: i64 = 32;
/// Most devices that are tried, so that the comparison ends.
const MAX_TRIED: u32 = 10_000;

/// Why a search ends early.
enum Stop {
    Fatal(String),
    TooLong,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum End {
    Solved,
    Failed,
    TooMany,
}

/// The amounts left and drawn of each counter of a pool, by set and counter.
type Counters<'a> = BTreeMap<(&'a str, &'a str), (Nanos, Nanos)>;

struct Candidate<'a> {
    driver: &'a str,
    pool: &'a str,
    slice: &'a ResourceSlice,
    device: &'a Device,
}

impl<'a> Candidate<'a> {
    fn id(&self) -> Id<'a> {
        Id { driver: self.driver, pool: self.pool, device: &self.device.name }
    }

    fn is_shareable(&self) -> bool {
        self.device.allow_multiple_allocations == Some(true)
    }
}

struct Search<'a> {
    world: &'a World<'a>,
    pools: Vec<Pool<'a>>,
    candidates: Vec<Candidate<'a>>,
    claims: &'a [&'a ResourceClaim],
    /// The alternatives of each request of each claim: one, or the subrequests.
    asks: &'a [Vec<Vec<Ask<'a>>>],
    /// The devices of each `All`, by claim, request and alternative.
    all: BTreeMap<(usize, usize, usize), Vec<usize>>,
    /// Candidate and claim of each exclusive choice.
    chosen: BTreeSet<(usize, usize)>,
    /// Amounts that this search takes of the capacities of shared devices, by candidate and capacity.
    shares: BTreeMap<usize, BTreeMap<&'a str, Nanos>>,
    /// By pool name (S-DRA-63).
    counters: BTreeMap<&'a str, Counters<'a>>,
    constraints: Vec<Vec<Constraint<'a>>>,
    given: Vec<Vec<Given>>,
    n_tried: u32,
}

fn devices_of(claim: &ResourceClaim) -> &DeviceClaim {
    let spec = claim.spec.as_ref().expect("a claim has a spec");
    spec.devices.as_ref().expect("a claim asks for devices")
}

pub(super) fn run(world: &World<'_>, claims: &[&ResourceClaim]) -> Outcome {
    let asks: Vec<Vec<Vec<Ask<'_>>>> = claims
        .iter()
        .map(|claim| devices_of(claim).requests.iter().map(Ask::of).collect())
        .collect();
    let mut search = Search::new(world, claims, &asks);
    match search.fix_all().and_then(|()| search.next_claim(0)) {
        Ok(End::Solved) => Outcome::Gives(search.given),
        Ok(End::Failed | End::TooMany) => {
            let is_invalid = search.pools.iter().any(|pool| pool.state == State::Invalid);
            Outcome::Lacks(match is_invalid {
                true => "invalid resource pools were encountered",
                false => "cannot allocate all claims",
            })
        }
        Err(Stop::Fatal(text)) => Outcome::Fatal(text),
        Err(Stop::TooLong) => Outcome::TooLong,
    }
}

impl<'a> Search<'a> {
    fn new(
        world: &'a World<'a>,
        claims: &'a [&'a ResourceClaim],
        asks: &'a [Vec<Vec<Ask<'a>>>],
    ) -> Search<'a> {
        let pools = pools::seen_from(world.node, world.slices);
        let mut candidates = Vec::new();
        for pool in pools.iter().filter(|pool| pool.state == State::Valid) {
            for slice in &pool.slices {
                for device in &spec(slice).devices {
                    candidates.push(Candidate {
                        driver: pool.driver,
                        pool: pool.name,
                        slice,
                        device,
                    });
                }
            }
        }
        let constraints = claims
            .iter()
            .map(|claim| devices_of(claim).constraints.iter().map(Constraint::new).collect());
        Search {
            world,
            pools,
            candidates,
            claims,
            asks,
            all: BTreeMap::new(),
            chosen: BTreeSet::new(),
            shares: BTreeMap::new(),
            counters: BTreeMap::new(),
            constraints: constraints.collect(),
            given: vec![Vec::new(); claims.len()],
            n_tried: 0,
        }
    }

    /// `NAMESPACE/NAME` of a claim.
    fn claim_key(&self, claim: usize) -> String {
        let metadata = self.claims[claim].metadata.as_ref().expect("a claim has metadata");
        format!("{}/{}", metadata.namespace, metadata.name)
    }

    /// S-DRA-35, S-DRA-41, S-DRA-42.
    fn fix_all(&mut self) -> Result<(), Stop> {
        for (claim, requests) in self.asks.iter().enumerate() {
            let mut least = 0;
            for (request, alternatives) in requests.iter().enumerate() {
                let mut counts = Vec::new();
                for (alternative, ask) in alternatives.iter().enumerate() {
                    if !ask.is_all {
                        counts.push(ask.count);
                        continue;
                    }
                    self.check_pools(claim, ask)?;
                    let mut all = Vec::new();
                    for at in 0..self.candidates.len() {
                        if self.is_selected(claim, ask, at)? && self.has_capacity(ask, at) {
                            all.push(at);
                        }
                    }
                    counts.push(all.len() as i64);
                    self.all.insert((claim, request, alternative), all);
                }
                least += counts.into_iter().min().unwrap_or(0);
            }
            if least > MAX_RESULTS {
                return Err(Stop::Fatal(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of 32",
                    self.claim_key(claim)
                )));
            }
        }
        Ok(())
    }

    fn check_pools(&self, claim: usize, ask: &Ask<'a>) -> Result<(), Stop> {
        let Some(pool) = self.pools.iter().find(|pool| pool.state != State::Valid) else {
            return Ok(());
        };
        let what = match pool.state {
            State::Invalid => "invalid",
            State::Incomplete | State::Valid => "being updated",
        };
        Err(Stop::Fatal(format!(
            "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently {what}",
            self.claim_key(claim),
            ask.short,
            pool.driver,
            pool.name
        )))
    }

    fn next_claim(&mut self, claim: usize) -> Result<End, Stop> {
        if claim == self.claims.len() { Ok(End::Solved) } else { self.next_request(claim, 0) }
    }

    fn next_request(&mut self, claim: usize, request: usize) -> Result<End, Stop> {
        let asks = self.asks;
        let Some(alternatives) = asks[claim].get(request) else {
            // Too many in the next claim is a failure like any other for this one (S-DRA-49).
            return Ok(match self.next_claim(claim + 1)? {
                End::TooMany => End::Failed,
                end => end,
            });
        };
        let mut ends = Vec::new();
        for alternative in 0..alternatives.len() {
            ends.push(self.next_device((claim, request, alternative), 0, 0)?);
            if ends.last() == Some(&End::Solved) {
                return Ok(End::Solved);
            }
        }
        Ok(if ends.iter().all(|end| *end == End::TooMany) { End::TooMany } else { End::Failed })
    }

    fn next_device(
        &mut self,
        at: (usize, usize, usize),
        number: usize,
        from: usize,
    ) -> Result<End, Stop> {
        let (claim, request, alternative) = at;
        let asks = self.asks;
        let ask = &asks[claim][request][alternative];
        let all = self.all.get(&at).cloned();
        if all.as_ref().is_some_and(Vec::is_empty) {
            return Ok(End::Failed);
        }
        let n = all.as_ref().map_or(ask.count, |all| all.len() as i64);
        let n_missing = n - number as i64;
        if n_missing <= 0 {
            return self.next_request(claim, request + 1);
        }
        if self.given[claim].len() as i64 + n_missing > MAX_RESULTS {
            return Ok(End::TooMany);
        }
        let tried = match &all {
            Some(all) => all[number]..all[number] + 1,
            None => from..self.candidates.len(),
        };
        for candidate in tried {
            self.n_tried += 1;
            if self.n_tried > MAX_TRIED {
                return Err(Stop::TooLong);
            }
            if !self.is_free(claim, ask, candidate) {
                continue;
            }
            // The devices of `All` were selected before (S-DRA-41).
            let is_fit = ask.is_all
                || self.is_selected(claim, ask, candidate)? && self.has_capacity(ask, candidate);
            if !is_fit {
                continue;
            }
            if !self.choose(claim, ask, candidate)? {
                continue;
            }
            let end = self.next_device(at, number + 1, candidate + 1)?;
            if end == End::Solved {
                return Ok(end);
            }
            self.give_back(claim, ask, candidate);
            if end == End::TooMany {
                return Ok(end);
            }
        }
        Ok(End::Failed)
    }

    /// S-DRA-51, first half.
    fn is_free(&self, claim: usize, ask: &Ask<'a>, at: usize) -> bool {
        if ask.is_admin {
            return !self.chosen.contains(&(at, claim));
        }
        !allocated::is_exclusive(self.world.allocated, self.candidates[at].id())
            && !self.chosen.iter().any(|(candidate, _)| *candidate == at)
    }

    /// S-DRA-51, second half.
    fn is_selected(&self, claim: usize, ask: &Ask<'a>, at: usize) -> Result<bool, Stop> {
        let candidate = &self.candidates[at];
        let class = self.world.classes.iter().find(|class| {
            class.metadata.as_ref().is_some_and(|metadata| metadata.name == ask.class)
        });
        let of_class =
            &class.and_then(|class| class.spec.as_ref()).expect("a known class").selectors;
        for (i, selector) in of_class.iter().chain(ask.selectors).enumerate() {
            let expression = &selector.cel.as_ref().expect("CEL").expression;
            match selector::verdict(expression, candidate.driver, candidate.device) {
                None => {
                    let (of, i) = match i.checked_sub(of_class.len()) {
                        None => (format!("class {}", ask.class), i),
                        Some(i) => (format!("claim {}", self.claim_key(claim)), i),
                    };
                    let text = format!("{of}: selector #{i}: CEL runtime error: ");
                    return Err(Stop::Fatal(text));
                }
                Some(false) => return Ok(false),
                Some(true) => {}
            }
        }
        let is_per_device = spec(candidate.slice).per_device_node_selection == Some(true);
        Ok(!is_per_device || pools::is_device_for(self.world.node, candidate.device))
    }

    /// S-DRA-71.
    fn has_capacity(&self, ask: &Ask<'a>, at: usize) -> bool {
        let candidate = &self.candidates[at];
        let asked = ask.capacities();
        let capacities = &candidate.device.capacity;
        asked.keys().all(|name| capacities.contains_key(*name))
            && capacities.iter().all(|(name, capacity)| {
                let taken = capacity::taken(capacity, asked.get(&**name).copied());
                let of_others = allocated::consumed(self.world.allocated, candidate.id(), name);
                let drawn = self.shares.get(&at).and_then(|drawn| drawn.get(&**name)).copied();
                let value = nanos(capacity.value.as_ref().expect("a capacity has a value"));
                capacity::is_allowed(capacity.request_policy.as_ref(), taken)
                    && of_others + drawn.unwrap_or(0) + taken <= value
            })
    }

    /// Chooses a device; false if counters, a taint, a constraint or a capacity stand against it, each of which may
    /// leave a trace (S-DRA-53, S-DRA-54, S-DRA-74).
    fn choose(&mut self, claim: usize, ask: &'a Ask<'a>, at: usize) -> Result<bool, Stop> {
        let &Candidate { driver, pool, device, .. } = &self.candidates[at];
        if !device.consumes_counters.is_empty() && !self.has_drawn(at) && !self.draw(at) {
            return Ok(false);
        }
        if !device.taints.iter().all(|taint| is_tolerated(taint, ask.tolerations)) {
            return Ok(false);
        }
        for i in 0..self.constraints[claim].len() {
            if self.constraints[claim][i].add(ask, driver, device) {
                continue;
            }
            if ask.is_all {
                return Err(Stop::Fatal(format!(
                    "claim {}, request {}: cannot add device {driver}/{pool}/{} because a claim constraint would \
                     not be satisfied",
                    self.claim_key(claim),
                    ask.short,
                    device.name
                )));
            }
            self.constraints[claim][..i].iter_mut().for_each(|constraint| constraint.remove(ask));
            return Ok(false);
        }
        let is_shareable = self.candidates[at].is_shareable();
        if !is_shareable {
            self.chosen.insert((at, claim));
        }
        if !self.has_capacity(ask, at) {
            return Ok(false);
        }
        let taken = is_shareable.then(|| self.take_share(ask, at));
        self.given[claim].push(Given {
            request: ask.name.clone(),
            device: (driver.to_owned(), pool.to_owned(), device.name.clone()),
            is_admin: ask.is_admin,
            consumed: taken,
        });
        Ok(true)
    }

    /// Draws a share of each capacity (S-DRA-73).
    fn take_share(&mut self, ask: &Ask<'a>, at: usize) -> BTreeMap<String, Nanos> {
        let asked = ask.capacities();
        let drawn = self.shares.entry(at).or_default();
        let capacities = self.candidates[at].device.capacity.iter();
        capacities
            .map(|(name, of_device)| {
                let taken = capacity::taken(of_device, asked.get(&**name).copied());
                *drawn.entry(name).or_default() += taken;
                (name.clone(), taken)
            })
            .collect()
    }

    fn give_back(&mut self, claim: usize, ask: &Ask<'a>, at: usize) {
        self.constraints[claim].iter_mut().for_each(|constraint| constraint.remove(ask));
        let given = self.given[claim].pop().expect("the device was given");
        let Some(consumed) = given.consumed else {
            self.chosen.remove(&(at, claim));
            self.change_drawn(at, -1);
            return;
        };
        // The counters of a shared device stay drawn (S-DRA-54).
        let drawn = self.shares.get_mut(&at).expect("a share was drawn");
        for (name, amount) in &consumed {
            *drawn.get_mut(&**name).expect("it was drawn") -= amount;
        }
        // A device without capacities stays chosen (S-DRA-62).
        if !drawn.is_empty() && drawn.values().all(|amount| *amount == 0) {
            self.shares.remove(&at);
        }
    }

    /// S-DRA-62.
    fn has_drawn(&self, at: usize) -> bool {
        let candidate = &self.candidates[at];
        candidate.is_shareable()
            && (self.shares.contains_key(&at)
                || allocated::is_consumed(self.world.allocated, candidate.id()))
    }

    /// S-DRA-61.
    fn draw(&mut self, at: usize) -> bool {
        let pool = self.candidates[at].pool;
        if !self.counters.contains_key(pool) {
            let left = self.left(at);
            self.counters.insert(pool, left);
        }
        self.change_drawn(at, 1);
        let is_within = self.counters[pool].values().all(|(left, drawn)| drawn <= left);
        if !is_within {
            self.change_drawn(at, -1);
        }
        is_within
    }

    fn change_drawn(&mut self, at: usize, sign: Nanos) {
        let &Candidate { pool, device, .. } = &self.candidates[at];
        let Some(counters) = self.counters.get_mut(pool) else { return };
        for (key, amount) in consumption(device) {
            if let Some((_, drawn)) = counters.get_mut(&key) {
                *drawn += sign * amount;
            }
        }
    }

    /// The counters of a candidate's pool less what allocated devices consume (S-DRA-60).
    fn left(&self, at: usize) -> Counters<'a> {
        let &Candidate { driver, pool: name, .. } = &self.candidates[at];
        let is_it = |pool: &&Pool<'a>| pool.driver == driver && pool.name == name;
        let pool = self.pools.iter().find(is_it).expect("the pool of a candidate");
        let mut left = BTreeMap::new();
        for set in pool.slices.iter().flat_map(|slice| &spec(slice).shared_counters) {
            for (counter, value) in &set.counters {
                let value = nanos(value.value.as_ref().expect("a counter has a value"));
                left.insert((&*set.name, &**counter), (value, 0));
            }
        }
        let slices = pool.slices.iter().chain(&pool.others);
        for device in slices.flat_map(|slice| &spec(slice).devices) {
            let id = Id { driver, pool: name, device: &device.name };
            if allocated::is_held(self.world.allocated, id) {
                for (key, amount) in consumption(device) {
                    if let Some((value, _)) = left.get_mut(&key) {
                        *value -= amount;
                    }
                }
            }
        }
        left
    }
}

/// The amounts that a device consumes, each with the set and the name of its counter.
fn consumption(device: &Device) -> Vec<((&str, &str), Nanos)> {
    let mut all = Vec::new();
    for consumed in &device.consumes_counters {
        for (counter, amount) in &consumed.counters {
            let amount = nanos(amount.value.as_ref().expect("a counter has a value"));
            all.push(((&*consumed.counter_set, &**counter), amount));
        }
    }
    all
}

/// S-DRA-81, S-DRA-82.
fn is_tolerated(taint: &DeviceTaint, tolerations: &[DeviceToleration]) -> bool {
    let repels = taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    !repels
        || tolerations.iter().any(|toleration| {
            (toleration.effect.is_empty() || toleration.effect == taint.effect)
                && (toleration.key.is_empty() || toleration.key == taint.key)
                && match toleration.operator.as_str() {
                    "" | "Equal" => toleration.value == taint.value,
                    "Exists" => true,
                    _ => false,
                }
        })
}
