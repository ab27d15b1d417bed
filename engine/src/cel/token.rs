//! The words of an expression: names, numbers, strings, marks.

use super::literal;
use super::word::Word;

/// A word, and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) word: Word,
}

/// A fault, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(at: usize, text: impl Into<String>) -> Fault {
        Fault { at, text: text.into() }
    }
}

/// Marks, longer ones first.
const MARKS: [&str; 28] = [
    "==", "!=", "<=", ">=", "&&", "||", "?", ".", ",", ":", "+", "-", "*", "/", "%", "!", "<", ">",
    "(", ")", "[", "]", "{", "}", "in", "true", "false", "null",
];

/// Splits an expression into words; the last one is [`Word::End`].
pub(crate) fn split(source: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += blank(&source[at..]);
        let rest = &source[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { at, word: Word::End });
            return Ok(tokens);
        };
        let fault = |text: String| Fault { at, text };
        let (word, length) = if let Some(string) = literal::read_string(rest).map_err(fault)? {
            string
        } else if first.is_ascii_alphabetic() || first == '_' {
            name(rest)
        } else if first.is_ascii_digit() || is_fraction(rest) {
            literal::read_number(rest).map_err(fault)?
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark = mark.ok_or_else(|| {
                fault(format!("Syntax error: token recognition error at: '{first}'"))
            })?;
            (Word::Mark(mark), mark.len())
        };
        tokens.push(Token { at, word });
        at += length;
    }
}

/// The length of white space and comments.
fn blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\x0c']);
        match trimmed.strip_prefix("//") {
            Some(comment) => rest = &comment[comment.find('\n').unwrap_or(comment.len())..],
            None => return text.len() - trimmed.len(),
        }
    }
}

fn is_fraction(rest: &str) -> bool {
    rest.as_bytes().get(..2).is_some_and(|bytes| bytes[0] == b'.' && bytes[1].is_ascii_digit())
}

fn name(rest: &str) -> (Word, usize) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let name = &rest[..length];
    let keyword = MARKS[24..].iter().find(|mark| **mark == name);
    (keyword.map_or_else(|| Word::Ident(name.to_owned()), |mark| Word::Mark(mark)), length)
}
