//! Comparison of an answer with the part of it that an example expects (L-GEN-6).
//!
//! Keys of the answer that the example does not name are ignored. `false`, `0` and `[]` have to be in the answer;
//! `null` and `""` also match an absent key.

use berth_proto::Time;
use serde_json::{Map, Number, Value};

use crate::lifecycle::path_below;

/// Largest difference at which two numbers with a fraction, which are rates, still count as equal.
const RATE_TOLERANCE: f64 = 1e-6;
/// Lists whose order is irrelevant, by function.
const SETS: [(&str, &[&str]); 2] = [
    ("PlanContainers", &["containersToKill"]),
    ("NamespaceDeletion", &["blockedBy", "partitionedBlockers", "resolutions"]),
];
/// Key of the map that is compared whole: an additional key is a difference too.
const EXACT: &str = "disruptedPods";
/// Key of the conditions, which are matched by type; a type that is expected to be `null` must be absent.
const CONDITIONS: &str = "conditions";

/// Result of one comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Values that are as expected.
    pub n_equal: usize,
    /// Values that are not as expected, in the order of the expected ones.
    pub unequal: Vec<Unequal>,
}

/// One value of an answer that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unequal {
    /// Path in the answer, such as `events[2].at`.
    pub path: String,
    /// The expected value as JSON.
    pub expected: String,
    /// The answered value as JSON, or `nothing`.
    pub answered: String,
}

/// Compares the answer of a function with the part that is expected.
#[must_use]
pub fn compare(function: &str, expect: &Map<String, Value>, answer: &Value) -> Comparison {
    let sets = SETS.iter().find(|(name, _)| *name == function).map_or(&[][..], |(_, sets)| sets);
    let mut matcher = Matcher { sets, comparison: Comparison::default() };
    matcher.object("", expect, Some(answer));
    matcher.comparison
}

struct Matcher<'a> {
    sets: &'a [&'a str],
    comparison: Comparison,
}

impl Matcher<'_> {
    fn object(&mut self, path: &str, expect: &Map<String, Value>, answer: Option<&Value>) {
        let keys = match answer {
            Some(Value::Object(keys)) => Some(keys),
            // An empty object is not written to JSON.
            None | Some(Value::Null) if expect.is_empty() => None,
            _ => return self.count(path, &Value::Object(expect.clone()), answer, false),
        };
        if expect.is_empty() {
            self.comparison.n_equal += 1;
        }
        for (key, expected) in expect {
            let path = path_below(path, key);
            let answered = keys.and_then(|keys| keys.get(key));
            match expected {
                Value::Object(expected) if key == EXACT => self.exactly(&path, expected, answered),
                Value::Object(expected) if key == CONDITIONS => {
                    self.conditions(&path, expected, answered);
                }
                _ => self.value(&path, expected, answered),
            }
        }
    }

    fn value(&mut self, path: &str, expected: &Value, answered: Option<&Value>) {
        match expected {
            Value::Object(expect) => self.object(path, expect, answered),
            Value::Array(expect) if self.sets.contains(&path) => {
                self.set(path, expected, expect, answered);
            }
            Value::Array(expect) => self.list(path, expected, expect, answered),
            _ => self.count(path, expected, answered, is_equal(expected, answered)),
        }
    }

    /// Compares two lists element by element, in order; they must have the same length.
    fn list(&mut self, path: &str, expected: &Value, expect: &[Value], answered: Option<&Value>) {
        match answered {
            Some(Value::Array(elements)) if elements.len() == expect.len() => {
                if expect.is_empty() {
                    self.comparison.n_equal += 1;
                }
                for (index, (expected, element)) in expect.iter().zip(elements).enumerate() {
                    self.value(&format!("{path}[{index}]"), expected, Some(element));
                }
            }
            _ => self.count(path, expected, answered, false),
        }
    }

    /// Compares two lists regardless of order: as many elements, and each expected one paired with another answered
    /// one.
    fn set(&mut self, path: &str, expected: &Value, expect: &[Value], answered: Option<&Value>) {
        let equal = answered.and_then(Value::as_array).is_some_and(|elements| {
            elements.len() == expect.len() && pair_up(expect, elements, is_match)
        });
        self.count(path, expected, answered, equal);
    }

    /// Compares conditions by type: an expected one is a part of the answered one, and `null` means that it is absent.
    fn conditions(&mut self, path: &str, expect: &Map<String, Value>, answered: Option<&Value>) {
        let (absent, present): (Vec<_>, Vec<_>) =
            expect.iter().partition(|(_, expected)| expected.is_null());
        for (r#type, expected) in absent {
            let found = answered.and_then(|conditions| conditions.get(r#type));
            self.count(&path_below(path, r#type), expected, found, found.is_none());
        }
        let present: Map<String, Value> =
            present.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        if !present.is_empty() {
            self.object(path, &present, answered);
        }
    }

    /// Compares two maps of instants exactly: the same keys, with the same instants.
    fn exactly(&mut self, path: &str, expect: &Map<String, Value>, answered: Option<&Value>) {
        let none = Map::new();
        let keys = match answered {
            None | Some(Value::Null) => Some(&none),
            Some(other) => other.as_object(),
        };
        let equal = keys.is_some_and(|keys| {
            keys.len() == expect.len()
                && expect.iter().all(|(key, value)| {
                    keys.get(key).is_some_and(|answered| is_equal(value, Some(answered)))
                })
        });
        self.count(path, &Value::Object(expect.clone()), answered, equal);
    }

    fn count(&mut self, path: &str, expected: &Value, answered: Option<&Value>, equal: bool) {
        if equal {
            self.comparison.n_equal += 1;
            return;
        }
        self.comparison.unequal.push(Unequal {
            path: path.to_owned(),
            expected: expected.to_string(),
            answered: answered.map_or_else(|| "nothing".to_owned(), Value::to_string),
        });
    }
}

/// Whether an element is as expected, regardless of its position in the answer.
fn is_match(expected: &Value, element: &Value) -> bool {
    let mut matcher = Matcher { sets: &[], comparison: Comparison::default() };
    matcher.value("", expected, Some(element));
    matcher.comparison.unequal.is_empty()
}

/// Whether each expected element can be paired with an element of its own; reassigns an earlier pair where necessary.
fn pair_up(expect: &[Value], elements: &[Value], fits: fn(&Value, &Value) -> bool) -> bool {
    fn find(
        of: usize,
        fitting: &[Vec<usize>],
        tried: &mut [bool],
        taken_by: &mut [Option<usize>],
    ) -> bool {
        fitting.get(of).into_iter().flatten().any(|&element| {
            if std::mem::replace(&mut tried[element], true) {
                return false;
            }
            let free = taken_by[element].is_none_or(|other| find(other, fitting, tried, taken_by));
            if free {
                taken_by[element] = Some(of);
            }
            free
        })
    }
    let fitting: Vec<Vec<usize>> = expect
        .iter()
        .map(|expected| {
            (0..elements.len()).filter(|&element| fits(expected, &elements[element])).collect()
        })
        .collect();
    let mut taken_by = vec![None; elements.len()];
    (0..expect.len()).all(|of| find(of, &fitting, &mut vec![false; elements.len()], &mut taken_by))
}

/// Whether a scalar is as expected.
fn is_equal(expected: &Value, answered: Option<&Value>) -> bool {
    match (expected, answered) {
        (Value::Null, answered) => answered.is_none_or(says_nothing),
        (Value::String(text), None | Some(Value::Null)) => text.is_empty(),
        (Value::String(expected), Some(Value::String(answered))) => {
            expected == answered
                || instant(expected).is_some_and(|at| instant(answered) == Some(at))
        }
        (Value::Number(expected), Some(Value::Number(answered))) => {
            is_same_number(expected, answered)
        }
        (expected, Some(answered)) => expected == answered,
        (_, None) => false,
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(keys) => keys.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

fn instant(text: &str) -> Option<Time> {
    serde_json::from_value(Value::String(text.to_owned())).ok()
}

fn is_same_number(expected: &Number, answered: &Number) -> bool {
    match (expected.as_i128(), answered.as_i128()) {
        (Some(expected), Some(answered)) => expected == answered,
        _ => expected
            .as_f64()
            .zip(answered.as_f64())
            .is_some_and(|(expected, answered)| (expected - answered).abs() <= RATE_TOLERANCE),
    }
}

#[cfg(test)]
mod tests;
