//! Requests of a claim: how many devices of which class, and what each of them has to be.

use std::sync::Arc;

use berth_proto::resource_v1;

use super::amount::{NamedAmounts, amounts};
use super::selector::{DeviceSelector, SelectorTable, selectors};
use super::text::shared;
use super::toleration::DeviceToleration;
use crate::model::ModelError;
use crate::model::intern::Interner;

/// A request of a claim. A valid one has either `exactly` or alternatives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceRequest {
    pub(crate) name: Arc<str>,
    pub(crate) exactly: Option<DeviceDemand>,
    /// Alternatives, of which the first that can be allocated is taken.
    pub(crate) first_available: Box<[DeviceAlternative]>,
}

/// An alternative of a request (a subrequest).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceAlternative {
    pub(crate) name: Arc<str>,
    pub(crate) demand: DeviceDemand,
}

/// The devices that a request or an alternative asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeviceDemand {
    /// Name of the class; empty where it is missing.
    pub(crate) class: Arc<str>,
    pub(crate) selectors: Box<[DeviceSelector]>,
    pub(crate) mode: AllocationMode,
    pub(crate) count: i64,
    pub(crate) is_admin: bool,
    pub(crate) tolerations: Box<[DeviceToleration]>,
    /// Amounts asked of each device, by the name of the capacity.
    pub(crate) capacity: NamedAmounts,
}

/// Number of devices that a request asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum AllocationMode {
    ExactCount,
    All,
    /// Another word, or none.
    Unknown(Arc<str>),
}

impl DeviceRequest {
    /// Compiles a request; errors begin at its own fields.
    pub(crate) fn compile(
        request: &resource_v1::DeviceRequest,
        names: &Interner,
        table: &SelectorTable,
    ) -> Result<DeviceRequest, ModelError> {
        let exactly = request.exactly.as_ref();
        let exactly =
            exactly.map(|exactly| DeviceDemand::exactly(exactly, names, table)).transpose();
        let alternatives = request.first_available.iter().enumerate();
        let alternative = |(i, alternative)| {
            let compiled = DeviceAlternative::compile(alternative, names, table);
            compiled.map_err(|error| error.under(&format!("firstAvailable[{i}]")))
        };
        Ok(DeviceRequest {
            name: shared(&request.name, names),
            exactly: exactly.map_err(|error| error.under("exactly"))?,
            first_available: alternatives.map(alternative).collect::<Result<_, _>>()?,
        })
    }
}

impl DeviceAlternative {
    fn compile(
        alternative: &resource_v1::DeviceSubRequest,
        names: &Interner,
        table: &SelectorTable,
    ) -> Result<DeviceAlternative, ModelError> {
        let capacity = requested(alternative.capacity.as_ref(), names)?;
        Ok(DeviceAlternative {
            name: shared(&alternative.name, names),
            demand: DeviceDemand {
                class: shared(&alternative.device_class_name, names),
                selectors: selectors(&alternative.selectors, table),
                mode: AllocationMode::of(&alternative.allocation_mode),
                count: alternative.count,
                is_admin: false,
                tolerations: tolerations(&alternative.tolerations, names),
                capacity,
            },
        })
    }
}

impl DeviceDemand {
    fn exactly(
        request: &resource_v1::ExactDeviceRequest,
        names: &Interner,
        table: &SelectorTable,
    ) -> Result<DeviceDemand, ModelError> {
        Ok(DeviceDemand {
            class: shared(&request.device_class_name, names),
            selectors: selectors(&request.selectors, table),
            mode: AllocationMode::of(&request.allocation_mode),
            count: request.count,
            is_admin: request.admin_access == Some(true),
            tolerations: tolerations(&request.tolerations, names),
            capacity: requested(request.capacity.as_ref(), names)?,
        })
    }
}

impl AllocationMode {
    fn of(word: &str) -> AllocationMode {
        match word {
            "ExactCount" => AllocationMode::ExactCount,
            "All" => AllocationMode::All,
            other => AllocationMode::Unknown(other.into()),
        }
    }
}

fn tolerations(
    list: &[resource_v1::DeviceToleration],
    names: &Interner,
) -> Box<[DeviceToleration]> {
    list.iter().map(|toleration| DeviceToleration::compile(toleration, names)).collect()
}

fn requested(
    capacity: Option<&resource_v1::CapacityRequirements>,
    names: &Interner,
) -> Result<NamedAmounts, ModelError> {
    match capacity {
        Some(capacity) => amounts(&capacity.requests, "capacity.requests", names),
        None => Ok(Box::default()),
    }
}
