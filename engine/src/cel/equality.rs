//! Equality and order of values, across the numeric types (S-DRA-114).

use std::cmp::Ordering;

use super::error::EvalError;
use super::value::{Map, Value};

/// The most values that one operation compares: a few nested lists that share their parts are more than can be compared.
const MAX_COMPARISONS: u32 = 1_000_000;

/// The comparisons of one operation, which are bounded.
pub(crate) struct Comparisons {
    n_left: u32,
}

impl Comparisons {
    pub(crate) fn new() -> Comparisons {
        Comparisons { n_left: MAX_COMPARISONS }
    }

    /// Whether two values are equal.
    ///
    /// Values of different types are different, but a Kubernetes value on the left fails when it meets another type. A
    /// quantity also fails when it meets a sum or a difference of quantities, a type of its own upstream.
    pub(crate) fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, EvalError> {
        self.n_left = self.n_left.saturating_sub(1);
        self.check()?;
        Ok(match (left, right) {
            (Value::Null, _) | (_, Value::Null) => {
                matches!((left, right), (Value::Null, Value::Null))
            }
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::String(left), Value::String(right)) => left == right,
            (Value::Bytes(left), Value::Bytes(right)) => left == right,
            (Value::Duration(left), Value::Duration(right)) => left == right,
            (Value::Timestamp(left), Value::Timestamp(right)) => left == right,
            (Value::Type(left), Value::Type(right)) => left == right,
            (Value::List(left), Value::List(right)) => {
                left.len() == right.len() && self.all_equal(left.iter().zip(right.iter()))?
            }
            (Value::Map(left), Value::Map(right)) => self.maps_equal(left, right)?,
            (Value::Optional(left), Value::Optional(right)) => match (left, right) {
                (Some(left), Some(right)) => return self.equal(left, right),
                (None, None) => true,
                _ => false,
            },
            (Value::Quantity(left), Value::Quantity(right)) if !right.is_computed => {
                left.compare(right).is_eq()
            }
            (Value::Semver(left), Value::Semver(right)) => left.compare(right).is_eq(),
            (Value::Ip(left), Value::Ip(right)) => left == right,
            (Value::Cidr(left), Value::Cidr(right)) => left == right,
            (Value::Url(left), Value::Url(right)) => left == right,
            (Value::Format(left), Value::Format(right)) => left == right,
            _ if is_kubernetes(left) => return Err(EvalError::no_overload()),
            _ => numbers(left, right).is_some_and(Ordering::is_eq),
        })
    }

    /// Equality inside lists and maps: upstream takes a comparison that fails for equality there.
    fn all_equal<'v>(
        &mut self,
        pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    ) -> Result<bool, EvalError> {
        for (left, right) in pairs {
            match self.equal(left, right) {
                Ok(false) => return Ok(false),
                Err(error) if error.is_fatal() => return Err(error),
                Ok(true) | Err(_) => {}
            }
        }
        Ok(true)
    }

    fn maps_equal(&mut self, left: &Map, right: &Map) -> Result<bool, EvalError> {
        if left.entries.len() != right.entries.len() {
            return Ok(false);
        }
        let mut pairs = Vec::with_capacity(left.entries.len());
        for (key, value) in &left.entries {
            let Some(other) = right.get(&key.to_value()) else { return Ok(false) };
            pairs.push((value, other));
        }
        self.all_equal(pairs.into_iter())
    }

    /// Whether a list contains a value; elements that cannot be compared with it are different.
    pub(crate) fn contain(&mut self, list: &[Value], value: &Value) -> Result<bool, EvalError> {
        for element in list {
            match self.equal(value, element) {
                Ok(true) => return Ok(true),
                Err(error) if error.is_fatal() => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        Ok(false)
    }

    fn check(&self) -> Result<(), EvalError> {
        match self.n_left {
            0 => Err(EvalError::Internal("too many comparisons")),
            _ => Ok(()),
        }
    }
}

fn is_kubernetes(value: &Value) -> bool {
    matches!(
        value,
        Value::Quantity(_)
            | Value::Semver(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Url(_)
            | Value::Format(_)
    )
}

/// The order of two values of comparable types.
pub(crate) fn compare(left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(right),
        _ if is_number(left) && is_number(right) => {
            return numbers(left, right).ok_or(EvalError::failed("NaN values cannot be ordered"));
        }
        _ => return Err(EvalError::no_overload()),
    })
}

/// Whether values of this type have an order.
pub(crate) fn is_comparable(value: &Value) -> bool {
    is_number(value)
        || matches!(
            value,
            Value::Bool(_)
                | Value::String(_)
                | Value::Bytes(_)
                | Value::Duration(_)
                | Value::Timestamp(_)
        )
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

/// The order of two numbers; `None` for other values and for NaN.
fn numbers(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Double(left), Value::Int(right)) => with_integer(*left, i128::from(*right)),
        (Value::Double(left), Value::Uint(right)) => with_integer(*left, i128::from(*right)),
        (Value::Int(left), Value::Double(right)) => {
            with_integer(*right, i128::from(*left)).map(Ordering::reverse)
        }
        (Value::Uint(left), Value::Double(right)) => {
            with_integer(*right, i128::from(*left)).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// The order of a number and an integer. As upstream, an integer within range is rounded to a double first.
fn with_integer(double: f64, integer: i128) -> Option<Ordering> {
    double.partial_cmp(&(integer as f64))
}
