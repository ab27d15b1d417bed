//! Functions of quantities (S-DRA-116).

use crate::cel::amount::ExactAmount;
use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    uniform("quantity", Cost::Text, &[("(string) -> quantity", Cost::Text)], quantity),
    uniform("isQuantity", Cost::Text, &[("(string) -> bool", Cost::Text)], is_quantity),
    function("sign", &[("(quantity) -> int", Cost::One)], sign),
    function("asInteger", &[("quantity.() -> int", Cost::One)], as_integer),
    function("isInteger", &[("quantity.() -> bool", Cost::One)], is_integer),
    function("asApproximateFloat", &[("quantity.() -> double", Cost::One)], as_double),
    function("add", ARITHMETIC, add),
    function("sub", ARITHMETIC, sub),
];

const ARITHMETIC: &[(&str, Cost)] =
    &[("quantity.(quantity) -> quantity", Cost::One), ("quantity.(int) -> quantity", Cost::One)];

fn quantity(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text)] => ExactAmount::parse(text)
            .map(Value::Quantity)
            .map_err(|error| EvalError::of(error.to_string())),
        _ => Err(EvalError::no_overload()),
    }
}

fn is_quantity(args: &[&Value]) -> Evaluated {
    match args {
        [Value::String(text)] => Ok(Value::Bool(ExactAmount::parse(text).is_ok())),
        _ => Err(EvalError::no_overload()),
    }
}

fn sign(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Int(amount.sign())),
        _ => Err(EvalError::no_overload()),
    }
}

fn as_integer(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(amount)] => amount
            .as_integer()
            .map(Value::Int)
            .ok_or(EvalError::failed("cannot convert value to integer")),
        _ => Err(EvalError::no_overload()),
    }
}

fn is_integer(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Bool(amount.as_integer().is_some())),
        _ => Err(EvalError::no_overload()),
    }
}

fn as_double(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Double(amount.as_double())),
        _ => Err(EvalError::no_overload()),
    }
}

fn add(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(left), Value::Quantity(right)] => Ok(Value::Quantity(left.add(right))),
        [Value::Quantity(left), Value::Int(right)] => Ok(Value::Quantity(left.add_int(*right))),
        _ => Err(EvalError::no_overload()),
    }
}

fn sub(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Quantity(left), Value::Quantity(right)] => Ok(Value::Quantity(left.sub(right))),
        [Value::Quantity(left), Value::Int(right)] => Ok(Value::Quantity(left.sub_int(*right))),
        _ => Err(EvalError::no_overload()),
    }
}
