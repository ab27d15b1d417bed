//! Fields of timestamps and durations (S-DRA-114).

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::time::Calendar;
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("getFullYear", DATE, |args| calendar(args, |calendar| calendar.year)),
    function("getMonth", DATE, |args| calendar(args, |calendar| calendar.month - 1)),
    function("getDayOfYear", DATE, |args| calendar(args, |calendar| calendar.day_of_year)),
    function("getDayOfMonth", DATE, |args| calendar(args, |calendar| calendar.day - 1)),
    function("getDate", DATE, |args| calendar(args, |calendar| calendar.day)),
    function("getDayOfWeek", DATE, |args| calendar(args, |calendar| calendar.day_of_week)),
    function("getHours", CLOCK, |args| {
        clock(args, |calendar| calendar.second_of_day / 3600, 3_600_000_000_000)
    }),
    function("getMinutes", CLOCK, |args| {
        clock(args, |calendar| calendar.second_of_day / 60 % 60, 60_000_000_000)
    }),
    function("getSeconds", CLOCK, |args| {
        clock(args, |calendar| calendar.second_of_day % 60, 1_000_000_000)
    }),
    function("getMilliseconds", CLOCK, milliseconds),
];

const DATE: &[(&str, Cost)] =
    &[("timestamp.() -> int", Cost::One), ("timestamp.(string) -> int", Cost::One)];

const CLOCK: &[(&str, Cost)] = &[
    ("timestamp.() -> int", Cost::One),
    ("timestamp.(string) -> int", Cost::One),
    ("duration.() -> int", Cost::One),
];

fn calendar(args: &[&Value], field: fn(&Calendar) -> i64) -> Evaluated {
    let (moment, zone) = match args {
        [Value::Timestamp(moment)] => (moment, "UTC"),
        [Value::Timestamp(moment), Value::String(zone)] => (moment, &**zone),
        _ => return Err(EvalError::no_overload()),
    };
    let calendar = moment.calendar(zone);
    let unknown = || EvalError::of(format!("unknown time zone {zone}"));
    Ok(Value::Int(field(&calendar.ok_or_else(unknown)?)))
}

fn clock(args: &[&Value], field: fn(&Calendar) -> i64, unit: i64) -> Evaluated {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => calendar(args, field),
    }
}

fn milliseconds(args: &[&Value]) -> Evaluated {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        [Value::Timestamp(moment), ..] => {
            calendar(args, |_| 0)?;
            Ok(Value::Int(i64::from(moment.nanos) / 1_000_000))
        }
        _ => Err(EvalError::no_overload()),
    }
}
