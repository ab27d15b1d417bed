//! Parses an item's JSON text into a typed object, on all cores; a bad item is refused alone.
//!
//! Inside an object the last of two equal keys counts, as everywhere in Kubernetes' JSON (W-JS-8), `kind` included. An
//! object with neither `kind` nor `apiVersion` has those of its list (W-JS-7). Fields that Kubernetes does not know,
//! and pods without containers, are faults of their object.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use berth_engine::ObjectKind;
use berth_engine::workload::{Workload, WorkloadKind};
use berth_proto::fields::{Message, noting_unknown_fields};
use berth_proto::{core_v1, meta_v1};
use memchr::memchr_iter;
use rayon::prelude::*;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};

use super::dump::{Dump, Located, Location, Reading, Refused, UnknownFields};
use super::source::Position;
use super::workload;
use super::written::WrittenObject;
use super::{kinds, unknown, version};
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
    /// Where keys begin in `json`, each with its line, if the object was written in another form; else empty.
    pub(super) lines: Vec<(usize, u64)>,
    /// Field and reason, if it was found to be bad while it was cut out.
    pub(super) fault: Option<(String, String)>,
    /// Whether it is known to have `kind` and `apiVersion` once each.
    pub(super) says_its_kind_once: bool,
}

impl Item<'_> {
    /// The item with a text of its own.
    fn into_owned(self) -> Item<'static> {
        let Item { json, implied, location, column, lines, fault, says_its_kind_once } = self;
        let json = Cow::Owned(json.into_owned());
        Item { json, implied, location, column, lines, fault, says_its_kind_once }
    }

    /// Line of what is at this byte of `json`.
    fn line_at(&self, offset: usize) -> u64 {
        let n_begun = self.lines.partition_point(|(start, _)| *start <= offset);
        match self.lines.get(n_begun.saturating_sub(1)) {
            Some((_, line)) => *line,
            None => {
                let before = self.json.as_bytes().get(..offset).unwrap_or_default();
                self.location.line + memchr_iter(b'\n', before).count() as u64
            }
        }
    }

    /// Line of an error that was found while the object was read.
    fn line_of(&self, error: &serde_json::Error) -> u64 {
        if self.lines.is_empty() {
            self.location.line + (error.line() as u64).saturating_sub(1)
        } else {
            self.line_at(error.column().saturating_sub(1))
        }
    }
}

/// Type that a list implies for items without their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Implied {
    /// Kind of the items of a list such as a `NodeList`, which have none themselves.
    pub(super) kind: Option<Arc<str>>,
    pub(super) api_version: Option<Arc<str>>,
}

/// Receiver of items while a file is being read.
pub(super) trait TakeItems {
    /// Takes some items; more may follow.
    fn take(&mut self, items: Vec<Item<'_>>) -> Result<(), FeedError>;

    /// Sets the type implied by the list whose items were taken with `implied: None`, once its kind is known.
    fn settle(&mut self, implied: &Implied) -> Result<(), FeedError>;

    /// Takes the fault of a list that has fields other than those of lists.
    fn take_fault(&mut self, fault: Refused);
}

/// A parsed item by its type.
pub(super) enum Parsed<N, P, O> {
    Node(Located<N>),
    Pod(Located<P>),
    Object(Located<O>),
    Workload(Located<Workload>),
    Ignored(Ignored),
    Refused(Refused),
}

/// An object of a kind that is not read.
pub(super) struct Ignored {
    /// Kind, with the `apiVersion` where another kind has the same name.
    pub(super) kind: String,
    /// The fault of the kind, if Kubernetes cannot have it: its name is misspelt.
    pub(super) fault: Option<Refused>,
}

/// A parsed item; boxed, since items are moved about and a pod is large.
pub(super) type Written = Parsed<Box<core_v1::Node>, Box<core_v1::Pod>, WrittenObject>;

/// A parsed item, and what is odd about an object that is used all the same.
type Judged<T> = (T, Vec<Refused>);

/// Reason why an item cannot be parsed yet.
enum Unparsed {
    /// The item has no kind, and that of its list is not known yet.
    Kindless(Box<Item<'static>>),
    /// The item is not JSON: the file is broken.
    Broken(Box<FeedError>),
}

/// Parses items on all cores, passes each to `then` at once, and collects the results in order.
pub(super) struct Collector<F, N, P, O> {
    reading: Reading,
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
    pub(super) fn new(reading: Reading, then: F) -> Self {
        Collector { reading, then, dump: Dump::empty(), kindless: Vec::new() }
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
        let parse = |item| {
            let (written, warnings) = parse_one(item, self.reading)?;
            Ok(((self.then)(written), warnings))
        };
        let parsed: Vec<_> = items.into_par_iter().map(parse).collect();
        for outcome in parsed {
            match outcome {
                Ok((parsed, warnings)) => {
                    add(&mut self.dump, parsed);
                    warnings.into_iter().for_each(|warning| self.dump.warnings.add(warning));
                }
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

    fn take_fault(&mut self, fault: Refused) {
        match self.reading.unknown_fields {
            UnknownFields::Refuse => self.dump.refused.push(fault),
            UnknownFields::Warn => self.dump.warnings.add(fault),
        }
    }
}

/// Adds an item to the dump by its type.
pub(super) fn add<N, P, O>(dump: &mut Dump<N, P, O>, parsed: Parsed<N, P, O>) {
    match parsed {
        Parsed::Node(node) => dump.nodes.push(node),
        Parsed::Object(object) => dump.objects.push(object),
        Parsed::Pod(pod) => dump.pods.push(pod),
        Parsed::Workload(workload) => dump.workloads.push(workload),
        Parsed::Ignored(Ignored { kind, fault }) => {
            *dump.ignored_kinds.entry(kind).or_default() += 1;
            fault.into_iter().for_each(|fault| dump.misspelt_kinds.add(fault));
        }
        Parsed::Refused(refused) => dump.refused.push(refused),
    }
}

fn parse_one(item: Item<'_>, reading: Reading) -> Result<Judged<Written>, Unparsed> {
    let Reading { unknown_fields, workloads } = reading;
    if let Some(judged) = parse_at_once(&item, unknown_fields) {
        return Ok(judged);
    }
    let unwarned = |written| Ok((written, Vec::new()));
    let head: Head<'_> = match serde_json::from_str(&item.json) {
        Ok(head) => head,
        Err(error) => return failed(&item, "object", "kind", &error).and_then(unwarned),
    };
    let implied = match &item.implied {
        Some(implied) => implied.clone(),
        None if head.kind.is_some() => Implied::default(),
        None => {
            drop(head);
            return Err(Unparsed::Kindless(Box::new(item.into_owned())));
        }
    };
    let Some(kind) = head.kind.as_deref().or(implied.kind.as_deref()) else {
        return unwarned(refuse(&item, "object", "kind", "must be set"));
    };
    // The list's version applies to items that have the list's kind.
    let implied_version = implied.api_version.as_deref().filter(|_| head.kind.is_none());
    let api_version = head.api_version.as_deref().or(implied_version).unwrap_or("");
    let is_read = |readable: &Readable| workloads || !matches!(readable, Readable::Workload(_));
    let Some(readable) = Readable::of(kind).filter(is_read) else {
        return unwarned(ignore(&item, kind, kind.to_owned(), kinds::fault(kind, api_version)));
    };
    let expected = readable.api_version();
    let mut version_read = None;
    if !api_version.is_empty() && api_version != expected {
        // A kind of the same name in another group is a different kind.
        if kinds::group(api_version) != kinds::group(expected) {
            let fault = kinds::fault_of_group(kind, api_version, expected);
            return unwarned(ignore(&item, kind, format!("{kind} ({api_version})"), fault));
        }
        version_read = version::older(kind, api_version);
        if version_read.is_none() {
            let reason = format!("`{api_version}` is not read; a `{kind}` is of `{expected}`");
            return unwarned(refuse(&item, kind, "apiVersion", &reason));
        }
    }
    if let Some((field, reason)) = &item.fault {
        return unwarned(refuse(&item, kind, field, reason));
    }
    let (mut written, has_unknown) = noting_unknown_fields(|| parse_as(readable, kind, &item));
    if let (Some(older), Ok(Parsed::Object(object))) = (&version_read, &mut written) {
        older.convert(&mut object.value);
    }
    let (written, mut warnings) = judge(written?, has_unknown, kind, &item, unknown_fields);
    if version_read.is_some() && !matches!(written, Parsed::Refused(_)) {
        let reason = format!("`{api_version}` is an older version, read as `{expected}`");
        warnings.push(refused(&item, kind, "apiVersion", &reason));
    }
    Ok((written, warnings))
}

/// Parses a node or pod that begins with its type and does not repeat it, as kubectl writes them, in one pass instead
/// of two. Returns `None` for any other item, or a bad one: it is parsed in full.
fn parse_at_once(item: &Item<'_>, unknown_fields: UnknownFields) -> Option<Judged<Written>> {
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
    let location = item.location.clone();
    let (kind, (written, has_unknown)) = if behind(rest(n_left), "\"Pod\"").is_some() {
        let read = || serde_json::from_str(&item.json);
        let (value, has_unknown) = noting_unknown_fields(read);
        ("Pod", (Parsed::Pod(Located { value: value.ok()?, location }), has_unknown))
    } else {
        behind(rest(n_left), "\"Node\"")?;
        let read = || serde_json::from_str(&item.json);
        let (value, has_unknown) = noting_unknown_fields(read);
        ("Node", (Parsed::Node(Located { value: value.ok()?, location }), has_unknown))
    };
    Some(judge(written, has_unknown, kind, item, unknown_fields))
}

/// Refuses an object that has a fault other than one of form, or warns of it.
fn judge(
    written: Written,
    has_unknown: bool,
    kind: &str,
    item: &Item<'_>,
    unknown_fields: UnknownFields,
) -> Judged<Written> {
    match (object_fault(&written, has_unknown, kind, item), unknown_fields) {
        (None, _) => (written, Vec::new()),
        (Some(fault), UnknownFields::Refuse) => (Parsed::Refused(fault), Vec::new()),
        (Some(fault), UnknownFields::Warn) => (written, vec![fault]),
    }
}

/// Fault of an object, if it was read: fields that Kubernetes does not know, or a pod without containers.
fn object_fault(
    written: &Written,
    has_unknown: bool,
    kind: &str,
    item: &Item<'_>,
) -> Option<Refused> {
    if matches!(written, Parsed::Refused(_)) {
        return None;
    }
    if has_unknown && let Some(message) = Message::named(kind) {
        let found = unknown::find(message, &item.json);
        if let Some(first) = found.listed.first() {
            let reason = found.reason(|offset| item.line_at(offset));
            let mut refused = refused(item, kind, &clipped(&first.path), &reason);
            refused.location.line = item.line_at(first.offset);
            return Some(refused);
        }
    }
    let Parsed::Pod(Located { value: pod, .. }) = written else { return None };
    pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()).then(|| {
        refused(item, kind, "spec.containers", "required; a pod has at least one container")
    })
}

fn ignore(item: &Item<'_>, kind: &str, as_kind: String, fault: Option<String>) -> Written {
    let fault = fault.map(|reason| refused(item, kind, "kind", &reason));
    Parsed::Ignored(Ignored { kind: as_kind, fault })
}

/// Kinds that are read from a file.
#[derive(Copy, Clone)]
enum Readable {
    Node,
    Pod,
    Object(ObjectKind),
    Workload(WorkloadKind),
    List,
}

impl Readable {
    fn of(kind: &str) -> Option<Readable> {
        match kind {
            "Node" => Some(Readable::Node),
            "Pod" => Some(Readable::Pod),
            "List" => Some(Readable::List),
            other => ObjectKind::from_name(other)
                .map(Readable::Object)
                .or_else(|| WorkloadKind::from_name(other).map(Readable::Workload)),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Readable::Node | Readable::Pod | Readable::List => "v1",
            Readable::Object(kind) => kind.api_version(),
            Readable::Workload(kind) => kind.api_version(),
        }
    }
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
        Readable::Workload(kind) => workload::parse(kind, &item.json)
            .map(|value| Parsed::Workload(Located { value, location: location() })),
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
    refused.location.line = item.line_of(error);
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
    match fault(error) {
        (Some(field), reason) => format!("`{field}`: {reason}"),
        (None, reason) => reason,
    }
}

/// The field of a value that is JSON and not of the expected type, if the error names it, and the reason.
pub(super) fn fault(error: &serde_json::Error) -> (Option<String>, String) {
    let message = without_position(error);
    match split_field(&message) {
        Some((field, reason)) => {
            (Some(clipped(field).into_owned()), clipped(&plain(reason)).into_owned())
        }
        None => (None, clipped(&plain(&message)).into_owned()),
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
