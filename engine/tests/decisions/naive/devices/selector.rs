//! Selectors: a few expressions, each with its meaning as a function. CEL itself is compared with recordings elsewhere.
//! Rules: S-DRA-51, S-DRA-111.

use berth_proto::resource_v1::Device;

use crate::naive::quantity::nanos;

/// Whether an expression selects a device, given the device's driver; `None` for a runtime error.
type Meaning = fn(&str, &Device) -> Option<bool>;

/// Expressions and what they mean.
pub(crate) const EXPRESSIONS: [(&str, Meaning); 7] = [
    ("true", |_, _| Some(true)),
    ("device.driver == 'd0.io'", |driver, _| Some(driver == "d0.io")),
    ("device.attributes['d0.io'].?model.orValue('') == 'a'", |driver, device| {
        Some(driver == "d0.io" && model(device) == Some("a"))
    }),
    ("device.attributes[device.driver].model == 'a'", |_, device| Some(model(device)? == "a")),
    ("device.allowMultipleAllocations", |_, device| {
        Some(device.allow_multiple_allocations == Some(true))
    }),
    ("!device.allowMultipleAllocations", |_, device| {
        Some(device.allow_multiple_allocations != Some(true))
    }),
    ("device.capacity[device.driver].memory.isGreaterThan(quantity('3'))", |_, device| {
        let memory = device.capacity.get("memory")?.value.as_ref()?;
        Some(nanos(memory) > nanos(&"3".into()))
    }),
];

fn model(device: &Device) -> Option<&str> {
    device.attributes.get("model")?.string.as_deref()
}

/// The verdict of an expression of the list.
pub(super) fn verdict(expression: &str, driver: &str, device: &Device) -> Option<bool> {
    let known = EXPRESSIONS.iter().find(|(text, _)| *text == expression);
    known.expect("an expression of the list").1(driver, device)
}
