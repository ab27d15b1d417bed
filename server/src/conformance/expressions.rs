//! Recorded expressions about devices: verdict and cost of each on each device.

use berth_engine::cel::{AttributeValue, Device, Program};
use berth_proto::resource_v1;
use serde::Deserialize;

use super::report::CaseReport;
use super::tally::{Aspect, Place};

/// The devices of a suite of expressions: its first line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Devices {
    devices: Vec<RecordedDevice>,
}

#[derive(Debug, Deserialize)]
struct RecordedDevice {
    driver: String,
    #[serde(flatten)]
    device: resource_v1::Device,
}

/// A recorded expression.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expression {
    expr: String,
    compile_error: Option<String>,
    #[serde(default)]
    results: Vec<Verdict>,
    #[serde(default)]
    cost: Vec<Option<u64>>,
}

/// A verdict, or the text of an error, which is informative.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Verdict {
    Holds(bool),
    Fails(#[expect(dead_code, reason = "informative")] String),
}

/// Evaluates one recorded expression on every device.
pub(super) fn replay(
    index: usize,
    line: &str,
    devices: &[Device],
) -> Result<CaseReport, serde_json::Error> {
    let recorded: Expression = serde_json::from_str(line)?;
    let mut report = CaseReport::new(&format!("expression {index}"));
    report.n_attempts = 1;
    let program = Program::compile(&recorded.expr);
    let text = |is_error: bool| if is_error { "a compile error" } else { "compiles" }.to_owned();
    let (expected, got) = (recorded.compile_error.is_some(), program.is_err());
    check(&mut report, None, Aspect::Verdicts, (expected == got, text(expected), text(got)));
    let Ok(program) = program else { return Ok(report) };
    for (i, device) in devices.iter().enumerate() {
        let (Some(verdict), cost) =
            (recorded.results.get(i), recorded.cost.get(i).copied().flatten())
        else {
            continue;
        };
        let evaluation = program.evaluate(device);
        let expected = match verdict {
            Verdict::Holds(holds) => Some(*holds),
            Verdict::Fails(_) => None,
        };
        let got = evaluation.result.as_ref().ok().copied();
        let shown =
            |verdict: Option<bool>| verdict.map_or("an error".to_owned(), |v| v.to_string());
        let of = (expected == got, shown(expected), shown(got));
        check(&mut report, Some(i), Aspect::Verdicts, of);
        // The cost of a macro over a map depends on the order in which it is walked.
        if let Some(cost) = cost.filter(|_| !walks_a_map(&recorded.expr)) {
            let of = (cost == evaluation.cost, cost.to_string(), evaluation.cost.to_string());
            check(&mut report, Some(i), Aspect::Costs, of);
        }
    }
    Ok(report)
}

fn check(
    report: &mut CaseReport,
    device: Option<usize>,
    aspect: Aspect,
    (is_equal, expected, got): (bool, String, String),
) {
    let node = || device.map(|device| format!("device {device}"));
    let place = || Place::Step { step: 0, node: node() };
    report.note(aspect, is_equal, place, || (expected, got));
}

impl Devices {
    /// The devices, prepared for expressions.
    pub(super) fn prepared(&self) -> Vec<Device> {
        self.devices.iter().map(RecordedDevice::prepared).collect()
    }
}

impl RecordedDevice {
    fn prepared(&self) -> Device {
        let device = &self.device;
        let attributes = device.attributes.iter().map(|(name, attribute)| {
            let resource_v1::DeviceAttribute { int, bool, string, version } = attribute;
            let value = match (int, bool, string, version) {
                (Some(int), ..) => AttributeValue::Int(*int),
                (_, Some(bool), ..) => AttributeValue::Bool(*bool),
                (_, _, Some(string), _) => AttributeValue::String(string),
                (_, _, _, Some(version)) => AttributeValue::Version(version),
                (None, None, None, None) => AttributeValue::Missing,
            };
            (name.as_str(), value)
        });
        let capacity = device.capacity.iter().map(|(name, capacity)| {
            (name.as_str(), capacity.value.as_ref().map_or("0", |value| value.as_str()))
        });
        let is_shareable = device.allow_multiple_allocations == Some(true);
        Device::new(&self.driver, is_shareable, attributes, capacity)
    }
}

/// Whether an expression has a macro over a map of the device.
fn walks_a_map(source: &str) -> bool {
    const MACROS: [&str; 6] =
        [".exists(", ".all(", ".exists_one(", ".map(", ".filter(", ".transform"];
    MACROS.iter().any(|name| {
        source.match_indices(name).any(|(at, _)| {
            let before = source[..at].rsplit("device.").next().unwrap_or_default();
            ["attributes", "capacity"].iter().any(|domain| before.starts_with(domain))
                && !before.contains(')')
        })
    })
}
