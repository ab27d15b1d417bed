//! Functions of optional values (S-DRA-114). `or` and `orValue` evaluate their argument only if they need it; the
//! evaluator has them, see `plan`.

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::time::Timestamp;
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("optional.of", &[("(A) -> optional(A)", Cost::One)], |args| match args {
        [value] => Ok(Value::some((*value).clone())),
        _ => Err(EvalError::no_overload()),
    }),
    function("optional.ofNonZeroValue", &[("(A) -> optional(A)", Cost::One)], of_non_zero),
    function("optional.none", &[("() -> optional(A)", Cost::One)], |_| Ok(Value::Optional(None))),
    function("hasValue", &[("optional(A).() -> bool", Cost::One)], |args| match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(EvalError::no_overload()),
    }),
    function("value", &[("optional(A).() -> A", Cost::One)], |args| match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(EvalError::no_overload()),
    }),
    function("or", &[("optional(A).(optional(A)) -> optional(A)", Cost::One)], |_| {
        Err(EvalError::no_overload())
    }),
    function("orValue", &[("optional(A).(A) -> A", Cost::One)], |_| Err(EvalError::no_overload())),
    function("optional.unwrap", &[("(list(optional(A))) -> list(A)", Cost::One)], unwrap),
    function("unwrapOpt", &[("list(optional(A)).() -> list(A)", Cost::One)], unwrap),
    function("first", &[("list(A).() -> optional(A)", Cost::One)], |args| match args {
        [Value::List(list)] => Ok(list.first().cloned().map_or(Value::Optional(None), Value::some)),
        _ => Err(EvalError::no_overload()),
    }),
    function("last", &[("list(A).() -> optional(A)", Cost::One)], |args| match args {
        [Value::List(list)] => Ok(list.last().cloned().map_or(Value::Optional(None), Value::some)),
        _ => Err(EvalError::no_overload()),
    }),
    // Indexing is the evaluator's; these signatures are for the checker.
    function(
        "_[_]",
        &[
            ("(list(A), int) -> A", Cost::One),
            ("(map(A, B), A) -> B", Cost::One),
            ("(optional(list(A)), int) -> optional(A)", Cost::One),
            ("(optional(map(A, B)), A) -> optional(B)", Cost::One),
        ],
        |_| Err(EvalError::no_overload()),
    ),
    function(
        "_[?_]",
        &[
            ("(list(A), int) -> optional(A)", Cost::One),
            ("(optional(list(A)), int) -> optional(A)", Cost::One),
            ("(map(A, B), A) -> optional(B)", Cost::One),
            ("(optional(map(A, B)), A) -> optional(B)", Cost::One),
        ],
        |_| Err(EvalError::no_overload()),
    ),
    function("_==_", &[("(A, A) -> bool", Cost::Shorter)], |_| Err(EvalError::no_overload())),
    function("_!=_", &[("(A, A) -> bool", Cost::Shorter)], |_| Err(EvalError::no_overload())),
    function("_?_:_", &[("(bool, A, A) -> A", Cost::One)], |_| Err(EvalError::no_overload())),
    // What the macros for maps insert; the evaluator does it.
    function("@mapInsert", &[("(map(A, B), map(A, B)) -> map(A, B)", Cost::One)], |_| {
        Err(EvalError::no_overload())
    }),
];

fn of_non_zero(args: &[&Value]) -> Evaluated {
    let [value] = args else { return Err(EvalError::no_overload()) };
    Ok(if is_zero(value) { Value::Optional(None) } else { Value::some((*value).clone()) })
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => {
            true
        }
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.entries.is_empty(),
        Value::Optional(value) => value.is_none(),
        Value::Timestamp(moment) => *moment == Timestamp { seconds: -62_135_596_800, nanos: 0 },
        _ => false,
    }
}

fn unwrap(args: &[&Value]) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut values = Vec::new();
    for element in list.iter() {
        match element {
            Value::Optional(Some(value)) => values.push((**value).clone()),
            Value::Optional(None) => {}
            _ => return Err(EvalError::failed("value is not optional")),
        }
    }
    Ok(Value::list(values))
}
