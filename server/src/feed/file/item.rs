//! Parses an item's JSON text into a typed object, on all cores; a bad item is refused alone.
//!
//! Inside an object the last of two equal keys counts, as everywhere in Kubernetes' JSON (W-JS-8), `kind` included. An
//! object with neither `kind` nor `apiVersion` has those of its list (W-JS-7).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use berth_engine::ObjectKind;
use berth_proto::{core_v1, meta_v1};
use rayon::prelude::*;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use super::dump::{Dump, Located, Location, Refused};
use super::source::Position;
use super::written::WrittenObject;
use crate::escape::clipped;
use crate::feed::{FeedError, object_name};

/// One object of a file as text.
pub(super) struct Item<'a> {
    /// The object as JSON.
    pub(super) json: Cow<'a, str>,
    /// Type implied by the surrounding list; `None` while the kind of the list is not known.
    pub(super) implied: Option<Implied>,
    /// Location of its start.
    pub(super) location: Location,
    /// Column of its first byte, from 1.
    pub(super) column: u64,
    /// Field and reason, if it was found to be bad while it was cut out.
    pub(super) fault: Option<(String, String)>,
    /// Whether it is known to have `kind` and `apiVersion` once each.
    pub(super) says_its_kind_once: bool,
}

/// Type that a list implies for items without their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Implied {
    /// Kind of the items of a list such as a `NodeList`, which have none themselves.
    pub(super) kind: Option<&'static str>,
    pub(super) api_version: Option<Arc<str>>,
}

/// Receiver of items while a file is being read.
pub(super) trait TakeItems {
    /// Takes some items; more may follow.
    fn take(&mut self, items: Vec<Item<'_>>) -> Result<(), FeedError>;

    /// Sets the type implied by the list whose items were taken with `implied: None`, once its kind is known.
    fn settle(&mut self, implied: &Implied) -> Result<(), FeedError>;
}

/// A parsed item by its type.
pub(super) enum Parsed<N, P, O> {
    Node(Located<N>),
    Pod(Located<P>),
    Object(Located<O>),
    Ignored(String),
    Refused(Refused),
}

/// A parsed item; boxed, since items are moved about and a pod is large.
pub(super) type Written = Parsed<Box<core_v1::Node>, Box<core_v1::Pod>, WrittenObject>;

/// Reason why an item cannot be parsed yet.
enum Unparsed {
    /// The item has no kind, and that of its list is not known yet.
    Kindless(Box<Item<'static>>),
    /// The item is not JSON: the file is broken.
    Broken(Box<FeedError>),
}

/// Parses items on all cores, passes each to `then` at once, and collects the results in order.
pub(super) struct Collector<F, N, P, O> {
    then: F,
    dump: Dump<N, P, O>,
    kindless: Vec<Item<'static>>,
}

impl<F, N, P, O> Collector<F, N, P, O>
where
    F: Fn(Written) -> Parsed<N, P, O> + Sync,
    N: Send,
    P: Send,
    O: Send,
{
    pub(super) fn new(then: F) -> Self {
        Collector { then, dump: Dump::empty(), kindless: Vec::new() }
    }

    pub(super) fn into_dump(self) -> Dump<N, P, O> {
        self.dump
    }
}

impl<F, N, P, O> TakeItems for Collector<F, N, P, O>
where
    F: Fn(Written) -> Parsed<N, P, O> + Sync,
    N: Send,
    P: Send,
    O: Send,
{
    fn take(&mut self, items: Vec<Item<'_>>) -> Result<(), FeedError> {
        let parse = |item| parse_one(item).map(&self.then);
        let parsed: Vec<_> = items.into_par_iter().map(parse).collect();
        for outcome in parsed {
            match outcome {
                Ok(parsed) => add(&mut self.dump, parsed),
                Err(Unparsed::Kindless(item)) => self.kindless.push(*item),
                Err(Unparsed::Broken(error)) => return Err(*error),
            }
        }
        Ok(())
    }

    fn settle(&mut self, implied: &Implied) -> Result<(), FeedError> {
        let kindless = std::mem::take(&mut self.kindless);
        let known =
            kindless.into_iter().map(|item| Item { implied: Some(implied.clone()), ..item });
        self.take(known.collect())
    }
}

/// Adds an item to the dump by its type.
pub(super) fn add<N, P, O>(dump: &mut Dump<N, P, O>, parsed: Parsed<N, P, O>) {
    match parsed {
        Parsed::Node(node) => dump.nodes.push(node),
        Parsed::Object(object) => dump.objects.push(object),
        Parsed::Pod(pod) => dump.pods.push(pod),
        Parsed::Ignored(kind) => *dump.ignored_kinds.entry(kind).or_default() += 1,
        Parsed::Refused(refused) => dump.refused.push(refused),
    }
}

fn parse_one(item: Item<'_>) -> Result<Written, Unparsed> {
    if let Some(written) = parse_at_once(&item) {
        return Ok(written);
    }
    let head: Head<'_> = match serde_json::from_str(&item.json) {
        Ok(head) => head,
        Err(error) => return failed(&item, "object", "kind", &error),
    };
    let implied = match &item.implied {
        Some(implied) => implied.clone(),
        None if head.kind.is_some() => Implied::default(),
        None => {
            let json = Cow::Owned(item.json.into_owned());
            let Item { implied, location, column, fault, says_its_kind_once, .. } = item;
            let item = Item { json, implied, location, column, fault, says_its_kind_once };
            return Err(Unparsed::Kindless(Box::new(item)));
        }
    };
    let Some(kind) = head.kind.as_deref().or(implied.kind) else {
        return Ok(refuse(&item, "object", "kind", "must be set"));
    };
    // The list's version applies to items that have the list's kind.
    let implied_version = implied.api_version.as_deref().filter(|_| head.kind.is_none());
    let api_version = head.api_version.as_deref().or(implied_version).unwrap_or("");
    let Some(readable) = Readable::of(kind) else {
        return Ok(Parsed::Ignored(kind.to_owned()));
    };
    let expected = readable.api_version();
    if !api_version.is_empty() && api_version != expected {
        // A kind of the same name in another group is a different kind.
        if group(api_version) != group(expected) {
            return Ok(Parsed::Ignored(format!("{kind} ({api_version})")));
        }
        let reason = format!("`{api_version}` is not read; a `{kind}` is of `{expected}`");
        return Ok(refuse(&item, kind, "apiVersion", &reason));
    }
    if let Some((field, reason)) = &item.fault {
        return Ok(refuse(&item, kind, field, reason));
    }
    parse_as(readable, kind, &item)
}

/// Parses a node or pod that begins with its type and does not repeat it, as kubectl writes them, in one pass instead
/// of two. Returns `None` for any other item, or a bad one: it is parsed in full.
fn parse_at_once(item: &Item<'_>) -> Option<Written> {
    const BEFORE_KIND: [&str; 7] = ["{", "\"apiVersion\"", ":", "\"v1\"", ",", "\"kind\"", ":"];
    if !item.says_its_kind_once || item.fault.is_some() {
        return None;
    }
    let behind = |text: &'_ str, token: &str| {
        let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
        text.strip_prefix(token).map(str::len)
    };
    let mut n_left = item.json.len();
    let rest = |n_left: usize| &item.json[item.json.len() - n_left..];
    for token in BEFORE_KIND {
        n_left = behind(rest(n_left), token)?;
    }
    let readable = if behind(rest(n_left), "\"Pod\"").is_some() {
        Readable::Pod
    } else {
        behind(rest(n_left), "\"Node\"")?;
        Readable::Node
    };
    let location = item.location.clone();
    Some(match readable {
        Readable::Node => {
            Parsed::Node(Located { value: serde_json::from_str(&item.json).ok()?, location })
        }
        _ => Parsed::Pod(Located { value: serde_json::from_str(&item.json).ok()?, location }),
    })
}

/// Kinds that are read from a file.
#[derive(Copy, Clone)]
enum Readable {
    Node,
    Pod,
    Object(ObjectKind),
    List,
}

impl Readable {
    fn of(kind: &str) -> Option<Readable> {
        match kind {
            "Node" => Some(Readable::Node),
            "Pod" => Some(Readable::Pod),
            "List" => Some(Readable::List),
            other => ObjectKind::from_name(other).map(Readable::Object),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Readable::Node | Readable::Pod | Readable::List => "v1",
            Readable::Object(kind) => kind.api_version(),
        }
    }
}

/// The group of an `apiVersion`: `apps` for `apps/v1`, empty for `v1`.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn parse_as(readable: Readable, kind: &str, item: &Item<'_>) -> Result<Written, Unparsed> {
    let location = || item.location.clone();
    let parsed = match readable {
        Readable::Node => serde_json::from_str(&item.json)
            .map(|value| Parsed::Node(Located { value, location: location() })),
        Readable::Pod => serde_json::from_str(&item.json)
            .map(|value| Parsed::Pod(Located { value, location: location() })),
        Readable::Object(kind) => WrittenObject::parse(kind, &item.json)
            .map(|value| Parsed::Object(Located { value, location: location() })),
        // kubectl never nests lists; as an unknown kind, the list's objects would be silently lost.
        Readable::List => {
            return Ok(refuse(item, kind, "kind", "a list inside a list is not read"));
        }
    };
    parsed.or_else(|error| failed(item, kind, "object", &error))
}

/// Refuses an item that is JSON; an item that is not JSON means that the file is broken.
fn failed(
    item: &Item<'_>,
    kind: &str,
    field: &str,
    error: &serde_json::Error,
) -> Result<Written, Unparsed> {
    // Nesting beyond serde_json's limit is well-formed JSON all the same, and skipping has no such limit.
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(&item.json) {
        return Err(Unparsed::Broken(Box::new(broken(item, &syntax))));
    }
    let message = without_position(error);
    let (field, reason) = split_field(&message).unwrap_or((field, &message));
    let mut refused = refused(item, kind, &clipped(field), &clipped(&plain(reason)));
    refused.location.line += (error.line() as u64).saturating_sub(1);
    Ok(Parsed::Refused(refused))
}

fn broken(item: &Item<'_>, error: &serde_json::Error) -> FeedError {
    let (line, column) = (error.line() as u64, error.column() as u64);
    let column = if line <= 1 { item.column + column.saturating_sub(1) } else { column };
    let place =
        Position { line: item.location.line + line.saturating_sub(1), column: column.max(1) };
    place.error(&item.location.path, without_position(error))
}

/// Splits the error text of the generated types into field path and reason: ``field `spec.priority`: invalid type …``.
fn split_field(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix("field `")?.split_once("`: ")
}

/// Describes a value that is JSON and not of the expected type: its field and the reason, in Berth's words.
pub(super) fn described(error: &serde_json::Error) -> String {
    let message = without_position(error);
    match split_field(&message) {
        Some((field, reason)) => format!("`{}`: {}", clipped(field), clipped(&plain(reason))),
        None => clipped(&plain(&message)).into_owned(),
    }
}

/// The reason without the names of Rust's types.
pub(super) fn plain(reason: &str) -> String {
    const EXPECTED: [(&str, &str); 5] = [
        ("expected i32", "expected a 32-bit integer"),
        ("expected i64", "expected a 64-bit integer"),
        ("expected u32", "expected a 32-bit integer of 0 or more"),
        ("expected u64", "expected a 64-bit integer of 0 or more"),
        ("expected bool", "expected a boolean"),
    ];
    const GOT: [(&str, &str); 4] = [
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
        ("invalid type: unit value", "invalid type: null"),
        ("invalid type: Option value", "invalid type: null"),
    ];
    let mut text = reason.to_owned();
    for (from, to) in GOT {
        if let Some(rest) = text.strip_prefix(from) {
            text = format!("{to}{rest}");
        }
    }
    for (from, to) in EXPECTED {
        if let Some(rest) = text.strip_suffix(from) {
            text = format!("{rest}{to}");
        }
    }
    text
}

fn refuse(item: &Item<'_>, kind: &str, field: &str, reason: &str) -> Written {
    Parsed::Refused(refused(item, kind, field, reason))
}

fn refused(item: &Item<'_>, kind: &str, field: &str, reason: &str) -> Refused {
    Refused {
        location: item.location.clone(),
        object: name_of(kind, &item.json),
        field: field.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The message alone, since the position inside the item would look like one in the file.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Name of an item for messages, such as ``Pod `default/web-0` ``, as far as the metadata can be read.
fn name_of(kind: &str, json: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Named {
        metadata: Option<meta_v1::ObjectMeta>,
    }
    let Some(metadata) = serde_json::from_str::<Named>(json).ok().and_then(|named| named.metadata)
    else {
        return kind.to_owned();
    };
    object_name(kind, Some(&metadata))
}

/// Type of an object: its last `kind` and `apiVersion`, as for every other key.
struct Head<'a> {
    kind: Option<Cow<'a, str>>,
    api_version: Option<Cow<'a, str>>,
}

impl<'a> de::Deserialize<'a> for Head<'a> {
    fn deserialize<D: de::Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'a> Visitor<'a> for HeadVisitor {
    type Value = Head<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Head<'a>, A::Error> {
        let mut head = Head { kind: None, api_version: None };
        while let Some(key) = map.next_key::<Text<'a>>()? {
            let (name, field) = match key.0.as_ref() {
                "kind" => ("kind", &mut head.kind),
                "apiVersion" => ("apiVersion", &mut head.api_version),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let text = map.next_value::<Option<Text<'a>>>().map_err(|error| {
                <A::Error as de::Error>::custom(format_args!("field `{name}`: {error}"))
            })?;
            *field = text.map(|text| text.0);
        }
        Ok(head)
    }
}

/// A string that is borrowed from the input unless it contains escapes.
struct Text<'a>(Cow<'a, str>);

impl<'a> de::Deserialize<'a> for Text<'a> {
    fn deserialize<D: de::Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'a> Visitor<'a> for TextVisitor {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'a str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}
