//! Conversions between types (S-DRA-114). Of constants they are done at compile time, see `checker`.

use std::sync::Arc;

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::time::{self, Timestamp};
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("bool", &[("(bool) -> bool", Cost::One), ("(string) -> bool", Cost::One)], to_bool),
    function(
        "bytes",
        &[("(bytes) -> bytes", Cost::One), ("(string) -> bytes", Cost::Text)],
        to_bytes,
    ),
    function(
        "double",
        &[
            ("(double) -> double", Cost::One),
            ("(int) -> double", Cost::One),
            ("(string) -> double", Cost::One),
            ("(uint) -> double", Cost::One),
        ],
        to_double,
    ),
    function(
        "duration",
        &[
            ("(duration) -> duration", Cost::One),
            ("(int) -> duration", Cost::One),
            ("(string) -> duration", Cost::One),
        ],
        to_duration,
    ),
    function("dyn", &[("(A) -> dyn", Cost::One)], |args| first(args).cloned()),
    function(
        "int",
        &[
            ("(int) -> int", Cost::One),
            ("(double) -> int", Cost::One),
            ("(duration) -> int", Cost::One),
            ("(string) -> int", Cost::One),
            ("(timestamp) -> int", Cost::One),
            ("(uint) -> int", Cost::One),
        ],
        to_int,
    ),
    function(
        "string",
        &[
            ("(string) -> string", Cost::One),
            ("(bool) -> string", Cost::One),
            ("(bytes) -> string", Cost::Text),
            ("(double) -> string", Cost::One),
            ("(duration) -> string", Cost::One),
            ("(int) -> string", Cost::One),
            ("(timestamp) -> string", Cost::One),
            ("(uint) -> string", Cost::One),
            ("(ip) -> string", Cost::One),
            ("(cidr) -> string", Cost::One),
        ],
        |args| first(args).and_then(to_string),
    ),
    function(
        "timestamp",
        &[
            ("(timestamp) -> timestamp", Cost::One),
            ("(int) -> timestamp", Cost::One),
            ("(string) -> timestamp", Cost::One),
        ],
        to_timestamp,
    ),
    function(
        "uint",
        &[
            ("(uint) -> uint", Cost::One),
            ("(double) -> uint", Cost::One),
            ("(int) -> uint", Cost::One),
            ("(string) -> uint", Cost::One),
        ],
        to_uint,
    ),
    function("type", &[("(A) -> type", Cost::One)], |args| {
        Ok(Value::Type(first(args)?.type_name()))
    }),
];

const RANGE: EvalError = EvalError::failed("integer overflow");

fn first<'v>(args: &[&'v Value]) -> Result<&'v Value, EvalError> {
    args.first().copied().ok_or(EvalError::no_overload())
}

fn refused(from: &str, to: &str) -> EvalError {
    EvalError::of(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool(args: &[&Value]) -> Evaluated {
    match first(args)? {
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(refused("string", "bool")),
        },
        Value::Bool(value) => Ok(Value::Bool(*value)),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_bytes(args: &[&Value]) -> Evaluated {
    match first(args)? {
        Value::String(text) => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        bytes @ Value::Bytes(_) => Ok(bytes.clone()),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_double(args: &[&Value]) -> Evaluated {
    match first(args)? {
        Value::Double(value) => Ok(Value::Double(*value)),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => match text.parse::<f64>() {
            Ok(value) if !value.is_infinite() || text.to_ascii_lowercase().contains("inf") => {
                Ok(Value::Double(value))
            }
            _ => Err(refused("string", "double")),
        },
        _ => Err(EvalError::no_overload()),
    }
}

fn to_duration(args: &[&Value]) -> Evaluated {
    match first(args)? {
        Value::Duration(nanos) | Value::Int(nanos) => Ok(Value::Duration(*nanos)),
        Value::String(text) => time::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| refused("string", "google.protobuf.Duration")),
        _ => Err(EvalError::no_overload()),
    }
}

fn to_int(args: &[&Value]) -> Evaluated {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let value = match first(args)? {
        Value::Int(value) | Value::Duration(value) => Some(*value),
        Value::Uint(value) => i64::try_from(*value).ok(),
        Value::Double(value) => {
            (*value > -TWO_TO_63 && *value < TWO_TO_63).then_some(value.trunc() as i64)
        }
        Value::Timestamp(moment) => Some(moment.seconds),
        Value::String(text) => {
            return text.parse().map(Value::Int).map_err(|_| refused("string", "int"));
        }
        _ => return Err(EvalError::no_overload()),
    };
    value.map(Value::Int).ok_or(RANGE)
}

fn to_uint(args: &[&Value]) -> Evaluated {
    const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
    let value = match first(args)? {
        Value::Uint(value) => Some(*value),
        Value::Int(value) => u64::try_from(*value).ok(),
        Value::Double(value) => {
            (*value >= 0.0 && *value < TWO_TO_64).then_some(value.trunc() as u64)
        }
        Value::String(text) => {
            let value = text.parse().ok().filter(|_| !text.starts_with('+'));
            return value.map(Value::Uint).ok_or_else(|| refused("string", "uint"));
        }
        _ => return Err(EvalError::no_overload()),
    };
    value.map(Value::Uint).ok_or(RANGE)
}

fn to_timestamp(args: &[&Value]) -> Evaluated {
    let moment = match first(args)? {
        Value::Timestamp(moment) => Some(*moment),
        Value::Int(seconds) => Timestamp::of_seconds(*seconds),
        Value::String(text) => Timestamp::parse(text),
        _ => return Err(EvalError::no_overload()),
    };
    moment.map(Value::Timestamp).ok_or_else(|| refused("string", "google.protobuf.Timestamp"))
}

/// The text of a value, for `string()` and `format()`.
pub(super) fn to_string(value: &Value) -> Evaluated {
    Ok(match value {
        text @ Value::String(_) => text.clone(),
        Value::Bool(value) => Value::string(value.to_string()),
        Value::Int(value) => Value::string(value.to_string()),
        Value::Uint(value) => Value::string(value.to_string()),
        Value::Double(value) => Value::string(double_text(*value)),
        Value::Duration(nanos) => Value::string(time::duration_text(*nanos)),
        Value::Timestamp(moment) => Value::string(moment.text()),
        Value::Ip(address) => Value::string(address.to_string()),
        Value::Cidr(prefix) => Value::string(prefix.to_string()),
        Value::Type(name) => Value::string(*name),
        Value::Bytes(bytes) => {
            let text = std::str::from_utf8(bytes);
            Value::string(text.map_err(|_| {
                EvalError::failed("invalid UTF-8 in bytes, cannot convert to string")
            })?)
        }
        _ => return Err(EvalError::no_overload()),
    })
}

/// The shortest text that reads back as the same number, as Go's `%g` writes it.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    let is_scientific = !(-4..6).contains(&power);
    if !is_scientific {
        return format!("{value}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}
