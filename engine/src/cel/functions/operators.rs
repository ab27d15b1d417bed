//! Operators on numbers, texts, lists and times. Results out of range are errors, never wrapped (S-DRA-114).

use std::sync::Arc;

use crate::cel::cost::Cost;
use crate::cel::equality::{Comparisons, compare};
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::value::Value;

/// Limit of the number of elements of a list that is joined of others.
pub(super) const MAX_ELEMENTS: usize = 1 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "_+_",
        &[
            ("(bytes, bytes) -> bytes", Cost::Both),
            ("(double, double) -> double", Cost::One),
            ("(duration, duration) -> duration", Cost::One),
            ("(duration, timestamp) -> timestamp", Cost::One),
            ("(timestamp, duration) -> timestamp", Cost::One),
            ("(int, int) -> int", Cost::One),
            ("(list(A), list(A)) -> list(A)", Cost::One),
            ("(string, string) -> string", Cost::Both),
            ("(uint, uint) -> uint", Cost::One),
        ],
        add,
    ),
    function(
        "_-_",
        &[
            ("(double, double) -> double", Cost::One),
            ("(duration, duration) -> duration", Cost::One),
            ("(int, int) -> int", Cost::One),
            ("(timestamp, duration) -> timestamp", Cost::One),
            ("(timestamp, timestamp) -> duration", Cost::One),
            ("(uint, uint) -> uint", Cost::One),
        ],
        subtract,
    ),
    function("_*_", ARITHMETIC, multiply),
    function("_/_", ARITHMETIC, divide),
    function(
        "_%_",
        &[("(int, int) -> int", Cost::One), ("(uint, uint) -> uint", Cost::One)],
        modulo,
    ),
    function("-_", &[("(int) -> int", Cost::One), ("(double) -> double", Cost::One)], negate),
    function("!_", &[("(bool) -> bool", Cost::One)], not),
    function("_<_", ORDER, |args| ordered(args, std::cmp::Ordering::is_lt)),
    function("_<=_", ORDER, |args| ordered(args, std::cmp::Ordering::is_le)),
    function("_>_", ORDER, |args| ordered(args, std::cmp::Ordering::is_gt)),
    function("_>=_", ORDER, |args| ordered(args, std::cmp::Ordering::is_ge)),
    function(
        "@in",
        &[("(A, list(A)) -> bool", Cost::Elements), ("(A, map(A, B)) -> bool", Cost::One)],
        is_in,
    ),
    function(
        "size",
        &[
            ("bytes.() -> int", Cost::One),
            ("(bytes) -> int", Cost::One),
            ("list(A).() -> int", Cost::One),
            ("(list(A)) -> int", Cost::One),
            ("map(A, B).() -> int", Cost::One),
            ("(map(A, B)) -> int", Cost::One),
            ("string.() -> int", Cost::One),
            ("(string) -> int", Cost::One),
        ],
        size,
    ),
];

const ARITHMETIC: &[(&str, Cost)] = &[
    ("(double, double) -> double", Cost::One),
    ("(int, int) -> int", Cost::One),
    ("(uint, uint) -> uint", Cost::One),
];

const ORDER: &[(&str, Cost)] = &[
    ("(bool, bool) -> bool", Cost::One),
    ("(int, int) -> bool", Cost::One),
    ("(int, double) -> bool", Cost::One),
    ("(int, uint) -> bool", Cost::One),
    ("(uint, uint) -> bool", Cost::One),
    ("(uint, double) -> bool", Cost::One),
    ("(uint, int) -> bool", Cost::One),
    ("(double, double) -> bool", Cost::One),
    ("(double, int) -> bool", Cost::One),
    ("(double, uint) -> bool", Cost::One),
    ("(string, string) -> bool", Cost::Shorter),
    ("(bytes, bytes) -> bool", Cost::Shorter),
    ("(timestamp, timestamp) -> bool", Cost::One),
    ("(duration, duration) -> bool", Cost::One),
];

const OVERFLOW: EvalError = EvalError::failed("integer overflow");
const UNSIGNED_OVERFLOW: EvalError = EvalError::failed("unsigned integer overflow");
const TIME_OVERFLOW: EvalError = EvalError::failed("timestamp overflow");

fn int(value: Option<i64>) -> Evaluated {
    value.map(Value::Int).ok_or(OVERFLOW)
}

fn uint(value: Option<u64>) -> Evaluated {
    value.map(Value::Uint).ok_or(UNSIGNED_OVERFLOW)
}

fn duration(value: Option<i64>) -> Evaluated {
    value.map(Value::Duration).ok_or(OVERFLOW)
}

fn add(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_add(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_add(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left + right)),
        [Value::String(left), Value::String(right)] => {
            Ok(Value::string([&**left, &**right].concat()))
        }
        [Value::Bytes(left), Value::Bytes(right)] => {
            Ok(Value::Bytes(Arc::from([&**left, &**right].concat())))
        }
        [Value::List(left), Value::List(right)] => joined(left, right),
        [Value::Duration(left), Value::Duration(right)] => duration(left.checked_add(*right)),
        [Value::Timestamp(moment), Value::Duration(nanos)]
        | [Value::Duration(nanos), Value::Timestamp(moment)] => {
            moment.plus(*nanos).map(Value::Timestamp).ok_or(TIME_OVERFLOW)
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn joined(left: &[Value], right: &[Value]) -> Evaluated {
    if left.len() + right.len() > MAX_ELEMENTS {
        return Err(EvalError::Internal("a list is too long"));
    }
    Ok(Value::list([left, right].concat()))
}

fn subtract(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_sub(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_sub(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left - right)),
        [Value::Duration(left), Value::Duration(right)] => duration(left.checked_sub(*right)),
        [Value::Timestamp(left), Value::Timestamp(right)] => duration(left.since(*right)),
        [Value::Timestamp(moment), Value::Duration(nanos)] => nanos
            .checked_neg()
            .and_then(|nanos| moment.plus(nanos))
            .map(Value::Timestamp)
            .ok_or(TIME_OVERFLOW),
        _ => Err(EvalError::no_overload()),
    }
}

fn multiply(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_mul(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_mul(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
        _ => Err(EvalError::no_overload()),
    }
}

fn divide(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(EvalError::failed("division by zero"))
        }
        [Value::Int(left), Value::Int(right)] => int(left.checked_div(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_div(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left / right)),
        _ => Err(EvalError::no_overload()),
    }
}

fn modulo(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(EvalError::failed("modulus by zero"))
        }
        [Value::Int(left), Value::Int(right)] => int(left.checked_rem(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_rem(*right)),
        _ => Err(EvalError::no_overload()),
    }
}

fn negate(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(nanos)] => duration(nanos.checked_neg()),
        _ => Err(EvalError::no_overload()),
    }
}

fn not(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(EvalError::no_overload()),
    }
}

fn ordered(args: &[&Value], holds: fn(std::cmp::Ordering) -> bool) -> Evaluated {
    match args {
        [left, right] => Ok(Value::Bool(holds(compare(left, right)?))),
        _ => Err(EvalError::no_overload()),
    }
}

/// Membership in a list, or among the keys of a map; domains that a device has nothing in are not (S-DRA-111).
fn is_in(args: &[&Value]) -> Evaluated {
    match args {
        [value, Value::List(list)] => Ok(Value::Bool(Comparisons::new().contain(list, value)?)),
        [value, Value::Map(map)] => Ok(Value::Bool(map.find(value).is_some())),
        _ => Err(EvalError::no_overload()),
    }
}

fn size(args: &[&Value]) -> Evaluated {
    let size = match args {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.entries.len(),
        _ => return Err(EvalError::NoSuchOverload(": size".into())),
    };
    int(i64::try_from(size).ok())
}
