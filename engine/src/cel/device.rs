//! The device that expressions are evaluated on (S-DRA-110 to S-DRA-112).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::amount::ExactAmount;
use super::error::EvalError;
use super::semver::Semver;
use super::value::{Key, Map, Value};

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// An integer.
    Int(i64),
    /// A bool.
    Bool(bool),
    /// A text.
    String(&'a str),
    /// A semantic version as written.
    Version(&'a str),
    /// An attribute without a value that is supported.
    Missing,
}

/// A device, prepared once and evaluated many times.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) value: Result<Value, EvalError>,
}

impl Device {
    /// Prepares a device of a driver.
    ///
    /// Names of attributes and capacities are split at the first `/` into domain and id; a name without one belongs to
    /// the driver's domain (S-DRA-111). Capacities are texts of quantities. An attribute or a capacity that cannot be
    /// converted makes every expression fail on the device (S-DRA-112); which one of several is reported is not
    /// determined upstream, and is the first in order of names here (S-DRA-120).
    pub fn new<'a>(
        driver: &str,
        allows_multiple_allocations: bool,
        attributes: impl IntoIterator<Item = (&'a str, AttributeValue<'a>)>,
        capacity: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Device {
        let attributes = attributes.into_iter().collect::<BTreeMap<_, _>>();
        let attributes = domains(driver, attributes, |value| {
            attribute(value).map_err(|reason| ("attribute", reason))
        });
        let capacity = capacity.into_iter().collect::<BTreeMap<_, _>>();
        let capacity = domains(driver, capacity, |text| {
            let amount = ExactAmount::parse(text).map(Value::Quantity);
            amount.map_err(|error| ("capacity", error.to_string()))
        });
        let value = attributes.and_then(|attributes| {
            let fields = [
                ("driver", Value::string(driver)),
                ("allowMultipleAllocations", Value::Bool(allows_multiple_allocations)),
                ("attributes", attributes),
                ("capacity", capacity?),
            ];
            let fields = fields.map(|(name, value)| (Key::String(name.into()), value));
            Ok(Value::map(BTreeMap::from(fields)))
        });
        Device { value }
    }
}

/// Whether a version can be converted; one that cannot makes every expression fail on its device.
pub(crate) fn is_version(text: &str) -> bool {
    Semver::parse(text).is_ok()
}

/// Whether a capacity can be converted.
pub(crate) fn is_amount(text: &str) -> bool {
    ExactAmount::parse(text).is_ok()
}

/// Sorts values by domain and id. Domains without values are empty maps for whoever looks them up.
fn domains<T>(
    driver: &str,
    values: BTreeMap<&str, T>,
    convert: impl Fn(T) -> Result<Value, (&'static str, String)>,
) -> Result<Value, EvalError> {
    let mut domains: BTreeMap<Key, BTreeMap<Key, Value>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        let value = convert(value)
            .map_err(|(kind, reason)| EvalError::Device(format!("{kind} {name}: {reason}")))?;
        domains
            .entry(Key::String(domain.into()))
            .or_default()
            .insert(Key::String(id.into()), value);
    }
    let entries =
        domains.into_iter().map(|(domain, values)| (domain, Value::map(values))).collect();
    let absent = Some(Value::map(BTreeMap::new()));
    Ok(Value::Map(Arc::new(Map { entries, absent })))
}

fn attribute(value: AttributeValue<'_>) -> Result<Value, String> {
    match value {
        AttributeValue::Int(value) => Ok(Value::Int(value)),
        AttributeValue::Bool(value) => Ok(Value::Bool(value)),
        AttributeValue::String(text) => Ok(Value::string(text)),
        AttributeValue::Version(text) => Semver::parse(text)
            .map(|version| Value::Semver(Arc::new(version)))
            .map_err(|reason| format!("parse semantic version: {reason}")),
        AttributeValue::Missing => Err("unsupported attribute value".to_owned()),
    }
}
