//! A device as its driver publishes it: attributes, capacities, taints, and the counters that it draws from.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::resource_v1;

use super::amount::{NamedAmounts, NotedAmount};
use super::id::DeviceId;
use super::node_selection::NodeSelection;
use super::text::{shared, shared_list};
use super::toleration::DeviceTaint;
use crate::model::ModelError;
use crate::model::intern::Interner;
use crate::model::label::clip;

/// A device of a slice.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    pub(crate) driver: Arc<str>,
    pub(crate) pool: Arc<str>,
    pub(crate) name: Arc<str>,
    /// The nodes that can use the device; read only if its slice leaves that to its devices.
    pub(crate) nodes: NodeSelection,
    /// Whether an allocation of the device is bound to the node that it was made for.
    pub(crate) binds_to_node: bool,
    /// Whether the device can be allocated several times.
    pub(crate) is_shareable: bool,
    /// Attributes by name as written, in the order of names.
    pub(crate) attributes: Box<[(Arc<str>, AttributeValue)]>,
    /// Capacities by name as written, in the order of names.
    pub(crate) capacities: Box<[(Arc<str>, DeviceCapacity)]>,
    /// Counters that the device draws from, by set, in order.
    pub(crate) consumes: Box<[CounterSet]>,
    pub(crate) taints: Box<[DeviceTaint]>,
    pub(crate) binding_conditions: Box<[Arc<str>]>,
    pub(crate) binding_failure_conditions: Box<[Arc<str>]>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AttributeValue {
    Int(i64),
    Bool(bool),
    String(Arc<str>),
    /// The text of a version, valid or not.
    Version(Arc<str>),
    /// No value of a known type.
    Unknown,
}

/// A capacity of a device.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DeviceCapacity {
    pub(crate) value: NotedAmount,
    pub(crate) policy: Option<RequestPolicy>,
}

/// Which amounts of a capacity may be requested.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RequestPolicy {
    /// The amount for requests that name none.
    pub(crate) default: Option<NotedAmount>,
    pub(crate) valid_values: Box<[NotedAmount]>,
    pub(crate) valid_range: Option<RequestRange>,
}

/// The range of amounts that may be requested.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RequestRange {
    pub(crate) min: Option<NotedAmount>,
    pub(crate) max: Option<NotedAmount>,
    pub(crate) step: Option<NotedAmount>,
}

/// Amounts of a set of counters: what a slice offers, or what a device draws.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CounterSet {
    pub(crate) name: Arc<str>,
    /// Amounts by counter, in the order of names.
    pub(crate) counters: NamedAmounts,
}

impl Device {
    /// Compiles a device of a driver's pool; errors begin at its own fields.
    pub(super) fn compile(
        device: &resource_v1::Device,
        driver: &str,
        pool: &str,
        names: &Interner,
    ) -> Result<Device, ModelError> {
        let selector = device.node_selector.as_ref();
        let nodes =
            NodeSelection::compile(device.node_name.as_ref(), device.all_nodes, selector, names);
        let attributes = device.attributes.iter();
        let capacities = device.capacity.iter().map(|(name, capacity)| {
            let compiled = DeviceCapacity::compile(capacity);
            let at = |error: ModelError| error.under(&format!("capacity[{}]", clip(name)));
            Ok((shared(name, names), compiled.map_err(at)?))
        });
        let consumes = device.consumes_counters.iter().enumerate().map(|(i, drawn)| {
            let set = CounterSet::compile(&drawn.counter_set, &drawn.counters, names);
            set.map_err(|error| error.under(&format!("consumesCounters[{i}]")))
        });
        Ok(Device {
            id: DeviceId::new(driver, pool, &device.name, names),
            driver: shared(driver, names),
            pool: shared(pool, names),
            name: shared(&device.name, names),
            nodes,
            binds_to_node: device.binds_to_node == Some(true),
            is_shareable: device.allow_multiple_allocations == Some(true),
            attributes: attributes
                .map(|(name, value)| (shared(name, names), AttributeValue::of(value)))
                .collect(),
            capacities: capacities.collect::<Result<_, ModelError>>()?,
            consumes: consumes.collect::<Result<_, _>>()?,
            taints: device.taints.iter().map(|t| DeviceTaint::compile(t, names)).collect(),
            binding_conditions: shared_list(&device.binding_conditions, names),
            binding_failure_conditions: shared_list(&device.binding_failure_conditions, names),
        })
    }
}

impl Device {
    /// The attribute of a name as a constraint writes it (S-DRA-56).
    pub(crate) fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        let of = |name: &str| {
            let at = self.attributes.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
            Some(&self.attributes[at].1)
        };
        of(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            (*domain == *self.driver).then(|| of(id)).flatten()
        })
    }
}

impl AttributeValue {
    fn of(attribute: &resource_v1::DeviceAttribute) -> AttributeValue {
        let resource_v1::DeviceAttribute { int, bool, string, version } = attribute;
        match (int, bool, string, version) {
            (Some(int), ..) => AttributeValue::Int(*int),
            (_, Some(bool), ..) => AttributeValue::Bool(*bool),
            (_, _, Some(string), _) => AttributeValue::String(string.as_str().into()),
            (_, _, _, Some(version)) => AttributeValue::Version(version.as_str().into()),
            (None, None, None, None) => AttributeValue::Unknown,
        }
    }
}

impl DeviceCapacity {
    fn compile(capacity: &resource_v1::DeviceCapacity) -> Result<DeviceCapacity, ModelError> {
        let policy = capacity.request_policy.as_ref().map(RequestPolicy::compile).transpose();
        Ok(DeviceCapacity {
            value: NotedAmount::compile(capacity.value.as_ref(), || "value".to_owned())?,
            policy: policy.map_err(|error| error.under("requestPolicy"))?,
        })
    }
}

impl RequestPolicy {
    fn compile(policy: &resource_v1::CapacityRequestPolicy) -> Result<RequestPolicy, ModelError> {
        let values = policy.valid_values.iter().enumerate();
        let value = |(i, value)| NotedAmount::compile(Some(value), || format!("validValues[{i}]"));
        let range = policy.valid_range.as_ref().map(RequestRange::compile).transpose();
        Ok(RequestPolicy {
            default: NotedAmount::optional(policy.default.as_ref(), || "default".to_owned())?,
            valid_values: values.map(value).collect::<Result<_, _>>()?,
            valid_range: range.map_err(|error| error.under("validRange"))?,
        })
    }
}

impl RequestRange {
    fn compile(
        range: &resource_v1::CapacityRequestPolicyRange,
    ) -> Result<RequestRange, ModelError> {
        Ok(RequestRange {
            min: NotedAmount::optional(range.min.as_ref(), || "min".to_owned())?,
            max: NotedAmount::optional(range.max.as_ref(), || "max".to_owned())?,
            step: NotedAmount::optional(range.step.as_ref(), || "step".to_owned())?,
        })
    }
}

impl CounterSet {
    /// Compiles a set of counters; errors begin at its own fields.
    pub(super) fn compile(
        name: &str,
        counters: &BTreeMap<String, resource_v1::Counter>,
        names: &Interner,
    ) -> Result<CounterSet, ModelError> {
        let amount = |(name, counter): (&String, &resource_v1::Counter)| {
            let at = || format!("counters[{}].value", clip(name));
            Ok((shared(name, names), NotedAmount::compile(counter.value.as_ref(), at)?))
        };
        let counters = counters.iter().map(amount).collect::<Result<_, ModelError>>()?;
        Ok(CounterSet { name: shared(name, names), counters })
    }
}
