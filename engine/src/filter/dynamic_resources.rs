//! DynamicResources: devices for the pod's claims. Rules: S-DRA-13 to S-DRA-26, implemented in `devices`.
//!
//! The plugin has two parts. The search for devices depends on the row alone, because a row changes with the devices of
//! its node; whether claims that are allocated already are available does not.

use super::reason::Reason;
use super::{
    Account, Filter, NodePods, PreFilterFailure, ReasonCounts, Refusal, Scope, none_resolvable,
    passes,
};
use crate::devices::claims::ClaimRefusal;
use crate::devices::outcome::Lack;
use crate::plugin::Plugin;
use crate::prepared::Prepared;
use crate::prepared::devices::Found;
use crate::rows::RowSet;
use crate::snapshot::shard::Shard;

/// Devices for the claims that have to be allocated. Evicting a pod frees none (S-DRA-27).
pub(crate) const FILTER: Filter = Filter {
    plugin: Plugin::DynamicResources,
    scope: Scope::Row,
    reads: NodePods::Nothing,
    pre_filter,
    applies: |prepared| prepared.devices().found().is_some_and(Found::is_searched),
    run,
    account: Account::ByRow { refusal, count, resolvable: none_resolvable },
};

/// The nodes of claims that are allocated already. An unsuccessful search comes first (S-DRA-25).
pub(crate) const CLAIMS: Filter = Filter {
    plugin: Plugin::DynamicResources,
    scope: Scope::Request,
    reads: NodePods::Nothing,
    pre_filter: passes,
    applies: |prepared| prepared.devices().found().is_some_and(Found::is_bound_to_nodes),
    run: run_claims,
    account: Account::Always(Reason::ClaimNotAvailable),
};

/// Refuses or fails the pod as a whole (S-DRA-14, S-DRA-16 to S-DRA-18).
fn pre_filter(prepared: &Prepared<'_>) -> Result<(), PreFilterFailure> {
    let Some(found) = prepared.devices().found() else { return Ok(()) };
    if let Some(why) = &found.claims.unready {
        return Err(PreFilterFailure::Refused(why.clone()));
    }
    match &found.claims.refusal {
        Some(ClaimRefusal::Refused(why)) => Err(PreFilterFailure::Refused(why.clone())),
        Some(ClaimRefusal::Error(why)) => Err(PreFilterFailure::Error(why.clone())),
        None => Ok(()),
    }
}

/// Clears the rows whose nodes lack devices. Rows on which an error ends the search stay; the error is noted.
fn run(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(found) = prepared.devices().found() else { return };
    let (all, fit) = (*rows, found.fit(shard));
    let lacks = |row: &usize| found.lack(fit.as_ref(), shard, *row).is_some();
    all.iter().filter(lacks).for_each(|row| rows.remove(row));
}

fn run_claims(prepared: &Prepared<'_>, shard: &Shard, rows: &mut RowSet) {
    let Some(found) = prepared.devices().found() else { return };
    // An error of the search comes first (S-DRA-24, S-DRA-25).
    let failed = prepared.devices().failed_rows(shard);
    rows.subtract(&found.unavailable(shard, *rows).without(&failed));
}

/// Why each of some refused rows is refused.
fn reasons<'a>(
    prepared: &'a Prepared<'_>,
    shard: &'a Shard,
    refused: &'a RowSet,
) -> impl Iterator<Item = Reason> + 'a {
    let found = prepared.devices().found();
    let fit = found.and_then(|found| found.fit(shard));
    refused.iter().map(move |row| {
        match found.and_then(|found| found.lack(fit.as_ref(), shard, row)) {
            None | Some(Lack::Devices) => Reason::NoDevices,
            Some(Lack::InvalidPools) => Reason::InvalidResourcePools,
            Some(Lack::ExtendedClaimExists) => Reason::ExtendedClaimExists,
            Some(Lack::ExtendedResource) => Reason::ExtendedResource,
        }
    })
}

fn refusal(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Refusal {
    let refused = std::iter::once(row).collect();
    let reason = reasons(prepared, shard, &refused).next();
    Refusal::of(reason.unwrap_or(Reason::NoDevices))
}

fn count(prepared: &Prepared<'_>, shard: &Shard, refused: &RowSet, counts: &mut ReasonCounts) {
    reasons(prepared, shard, refused).for_each(|reason| counts.add(reason, 1));
}
