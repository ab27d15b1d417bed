//! From an item's JSON text to a typed object, on all cores; a bad one is refused alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use berth_proto::{core_v1, meta_v1};
use rayon::prelude::*;
use serde::de::{self, DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor};

use super::{Dump, Located, Location, Refused};
use crate::feed::object_name;

/// One object of a file, still text.
pub(super) struct Item<'a> {
    /// The object as JSON.
    pub(super) json: Cow<'a, str>,
    /// Kind by the list that holds it: items of a `NodeList` do not say their own.
    pub(super) implied_kind: Option<&'a str>,
    /// Where it starts.
    pub(super) location: Location,
    /// Already found to be unacceptable while it was cut out: field and reason.
    pub(super) fault: Option<(String, String)>,
}

/// What a file was cut into.
pub(super) struct Items<'a> {
    pub(super) items: Vec<Item<'a>>,
    /// 0 when the file holds nothing at all.
    pub(super) n_documents: usize,
}

/// What an item turned out to be.
pub(super) enum Parsed<N, P> {
    Node(Located<N>),
    Pod(Located<P>),
    Ignored(String),
    Refused(Refused),
}

/// A parsed item; boxed, since items are moved about and a pod is large.
pub(super) type Object = Parsed<Box<core_v1::Node>, Box<core_v1::Pod>>;

/// Parses every item and hands it on at once, on all cores; order is kept.
pub(super) fn parse_all<N: Send, P: Send>(
    items: Vec<Item<'_>>,
    then: impl Fn(Object) -> Parsed<N, P> + Sync + Send,
) -> Dump<N, P> {
    collect(items.into_par_iter().map(|item| then(parse_one(item))).collect())
}

/// Sorts items by what they turned out to be.
pub(super) fn collect<N, P>(items: Vec<Parsed<N, P>>) -> Dump<N, P> {
    let mut dump = Dump {
        nodes: Vec::new(),
        pods: Vec::new(),
        ignored_kinds: BTreeMap::new(),
        refused: Vec::new(),
    };
    for item in items {
        match item {
            Parsed::Node(node) => dump.nodes.push(node),
            Parsed::Pod(pod) => dump.pods.push(pod),
            Parsed::Ignored(kind) => *dump.ignored_kinds.entry(kind).or_default() += 1,
            Parsed::Refused(refused) => dump.refused.push(refused),
        }
    }
    dump
}

fn parse_one(item: Item<'_>) -> Object {
    let kind = match peek_kind(&item.json) {
        Ok(Some(kind)) => kind,
        Ok(None) => match item.implied_kind {
            Some(kind) => Cow::Borrowed(kind),
            None => {
                return refuse(
                    item.location,
                    "object".to_owned(),
                    "kind",
                    "must be set".to_owned(),
                );
            }
        },
        Err(reason) => return refuse(item.location, "object".to_owned(), "kind", reason),
    };
    let wanted = matches!(kind.as_ref(), "Node" | "Pod");
    match item.fault {
        Some((field, reason)) if wanted => {
            let object = name_of(&kind, &item.json);
            return Parsed::Refused(Refused { location: item.location, object, field, reason });
        }
        Some(_) | None => {}
    }
    match kind.as_ref() {
        "Node" => parse_as("Node", &item.json, item.location, Parsed::Node),
        "Pod" => parse_as("Pod", &item.json, item.location, Parsed::Pod),
        // kubectl never nests lists; taking one for an unknown kind would lose its objects without a word.
        "List" => refuse(
            item.location,
            "List".to_owned(),
            "kind",
            "a list inside a list is not read".to_owned(),
        ),
        _ => Parsed::Ignored(kind.into_owned()),
    }
}

fn parse_as<T: DeserializeOwned>(
    kind: &str,
    json: &str,
    mut location: Location,
    wrap: fn(Located<Box<T>>) -> Object,
) -> Object {
    match serde_json::from_str(json) {
        Ok(value) => wrap(Located { value: Box::new(value), location }),
        Err(error) => {
            location.line += (error.line() as u64).saturating_sub(1);
            let message = without_position(&error);
            let (field, reason) = split_field(&message).unwrap_or(("object", &message));
            refuse(location, name_of(kind, json), field, reason.to_owned())
        }
    }
}

/// Field path and reason of the vocabulary's own error text: ``field `spec.priority`: invalid type …``.
fn split_field(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix("field `")?.split_once("`: ")
}

fn refuse(location: Location, object: String, field: &str, reason: String) -> Object {
    Parsed::Refused(Refused { location, object, field: field.to_owned(), reason })
}

/// The message alone: the position inside the item would be taken for one in the file.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

/// ``Pod `default/web-0` ``, as far as the metadata can be read.
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

/// The object's `kind`, read without reading the object: writers put it near the front.
///
/// `None` when there is none. The text is known to be well-formed JSON.
fn peek_kind(json: &str) -> Result<Option<Cow<'_, str>>, String> {
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    // Stopping early makes the deserializer complain about the rest, which is why only `found` counts.
    let outcome = deserializer.deserialize_map(KindVisitor { found: &mut found });
    match (found, outcome) {
        (Some(kind), _) => Ok(Some(kind)),
        (None, Ok(())) => Ok(None),
        (None, Err(error)) => Err(without_position(&error)),
    }
}

struct KindVisitor<'f, 'a> {
    found: &'f mut Option<Cow<'a, str>>,
}

impl<'a> Visitor<'a> for KindVisitor<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'a>>()? {
            if key.0 == "kind" {
                *self.found = map.next_value::<Option<Text<'a>>>()?.map(|kind| kind.0);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// A string borrowed from the input unless it holds escapes.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

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
