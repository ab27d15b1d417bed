//! Arbitrary texts, and expressions with words exchanged: none makes the compiler or the evaluator panic.

use berth_engine::cel::{AttributeValue, Device, Program};
use proptest::prelude::*;

/// Words of expressions.
const WORDS: &[&str] = &[
    "device",
    ".",
    ".?",
    "attributes",
    "capacity",
    "driver",
    "[\"a\"]",
    "[?\"a\"]",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "in",
    "1",
    "2u",
    "1.5",
    "\"x\"",
    "b\"x\"",
    "r'\\d'",
    "true",
    "null",
    "x",
    "y",
    "size",
    ".size()",
    ".all(x, ",
    ".exists(x, y, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists_one(x, ",
    ".transformMap(x, y, ",
    ".sortBy(x, ",
    ".optMap(x, ",
    "cel.bind(x, ",
    "has(",
    "dyn(",
    "int(",
    "quantity(\"1Gi\")",
    "semver(\"1.0.0\")",
    ".compareTo(",
    ".orValue(",
    ".hasValue()",
    "optional.none()",
    "[1, 2]",
    "duration(\"1s\")",
    "timestamp(\"2024-01-01T00:00:00Z\")",
    ".matches(\"[a-z]+\")",
    ".findAll(",
    ".split(\"\")",
    ".substring(1, 2)",
    ".replace(\"\", \"xy\")",
    ".format([1])",
    "sets.contains(",
    "lists.range(9)",
    ".flatten()",
    "ip(\"::1\")",
    "cidr(\"10.0.0.0/8\")",
    ".containsIP(",
    "url(\"http://a/\")",
    "format.dns1123Label()",
    ".validate(",
    "// comment\n",
    "\u{e9}",
    "\"",
    "'''",
    "\\",
];

proptest! {
    /// S-DRA-118: whatever is evaluated costs at most the limit, or fails.
    #[test]
    fn words_in_any_order_never_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        evaluate(&words.concat());
    }

    #[test]
    fn texts_never_panic(text in ".{0,60}") {
        evaluate(&text);
    }
}

/// Deep and long expressions are refused or evaluated within the stack of a test.
#[test]
fn nesting_is_bounded() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("-(", ")"),
        ("!", ""),
        ("{1: ", "}"),
        ("size(", ")"),
        ("1+", ""),
        ("x.", ""),
    ] {
        for n_times in [200, 300, 20_000] {
            evaluate(&format!("{}1{} == 1", open.repeat(n_times), close.repeat(n_times)));
        }
    }
    for part in [".a", "[0]", ".optMap(x, x)", ".map(x, x)", " && true", " + 1", " ? 1 : 2"] {
        evaluate(&format!("device{}", part.repeat(4000)));
    }
    let doubled: String =
        (0..100).map(|i| format!("cel.bind(v{}, [v{i}, v{i}], ", i + 1)).collect();
    evaluate(&format!("cel.bind(v0, [1], {doubled} v100 == v100{}", ")".repeat(101)));
    let joined: String = (0..100).map(|i| format!("cel.bind(v{}, v{i} + v{i}, ", i + 1)).collect();
    evaluate(&format!("cel.bind(v0, [1], {joined} v100 == v100{}", ")".repeat(101)));
    let nested: String = (0..60)
        .map(|i| format!("cel.bind(v{}, {}dyn(v{i}){}, ", i + 1, "[".repeat(100), "]".repeat(100)))
        .collect();
    evaluate(&format!("cel.bind(v0, 1, {nested} v60 == v60{}", ")".repeat(61)));
    evaluate(&format!("{} == 1", "a".repeat(70_000)));
}

fn evaluate(source: &str) {
    let device = Device::new("a", false, [("x", AttributeValue::Int(1))], [("y", "1Gi")]);
    if let Ok(program) = Program::compile(source) {
        let evaluation = program.evaluate(&device);
        assert!(evaluation.result.is_err() || evaluation.cost <= 1_000_000);
    }
}
