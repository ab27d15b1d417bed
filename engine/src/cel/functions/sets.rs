//! Lists compared as sets (S-DRA-115).

use crate::cel::cost::{COST_LIMIT, Cost};
use crate::cel::equality::Comparisons;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("sets.contains", &[("(list(A), list(A)) -> bool", Cost::Sets(1))], |args| {
        test(args, contains)
    }),
    function("sets.equivalent", &[("(list(A), list(A)) -> bool", Cost::Sets(2))], |args| {
        test(args, |left, right| Ok(contains(left, right)? && contains(right, left)?))
    }),
    function("sets.intersects", &[("(list(A), list(A)) -> bool", Cost::Sets(1))], |args| {
        test(args, intersect)
    }),
];

fn test(args: &[&Value], holds: fn(&[Value], &[Value]) -> Result<bool, EvalError>) -> Evaluated {
    let [Value::List(left), Value::List(right)] = args else {
        return Err(EvalError::no_overload());
    };
    // The cost of more comparisons is beyond the limit.
    if (left.len() as u64).saturating_mul(right.len() as u64) > COST_LIMIT {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::Bool(holds(left, right)?))
}

fn contains(list: &[Value], part: &[Value]) -> Result<bool, EvalError> {
    let mut comparisons = Comparisons::new();
    for value in part {
        if !comparisons.contain(list, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersect(left: &[Value], right: &[Value]) -> Result<bool, EvalError> {
    let mut comparisons = Comparisons::new();
    for value in left {
        if comparisons.contain(right, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}
