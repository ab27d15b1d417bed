//! Regular expressions: the syntax of RE2 as Go reads it, written for the `regex` crate (S-DRA-114).
//!
//! The syntaxes differ in details: Perl's classes are ASCII in RE2, a `[` or `&&` inside a class is literal there, and
//! `{` is literal where no repetition is.

use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// The largest count of a repetition, and of nested repetitions multiplied.
const MAX_REPEAT: u32 = 1000;
/// Limit of a compiled pattern's memory.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// Compiles a pattern of RE2, or returns what is wrong with it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern).ok_or_else(|| {
        format!("error parsing regexp: invalid escape or repetition: `{pattern}`")
    })?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|_| format!("error parsing regexp: `{pattern}`"))
}

fn translate(pattern: &str) -> Option<String> {
    let mut output = String::with_capacity(pattern.len() + 16);
    let mut input = pattern.chars().peekable();
    // Whether the last item was a repetition, which Go does not let another one follow.
    let mut is_repeated = false;
    while let Some(c) = input.next() {
        let mut repeats = false;
        match c {
            '\\' => escape(&mut input, &mut output, false)?,
            '[' => class(&mut input, &mut output)?,
            '(' => group(&mut input, &mut output)?,
            '{' => match counted(&mut input)? {
                Some(count) => {
                    repeats = true;
                    output.push_str(&count);
                }
                None => output.push_str("\\{"),
            },
            '*' | '+' | '?' => {
                repeats = true;
                output.push(c);
            }
            _ => output.push(c),
        }
        if repeats {
            if is_repeated {
                return None;
            }
            if input.peek() == Some(&'?') {
                input.next();
                output.push('?');
            }
        }
        is_repeated = repeats;
    }
    Some(output)
}

/// Reads what follows `(`, refusing flags that RE2 does not have.
fn group(input: &mut Peekable<Chars<'_>>, output: &mut String) -> Option<()> {
    output.push('(');
    if input.next_if_eq(&'?').is_none() {
        return Some(());
    }
    output.push('?');
    let first = *input.peek()?;
    if first == 'P' || first == '<' {
        return Some(());
    }
    for c in input.by_ref() {
        output.push(c);
        match c {
            ':' | ')' => return Some(()),
            'i' | 'm' | 's' | 'U' | '-' => {}
            _ => return None,
        }
    }
    None
}

/// Reads a repetition after `{`; `Some(None)` if the brace is literal.
fn counted(input: &mut Peekable<Chars<'_>>) -> Option<Option<String>> {
    let ahead: String = input.clone().take_while(|c| *c != '}').take(16).collect();
    let (least, most) = ahead.split_once(',').unwrap_or((&ahead, &ahead));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_closed = input.clone().nth(ahead.chars().count()) == Some('}');
    if !is_closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Some(None);
    }
    for count in [least, most].iter().filter(|count| !count.is_empty()) {
        count.parse::<u32>().ok().filter(|count| *count <= MAX_REPEAT)?;
    }
    input.nth(ahead.chars().count());
    Some(Some(format!("{{{ahead}}}")))
}

/// Reads a class after `[`.
fn class(input: &mut Peekable<Chars<'_>>, output: &mut String) -> Option<()> {
    output.push('[');
    if input.next_if_eq(&'^').is_some() {
        output.push('^');
    }
    if input.next_if_eq(&']').is_some() {
        output.push_str("\\]");
    }
    while let Some(c) = input.next() {
        match c {
            ']' => {
                output.push(']');
                return Some(());
            }
            '\\' => escape(input, output, true)?,
            '[' if input.peek() == Some(&':') => {
                let name: String = input.by_ref().take_while(|c| *c != ']').collect();
                output.push_str(&format!("[{name}]"));
            }
            '[' | '&' | '~' | '#' => {
                output.push('\\');
                output.push(c);
            }
            _ => output.push(c),
        }
    }
    None
}

/// Reads an escape after `\`.
fn escape(input: &mut Peekable<Chars<'_>>, output: &mut String, in_class: bool) -> Option<()> {
    let c = input.next()?;
    let bare = |set: &str, output: &mut String| {
        output.push_str(&if in_class { set.to_owned() } else { format!("[{set}]") });
    };
    match c {
        'd' => bare("0-9", output),
        'w' => bare("0-9A-Za-z_", output),
        's' => bare("\\t\\n\\x0C\\r ", output),
        'D' => output.push_str("[^0-9]"),
        'W' => output.push_str("[^0-9A-Za-z_]"),
        'S' => output.push_str("[^\\t\\n\\x0C\\r ]"),
        'b' if !in_class => output.push_str("(?-u:\\b)"),
        'B' if !in_class => output.push_str("(?-u:\\B)"),
        'A' | 'z' if !in_class => output.push_str(&format!("\\{c}")),
        'Q' => literal(input, output),
        'E' => {}
        'a' => output.push_str("\\x07"),
        'f' => output.push_str("\\x0C"),
        'v' => output.push_str("\\x0B"),
        'n' | 'r' | 't' => output.push_str(&format!("\\{c}")),
        'x' | 'p' | 'P' => output.push_str(&format!("\\{c}")),
        '0'..='7' => octal(c, input, output)?,
        _ if c.is_ascii_punctuation() => {
            output.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])))
        }
        _ => return None,
    }
    Some(())
}

fn literal(input: &mut Peekable<Chars<'_>>, output: &mut String) {
    let rest: String = input.clone().collect();
    let text = rest.split("\\E").next().unwrap_or_default();
    output.push_str(&regex::escape(text));
    let n_read = text.chars().count() + if rest.len() > text.len() { 2 } else { 0 };
    input.by_ref().take(n_read).for_each(drop);
}

/// Reads an octal escape. A digit other than 0 alone would be a reference to a group, which RE2 does not have.
fn octal(first: char, input: &mut Peekable<Chars<'_>>, output: &mut String) -> Option<()> {
    let mut code = first.to_digit(8)?;
    let mut n_digits = 1;
    while n_digits < 3
        && let Some(digit) = input.peek().and_then(|c| c.to_digit(8))
    {
        code = code * 8 + digit;
        n_digits += 1;
        input.next();
    }
    (first == '0' || n_digits > 1).then(|| output.push_str(&format!("\\x{{{code:X}}}")))
}

#[cfg(test)]
mod tests {
    use super::compile;

    /// S-DRA-114: patterns mean what they mean in RE2.
    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١", false),
            (r"^[\w.]+$", "a_1.b", true),
            (r"^[a[b]+$", "a[b", true),
            (r"\Qa.b\E+", "a.bbb", true),
            (r"a{,2}", "a{,2}", true),
            (r"\<", "<", true),
            (r"^[[:alpha:]&&]+$", "a&b", true),
            (r"\bcat\b", "a cat", true),
            (r"^\x41\101$", "AA", true),
            (r"(?i)ABC", "abc", true),
            (r"^a{2,3}?$", "aaa", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), expected, "{pattern}");
        }
        for broken in ["(", "a**", r"\1", "a{1001}", r"\u0041", "(?x)a", "[a", r"\", "*a"] {
            assert!(compile(broken).is_err(), "{broken}");
        }
    }
}
