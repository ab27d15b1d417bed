//! Searches of regular expressions (S-DRA-115). Constant patterns are compiled with the expression, see `plan`.

use regex::Regex;

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::pattern;
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "matches",
        &[("(string, string) -> bool", Cost::One), ("string.(string) -> bool", Cost::Pattern)],
        |args| search(args, |text, pattern, _| Value::Bool(pattern.is_match(text))),
    ),
    uniform("find", Cost::Pattern, &[("string.(string) -> string", Cost::Pattern)], |args| {
        search(args, |text, pattern, _| {
            Value::string(pattern.find(text).map_or("", |found| found.as_str()))
        })
    }),
    uniform(
        "findAll",
        Cost::Pattern,
        &[
            ("string.(string) -> list(string)", Cost::Pattern),
            ("string.(string, int) -> list(string)", Cost::Pattern),
        ],
        |args| {
            search(args, |text, pattern, limit| {
                let found = pattern.find_iter(text).take(limit);
                Value::list(found.map(|found| Value::string(found.as_str())).collect::<Vec<_>>())
            })
        },
    ),
];

/// Compiles the pattern among the arguments and searches for it, at most as often as the last argument allows.
fn search(args: &[&Value], result: fn(&str, &Regex, usize) -> Value) -> Evaluated {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, usize::MAX),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => {
            (text, pattern, usize::try_from(*limit).unwrap_or(usize::MAX))
        }
        _ => return Err(EvalError::no_overload()),
    };
    let pattern = pattern::compile(pattern).map_err(EvalError::of)?;
    Ok(result(text, &pattern, limit))
}
