//! Our own examples: expressions with their results and costs on two devices.

use berth_engine::cel::{AttributeValue, Device, EvalError, MAX_EXPRESSION_BYTES, Program};

/// A device with an attribute of each type, two domains and two capacities.
fn gpu() -> Device {
    let attributes = [
        ("model", AttributeValue::String("H100")),
        ("index", AttributeValue::Int(3)),
        ("healthy", AttributeValue::Bool(true)),
        ("driverVersion", AttributeValue::Version("1.2.3")),
        ("vendor.org/pcieRoot", AttributeValue::String("pci0")),
    ];
    let capacity = [("memory", "80Gi"), ("vendor.org/bandwidth", "100G")];
    Device::new("gpu.example.com", false, attributes, capacity)
}

/// S-DRA-110 to S-DRA-118: results and costs.
#[test]
fn results_and_costs() {
    const TRUE: &[(&str, u64)] = &[
        (r#"device.driver == "gpu.example.com""#, 4),
        ("!device.allowMultipleAllocations", 3),
        (r#"device.attributes["gpu.example.com"].model == "H100""#, 5),
        (r#"device.attributes["gpu.example.com"].?model.orValue("none") in ["H100", "A100"]"#, 4),
        (r#"device.attributes["gpu.example.com"].?missing.orValue(1) == 1"#, 4),
        (r#"has(device.attributes["vendor.org"].pcieRoot)"#, 3),
        (r#"!has(device.attributes["nosuch.example.org"].x)"#, 4),
        (r#"!("nosuch.example.org" in device.attributes)"#, 4),
        (r#"device.attributes["nosuch.example.org"].size() == 0"#, 5),
        (r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0"#, 7),
        (r#"device.capacity["gpu.example.com"].memory.asInteger() == 85899345920"#, 6),
        (r#"quantity("1") == quantity("1000m")"#, 3),
        (r#"sign(quantity("-1")) == -1"#, 3),
        (r#"device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("v2", true))"#, 6),
        (r#"semver("1.0.0+a") == semver("1.0.0")"#, 3),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && 1 < 1.5", 3),
        ("true || device.attributes[\"a\"].b", 0),
        ("device.attributes[\"a\"].b || true", 4),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("[1, 2, 3].exists_one(x, x == 2)", 10),
        ("[1, 2].map(x, x * 2) == [2, 4]", 30),
        ("cel.bind(a, device.driver, true)", 0),
        ("(true ? device.driver : \"\") == \"gpu.example.com\"", 3),
    ];
    for (source, cost) in TRUE {
        let evaluation = Program::compile(source).unwrap().evaluate(&gpu());
        assert_eq!((evaluation.result, evaluation.cost), (Ok(true), *cost), "{source}");
    }
}

/// S-DRA-111 to S-DRA-118: expressions that compile and fail.
#[test]
fn failures() {
    for (source, error) in [
        (r#"device.attributes["gpu.example.com"].missing == 1"#, "no such key: missing"),
        (r#"device.attributes["gpu.example.com"].index.contains("x")"#, "no such overload"),
        ("1 / (device.attributes[\"gpu.example.com\"].index - 3) == 0", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        (r#"quantity("x") == quantity("1")"#, "quantities must match"),
        (r#"quantity("1.5").asInteger() == 1"#, "cannot convert value to integer"),
        (r#"device.attributes["gpu.example.com"].model"#, "could not be converted to bool"),
        ("lists.range(1000).all(x, lists.range(1000).all(y, true))", "cost limit exceeded"),
    ] {
        let evaluation = Program::compile(source).unwrap().evaluate(&gpu());
        let text = evaluation.result.unwrap_err().to_string();
        assert!(text.contains(error), "{source}: {text}");
    }
}

/// S-DRA-110, S-DRA-113 to S-DRA-116, S-DRA-119: expressions that do not compile.
#[test]
fn compile_errors() {
    for source in [
        "device.name == \"x\"",
        "device.driver",
        "dyn(true)",
        "[1, \"a\"].size() == 2",
        "[device.driver, device.attributes[\"a\"].b].size() == 2",
        "device.driver.matches(\"(\")",
        "duration(\"x\") == duration(\"1s\")",
        "int(\"x\") == 1",
        "quantity(\"1\").sign() == 1",
        "math.greatest(1, 2) == 2",
        "\"abc\".reverse() == \"cba\"",
        "device.attributes[\"a\"].b.all(x, true)",
        "device.driver ==",
        "has(device)",
        "[1].all(1, true)",
        "x",
    ] {
        assert!(Program::compile(source).is_err(), "{source}");
    }
    let long = " ".repeat(MAX_EXPRESSION_BYTES + 1);
    assert!(Program::compile(&long).unwrap_err().to_string().contains("is longer than"));
}

/// S-DRA-112, S-DRA-120: a value that cannot be converted makes every expression fail.
#[test]
fn a_broken_attribute_breaks_every_expression() {
    let program = Program::compile("true").unwrap();
    for value in [AttributeValue::Version("1.2"), AttributeValue::Missing] {
        let device = Device::new("a", false, [("version", value)], []);
        let evaluation = program.evaluate(&device);
        assert!(matches!(evaluation.result, Err(EvalError::Device(_))), "{evaluation:?}");
    }
}
