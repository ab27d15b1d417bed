//! Functions of texts; positions count characters (S-DRA-115).

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function, uniform};
use crate::cel::value::Value;

/// Limit of the bytes of a text that a function makes.
const MAX_TEXT_BYTES: usize = 32 << 20;

pub(super) const FUNCTIONS: &[Function] = &[
    function("contains", &[("string.(string) -> bool", Cost::Product)], |args| {
        test(args, |text, part| text.contains(part))
    }),
    function("startsWith", &[("string.(string) -> bool", Cost::Text)], |args| {
        test(args, |text, part| text.starts_with(part))
    }),
    function("endsWith", &[("string.(string) -> bool", Cost::Text)], |args| {
        test(args, |text, part| text.ends_with(part))
    }),
    function("charAt", &[("string.(int) -> string", Cost::One)], char_at),
    uniform("lowerAscii", Cost::Text, &[("string.() -> string", Cost::Text)], |args| {
        map(args, str::to_ascii_lowercase)
    }),
    uniform("upperAscii", Cost::Text, &[("string.() -> string", Cost::Text)], |args| {
        map(args, str::to_ascii_uppercase)
    }),
    uniform("trim", Cost::Text, &[("string.() -> string", Cost::Text)], |args| {
        map(args, |text| text.trim().to_owned())
    }),
    function("strings.quote", &[("(string) -> string", Cost::Text)], |args| map(args, quoted)),
    uniform(
        "replace",
        Cost::TextTwice,
        &[
            ("string.(string, string) -> string", Cost::TextTwice),
            ("string.(string, string, int) -> string", Cost::TextTwice),
        ],
        replace,
    ),
    uniform(
        "split",
        Cost::TextTwice,
        &[
            ("string.(string) -> list(string)", Cost::TextTwice),
            ("string.(string, int) -> list(string)", Cost::TextTwice),
        ],
        split,
    ),
    uniform(
        "substring",
        Cost::Text,
        &[("string.(int) -> string", Cost::Text), ("string.(int, int) -> string", Cost::Text)],
        substring,
    ),
    uniform(
        "join",
        Cost::Joined,
        &[
            ("list(string).() -> string", Cost::Joined),
            ("list(string).(string) -> string", Cost::Joined),
        ],
        join,
    ),
];

fn test(args: &[&Value], holds: fn(&str, &str) -> bool) -> Evaluated {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(EvalError::no_overload()),
    }
}

fn map(args: &[&Value], change: fn(&str) -> String) -> Evaluated {
    match args {
        [Value::String(text)] => Ok(Value::string(change(text))),
        _ => Err(EvalError::no_overload()),
    }
}

fn out_of_range(position: i64) -> EvalError {
    EvalError::of(format!("index out of range: {position}"))
}

/// The position in bytes of the character at a position; the end of the text has one too.
fn byte_position(text: &str, position: i64) -> Option<usize> {
    let position = usize::try_from(position).ok()?;
    let ends = std::iter::once(text.len());
    text.char_indices().map(|(at, _)| at).chain(ends).nth(position)
}

fn char_at(args: &[&Value]) -> Evaluated {
    let [Value::String(text), Value::Int(position)] = args else {
        return Err(EvalError::no_overload());
    };
    let at = byte_position(text, *position).ok_or_else(|| out_of_range(*position))?;
    Ok(Value::string(text[at..].chars().take(1).collect::<String>()))
}

fn substring(args: &[&Value]) -> Evaluated {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::no_overload()),
    };
    if end.is_some_and(|end| start > end) {
        return Err(EvalError::failed("invalid substring range"));
    }
    let from = byte_position(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_position(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::string(&text[from..to]))
}

fn replace(args: &[&Value]) -> Evaluated {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, *limit)
        }
        _ => return Err(EvalError::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let n_replaced = text.matches(&**old).take(limit).count();
    if text.len().saturating_add(n_replaced.saturating_mul(new.len())) > MAX_TEXT_BYTES {
        return Err(EvalError::Internal("a text is too long"));
    }
    Ok(Value::string(text.replacen(&**old, new, limit)))
}

fn split(args: &[&Value]) -> Evaluated {
    let (text, mark, limit) = match args {
        [Value::String(text), Value::String(mark)] => (text, mark, -1),
        [Value::String(text), Value::String(mark), Value::Int(limit)] => (text, mark, *limit),
        _ => return Err(EvalError::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Value> = if mark.is_empty() {
        characters(text, limit).map(Value::string).collect()
    } else {
        text.splitn(limit, &**mark).map(Value::string).collect()
    };
    Ok(Value::list(parts))
}

/// The characters of a text; the last part holds what exceeds the limit.
fn characters(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    (0..limit).map_while(move |n_before| {
        let length =
            if n_before + 1 == limit { rest.len() } else { rest.chars().next()?.len_utf8() };
        let (part, after) = rest.split_at(length);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn join(args: &[&Value]) -> Evaluated {
    let (list, mark) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(mark)] => (list, &**mark),
        _ => return Err(EvalError::no_overload()),
    };
    let mut joined = String::new();
    for (position, element) in list.iter().enumerate() {
        let Value::String(part) = element else { return Err(EvalError::no_overload()) };
        if position > 0 {
            joined.push_str(mark);
        }
        joined.push_str(part);
        // The cost of such a text is beyond the limit.
        if joined.len() > MAX_TEXT_BYTES {
            return Err(EvalError::CostLimit);
        }
    }
    Ok(Value::string(joined))
}

/// The position of a part in a text from an offset; -1 without one.
pub(super) fn index_of(text: &str, part: &str, offset: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_position(text, offset)
        .and_then(|from| text[from..].find(part).map(|at| from + at))
        .map_or(-1, |at| position_of(text, at));
    Ok(Value::Int(found))
}

/// The last position of a part in a text, at most the offset; -1 without one.
pub(super) fn last_index_of(text: &str, part: &str, offset: Option<i64>) -> Evaluated {
    let n_chars = position_of(text, text.len());
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(n_chars)));
    }
    let found = match offset {
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        Some(offset) if offset >= n_chars => None,
        Some(offset) => {
            let last = byte_position(text, offset).unwrap_or(text.len());
            let end = text.len().min(last + part.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(end);
            text[..end].rfind(part).filter(|at| *at <= last)
        }
        None => text.rfind(part),
    };
    Ok(Value::Int(found.map_or(-1, |at| position_of(text, at))))
}

/// The position in characters of a position in bytes.
fn position_of(text: &str, at: usize) -> i64 {
    text[..at].chars().count() as i64
}

/// The text in double quotes, with escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
