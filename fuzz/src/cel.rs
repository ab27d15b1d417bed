//! Expressions about devices: compiled, and evaluated on devices with values of every type.

use berth_engine::cel::{AttributeValue, CompileError, Device, Evaluation, Program};

/// Limit of the cost of an evaluation.
const COST_LIMIT: u64 = 1_000_000;

/// Checks the bytes as an expression.
pub fn run(data: &[u8]) {
    let Ok(source) = str::from_utf8(data) else { return };
    let program = match Program::compile(source) {
        Ok(program) => program,
        Err(error) => return check_refusal(source, &error),
    };
    for device in [full(), empty(), broken()] {
        let evaluation = program.evaluate(&device);
        let is_within = evaluation.cost <= COST_LIMIT || evaluation.result.is_err();
        assert!(is_within, "`{source}` costs {}", evaluation.cost);
        check_repetition(source, &device, &evaluation);
    }
}

/// Checks that a second compilation and evaluation have the same outcome.
fn check_repetition(source: &str, device: &Device, first: &Evaluation) {
    let again = Program::compile(source).unwrap().evaluate(device);
    assert_eq!(again, *first, "`{source}`");
}

/// Checks that a refusal has a place inside the expression.
fn check_refusal(source: &str, error: &CompileError) {
    assert!(!error.to_string().is_empty());
    if let CompileError::Invalid { line, column, .. } = error {
        let n_lines = source.split('\n').count();
        assert!((1..=n_lines).contains(line), "`{source}`: line {line}");
        assert!((1..=source.chars().count() + 1).contains(column), "`{source}`: column {column}");
    }
}

fn full() -> Device {
    let attributes = [
        ("model", AttributeValue::String("H100")),
        ("index", AttributeValue::Int(3)),
        ("healthy", AttributeValue::Bool(true)),
        ("vendor.org/driverVersion", AttributeValue::Version("1.2.3-rc.1")),
    ];
    let capacity = [("memory", "80Gi"), ("vendor.org/bandwidth", "1.5")];
    Device::new("gpu.example.com", true, attributes, capacity)
}

fn empty() -> Device {
    Device::new("acme.io", false, [], [])
}

fn broken() -> Device {
    Device::new("acme.io", false, [("version", AttributeValue::Version("1"))], [])
}
