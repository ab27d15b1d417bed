//! Costs of calls, as cel-go counts them at run time with Kubernetes' estimates for its libraries (S-DRA-118).

use super::error::EvalError;
use super::formats::FORMATS;
use super::value::{Key, Value};

/// Limit of the cost of an evaluation (S-DRA-118).
pub(crate) const COST_LIMIT: u64 = 1_000_000;
/// Cost of making a list that is not constant.
pub(crate) const LIST_COST: u64 = 10;
/// Cost of making a map that is not constant.
pub(crate) const MAP_COST: u64 = 30;

/// How the cost of a call follows from its arguments and its result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    One,
    /// A pass over the first argument.
    Text,
    /// Two passes over the first argument.
    TextTwice,
    /// Two passes over the result.
    Joined,
    /// A pass over the shorter argument.
    Shorter,
    /// A pass over both arguments.
    Both,
    /// The product of passes over both arguments.
    Product,
    /// A search of a pattern, the second argument, in a text.
    Pattern,
    /// The number of elements of the second argument.
    Elements,
    /// A walk through everything in the first argument.
    Walk,
    /// The product of the numbers of elements, times a factor.
    Sets(u64),
    /// A new list of the size of the result.
    NewList,
    /// A new list of the size of the first argument, times the second argument.
    Flatten,
    /// Comparisons among all elements of the argument at this position.
    SelfCompare(usize),
    /// A comparison of an address with a block; the flag is set if the address is parsed.
    ContainsIp(bool),
    /// A comparison of two blocks; the flag is set if the second one is parsed.
    ContainsCidr(bool),
    /// The search of a format's pattern.
    Validate,
}

impl Cost {
    /// The cost of a call. `None` stands for an argument or a result that is an error.
    pub(crate) fn of(
        self,
        args: &[Option<&Value>],
        result: Option<&Value>,
    ) -> Result<u64, EvalError> {
        let size_of = |position: usize| size(args.get(position).copied().flatten());
        Ok(match self {
            Cost::One => 1,
            Cost::Text => tenth(size_of(0)),
            Cost::TextTwice => tenth(2 * size_of(0)),
            Cost::Joined => tenth(2 * size(result)),
            Cost::Shorter => tenth(size_of(0).min(size_of(1))),
            Cost::Both => tenth(size_of(0) + size_of(1)),
            Cost::Product => tenth(size_of(0)) * tenth(size_of(1)),
            Cost::Pattern => tenth(1 + size_of(0)) * size_of(1).div_ceil(4),
            Cost::Elements => size_of(1),
            Cost::Walk => args.first().map_or(0, |value| walk(*value, 0)),
            Cost::Sets(factor) => 1 + size_of(0).saturating_mul(size_of(1)).saturating_mul(factor),
            Cost::NewList => 1 + LIST_COST + size(result),
            Cost::Flatten => flatten(args)?,
            Cost::SelfCompare(position) => self_compare(args.get(position).copied().flatten())?,
            Cost::ContainsIp(parses) => {
                tenth(2 * size_of(0)) + if parses { tenth(size_of(1)) } else { 0 }
            }
            Cost::ContainsCidr(parses) => {
                tenth(2 * size_of(0))
                    + tenth(size_of(0))
                    + 1
                    + if parses { tenth(size_of(1)) } else { 0 }
            }
            Cost::Validate => match args.first() {
                Some(Some(Value::Format(format))) => {
                    let length = FORMATS.get(*format).map_or(0, |format| format.pattern_length);
                    tenth(1 + size_of(1)) * length.div_ceil(4)
                }
                _ => 1,
            },
        })
    }
}

/// The cost of a pass over a number of characters or elements, with upstream's rounding: 70 of them cost 8.
fn tenth(size: u64) -> u64 {
    (size as f64 * 0.1).ceil() as u64
}

/// The cost of a text in a walk.
fn whole_tenth(n_bytes: usize) -> u64 {
    (n_bytes as f64 * 0.1) as u64
}

/// The number of characters or elements of a value; 1 for other values and errors.
fn size(value: Option<&Value>) -> u64 {
    let size = match value {
        Some(Value::String(text)) if text.is_ascii() => text.len(),
        Some(Value::String(text)) => text.chars().count(),
        Some(Value::Bytes(bytes)) => bytes.len(),
        Some(Value::List(list)) => list.len(),
        Some(Value::Map(map)) => map.entries.len(),
        Some(Value::Ip(address)) => usize::from(address.n_bits() / 8),
        Some(Value::Cidr(prefix)) => usize::from(prefix.length).div_ceil(8),
        Some(Value::Optional(Some(value))) => return size_of_optional(value),
        _ => 1,
    };
    size as u64
}

fn size_of_optional(value: &Value) -> u64 {
    size(Some(value))
}

/// The cost of walking through a value, at least up to the limit.
fn walk(value: Option<&Value>, so_far: u64) -> u64 {
    if so_far > COST_LIMIT {
        return 0;
    }
    match value {
        Some(Value::String(text)) => whole_tenth(text.len()),
        Some(Value::Bytes(bytes)) => whole_tenth(bytes.len()),
        Some(Value::List(list)) => {
            list.iter().fold(0, |sum, element| sum + walk(Some(element), so_far + sum))
        }
        Some(Value::Map(map)) => map
            .entries
            .iter()
            .fold(0, |sum, (key, value)| sum + walk_key(key) + walk(Some(value), so_far + sum)),
        _ => 1,
    }
}

fn walk_key(key: &Key) -> u64 {
    match key {
        Key::String(text) => whole_tenth(text.len()),
        _ => 1,
    }
}

fn flatten(args: &[Option<&Value>]) -> Result<u64, EvalError> {
    let depth = match args.get(1) {
        None => 1.0,
        Some(Some(Value::Int(depth))) => *depth as f64,
        Some(_) => return Err(EvalError::Internal("flatten with a depth that is not an int")),
    };
    let n_elements = size(args.first().copied().flatten());
    Ok(((n_elements as f64 * depth) as u64).saturating_add(1 + LIST_COST))
}

fn self_compare(list: Option<&Value>) -> Result<u64, EvalError> {
    let Some(Value::List(list)) = list else {
        return Err(EvalError::Internal("a list function without a list"));
    };
    let n_elements = list.len() as f64;
    let factor = match list.first() {
        Some(Value::String(_) | Value::Bytes(_)) => 2.1,
        _ => 2.0,
    };
    Ok(((n_elements * n_elements * factor) as u64).saturating_add(1 + LIST_COST))
}
