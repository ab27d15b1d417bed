//! Cuts JSON text into items: a `List`, an `XxxList`, single objects, or several of them one after another.
//! One pass that finds boundaries and builds nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Location;
use super::item::{Item, Items, Text, without_position};
use super::source::count_lines;
use crate::feed::FeedError;

/// Every object of `text`, in order, with the line it starts on.
pub(super) fn items<'a>(path: &Arc<str>, text: &'a str) -> Result<Items<'a>, FeedError> {
    let syntax = |line: u64, column: u64, reason: String| FeedError::Syntax {
        path: path.to_string(),
        line,
        column,
        reason,
    };
    let mut items = Vec::new();
    let mut lines = LineCounter { text, offset: 0, line: 1 };
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Document<'a>>();
    let mut n_documents = 0;
    loop {
        let from = stream.byte_offset();
        let document = match stream.next() {
            None => break,
            Some(Ok(document)) => document,
            Some(Err(error)) => {
                return Err(syntax(
                    error.line() as u64,
                    error.column() as u64,
                    without_position(&error),
                ));
            }
        };
        let whole = text[from..stream.byte_offset()].trim_start();
        let place = |line, item| Location { path: path.clone(), line, document: n_documents, item };
        match (list_kind(document.kind.as_deref()), document.items) {
            (None, _) => {
                let line = lines.line_of(whole);
                items.push(Item {
                    json: Cow::Borrowed(whole),
                    implied_kind: None,
                    location: place(line, None),
                    fault: None,
                });
            }
            (Some(_), ListItems::Other) => {
                return Err(syntax(
                    lines.line_of(whole),
                    1,
                    "`items` of a list must be an array".to_owned(),
                ));
            }
            (Some(_), ListItems::Absent) => {}
            (Some(implied_kind), ListItems::Array(raw)) => {
                items.extend(raw.into_iter().enumerate().map(|(index, raw)| Item {
                    json: Cow::Borrowed(raw.get()),
                    implied_kind,
                    location: place(lines.line_of(raw.get()), Some(index)),
                    fault: None,
                }));
            }
        }
        n_documents += 1;
    }
    Ok(Items { items, n_documents })
}

/// `None` for an object that is not a list; else the kind that the list implies for its items, if it does.
pub(super) fn list_kind(kind: Option<&str>) -> Option<Option<&'static str>> {
    match kind? {
        "NodeList" => Some(Some("Node")),
        "PodList" => Some(Some("Pod")),
        "List" => Some(None),
        other if other.ends_with("List") => Some(Some("of another kind")),
        _ => None,
    }
}

/// Line numbers for slices of one text that come in ascending order: every byte is looked at once.
struct LineCounter<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
}

impl LineCounter<'_> {
    fn line_of(&mut self, slice: &str) -> u64 {
        let at = (slice.as_ptr() as usize)
            .saturating_sub(self.text.as_ptr() as usize)
            .min(self.text.len());
        if at >= self.offset {
            self.line += count_lines(&self.text.as_bytes()[self.offset..at]);
            self.offset = at;
        }
        self.line
    }
}

/// A top-level JSON object, of which only the list's frame is read.
struct Document<'a> {
    kind: Option<Cow<'a, str>>,
    items: ListItems<'a>,
}

enum ListItems<'a> {
    Absent,
    Array(Vec<&'a RawValue>),
    Other,
}

impl<'a> Deserialize<'a> for Document<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentVisitor;
        impl<'a> Visitor<'a> for DocumentVisitor {
            type Value = Document<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object or list")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Document<'a>, A::Error> {
                let mut document = Document { kind: None, items: ListItems::Absent };
                while let Some(key) = map.next_key::<Text<'a>>()? {
                    match key.0.as_ref() {
                        "kind" => {
                            document.kind = map.next_value::<Option<Text<'a>>>()?.map(|kind| kind.0)
                        }
                        "items" => document.items = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(document)
            }
        }
        deserializer.deserialize_map(DocumentVisitor)
    }
}

impl<'a> Deserialize<'a> for ListItems<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'a> Visitor<'a> for ItemsVisitor {
            type Value = ListItems<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of Kubernetes objects")
            }

            fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<ListItems<'a>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<&'a RawValue>()? {
                    items.push(item);
                }
                Ok(ListItems::Array(items))
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<ListItems<'a>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(ListItems::Other)
            }

            fn visit_unit<E>(self) -> Result<ListItems<'a>, E> {
                // W-JS-4: null means absent.
                Ok(ListItems::Absent)
            }
        }
        deserializer.deserialize_any(ItemsVisitor)
    }
}
