//! Functions of lists: cel-go's and Kubernetes' (S-DRA-115).

use std::cmp::Ordering;

use super::operators::MAX_ELEMENTS;
use super::strings;
use crate::cel::cost::{COST_LIMIT, Cost};
use crate::cel::equality::{Comparisons, compare, is_comparable};
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("distinct", &[("list(A).() -> list(A)", Cost::SelfCompare(0))], distinct),
    function(
        "flatten",
        &[
            ("list(list(A)).() -> list(A)", Cost::Flatten),
            ("list(dyn).(int) -> list(dyn)", Cost::Flatten),
        ],
        flatten,
    ),
    function("lists.range", &[("(int) -> list(int)", Cost::NewList)], range),
    function("reverse", &[("list(A).() -> list(A)", Cost::NewList)], reverse),
    function("slice", &[("list(A).(int, int) -> list(A)", Cost::NewList)], slice),
    function(
        "sort",
        &[
            ("list(int).() -> list(int)", Cost::SelfCompare(0)),
            ("list(uint).() -> list(uint)", Cost::SelfCompare(0)),
            ("list(double).() -> list(double)", Cost::SelfCompare(0)),
            ("list(bool).() -> list(bool)", Cost::SelfCompare(0)),
            ("list(duration).() -> list(duration)", Cost::SelfCompare(0)),
            ("list(timestamp).() -> list(timestamp)", Cost::SelfCompare(0)),
            ("list(string).() -> list(string)", Cost::SelfCompare(0)),
            ("list(bytes).() -> list(bytes)", Cost::SelfCompare(0)),
        ],
        sort,
    ),
    function(
        "@sortByAssociatedKeys",
        &[
            ("list(A).(list(int)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(uint)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(double)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(bool)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(duration)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(timestamp)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(string)) -> list(A)", Cost::SelfCompare(1)),
            ("list(A).(list(bytes)) -> list(A)", Cost::SelfCompare(1)),
        ],
        sort,
    ),
    uniform("isSorted", Cost::Walk, TESTS, is_sorted),
    uniform(
        "sum",
        Cost::Walk,
        &[
            ("list(int).() -> int", Cost::Walk),
            ("list(uint).() -> uint", Cost::Walk),
            ("list(double).() -> double", Cost::Walk),
            ("list(duration).() -> duration", Cost::Walk),
        ],
        sum,
    ),
    uniform("min", Cost::Walk, EXTREMES, |args| extreme(args, Ordering::Greater, "min")),
    uniform("max", Cost::Walk, EXTREMES, |args| extreme(args, Ordering::Less, "max")),
    uniform("indexOf", Cost::Walk, POSITIONS, index_of),
    uniform("lastIndexOf", Cost::Walk, POSITIONS, last_index_of),
];

const TESTS: &[(&str, Cost)] = &[
    ("list(int).() -> bool", Cost::Walk),
    ("list(uint).() -> bool", Cost::Walk),
    ("list(double).() -> bool", Cost::Walk),
    ("list(bool).() -> bool", Cost::Walk),
    ("list(duration).() -> bool", Cost::Walk),
    ("list(timestamp).() -> bool", Cost::Walk),
    ("list(string).() -> bool", Cost::Walk),
    ("list(bytes).() -> bool", Cost::Walk),
];

const EXTREMES: &[(&str, Cost)] = &[
    ("list(int).() -> int", Cost::Walk),
    ("list(uint).() -> uint", Cost::Walk),
    ("list(double).() -> double", Cost::Walk),
    ("list(bool).() -> bool", Cost::Walk),
    ("list(duration).() -> duration", Cost::Walk),
    ("list(timestamp).() -> timestamp", Cost::Walk),
    ("list(string).() -> string", Cost::Walk),
    ("list(bytes).() -> bytes", Cost::Walk),
];

const POSITIONS: &[(&str, Cost)] = &[
    ("string.(string) -> int", Cost::Walk),
    ("string.(string, int) -> int", Cost::Walk),
    ("list(A).(A) -> int", Cost::Walk),
];

fn distinct(args: &[&Value]) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    // The cost of more comparisons is beyond the limit.
    if (list.len() as u64).saturating_pow(2) > COST_LIMIT / 2 {
        return Err(EvalError::CostLimit);
    }
    let (mut found, mut comparisons) = (Vec::<Value>::new(), Comparisons::new());
    for value in list.iter() {
        if !comparisons.contain(&found, value)? {
            found.push(value.clone());
        }
    }
    Ok(Value::list(found))
}

fn flatten(args: &[&Value]) -> Evaluated {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::no_overload()),
    };
    if depth < 0 {
        return Err(EvalError::failed("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into(list: &[Value], depth: i64, flat: &mut Vec<Value>) -> Result<(), EvalError> {
    for value in list {
        match value {
            Value::List(inner) if depth > 0 => flatten_into(inner, depth - 1, flat)?,
            _ => flat.push(value.clone()),
        }
        if flat.len() > MAX_ELEMENTS {
            return Err(EvalError::Internal("a list is too long"));
        }
    }
    Ok(())
}

fn range(args: &[&Value]) -> Evaluated {
    let [Value::Int(n_elements)] = args else { return Err(EvalError::no_overload()) };
    if u64::try_from(*n_elements).is_ok_and(|n_elements| n_elements > COST_LIMIT) {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::list((0..*n_elements).map(Value::Int).collect::<Vec<Value>>()))
}

fn reverse(args: &[&Value]) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    Ok(Value::list(list.iter().rev().cloned().collect::<Vec<Value>>()))
}

fn slice(args: &[&Value]) -> Evaluated {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(EvalError::no_overload());
    };
    let range = usize::try_from(*start).ok().zip(usize::try_from(*end).ok());
    range
        .and_then(|(start, end)| list.get(start..end))
        .map(Value::list)
        .ok_or_else(|| EvalError::of(format!("cannot slice({start}, {end})")))
}

/// Sorts a list by itself, or by a list of keys.
fn sort(args: &[&Value]) -> Evaluated {
    let (list, keys) = match args {
        [Value::List(list)] => (list, list),
        [Value::List(list), Value::List(keys)] if list.len() == keys.len() => (list, keys),
        _ => return Err(EvalError::no_overload()),
    };
    if let Some(first) = keys.first() {
        if !is_comparable(first) {
            return Err(EvalError::failed("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(EvalError::failed("list elements must have the same type"));
        }
    }
    let mut positions: Vec<usize> = (0..list.len()).collect();
    positions
        .sort_by(|left, right| compare(&keys[*left], &keys[*right]).unwrap_or(Ordering::Equal));
    Ok(Value::list(positions.iter().map(|position| list[*position].clone()).collect::<Vec<_>>()))
}

fn is_sorted(args: &[&Value]) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    if !list.first().is_none_or(is_comparable) {
        return Err(EvalError::no_overload());
    }
    for pair in list.windows(2) {
        match compare(&pair[0], &pair[1]) {
            Ok(Ordering::Greater) => return Ok(Value::Bool(false)),
            _ if !is_comparable(&pair[1]) => return Err(EvalError::no_overload()),
            _ => {}
        }
    }
    Ok(Value::Bool(true))
}

fn sum(args: &[&Value]) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut sum = match list.first() {
        None | Some(Value::Int(_)) => Value::Int(0),
        Some(Value::Uint(_)) => Value::Uint(0),
        Some(Value::Double(_)) => Value::Double(0.0),
        Some(Value::Duration(_)) => Value::Duration(0),
        Some(_) => return Err(EvalError::no_overload()),
    };
    for value in list.iter() {
        sum = match (&sum, value) {
            (Value::Int(sum), Value::Int(value)) => sum.checked_add(*value).map(Value::Int),
            (Value::Uint(sum), Value::Uint(value)) => sum.checked_add(*value).map(Value::Uint),
            (Value::Double(sum), Value::Double(value)) => Some(Value::Double(sum + value)),
            (Value::Duration(sum), Value::Duration(value)) => {
                sum.checked_add(*value).map(Value::Duration)
            }
            _ => return Err(EvalError::no_overload()),
        }
        .ok_or(EvalError::failed("integer overflow"))?;
    }
    Ok(sum)
}

/// The element for which the comparison of another one with it never has the outcome `replaces`.
fn extreme(args: &[&Value], replaces: Ordering, name: &str) -> Evaluated {
    let [Value::List(list)] = args else { return Err(EvalError::no_overload()) };
    let mut best: Option<&Value> = None;
    for value in list.iter() {
        if !is_comparable(value) {
            return Err(EvalError::no_overload());
        }
        match best {
            Some(best) if compare(best, value) != Ok(replaces) => {}
            _ => best = Some(value),
        }
    }
    best.cloned().ok_or_else(|| EvalError::of(format!("{name} called on empty list")))
}

fn index_of(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text), Value::String(part)] => strings::index_of(text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            strings::index_of(text, part, *offset)
        }
        [Value::List(list), value] => position(find(list.iter().enumerate(), value)?),
        _ => Err(EvalError::no_overload()),
    }
}

fn last_index_of(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text), Value::String(part)] => strings::last_index_of(text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            strings::last_index_of(text, part, Some(*offset))
        }
        [Value::List(list), value] => position(find(list.iter().enumerate().rev(), value)?),
        _ => Err(EvalError::no_overload()),
    }
}

/// The place of the first of some elements that equals a value.
fn find<'v>(
    elements: impl Iterator<Item = (usize, &'v Value)>,
    value: &Value,
) -> Result<Option<usize>, EvalError> {
    let mut comparisons = Comparisons::new();
    for (place, element) in elements {
        match comparisons.equal(element, value) {
            Ok(true) => return Ok(Some(place)),
            Err(error) if error.is_fatal() => return Err(error),
            Ok(false) | Err(_) => {}
        }
    }
    Ok(None)
}

fn position(found: Option<usize>) -> Evaluated {
    Ok(Value::Int(found.and_then(|position| i64::try_from(position).ok()).unwrap_or(-1)))
}
