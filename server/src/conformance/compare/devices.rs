//! Compares what the engine gives to claims for devices with the record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_engine::{
    AssignedDevices, EXTENDED_CLAIM, Explanation, GivenUp, NodeVerdict, PreBind, PreBindError,
    Verdict,
};
use berth_proto::resource_v1::{AllocationResult, ResourceClaim};

use super::super::case::{Expect, ExtendedRequests};
use super::super::tally::Aspect;
use super::{Comparison, EngineResults};

/// How the record writes the id of a share, which is random.
const ANY_SHARE: &str = "*";

impl Comparison<'_> {
    pub(super) fn devices(
        &mut self,
        expect: &Expect,
        explained: &Explanation,
        results: &EngineResults,
    ) {
        self.allocations(expect, explained);
        if let Some(written) = &results.pre_bind {
            self.reservations(expect, written, results);
        }
        self.deallocations(expect, results);
    }

    /// Compares the devices that each feasible node gives, where the record has them.
    fn allocations(&mut self, expect: &Expect, explained: &Explanation) {
        let namespace = &explained.decision.pod.namespace;
        for NodeVerdict { node, verdict } in &explained.nodes {
            let Verdict::Feasible { devices, .. } = verdict else { continue };
            if let Some(expected) = &expect.allocations {
                let expected = expected.get(&**node).cloned();
                // Of many nodes only the best are recorded.
                if expected.is_none() && explained.nodes.len() > 12 {
                    continue;
                }
                let got = devices.as_ref().map(|devices| allocations(namespace, devices));
                let (expected, got) = (expected.unwrap_or_default(), got.unwrap_or_default());
                self.check(Aspect::Allocations, Some(node), &expected, &got, json);
            }
            let expected = expect.extended.get(&**node);
            let got = devices.as_ref().and_then(|devices| devices.extended.as_ref());
            let got = got.map(|extended| ExtendedRequests {
                requests: extended.requests.clone(),
                mappings: extended.mappings.clone(),
            });
            let is_told = got.as_ref().is_some_and(|got| !got.requests.is_empty());
            if expected.is_some() || is_told && !expect.extended.is_empty() {
                self.check(
                    Aspect::ExtendedRequests,
                    Some(node),
                    &expected,
                    &got.as_ref(),
                    |found| format!("{found:?}"),
                );
            }
        }
    }

    /// Compares the claims as PreBind writes them.
    fn reservations(
        &mut self,
        expect: &Expect,
        written: &Result<PreBind, PreBindError>,
        results: &EngineResults,
    ) {
        let node = expect.bind.as_deref();
        let fails = written.as_ref().err().map(|error| error.to_string());
        let expected = expect.pre_bind.as_ref().map(|failed| failed.error.as_str());
        if expected.is_some() || fails.is_some() {
            let (expected, got) = (expected.is_some(), fails.is_some());
            self.check(Aspect::Reservations, node, &expected, &got, |is_failed| {
                format!("fails: {is_failed} ({fails:?})")
            });
            return;
        }
        let Ok(written) = written else { return };
        let got = written.claims.iter().chain(&written.extended);
        if expect.bind.is_some() {
            self.claims(node, &expect.claims, got);
        } else {
            self.claims(node, &expect.reserved, got);
            self.claims(node, &expect.claims, &results.unreserved);
        }
    }

    fn claims<'c>(
        &mut self,
        node: Option<&str>,
        expected: &[ResourceClaim],
        got: impl IntoIterator<Item = &'c ResourceClaim>,
    ) {
        let expected: BTreeMap<String, ResourceClaim> = expected.iter().map(named).collect();
        let got: BTreeMap<String, ResourceClaim> = got.into_iter().map(named).collect();
        if !expected.is_empty() || !got.is_empty() {
            self.check(Aspect::Reservations, node, &expected, &got, json);
        }
    }

    /// Compares what PostFilter may deallocate or delete.
    fn deallocations(&mut self, expect: &Expect, results: &EngineResults) {
        let Ok(attempt) = &results.attempted else { return };
        let Some(post_filter) = &attempt.post_filter else { return };
        let namespace = &attempt.decision.pod.namespace;
        let key = |name: &Arc<str>| format!("{namespace}/{name}");
        let got: BTreeSet<String> = match &post_filter.given_up {
            GivenUp::Nothing => BTreeSet::new(),
            GivenUp::OneOf(names) => names.iter().map(key).collect(),
            GivenUp::Extended(name) => [key(name)].into(),
        };
        let expected = expect.deallocate.iter().chain(&expect.claims_deleted).cloned();
        let expected: BTreeSet<String> = expected.collect();
        if !expected.is_empty() || !got.is_empty() {
            self.check(Aspect::Deallocations, None, &expected, &got, |names| format!("{names:?}"));
        }
    }
}

/// Allocations by `namespace/name` of their claims, as the record writes them.
fn allocations(namespace: &str, devices: &AssignedDevices) -> BTreeMap<String, AllocationResult> {
    let named = devices.claims.iter().map(|own| (&*own.claim, &own.allocation));
    let extended = devices.extended.iter().map(|own| (EXTENDED_CLAIM, &own.allocation));
    let all = named.chain(extended);
    all.map(|(name, allocation)| (format!("{namespace}/{name}"), any_shares(allocation))).collect()
}

fn any_shares(allocation: &AllocationResult) -> AllocationResult {
    let mut allocation = allocation.clone();
    for result in allocation.devices.iter_mut().flat_map(|devices| &mut devices.results) {
        if let Some(share) = &mut result.share_id {
            ANY_SHARE.clone_into(share);
        }
    }
    allocation
}

/// A claim by its name, without what the API server or chance chooses.
fn named(claim: &ResourceClaim) -> (String, ResourceClaim) {
    let mut claim = claim.clone();
    let metadata = claim.metadata.get_or_insert_default();
    if !metadata.generate_name.is_empty() {
        metadata.name.clear();
        metadata.uid.clear();
    }
    metadata.resource_version.clear();
    let key = format!("{}/{}", metadata.namespace, metadata.name);
    if let Some(allocation) = claim.status.as_mut().and_then(|status| status.allocation.as_mut()) {
        *allocation = any_shares(allocation);
    }
    (key, claim)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| error.to_string())
}
