//! Stock: how many of the devices that a node sees each request could take, step by step, and what keeps it from the
//! others. Only for people who ask: `search` decides.

use std::sync::Arc;

use super::Fatal;
use super::asked::{Asked, AskedDemand, AskedRequest};
use super::capacity;
use super::constraint::{For, concerns};
use super::counters::Counters;
use super::sight::{Candidate, Sight};
use crate::model::device::constraint::ConstraintRule;
use crate::model::device::id::PoolKey;
use crate::model::device::published::{AttributeValue, Device};
use crate::model::device::request::AllocationMode;
use crate::model::device::verdicts::Verdict;
use crate::snapshot::devices::Devices;
use crate::snapshot::devices::pool::{PoolState, Viewer};

/// What a node has for the claims to allocate.
#[derive(Debug, Default)]
pub(crate) struct NodeStock<'a> {
    /// Requests in order, each alternative by itself.
    pub(crate) requests: Vec<RequestStock<'a>>,
    pub(crate) constraints: Vec<ConstraintStock>,
    /// Pools that the node sees and whose devices cannot be used, because their slices contradict each other.
    pub(crate) invalid_pools: Vec<&'a PoolKey>,
}

/// Devices for one request, or for one alternative of it. Each number counts devices among those of the number before.
#[derive(Debug)]
pub(crate) struct RequestStock<'a> {
    /// Position of the claim among those to allocate.
    pub(crate) claim: usize,
    pub(crate) request: usize,
    /// Position among the request's alternatives; `None` for a request without any.
    pub(crate) alternative: Option<usize>,
    /// `REQUEST` or `REQUEST/SUBREQUEST`.
    pub(crate) name: Arc<str>,
    pub(crate) class: Arc<str>,
    /// Number of devices that are needed; for `All` of those that have the capacity.
    pub(crate) n_asked: i64,
    pub(crate) is_all: bool,
    /// Devices that the node sees.
    pub(crate) n_seen: i64,
    /// Devices that the class selects.
    pub(crate) n_of_class: i64,
    /// Devices that the request selects.
    pub(crate) n_selected: i64,
    /// Devices with the capacity that is asked for, if nobody else used them.
    pub(crate) n_roomy: i64,
    /// Devices whose taints are tolerated.
    pub(crate) n_tolerated: i64,
    /// Devices whose pool has enough of its counters left.
    pub(crate) n_drawable: i64,
    /// Devices that are free, or have enough left for a further share.
    pub(crate) left: Vec<&'a Device>,
    /// Devices that others hold.
    pub(crate) held: Vec<&'a Device>,
    /// Position of the request's selector that refuses most devices of the class; `None` if none refuses any.
    pub(crate) refusing: Option<usize>,
}

/// A constraint of a claim, beside the devices that are left.
#[derive(Debug)]
pub(crate) struct ConstraintStock {
    /// Position of the claim among those to allocate.
    pub(crate) claim: usize,
    /// The constraint as it is written, for example `matchAttribute numa`.
    pub(crate) text: Arc<str>,
    /// Number of devices that the constraint is about.
    pub(crate) n_asked: i64,
    /// The most devices that could satisfy it.
    pub(crate) n_found: i64,
}

impl RequestStock<'_> {
    /// Whether there are enough devices for this request alone.
    pub(crate) fn is_met(&self) -> bool {
        let n_left = self.left.len() as i64;
        if self.is_all { n_left > 0 && n_left == self.n_asked } else { n_left >= self.n_asked }
    }
}

impl ConstraintStock {
    pub(crate) fn is_met(&self) -> bool {
        self.n_found >= self.n_asked
    }
}

/// Counts what a node has for each request.
///
/// Cost: a few steps for each device and request.
pub(crate) fn stock<'a>(
    claims: &[&Asked<'_>],
    sight: &Sight<'a>,
    devices: &'a Devices,
    viewer: Viewer<'_>,
) -> Result<NodeStock<'a>, Fatal> {
    let mut stock = NodeStock::default();
    let invalid = sight.pools.iter().filter(|pool| pool.state == PoolState::Invalid);
    stock.invalid_pools = invalid.map(|pool| pool.key).collect();
    for (claim, asked) in claims.iter().enumerate() {
        for (request, of_claim) in asked.requests.iter().enumerate() {
            for (i, demand) in of_claim.demands.iter().enumerate() {
                let mut counted = RequestStock::new(of_claim, demand);
                (counted.claim, counted.request) = (claim, request);
                counted.alternative = of_claim.has_alternatives.then_some(i);
                counted.count(demand, sight, devices, viewer)?;
                stock.requests.push(counted);
            }
        }
        let of_claim: Vec<&RequestStock<'_>> =
            stock.requests.iter().filter(|counted| counted.claim == claim).collect();
        let constraints = asked.constraints.iter().filter_map(|constraint| {
            let concerned = of_claim.iter().copied().filter(|counted| {
                let asked = &asked.requests[counted.request];
                let demand = &asked.demands[counted.alternative.unwrap_or(0)];
                let alternative = demand.alternative.map(|name| &**name);
                concerns(constraint, For { request: asked.name, alternative })
            });
            ConstraintStock::of(claim, &constraint.rule, &concerned.collect::<Vec<_>>())
        });
        stock.constraints.extend(constraints.collect::<Vec<_>>());
    }
    Ok(stock)
}

impl<'a> RequestStock<'a> {
    fn new(request: &AskedRequest<'_>, asked: &AskedDemand<'_>) -> RequestStock<'a> {
        let name = match asked.alternative {
            Some(alternative) => format!("{}/{alternative}", request.name).into(),
            None => request.name.clone(),
        };
        RequestStock {
            claim: 0,
            request: 0,
            alternative: None,
            name,
            class: asked.demand.class.clone(),
            n_asked: asked.demand.count.max(0),
            is_all: asked.demand.mode == AllocationMode::All,
            n_seen: 0,
            n_of_class: 0,
            n_selected: 0,
            n_roomy: 0,
            n_tolerated: 0,
            n_drawable: 0,
            left: Vec::new(),
            held: Vec::new(),
            refusing: None,
        }
    }

    fn count(
        &mut self,
        asked: &AskedDemand<'_>,
        sight: &Sight<'a>,
        devices: &Devices,
        viewer: Viewer<'_>,
    ) -> Result<(), Fatal> {
        let n_of_class = asked.class.selectors.len();
        let mut refused = vec![0; asked.demand.selectors.len()];
        let mut n_all = 0;
        for candidate in &sight.candidates {
            if !candidate.is_for(viewer)? {
                continue;
            }
            self.n_seen += 1;
            match first_refusal(asked, candidate) {
                Some(selector) if selector < n_of_class => continue,
                Some(selector) => {
                    self.n_of_class += 1;
                    refused[selector - n_of_class] += 1;
                    continue;
                }
                None => {}
            }
            (self.n_of_class, self.n_selected) = (self.n_of_class + 1, self.n_selected + 1);
            let (device, held) = (candidate.device, devices.allocated.of(candidate.device.id));
            n_all += i64::from(capacity::fits(device, asked.demand, held, None));
            self.count_selected(asked, candidate, sight, devices);
        }
        if self.is_all {
            self.n_asked = n_all;
        }
        let most = (0..refused.len()).max_by_key(|i| (refused[*i], std::cmp::Reverse(*i)));
        self.refusing = most.filter(|i| refused[*i] > 0);
        Ok(())
    }

    fn count_selected(
        &mut self,
        asked: &AskedDemand<'_>,
        candidate: &Candidate<'a>,
        sight: &Sight<'a>,
        devices: &Devices,
    ) {
        let (device, demand) = (candidate.device, asked.demand);
        if !capacity::fits(device, demand, None, None) {
            return;
        }
        self.n_roomy += 1;
        if !device.taints.iter().all(|taint| taint.is_tolerated(&demand.tolerations)) {
            return;
        }
        self.n_tolerated += 1;
        let held = devices.allocated.of(device.id);
        let is_free = demand.is_admin || candidate.is_free;
        if !is_free || !capacity::fits(device, demand, held, None) {
            self.n_drawable += 1;
            self.held.push(device);
            return;
        }
        let has_drawn = held.is_some_and(|held| !held.shares.is_empty());
        if device.consumes.is_empty()
            || has_drawn
            || Counters::default().draw(device, sight, devices)
        {
            self.n_drawable += 1;
            self.left.push(device);
        }
    }
}

/// The first selector, of the class or then of the request, that does not select a device.
fn first_refusal(asked: &AskedDemand<'_>, candidate: &Candidate<'_>) -> Option<usize> {
    asked.selectors().position(|selector| {
        let verdicts = selector.0.as_ref().map(|selector| candidate.slice.verdicts(selector));
        verdicts.is_none_or(|verdicts| verdicts[candidate.at] != Verdict::Selected)
    })
}

impl ConstraintStock {
    /// Compares a constraint with what is left for the requests that it is about.
    fn of(
        claim: usize,
        rule: &ConstraintRule,
        requests: &[&RequestStock<'_>],
    ) -> Option<ConstraintStock> {
        // Of alternatives only one is taken: the one that asks for least.
        let mut asked: Vec<(usize, i64)> =
            requests.iter().map(|counted| (counted.request, counted.n_asked)).collect();
        asked.sort_unstable();
        asked.dedup_by_key(|(request, _)| *request);
        let n_asked = asked.iter().map(|(_, n)| n).sum();
        let (text, n_found) = match rule {
            ConstraintRule::Match(name) => {
                let values = values(requests, name);
                let of_value = |value: &&AttributeValue| {
                    let takes = asked.iter().map(|(request, n)| {
                        let of_request =
                            requests.iter().filter(|counted| counted.request == *request);
                        let most = of_request.map(|counted| {
                            let left = counted.left.iter();
                            left.filter(|device| device.attribute(name) == Some(value)).count()
                        });
                        (*n).min(most.max().unwrap_or(0) as i64)
                    });
                    takes.sum::<i64>()
                };
                (format!("matchAttribute {name}"), values.iter().map(of_value).max().unwrap_or(0))
            }
            ConstraintRule::Distinct(name) => {
                (format!("distinctAttribute {name}"), values(requests, name).len() as i64)
            }
            ConstraintRule::Unknown => return None,
        };
        Some(ConstraintStock { claim, text: text.into(), n_asked, n_found })
    }
}

/// The values of an attribute among the devices that are left, each once.
fn values<'d>(requests: &[&RequestStock<'d>], name: &str) -> Vec<&'d AttributeValue> {
    let left = requests.iter().flat_map(|counted| &counted.left);
    let mut values: Vec<&AttributeValue> = Vec::new();
    for value in left.filter_map(|device| device.attribute(name)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
