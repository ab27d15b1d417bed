//! DynamicResources: the devices of the node beside what each request asks for. Rules: S-DRA-22, S-DRA-24, S-DRA-41,
//! S-DRA-51, S-DRA-104.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::resource_v1;

use super::at::{At, Judged};
use super::comparison::{Compared, DeviceAccount, DeviceHolder, N_LISTED};
use super::volumes::words;
use crate::devices::outcome::Lack;
use crate::devices::stock::RequestStock;
use crate::model::device::claim::ResourceClaim;
use crate::model::device::id::DeviceId;
use crate::model::device::published::Device;
use crate::plan::counted::Filtering;
use crate::prepared::devices::Found;

/// Which claim holds each device, looked up once it is asked for.
#[derive(Default)]
pub(super) struct Holders(Option<BTreeMap<DeviceId, Arc<str>>>);

/// The longest part of an expression that is shown, in characters.
const MAX_EXPRESSION: usize = 100;

/// The search for devices.
pub(super) fn compare(plan: &Filtering<'_, '_>, holders: &mut Holders, at: At<'_>) -> Vec<Judged> {
    let Some(found) = plan.devices().found() else { return Vec::new() };
    let lack = found.lack(found.fit(at.shard).as_ref(), at.shard, at.row);
    let mut judged = match lack {
        Some(Lack::ExtendedClaimExists) => vec![(false, Compared::LeftoverClaim)],
        Some(Lack::ExtendedResource) => {
            let missing = found.unprovided(at.shard, at.row);
            missing.map(|resource| (false, Compared::NoDeviceClass { resource })).collect()
        }
        _ => of_requests(plan, found, holders, at),
    };
    if lack.is_none() {
        // Alternatives that are not taken, or a bound that the search does not keep to (S-DRA-58).
        judged.iter_mut().for_each(|(is_met, _)| *is_met = true);
    } else if judged.iter().all(|(is_met, _)| *is_met) {
        judged.push((false, Compared::DevicesTogether));
    }
    judged
}

/// The claims that are allocated already.
pub(super) fn allocated(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let Some(found) = plan.devices().found() else { return Vec::new() };
    let judged = found.claims.allocated().map(|claim| {
        let is_met = found.unavailable_by(claim, at.shard, at.rows()).is_empty();
        (
            is_met,
            Compared::AllocatedClaim { claim: claim.key.name.clone(), needs: needs(plan, claim) },
        )
    });
    judged.collect()
}

fn needs(plan: &Filtering<'_, '_>, claim: &ResourceClaim) -> Arc<str> {
    let selector = claim.allocation.as_ref().and_then(|own| own.node_selector.as_ref());
    selector.map_or_else(|| "".into(), |selector| words(&selector.compiled, plan.names()))
}

fn of_requests(
    plan: &Filtering<'_, '_>,
    found: &Found<'_>,
    holders: &mut Holders,
    at: At<'_>,
) -> Vec<Judged> {
    let Some(stock) = found.stock(at.shard, at.row) else { return Vec::new() };
    let mut judged: Vec<Judged> = Vec::new();
    for pool in &stock.invalid_pools {
        let (driver, pool) = (pool.driver.clone(), pool.pool.clone());
        judged.push((false, Compared::InvalidDevicePool { driver, pool }));
    }
    for counted in &stock.requests {
        // Another alternative may do.
        let is_met = stock.requests.iter().any(|other| {
            (other.claim, other.request) == (counted.claim, counted.request) && other.is_met()
        });
        let account = account(plan, found, holders, counted);
        judged.push((is_met, Compared::Devices(Box::new(account))));
    }
    judged.extend(stock.constraints.iter().map(|counted| {
        let (claim, constraint) = (claim_name(found, counted.claim), counted.text.clone());
        let (asked, most) = (counted.n_asked, counted.n_found);
        (counted.is_met(), Compared::DeviceConstraint { claim, constraint, asked, found: most })
    }));
    judged
}

fn account(
    plan: &Filtering<'_, '_>,
    found: &Found<'_>,
    holders: &mut Holders,
    counted: &RequestStock<'_>,
) -> DeviceAccount {
    let held = counted.held.iter().take(N_LISTED);
    DeviceAccount {
        claim: claim_name(found, counted.claim),
        request: counted.name.clone(),
        class: counted.class.clone(),
        asked: (!counted.is_all).then_some(counted.n_asked),
        n_seen: counted.n_seen,
        n_of_class: counted.n_of_class,
        n_selected: counted.n_selected,
        n_with_capacity: counted.n_roomy,
        n_tolerated: counted.n_tolerated,
        n_drawable: counted.n_drawable,
        n_left: counted.left.len() as i64,
        selector: counted.refusing.and_then(|selector| expression(found, counted, selector)),
        holders: held.map(|device| holders.of(plan, device)).collect(),
    }
}

/// The name of a claim to allocate; the one for extended resources comes after all others and has none.
fn claim_name(found: &Found<'_>, claim: usize) -> Arc<str> {
    found.claims.to_allocate().nth(claim).map_or_else(|| "".into(), |own| own.key.name.clone())
}

/// A selector of a request as it is written.
fn expression(found: &Found<'_>, counted: &RequestStock<'_>, selector: usize) -> Option<Arc<str>> {
    let own = found.claims.to_allocate().nth(counted.claim)?;
    let devices = own.claim.object.spec.as_ref()?.devices.as_ref()?;
    let request = devices.requests.get(counted.request)?;
    let of = |selectors: &[resource_v1::DeviceSelector]| {
        let cel = selectors.get(selector)?.cel.as_ref()?;
        Some(clipped(&cel.expression))
    };
    match counted.alternative {
        None => of(&request.exactly.as_ref()?.selectors),
        Some(alternative) => of(&request.first_available.get(alternative)?.selectors),
    }
}

fn clipped(expression: &str) -> Arc<str> {
    match expression.char_indices().nth(MAX_EXPRESSION) {
        Some((end, _)) => format!("{}…", &expression[..end]).into(),
        None => expression.into(),
    }
}

impl Holders {
    /// Cost: a step for each claim of the cluster, once.
    fn of(&mut self, plan: &Filtering<'_, '_>, device: &Device) -> DeviceHolder {
        let devices = &plan.snapshot().devices;
        let holders = self.0.get_or_insert_with(|| {
            let mut holders = BTreeMap::new();
            for claim in devices.claims() {
                let results = claim.allocation.iter().flat_map(|own| &own.results);
                for result in results.filter(|result| !result.is_admin) {
                    let name = format!("{}/{}", claim.key.namespace, claim.key.name);
                    holders.entry(result.device).or_insert_with(|| name.into());
                }
            }
            holders
        });
        let claim = holders.get(&device.id).cloned().unwrap_or_else(|| "".into());
        DeviceHolder { device: device.name.clone(), claim }
    }
}
