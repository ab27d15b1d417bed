//! `format()` of texts, and named formats (S-DRA-115).

use std::fmt::Write as _;

use super::conversions::to_string;
use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::formats::{self, FORMATS};
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::time;
use crate::cel::value::Value;

/// Limit of the bytes that `format()` writes.
const MAX_TEXT_BYTES: usize = 16 << 20;
const MAX_PRECISION: usize = 1000;

macro_rules! named {
    ($($function:literal $name:literal),+ $(,)?) => {
        &[
            function("format", &[("string.(list(dyn)) -> string", Cost::Text)], format),
            uniform("format.named", Cost::One, &[("(string) -> optional(format)", Cost::One)], by_name),
            uniform("validate", Cost::Validate, &[("format.(string) -> optional(list(string))", Cost::Validate)], validate),
            $(function($function, &[("() -> format", Cost::One)], |_| named($name))),+
        ]
    };
}

pub(super) const FUNCTIONS: &[Function] = named![
    "format.dns1123Label" "dns1123Label",
    "format.dns1123Subdomain" "dns1123Subdomain",
    "format.dns1035Label" "dns1035Label",
    "format.qualifiedName" "qualifiedName",
    "format.dns1123LabelPrefix" "dns1123LabelPrefix",
    "format.dns1123SubdomainPrefix" "dns1123SubdomainPrefix",
    "format.dns1035LabelPrefix" "dns1035LabelPrefix",
    "format.labelValue" "labelValue",
    "format.uri" "uri",
    "format.uuid" "uuid",
    "format.byte" "byte",
    "format.date" "date",
    "format.datetime" "datetime",
];

fn named(name: &str) -> Evaluated {
    formats::find(name).map(Value::Format).ok_or(EvalError::no_overload())
}

fn by_name(args: &[&Value]) -> Evaluated {
    let [Value::String(name)] = args else { return Err(EvalError::no_overload()) };
    Ok(formats::find(name)
        .map_or(Value::Optional(None), |format| Value::some(Value::Format(format))))
}

fn validate(args: &[&Value]) -> Evaluated {
    let [Value::Format(format), Value::String(text)] = args else {
        return Err(EvalError::no_overload());
    };
    let format = FORMATS.get(*format).ok_or(EvalError::no_overload())?;
    if (format.is_valid)(text) {
        return Ok(Value::Optional(None));
    }
    let reason = Value::string(format!("does not have the format {}", format.name));
    Ok(Value::some(Value::list(vec![reason])))
}

/// A clause of a format text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause {
    /// Text that is written as it is.
    Text(String),
    /// An argument: the letter after `%`, and the digits after the point.
    Argument(char, Option<usize>),
}

/// Splits a format text into clauses; `None` if it is malformed.
pub(crate) fn clauses(text: &str) -> Option<Vec<Clause>> {
    let mut clauses = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        clauses.push(Clause::Text(before.to_owned()));
        if let Some(after) = after.strip_prefix('%') {
            clauses.push(Clause::Text("%".to_owned()));
            rest = after;
            continue;
        }
        let (precision, after) = match after.strip_prefix('.') {
            Some(after) => {
                let n_digits = after.bytes().take_while(u8::is_ascii_digit).count();
                (Some(after[..n_digits].parse().ok()?), &after[n_digits..])
            }
            None => (None, after),
        };
        let letter = after.chars().next().filter(|letter| "sdfebxXo".contains(*letter))?;
        if precision.is_some_and(|precision| precision > MAX_PRECISION) {
            return None;
        }
        clauses.push(Clause::Argument(letter, precision));
        rest = &after[1..];
    }
    clauses.push(Clause::Text(rest.to_owned()));
    Some(clauses)
}

fn format(args: &[&Value]) -> Evaluated {
    let [Value::String(text), Value::List(values)] = args else {
        return Err(EvalError::no_overload());
    };
    let clauses = clauses(text).ok_or(EvalError::failed("could not parse formatting clause"))?;
    let mut values = values.iter();
    let mut output = String::new();
    for clause in &clauses {
        match clause {
            Clause::Text(text) => output.push_str(text),
            Clause::Argument(letter, precision) => {
                let value = values.next().ok_or(EvalError::failed("index out of range"))?;
                write_argument(&mut output, *letter, *precision, value)?;
            }
        }
        if output.len() > MAX_TEXT_BYTES {
            return Err(EvalError::Internal("a text is too long"));
        }
    }
    if values.next().is_some() {
        return Err(EvalError::failed("too many arguments supplied to string.format"));
    }
    Ok(Value::string(output))
}

fn write_argument(
    output: &mut String,
    letter: char,
    precision: Option<usize>,
    value: &Value,
) -> Result<(), EvalError> {
    let refused = || {
        EvalError::of(format!(
            "error during formatting: no clause %{letter} for {}",
            value.type_name()
        ))
    };
    let digits = precision.unwrap_or(6);
    let written = match (letter, value) {
        ('s', value) => return write_value(output, value, false),
        ('d', Value::Int(value)) => write!(output, "{value}"),
        ('d', Value::Uint(value)) => write!(output, "{value}"),
        ('f', value) => write!(
            output,
            "{}",
            grouped(&format!("{:.digits$}", number(value).ok_or_else(refused)?))
        ),
        ('e', value) => {
            write!(output, "{}", scientific(number(value).ok_or_else(refused)?, digits))
        }
        ('b', Value::Bool(value)) => write!(output, "{}", u8::from(*value)),
        ('b', Value::Int(value)) => write!(output, "{}{:b}", minus(*value), value.unsigned_abs()),
        ('b', Value::Uint(value)) => write!(output, "{value:b}"),
        ('o', Value::Int(value)) => write!(output, "{}{:o}", minus(*value), value.unsigned_abs()),
        ('o', Value::Uint(value)) => write!(output, "{value:o}"),
        ('x', Value::Int(value)) => write!(output, "{}{:x}", minus(*value), value.unsigned_abs()),
        ('X', Value::Int(value)) => write!(output, "{}{:X}", minus(*value), value.unsigned_abs()),
        ('x', Value::Uint(value)) => write!(output, "{value:x}"),
        ('X', Value::Uint(value)) => write!(output, "{value:X}"),
        ('x' | 'X', Value::String(text)) => return write_hex(output, letter, text.as_bytes()),
        ('x' | 'X', Value::Bytes(bytes)) => return write_hex(output, letter, bytes),
        _ => return Err(refused()),
    };
    written.map_err(|_| refused())
}

fn minus(value: i64) -> &'static str {
    if value < 0 { "-" } else { "" }
}

fn write_hex(output: &mut String, letter: char, bytes: &[u8]) -> Result<(), EvalError> {
    for byte in bytes {
        output.push_str(&if letter == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
    }
    Ok(())
}

/// A double, or one of the texts that stand for a double without digits.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// A decimal number with commas between groups of three digits.
fn grouped(text: &str) -> String {
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-');
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.replace("inf", "∞");
    }
    let mut grouped = whole[..whole.len() - digits.len()].to_owned();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

/// A number with a power of ten in superscript digits.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.replace("inf", "∞");
    };
    let power: i32 = exponent.parse().unwrap_or_default();
    let superscript: String = format!("{:02}", power.abs())
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            '9' => '⁹',
            _ => '⁰',
        })
        .collect();
    let sign = if power < 0 { "⁻" } else { "" };
    format!("{mantissa}\u{202f}×\u{202f}10{sign}{superscript}")
}

/// Writes a value as `%s` does; inside lists and maps, texts are quoted and times are calls.
fn write_value(output: &mut String, value: &Value, is_inner: bool) -> Result<(), EvalError> {
    if output.len() > MAX_TEXT_BYTES {
        return Err(EvalError::Internal("a text is too long"));
    }
    match value {
        Value::Null => output.push_str("null"),
        Value::List(list) => {
            output.push('[');
            for (position, element) in list.iter().enumerate() {
                output.push_str(if position > 0 { ", " } else { "" });
                write_value(output, element, true)?;
            }
            output.push(']');
        }
        Value::Map(map) => {
            output.push('{');
            let mut entries = Vec::new();
            for (key, value) in &map.entries {
                let mut entry = String::new();
                write_value(&mut entry, &key.to_value(), true)?;
                entries.push((entry, value));
            }
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            for (position, (key, value)) in entries.into_iter().enumerate() {
                output.push_str(if position > 0 { ", " } else { "" });
                output.push_str(&key);
                output.push(':');
                write_value(output, value, true)?;
            }
            output.push('}');
        }
        Value::String(text) if is_inner => write_debug(output, text),
        Value::Bytes(bytes) if is_inner => {
            output.push('b');
            write_debug(output, &String::from_utf8_lossy(bytes));
        }
        Value::Double(value) if is_inner => output.push_str(&format!("{value:.6}")),
        Value::Duration(nanos) if is_inner => {
            output.push_str(&format!("duration({:?})", time::duration_text(*nanos)));
        }
        Value::Timestamp(moment) if is_inner => {
            output.push_str(&format!("timestamp({:?})", moment.text()));
        }
        other => match to_string(other)? {
            Value::String(text) => output.push_str(&text),
            _ => return Err(EvalError::no_overload()),
        },
    }
    Ok(())
}

fn write_debug(output: &mut String, text: &str) {
    output.push_str(&format!("{text:?}"));
}
