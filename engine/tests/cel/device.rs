//! Devices from their JSON form.

use berth_engine::cel::{AttributeValue, Device};
use serde_json::Value;

/// Reads a device: `driver`, `attributes`, `capacity` and `allowMultipleAllocations`.
pub(crate) fn read(device: &Value) -> Device {
    let fields = |name: &str| device[name].as_object().into_iter().flatten();
    Device::new(
        device["driver"].as_str().unwrap_or_default(),
        device["allowMultipleAllocations"].as_bool().unwrap_or_default(),
        fields("attributes").map(|(name, value)| (name.as_str(), attribute(value))),
        fields("capacity").map(|(name, value)| (name.as_str(), value["value"].as_str().unwrap())),
    )
}

fn attribute(value: &Value) -> AttributeValue<'_> {
    if let Some(int) = value["int"].as_i64() {
        AttributeValue::Int(int)
    } else if let Some(bool) = value["bool"].as_bool() {
        AttributeValue::Bool(bool)
    } else if let Some(text) = value["string"].as_str() {
        AttributeValue::String(text)
    } else if let Some(text) = value["version"].as_str() {
        AttributeValue::Version(text)
    } else {
        AttributeValue::Missing
    }
}
