//! Asked: what the claims to allocate ask for, checked once before the nodes are searched. Rules: S-DRA-18, S-DRA-40 to
//! S-DRA-43.

use std::sync::Arc;

use super::Fatal;
use crate::model::device::class::DeviceClass;
use crate::model::device::constraint::{ConstraintRule, DeviceConstraint};
use crate::model::device::request::{AllocationMode, DeviceDemand, DeviceRequest};
use crate::model::device::selector::DeviceSelector;
use crate::model::key::ClaimKey;
use crate::snapshot::devices::Devices;

/// Most devices of one claim (S-DRA-42).
pub(crate) const MAX_RESULTS: i64 = 32;

/// The demands of a claim to allocate.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) key: ClaimKey,
    pub(crate) requests: Vec<AskedRequest<'a>>,
    pub(crate) constraints: &'a [DeviceConstraint],
}

/// A request: one demand, or alternatives in their order.
#[derive(Debug)]
pub(crate) struct AskedRequest<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) has_alternatives: bool,
    pub(crate) demands: Vec<AskedDemand<'a>>,
}

/// A demand with its class.
#[derive(Debug)]
pub(crate) struct AskedDemand<'a> {
    /// The alternative's name.
    pub(crate) alternative: Option<&'a Arc<str>>,
    pub(crate) demand: &'a DeviceDemand,
    pub(crate) class: &'a DeviceClass,
}

impl<'a> Asked<'a> {
    /// Checks what a claim asks for (S-DRA-40, S-DRA-43), apart from what depends on the node.
    pub(crate) fn of(
        key: ClaimKey,
        requests: &'a [DeviceRequest],
        constraints: &'a [DeviceConstraint],
        devices: &'a Devices,
    ) -> Result<Asked<'a>, Fatal> {
        let requests = requests.iter().map(|request| AskedRequest::of(request, &key, devices));
        let requests = requests.collect::<Result<_, _>>()?;
        let unknown = constraints.iter().position(|c| c.rule == ConstraintRule::Unknown);
        if let Some(i) = unknown {
            let reason = "empty constraint (unsupported constraint type?)";
            return Err(Fatal(format!("claim {key}, constraint #{i}: {reason}")));
        }
        Ok(Asked { key, requests, constraints })
    }
}

impl<'a> AskedRequest<'a> {
    fn of(
        request: &'a DeviceRequest,
        claim: &ClaimKey,
        devices: &'a Devices,
    ) -> Result<AskedRequest<'a>, Fatal> {
        let demand = |name: &Arc<str>, alternative, demand: &'a DeviceDemand| {
            let fail = |what: String| Fatal(format!("claim {claim}, request {name}{what}"));
            let class = check(demand, devices).map_err(fail)?;
            Ok(AskedDemand { alternative, demand, class })
        };
        let has_alternatives = !request.first_available.is_empty();
        let demands: Result<Vec<_>, Fatal> = if has_alternatives {
            let alternatives = request.first_available.iter();
            alternatives.map(|own| demand(&own.name, Some(&own.name), &own.demand)).collect()
        } else {
            request.exactly.iter().map(|exactly| demand(&request.name, None, exactly)).collect()
        };
        let demands = demands?;
        if demands.is_empty() {
            let reason = "missing device class name (unsupported request type?)";
            return Err(Fatal(format!("claim {claim}, request {}: {reason}", request.name)));
        }
        Ok(AskedRequest { name: &request.name, has_alternatives, demands })
    }
}

impl<'a> AskedDemand<'a> {
    /// Conditions on a device: the class's, then the request's (S-DRA-51).
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &'a DeviceSelector> + use<'a> {
        self.class.selectors.iter().chain(&self.demand.selectors)
    }
}

/// The class of a demand; an error continues `claim NS/CLAIM, request R`.
fn check<'a>(demand: &DeviceDemand, devices: &'a Devices) -> Result<&'a DeviceClass, String> {
    if let Some(i) = demand.selectors.iter().position(|selector| selector.0.is_none()) {
        return Err(format!(", selector #{i}: CEL expression empty (unsupported selector type?)"));
    }
    if demand.class.is_empty() {
        return Err(": missing device class name (unsupported request type?)".to_owned());
    }
    let Some(class) = devices.class(&demand.class) else {
        let name = &demand.class;
        return Err(format!(
            ": could not retrieve device class {name}: deviceclass.resource.k8s.io \"{name}\" not found"
        ));
    };
    if let AllocationMode::Unknown(mode) = &demand.mode {
        return Err(format!(": unsupported count mode {mode}"));
    }
    Ok(class)
}
