//! Functions of semantic versions, and the comparisons that versions and quantities share (S-DRA-116, S-DRA-117).

use std::cmp::Ordering;
use std::sync::Arc;

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::semver::Semver;
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    uniform(
        "semver",
        Cost::Text,
        &[("(string) -> semver", Cost::Text), ("(string, bool) -> semver", Cost::Text)],
        |args| parsed(args)?.map(|version| Value::Semver(Arc::new(version))).map_err(EvalError::of),
    ),
    uniform(
        "isSemver",
        Cost::Text,
        &[("(string) -> bool", Cost::Text), ("(string, bool) -> bool", Cost::Text)],
        |args| Ok(Value::Bool(parsed(args)?.is_ok())),
    ),
    function("major", &[("semver.() -> int", Cost::One)], |args| {
        part(args, |version| version.major)
    }),
    function("minor", &[("semver.() -> int", Cost::One)], |args| {
        part(args, |version| version.minor)
    }),
    function("patch", &[("semver.() -> int", Cost::One)], |args| {
        part(args, |version| version.patch)
    }),
    function("isGreaterThan", TESTS, |args| Ok(Value::Bool(order(args)?.is_gt()))),
    function("isLessThan", TESTS, |args| Ok(Value::Bool(order(args)?.is_lt()))),
    function(
        "compareTo",
        &[("quantity.(quantity) -> int", Cost::One), ("semver.(semver) -> int", Cost::One)],
        |args| Ok(Value::Int(order(args)? as i64)),
    ),
];

const TESTS: &[(&str, Cost)] =
    &[("quantity.(quantity) -> bool", Cost::One), ("semver.(semver) -> bool", Cost::One)];

fn parsed(args: &[&Value]) -> Result<Result<Semver, String>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Semver::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(Semver::parse_tolerant(text)),
        _ => Err(EvalError::no_overload()),
    }
}

fn part(args: &[&Value], number: fn(&Semver) -> u64) -> Evaluated {
    match args {
        // A number beyond the range of int wraps upstream.
        [Value::Semver(version)] => Ok(Value::Int(number(version).cast_signed())),
        _ => Err(EvalError::no_overload()),
    }
}

fn order(args: &[&Value]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Quantity(left), Value::Quantity(right)] => Ok(left.compare(right)),
        [Value::Semver(left), Value::Semver(right)] => Ok(left.compare(right)),
        _ => Err(EvalError::no_overload()),
    }
}
