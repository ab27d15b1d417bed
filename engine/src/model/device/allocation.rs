//! The allocation of a claim: its devices, and the nodes on which they can be used.

use std::sync::Arc;

use berth_proto::resource_v1;

use super::amount::{NamedAmounts, amounts};
use super::id::{DeviceId, PoolKey};
use super::node_selection::DeviceNodeSelector;
use super::text::{shared, shared_list};
use crate::model::ModelError;
use crate::model::intern::Interner;

/// Devices allocated to a claim.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Allocation {
    /// Allocated devices, in the order of their allocation.
    pub(crate) results: Box<[AllocatedDevice]>,
    /// The nodes on which the devices can be used; `None` means every node.
    pub(crate) node_selector: Option<Arc<DeviceNodeSelector>>,
    /// `allocationTimestamp` in seconds since 1970.
    pub(crate) allocated_at: Option<i64>,
}

/// A device that is allocated to a claim.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AllocatedDevice {
    pub(crate) device: DeviceId,
    pub(crate) pool: PoolKey,
    /// `REQUEST` or `REQUEST/SUBREQUEST`.
    pub(crate) request: Arc<str>,
    /// Whether the device is used for administration only, which leaves it free for others.
    pub(crate) is_admin: bool,
    /// Identity of the share of a device that is allocated several times; `None` where the device is allocated
    /// exclusively.
    pub(crate) share: Option<Arc<str>>,
    /// Amounts taken of the device's capacities, by name; they count only for a share.
    pub(crate) consumed: NamedAmounts,
    pub(crate) binding_conditions: Box<[Arc<str>]>,
    pub(crate) binding_failure_conditions: Box<[Arc<str>]>,
}

/// Status of an allocated device as its driver reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeviceStatus {
    pub(crate) device: DeviceId,
    pub(crate) conditions: Box<[DeviceCondition]>,
}

/// A condition of an allocated device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeviceCondition {
    pub(crate) name: Arc<str>,
    pub(crate) is_true: bool,
    pub(crate) reason: Arc<str>,
    pub(crate) message: Arc<str>,
}

impl Allocation {
    /// Compiles an allocation; errors begin at its own fields.
    pub(crate) fn compile(
        allocation: &resource_v1::AllocationResult,
        names: &Interner,
    ) -> Result<Allocation, ModelError> {
        let results = allocation.devices.as_ref().map_or(&[][..], |devices| &devices.results);
        let results = results.iter().enumerate().map(|(i, result)| {
            let compiled = AllocatedDevice::compile(result, names);
            compiled.map_err(|error| error.under(&format!("devices.results[{i}]")))
        });
        let selector = allocation.node_selector.as_ref();
        Ok(Allocation {
            results: results.collect::<Result<_, _>>()?,
            node_selector: selector.map(|selector| DeviceNodeSelector::compile(selector, names)),
            allocated_at: allocation.allocation_timestamp.and_then(|time| time.unix_seconds()),
        })
    }
}

impl AllocatedDevice {
    fn compile(
        result: &resource_v1::DeviceRequestAllocationResult,
        names: &Interner,
    ) -> Result<AllocatedDevice, ModelError> {
        Ok(AllocatedDevice {
            device: DeviceId::new(&result.driver, &result.pool, &result.device, names),
            pool: PoolKey {
                driver: shared(&result.driver, names),
                pool: shared(&result.pool, names),
            },
            request: shared(&result.request, names),
            is_admin: result.admin_access == Some(true),
            share: result.share_id.as_deref().map(Arc::from),
            consumed: amounts(&result.consumed_capacity, "consumedCapacity", names)?,
            binding_conditions: shared_list(&result.binding_conditions, names),
            binding_failure_conditions: shared_list(&result.binding_failure_conditions, names),
        })
    }
}

impl DeviceStatus {
    pub(super) fn compile(
        status: &resource_v1::AllocatedDeviceStatus,
        names: &Interner,
    ) -> DeviceStatus {
        let conditions = status.conditions.iter().map(|condition| DeviceCondition {
            name: shared(&condition.r#type, names),
            is_true: condition.status == "True",
            reason: condition.reason.as_str().into(),
            message: condition.message.as_str().into(),
        });
        DeviceStatus {
            device: DeviceId::new(&status.driver, &status.pool, &status.device, names),
            conditions: conditions.collect(),
        }
    }
}
