//! Cuts YAML text into items by rewriting each object as JSON text, so that both formats share one parser.
//!
//! kubectl does the same, but here every item and every key has its line, and a repeated key is detected, which would
//! be lost in a map. Depth, anchors and aliases are limited: a small text cannot become a large one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::Budget;
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::dump::{Location, Refused};
use super::item::{Implied, Item, plain};
use super::json::{ITEMS_WITHOUT_KIND, OBJECT_EXPECTED, list_fault, list_kind};
use super::source::Position;
use crate::document::tree::{TAB_INDENTED, tab_indented};
use crate::feed::FeedError;

const MAX_DEPTH: usize = 64;
const MAX_ALIASES: usize = 10_000;
const MAX_REPLAYED_EVENTS: usize = 100_000;

/// Items that a text was cut into.
pub(super) struct Items {
    pub(super) items: Vec<Item<'static>>,
    /// Faults of lists.
    pub(super) faults: Vec<Refused>,
    /// Number of documents; 0 if the text is empty.
    pub(super) n_documents: usize,
}

/// Cuts `text` into its objects, in order, with the lines on which they start.
pub(super) fn items(path: &Arc<str>, text: &str) -> Result<Items, FeedError> {
    let mut reader = text.as_bytes();
    let (mut items, mut faults) = (Vec::new(), Vec::new());
    let mut n_documents = 0;
    for document in
        serde_saphyr::read_with_options::<_, Spanned<Document>>(&mut reader, options(text.len()))
    {
        let document = document.map_err(|error| syntax(path, text, &error))?;
        let line = document.defined.line();
        let place = |line, item| Location { path: path.clone(), line, document: n_documents, item };
        let Document { kind, api_version, items: list, others, whole } = document.value;
        let kind_of_items = kind.as_deref().map(list_kind);
        match (kind_of_items, list) {
            (None, Some(_)) => {
                return Err(Position { line, column: 1 }.error(path, ITEMS_WITHOUT_KIND));
            }
            (None | Some(None), _) => {
                items.push(whole.into_item(Implied::default(), place(line, None)));
            }
            (Some(Some(kind_of_items)), list) => {
                let list_kind = kind.as_deref().unwrap_or_default();
                let fault =
                    |(key, line): &(String, u64)| list_fault(list_kind, key, place(*line, None));
                faults.extend(others.iter().filter_map(fault));
                let api_version = api_version.map(Arc::from);
                let implied = Implied { kind: kind_of_items, api_version };
                items.extend(list.unwrap_or_default().into_iter().enumerate().map(
                    |(index, item)| {
                        let location = place(item.defined.line(), Some(index));
                        item.value.into_item(implied.clone(), location)
                    },
                ));
            }
        }
        n_documents += 1;
    }
    Ok(Items { items, faults, n_documents })
}

/// Converts the one value of `text`, whatever its shape, to JSON text.
pub(super) fn value(path: &Arc<str>, text: &str) -> Result<String, FeedError> {
    let mut reader = text.as_bytes();
    let mut found = None;
    for document in
        serde_saphyr::read_with_options::<_, Spanned<Json>>(&mut reader, options(text.len()))
    {
        let document = document.map_err(|error| syntax(path, text, &error))?;
        let place = Position { line: document.defined.line().max(1), column: 1 };
        if found.is_some() {
            return Err(place.error(path, "a second document, one is expected"));
        }
        if let Some(field) = document.value.duplicate {
            return Err(place.error(path, format!("`{field}`: the key is given twice")));
        }
        found = Some(document.value.text);
    }
    found.ok_or_else(|| Position::START.error(path, "the file is empty"))
}

/// Limits by the size of the text: without aliases no event needs less than a byte.
fn options(n_bytes: usize) -> Options {
    let mut budget = Budget::default();
    budget.max_reader_input_bytes = None;
    budget.max_events = n_bytes.saturating_add(MAX_REPLAYED_EVENTS);
    budget.max_nodes = n_bytes.saturating_add(MAX_REPLAYED_EVENTS);
    budget.max_total_scalar_bytes = n_bytes.saturating_mul(2).saturating_add(1 << 20);
    budget.max_total_comment_bytes = n_bytes.saturating_add(1);
    budget.max_documents = n_bytes.saturating_add(1);
    budget.max_depth = MAX_DEPTH;
    budget.max_aliases = MAX_ALIASES;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits.max_total_replayed_events = MAX_REPLAYED_EVENTS;
    options.with_snippet = false;
    // Both pairs of a repeated key arrive, and the second is recorded as a fault of its item.
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    // For example, a zone called `no` is a name.
    options.strict_booleans = true;
    options
}

fn syntax(path: &Arc<str>, text: &str, error: &serde_saphyr::Error) -> FeedError {
    let (line, column) =
        error.location().map_or((1, 1), |location| (location.line(), location.column()));
    if let Some(line) = tab_indented(text, line) {
        return Position { line, column: 1 }.error(path, TAB_INDENTED);
    }
    let text = error.without_snippet().to_string();
    Position { line: line.max(1), column: column.max(1) }.error(path, in_our_words(&text))
}

/// The parser's text without its own position, and without the names of its internals.
fn in_our_words(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let text = &line[..line.rfind(" at line ").unwrap_or(line.len())];
    // A second position inside the text belongs to the parser too.
    let text = &text[..text.find(" at line ").unwrap_or(text.len())];
    if text.starts_with("budget breached: Depth") {
        return format!("nested more than {MAX_DEPTH} levels deep");
    }
    if text.starts_with("budget breached") || text.starts_with("alias replay limit exceeded") {
        return "anchors and aliases make it too large".to_owned();
    }
    if text.starts_with("expected mapping start") {
        return OBJECT_EXPECTED.to_owned();
    }
    plain(text)
}

/// A top-level mapping; `items` is set for every mapping with such a key, and used only for lists.
struct Document {
    kind: Option<String>,
    api_version: Option<String>,
    items: Option<Vec<Spanned<Json>>>,
    /// The other keys, each with its line.
    others: Vec<(String, u64)>,
    whole: Json,
}

/// Number of keys of a document that are kept, in case it is a list.
const MAX_OTHERS: usize = 8;

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentVisitor;
        impl<'de> Visitor<'de> for DocumentVisitor {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a Kubernetes object or list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut document = Document {
                    kind: None,
                    api_version: None,
                    items: None,
                    others: Vec::new(),
                    whole: Json::default(),
                };
                let mut object = ObjectWriter::open(&mut document.whole);
                while let Some(Spanned { value: key, defined, .. }) =
                    map.next_key::<Spanned<String>>()?
                {
                    let line = defined.line();
                    let is_again = match key.as_str() {
                        "items" => document.items.is_some(),
                        "kind" | "apiVersion" => object.has(&key),
                        _ => false,
                    };
                    if is_again {
                        return Err(de::Error::custom(format_args!("`{key}` is given twice")));
                    }
                    if key == "items" {
                        // Items are parsed one by one, so that each has its own line and its own faults.
                        document.items = Some(
                            map.next_value::<Option<Vec<Spanned<Json>>>>()?.unwrap_or_default(),
                        );
                        continue;
                    }
                    let from = object.start(&key, line);
                    map.next_value_seed(Writer(object.json))?;
                    let value = || serde_json::from_str(&object.json.text[from..]).ok();
                    match key.as_str() {
                        "kind" => document.kind = value(),
                        "apiVersion" => document.api_version = value(),
                        _ if document.others.len() < MAX_OTHERS => {
                            document.others.push((key, line))
                        }
                        _ => {}
                    }
                    object.end();
                }
                object.close();
                Ok(document)
            }
        }
        deserializer.deserialize_map(DocumentVisitor)
    }
}

/// YAML rewritten as JSON text, with the first repeated key.
#[derive(Default)]
struct Json {
    text: String,
    path: Vec<Step>,
    duplicate: Option<String>,
    /// Where keys begin in the text, each with its line, as far as that differs from the key before.
    lines: Vec<(usize, u64)>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Json {
    fn into_item(self, implied: Implied, location: Location) -> Item<'static> {
        let fault = self.duplicate.map(|field| (field, "the key is given twice".to_owned()));
        Item {
            json: Cow::Owned(self.text),
            implied: Some(implied),
            location,
            column: 1,
            lines: self.lines,
            fault,
            says_its_kind_once: false,
        }
    }

    fn note_duplicate(&mut self) {
        if self.duplicate.is_some() {
            return;
        }
        let mut field = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if field.is_empty() => field.push_str(key),
                Step::Key(key) if key.contains(['.', '/']) => field.push_str(&format!("[{key}]")),
                Step::Key(key) => field.push_str(&format!(".{key}")),
                Step::Index(index) => field.push_str(&format!("[{index}]")),
            }
        }
        self.duplicate = Some(field);
    }

    fn note_line(&mut self, line: u64) {
        if self.lines.last().is_none_or(|(_, last)| *last != line) {
            self.lines.push((self.text.len(), line));
        }
    }

    fn push_string(&mut self, text: &str) {
        self.text.push_str(&serde_json::Value::from(text).to_string());
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut json = Json::default();
        Writer(&mut json).deserialize(deserializer)?;
        Ok(json)
    }
}

/// Writes the members of one JSON object, and detects repeated keys.
struct ObjectWriter<'j> {
    json: &'j mut Json,
    /// Keys so far, unsorted: keeping them sorted would move half of them for each key of a large object.
    keys: HashSet<String>,
}

impl<'j> ObjectWriter<'j> {
    fn open(json: &'j mut Json) -> Self {
        json.text.push('{');
        ObjectWriter { json, keys: HashSet::new() }
    }

    fn has(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Writes the key, which is on this line; the value must follow. Returns the index at which the value starts.
    fn start(&mut self, key: &str, line: u64) -> usize {
        if !self.keys.is_empty() {
            self.json.text.push(',');
        }
        self.json.note_line(line);
        self.json.push_string(key);
        self.json.text.push(':');
        self.json.path.push(Step::Key(key.to_owned()));
        if !self.keys.insert(key.to_owned()) {
            self.json.note_duplicate();
        }
        self.json.text.len()
    }

    fn end(&mut self) {
        self.json.path.pop();
    }

    fn close(self) {
        self.json.text.push('}');
    }
}

/// Writes any value as JSON.
struct Writer<'j>(&'j mut Json);

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.text.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.text.push_str(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.text.push_str(&value.to_string());
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let number = serde_json::Number::from_f64(value)
            .ok_or_else(|| E::custom("the number is not finite"))?;
        self.0.text.push_str(&number.to_string());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.push_string(value);
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.0.text.push_str("null");
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.text.push('[');
        for index in 0.. {
            let end = self.0.text.len();
            if index > 0 {
                self.0.text.push(',');
            }
            self.0.path.push(Step::Index(index));
            let element = seq.next_element_seed(Writer(self.0))?;
            self.0.path.pop();
            if element.is_none() {
                self.0.text.truncate(end);
                break;
            }
        }
        self.0.text.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut object = ObjectWriter::open(self.0);
        while let Some(Spanned { value: key, defined, .. }) = map.next_key::<Spanned<String>>()? {
            object.start(&key, defined.line());
            map.next_value_seed(Writer(object.json))?;
            object.end();
        }
        object.close();
        Ok(())
    }
}
