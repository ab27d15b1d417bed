//! Label selectors as text, in the grammar of list requests (wire facts 5.3; validity W-SEL-4, meaning W-SEL-3).
//!
//! ```text
//! selector    = "" | requirement { "," requirement }
//! requirement = KEY | "!" KEY | KEY ("=" | "==" | "!=") VALUE | KEY ("in" | "notin") "(" VALUE { "," VALUE } ")"
//!             | KEY (">" | "<") INTEGER
//! ```
//! White space between tokens is free; a VALUE may be empty.

use std::sync::Arc;

use berth_proto::meta_v1;

/// A parsed selector: all requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses the text.
    ///
    /// # Errors
    /// The expected token, the one found and its byte position; or the invalid key, value or bound.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        let mut parser = Parser { text, at: 0 };
        let mut requirements = Vec::new();
        if parser.peek() == Token::End {
            return Ok(LabelSelector { requirements });
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.next() {
                Token::End => return Ok(LabelSelector { requirements }),
                Token::Comma => {}
                other => return Err(parser.expected("`,` or the end", other)),
            }
        }
    }

    /// The selector as an object.
    ///
    /// # Errors
    /// A comparison with `>` or `<`, which only list requests have.
    pub fn to_object(&self) -> Result<meta_v1::LabelSelector, String> {
        let mut selector = meta_v1::LabelSelector::default();
        for Requirement { key, test } in &self.requirements {
            let (operator, values) = match test {
                Test::Exists => ("Exists", Vec::new()),
                Test::DoesNotExist => ("DoesNotExist", Vec::new()),
                Test::In(values) => ("In", values.clone()),
                Test::NotIn(values) => ("NotIn", values.clone()),
                Test::GreaterThan(_) | Test::LessThan(_) => {
                    return Err(format!("`{key}` cannot be compared with `>` or `<` here"));
                }
            };
            selector.match_expressions.push(meta_v1::LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values,
            });
        }
        Ok(selector)
    }

    /// Whether these labels, keys and values, meet every requirement (W-SEL-3). If a key occurs twice, the first
    /// counts.
    pub fn matches(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        self.requirements.iter().all(|requirement| {
            let value =
                labels.iter().find(|(key, _)| **key == *requirement.key).map(|(_, value)| &**value);
            requirement.test.holds(value)
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let integer = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::In(values) => {
                value.is_some_and(|value| values.iter().any(|known| known == value))
            }
            Test::NotIn(values) => {
                value.is_none_or(|value| values.iter().all(|known| known != value))
            }
            Test::GreaterThan(bound) => integer().is_some_and(|value| value > *bound),
            Test::LessThan(bound) => integer().is_some_and(|value| value < *bound),
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let key = match self.next() {
            Token::Not => {
                let key = self.key()?;
                return Ok(Requirement { key, test: Test::DoesNotExist });
            }
            Token::Word(key) => checked_key(key)?,
            other => return Err(self.expected("a key or `!`", other)),
        };
        let test = match self.peek() {
            Token::Comma | Token::End => Test::Exists,
            operator => {
                self.next();
                match operator {
                    Token::Equal => Test::In(vec![self.value()?]),
                    Token::NotEqual => Test::NotIn(vec![self.value()?]),
                    Token::Word("in") => Test::In(self.values()?),
                    Token::Word("notin") => Test::NotIn(self.values()?),
                    Token::Greater => Test::GreaterThan(self.integer()?),
                    Token::Less => Test::LessThan(self.integer()?),
                    other => {
                        return Err(self.expected(
                            "`=`, `==`, `!=`, `in`, `notin`, `>`, `<`, `,` or the end",
                            other,
                        ));
                    }
                }
            }
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        match self.next() {
            Token::Word(key) => checked_key(key),
            other => Err(self.expected("a key", other)),
        }
    }

    /// Parses one value; it is empty if the next token is `,`, `)` or the end.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::Comma | Token::End | Token::Close => Ok(String::new()),
            Token::Word(value) => {
                self.next();
                checked_value(value)
            }
            other => {
                self.next();
                Err(self.expected("a value", other))
            }
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(self.expected("`(`", other)),
        }
        if self.peek() == Token::Close {
            return Err(format!(
                "needs at least one value between the parentheses at byte {}",
                self.at
            ));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(self.expected("`,` or `)`", other)),
            }
        }
    }

    fn integer(&mut self) -> Result<i64, String> {
        match self.next() {
            Token::Word(word) => {
                // A label value cannot begin with a sign, so a signed bound is invalid as well (W-SEL-4).
                checked_value(word)?.parse().map_err(|_| format!("`{word}` is not an integer"))
            }
            other => Err(self.expected("an integer", other)),
        }
    }

    fn peek(&self) -> Token<'a> {
        Parser { text: self.text, at: self.at }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r', '\n']);
        self.at = self.text.len() - rest.len();
        const SIGNS: [(&str, Token<'_>); 9] = [
            ("!=", Token::NotEqual),
            ("!", Token::Not),
            ("==", Token::Equal),
            ("=", Token::Equal),
            (">", Token::Greater),
            ("<", Token::Less),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ];
        if rest.is_empty() {
            return Token::End;
        }
        if let Some((sign, token)) = SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
            self.at += sign.len();
            return token;
        }
        let end = rest
            .find(['!', '=', '<', '>', '(', ')', ',', ' ', '\t', '\r', '\n'])
            .unwrap_or(rest.len());
        self.at += end;
        Token::Word(&rest[..end])
    }

    fn expected(&self, what: &str, found: Token<'_>) -> String {
        let found = match found {
            Token::Word(word) => format!("`{word}`"),
            Token::Not => "`!`".to_owned(),
            Token::Equal => "`=`".to_owned(),
            Token::NotEqual => "`!=`".to_owned(),
            Token::Greater => "`>`".to_owned(),
            Token::Less => "`<`".to_owned(),
            Token::Open => "`(`".to_owned(),
            Token::Close => "`)`".to_owned(),
            Token::Comma => "`,`".to_owned(),
            Token::End => "the end".to_owned(),
        };
        format!("expected {what} instead of {found} before byte {}", self.at)
    }
}

/// Checks a key (W-SEL-4): an optional DNS subdomain and `/`, then a name of 1 to 63 characters.
fn checked_key(key: &str) -> Result<String, String> {
    let (prefix, name) =
        key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_is_valid = prefix.is_none_or(|prefix| {
        prefix.len() <= 253
            && prefix.split('.').all(|label| {
                let inner =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                !label.is_empty()
                    && label.bytes().all(inner)
                    && !label.starts_with('-')
                    && !label.ends_with('-')
            })
    });
    if !prefix_is_valid || name.is_empty() || !is_name(name) {
        return Err(format!("`{key}` is not a label key"));
    }
    Ok(key.to_owned())
}

fn checked_value(value: &str) -> Result<String, String> {
    if !value.is_empty() && !is_name(value) {
        return Err(format!("`{value}` is not a label value"));
    }
    Ok(value.to_owned())
}

/// Whether the text is 1 to 63 characters, letters and digits, inside also `-`, `_` and `.`.
fn is_name(text: &str) -> bool {
    let ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a match; `labels` are written `k=v,k=v`.
    fn check(selector: &str, labels: &str, expected: bool) {
        let labels: Vec<(Arc<str>, Arc<str>)> = labels
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        let parsed =
            LabelSelector::parse(selector).unwrap_or_else(|reason| panic!("{selector}: {reason}"));
        assert_eq!(parsed.matches(&labels), expected, "`{selector}` on {labels:?}");
    }

    #[test]
    fn a_selector_as_an_object() {
        let object =
            LabelSelector::parse("app=web,tier in (a,b),!old").unwrap().to_object().unwrap();
        let texts = object.match_expressions.iter();
        let texts: Vec<String> =
            texts.map(|it| format!("{} {} {}", it.key, it.operator, it.values.join("+"))).collect();
        assert_eq!(texts, ["app In web", "tier In a+b", "old DoesNotExist "]);
        assert!(LabelSelector::parse("n>3").unwrap().to_object().is_err());
    }

    #[test]
    fn every_operator_matches_as_in_w_sel_3() {
        check("", "a=1", true);
        check("  ", "", true);
        check("a", "a=", true);
        check("a", "b=1", false);
        check("!a", "b=1", true);
        check("!a", "a=1", false);
        check("a=1", "a=1", true);
        check("a==1", "a=2", false);
        check("a=", "a=", true);
        check("a=", "b=", false);
        check("a!=1", "a=2", true);
        check("a!=1", "", true);
        check("a!=1", "a=1", false);
        check("a in (1,2)", "a=2", true);
        check("a in (1,2)", "a=3", false);
        check("a in (,x)", "a=", true);
        check("a notin (1,2)", "a=3", true);
        check("a notin (1,2)", "", true);
        check("a notin (1,2)", "a=1", false);
        check("a>5", "a=6", true);
        check("a>5", "a=5", false);
        check("a > 5", "a=x", false);
        check("a<5", "a=-3", true);
        check("a<5", "", false);
    }

    #[test]
    fn requirements_are_joined_and_white_space_is_free() {
        check("topology.kubernetes.io/zone in (a,b),!gpu", "topology.kubernetes.io/zone=b", true);
        check(
            "topology.kubernetes.io/zone in (a,b),!gpu",
            "topology.kubernetes.io/zone=b,gpu=1",
            false,
        );
        check(" a  ==  1 , b   in ( x , y ) ", "a=1,b=y", true);
        check("in in (in)", "in=in", true);
        check("notin", "notin=", true);
        check("a,b,c", "a=1,b=1,c=1", true);
    }

    #[test]
    fn errors_say_what_was_expected() {
        let check = |text: &str, expected: &str| {
            assert_eq!(LabelSelector::parse(text).unwrap_err(), expected, "{text}")
        };
        check(",", "expected a key or `!` instead of `,` before byte 1");
        check("a,", "expected a key or `!` instead of the end before byte 2");
        check(
            "a b",
            "expected `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, `,` or the end instead of `b` before byte 3",
        );
        check("a=1 b", "expected `,` or the end instead of `b` before byte 5");
        check("a in 1", "expected `(` instead of `1` before byte 6");
        check("a in (1", "expected `,` or `)` instead of the end before byte 7");
        check("a in ()", "needs at least one value between the parentheses at byte 6");
        check("a=!", "expected a value instead of `!` before byte 3");
        check("a>", "expected an integer instead of the end before byte 2");
        check("a>x", "`x` is not an integer");
        check("a>-1", "`-1` is not a label value");
        check("-a", "`-a` is not a label key");
        check("A.b/c", "`A.b/c` is not a label key");
        check("a/b/c", "`a/b/c` is not a label key");
        check("a=é", "`é` is not a label value");
        check(&"k".repeat(64), &format!("`{}` is not a label key", "k".repeat(64)));
    }
}
