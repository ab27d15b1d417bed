//! Takes typed fields out of a [`Document`] and reports everything else in it (S-CFG-2).
//!
//! A problem never stops the reading: the value counts as absent and the next field is read, so that one run reports
//! every unknown field, duplicate and wrong type.

use super::duration;
use super::error::Problem;
use super::tree::{Document, Entry, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Collects the problems of one document.
#[derive(Debug, Default)]
pub struct Reader {
    problems: RefCell<Vec<Problem>>,
    /// Paths of all fields that `take` was called for, present or not.
    #[cfg(test)]
    taken: RefCell<Vec<String>>,
}

/// Decodes a text with `decode`; returns the value, or the problems as messages.
#[cfg(test)]
pub(crate) fn read_text<T>(
    text: &str,
    decode: impl FnOnce(Cursor<'_>) -> Option<T>,
) -> Result<T, Vec<String>> {
    let document = super::tree::parse(text).unwrap();
    let reader = Reader::default();
    let read = decode(reader.root(&document));
    let problems: Vec<String> = reader.into_problems().iter().map(ToString::to_string).collect();
    if problems.is_empty() { Ok(read.unwrap()) } else { Err(problems) }
}

/// A value with its path and its reader.
#[derive(Copy, Clone, Debug)]
pub struct Cursor<'a> {
    reader: &'a Reader,
    document: &'a Document,
    path: &'a Path<'a>,
}

/// Path from the document's root to a value, kept as a list of borrowed steps until it is needed as text.
#[derive(Debug)]
pub enum Path<'a> {
    /// The document itself.
    Root,
    /// A field of an object.
    Field(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

/// The fields of an object that were not taken yet.
#[derive(Debug)]
pub struct Fields<'a> {
    cursor: Cursor<'a>,
    entries: Vec<&'a Entry>,
}

impl Reader {
    /// All problems reported so far, in the order of reading.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// Cursor at the root of a document.
    pub fn root<'a>(&'a self, document: &'a Document) -> Cursor<'a> {
        Cursor { reader: self, document, path: &Path::Root }
    }

    /// Paths of all fields that `take` was called for, with `[]` for the items of lists.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> Vec<String> {
        self.taken.borrow().clone()
    }

    fn report(&self, line: u64, field: String, reason: String) {
        self.problems.borrow_mut().push(Problem { line, field, reason });
    }
}

impl<'a> Cursor<'a> {
    /// Reports that this value is wrong.
    pub fn report(&self, reason: impl Into<String>) {
        self.reader.report(self.document.line, self.path.to_string(), reason.into());
    }

    /// The value at the cursor.
    pub fn value(&self) -> &'a Value {
        &self.document.value
    }

    /// The path as text, for problems found later.
    pub fn path(&self) -> String {
        self.path.to_string()
    }

    /// Calls `read` for every item of a list, and returns the results.
    pub fn list<T>(self, mut read: impl FnMut(Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
        let Value::List(items) = self.value() else {
            return self.wrong_type("a list");
        };
        let mut list = Vec::with_capacity(items.len());
        for (index, document) in items.iter().enumerate() {
            let path = Path::Item(self.path, index);
            list.extend(read(Cursor { reader: self.reader, document, path: &path }));
        }
        Some(list)
    }

    /// Calls `read` with every key of an object whose keys are free, in the order written, and returns the results.
    /// Repeated keys are reported.
    pub fn entries<T>(self, mut read: impl FnMut(&str, Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
        let Value::Map(entries) = self.value() else {
            return self.wrong_type("an object");
        };
        let mut first_lines = BTreeMap::new();
        let mut list = Vec::with_capacity(entries.len());
        for Entry { key, line, value: document } in entries {
            let path = Path::Field(self.path, key);
            match first_lines.get(key) {
                Some(first) => {
                    let reason = format!("duplicate field, first given on line {first}");
                    self.reader.report(*line, path.to_string(), reason);
                }
                None => {
                    first_lines.insert(key, *line);
                    list.extend(read(key, Cursor { reader: self.reader, document, path: &path }));
                }
            }
        }
        Some(list)
    }

    /// Calls `read` with the fields of an object, then reports those that `read` did not take as unknown.
    pub fn object<T>(self, read: impl FnOnce(&mut Fields<'_>) -> T) -> Option<T> {
        let Value::Map(entries) = self.value() else {
            return self.wrong_type("an object");
        };
        let mut fields = Fields { cursor: self, entries: Vec::with_capacity(entries.len()) };
        for entry in entries {
            match fields.entries.iter().find(|known| known.key == entry.key) {
                Some(first) => {
                    let reason = format!("duplicate field, first given on line {}", first.line);
                    self.reader.report(
                        entry.line,
                        Path::Field(self.path, &entry.key).to_string(),
                        reason,
                    );
                }
                None => fields.entries.push(entry),
            }
        }
        let read = read(&mut fields);
        for entry in &fields.entries {
            let field = Path::Field(self.path, &entry.key).to_string();
            self.reader.report(entry.line, field, "unknown field".to_owned());
        }
        Some(read)
    }

    fn wrong_type<T>(self, expected: &str) -> Option<T> {
        if let (Path::Root, Value::Null) = (self.path, self.value()) {
            self.report("the document is empty");
            return None;
        }
        self.report(format!("expected {expected}, got {}", self.value().kind()));
        None
    }
}

/// Reads a string; an empty one stays empty.
pub fn text(cursor: Cursor<'_>) -> Option<String> {
    match cursor.value() {
        Value::Text(text) => Some(text.clone()),
        _ => cursor.wrong_type("a string"),
    }
}

/// Reads `true` or `false`.
pub fn boolean(cursor: Cursor<'_>) -> Option<bool> {
    match cursor.value() {
        Value::Bool(value) => Some(*value),
        _ => cursor.wrong_type("a boolean"),
    }
}

/// Reads a whole number in the range of `T`.
pub fn integer<T: TryFrom<i128>>(cursor: Cursor<'_>) -> Option<T> {
    match cursor.value() {
        Value::Integer(value) => {
            let converted = T::try_from(*value).ok();
            if converted.is_none() {
                cursor.report(format!("{value} is out of range"));
            }
            converted
        }
        // A whole number beyond 64 bits is read as the nearest float.
        Value::Float(value) if value.fract() == 0.0 && value.abs() >= 9.2e18 => {
            cursor.report(format!("{value:.0} is out of range"));
            None
        }
        _ => cursor.wrong_type("an integer"),
    }
}

/// Reads a duration such as `5s`, in nanoseconds; it may be negative.
pub fn nanoseconds(cursor: Cursor<'_>) -> Option<i64> {
    match cursor.value() {
        Value::Text(text) => {
            duration::parse_nanoseconds(text).map_err(|reason| cursor.report(reason)).ok()
        }
        _ => cursor.wrong_type("a duration such as `5s`"),
    }
}

/// Reads a list of strings.
pub fn texts(cursor: Cursor<'_>) -> Option<Vec<String>> {
    cursor.list(text)
}

impl Fields<'_> {
    /// Takes the field `name` and reads it; `None` when it is absent, `null` (W-JS-4) or wrong.
    pub fn take<T>(&mut self, name: &str, read: impl FnOnce(Cursor<'_>) -> Option<T>) -> Option<T> {
        #[cfg(test)]
        self.cursor.reader.taken.borrow_mut().push(Path::Field(self.cursor.path, name).pattern());
        let position = self.entries.iter().position(|entry| entry.key == name)?;
        let entry = self.entries.remove(position);
        if entry.value.value == Value::Null {
            return None;
        }
        let path = Path::Field(self.cursor.path, name);
        read(Cursor { reader: self.cursor.reader, document: &entry.value, path: &path })
    }

    /// Takes the field like [`Fields::take`], with the type's default if it is absent.
    pub fn take_or_default<T: Default>(
        &mut self,
        name: &str,
        read: impl FnOnce(Cursor<'_>) -> Option<T>,
    ) -> T {
        self.take(name, read).unwrap_or_default()
    }

    /// Accepts these fields whatever their values.
    pub fn ignore(&mut self, names: &[&str]) {
        self.entries.retain(|entry| !names.contains(&entry.key.as_str()));
    }

    /// Accepts all fields that were not taken.
    pub fn ignore_rest(&mut self) {
        self.entries.clear();
    }

    /// Cursor at the object itself, to report on it.
    pub fn object(&self) -> Cursor<'_> {
        self.cursor
    }
}

#[cfg(test)]
impl Path<'_> {
    /// The path with `[]` for every item of a list.
    fn pattern(&self) -> String {
        match self {
            Path::Root => String::new(),
            Path::Field(Path::Root, name) => (*name).to_owned(),
            Path::Field(parent, name) => format!("{}.{name}", parent.pattern()),
            Path::Item(parent, _) => format!("{}[]", parent.pattern()),
        }
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tree as document;

    #[test]
    fn every_mistake_of_a_document_is_reported_with_line_and_path() {
        let document = document::parse(
            "a: 1\nb: x\nc:\n  - d: true\n  - d: 5\n    e: 1\na: 2\nf: 9\ng: 300\nh: 18446744073709551616\ni: 1.5\n",
        )
        .unwrap();
        let reader = Reader::default();
        reader.root(&document).object(|fields| {
            assert_eq!(fields.take("a", integer::<i32>), Some(1));
            assert_eq!(fields.take("b", boolean), None);
            let c =
                fields.take("c", |c| c.list(|item| item.object(|item| item.take("d", boolean))));
            assert_eq!(c, Some(vec![Some(true), None]));
            assert_eq!(fields.take("g", integer::<u8>), None);
            assert_eq!(fields.take("h", integer::<u64>), None);
            assert_eq!(fields.take("i", integer::<u64>), None);
            assert_eq!(fields.take("absent", text), None);
        });
        let problems: Vec<String> =
            reader.into_problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "line 7: `a`: duplicate field, first given on line 1",
                "line 2: `b`: expected a boolean, got a string",
                "line 5: `c[1].d`: expected a boolean, got an integer",
                "line 6: `c[1].e`: unknown field",
                "line 9: `g`: 300 is out of range",
                "line 10: `h`: 18446744073709551616 is out of range",
                "line 11: `i`: expected an integer, got a number with a fraction",
                "line 8: `f`: unknown field",
            ]
        );
    }
}
