//! Event: a line of a watch, and the decoder that turns a stream's bytes into events.

use std::borrow::Cow;

use berth_engine::Cluster;
use berth_proto::meta_v1;
use serde_json::value::RawValue;

use super::answer::Refusal;
use super::garbage::Garbage;
use super::lines::{Line, Lines};
use super::object_change::{Change, ObjectChange};
use super::resource::Resource;
use crate::escape::{clipped, printable};

/// The annotation of the bookmark that ends the list at the head of a stream (recording 05).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A line of a watch.
#[derive(Debug)]
pub enum Event {
    /// A change of an object.
    Object(ObjectChange),
    /// All changes up to this version have been sent. The object of a bookmark is a skeleton, of which only metadata
    /// counts.
    Bookmark {
        /// Version in `metadata.resourceVersion`.
        version: u64,
        /// Whether the list at the begin of the stream is complete.
        ends_list: bool,
    },
    /// The server ends the stream with an error.
    Failed(Refusal),
    /// A line that is too long to be read.
    TooLong,
}

/// Decodes the bytes of a watch of one kind: an iterator over the events so far, which continues when more bytes are
/// pushed.
pub struct Decoder<'a> {
    cluster: &'a Cluster,
    resource: Resource,
    keeps_pods: bool,
    lines: Lines,
}

impl<'a> Decoder<'a> {
    /// A decoder of a stream from its begin; `keeps_pods` keeps pods as they were sent beside their compiled form.
    #[must_use]
    pub fn new(cluster: &'a Cluster, resource: Resource, keeps_pods: bool) -> Decoder<'a> {
        Decoder { cluster, resource, keeps_pods, lines: Lines::default() }
    }

    /// Adds the next bytes, cut anywhere.
    pub fn push(&mut self, chunk: &[u8]) {
        self.lines.push(chunk);
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Event, Garbage>;

    fn next(&mut self) -> Option<Result<Event, Garbage>> {
        Some(match self.lines.next()? {
            Line::TooLong => Ok(Event::TooLong),
            Line::Whole(line) => decode(self.cluster, self.resource, self.keeps_pods, line),
        })
    }
}

fn decode(
    cluster: &Cluster,
    resource: Resource,
    keeps_pods: bool,
    line: &[u8],
) -> Result<Event, Garbage> {
    let line = std::str::from_utf8(line)
        .map_err(|error| Garbage::NoEvent(error.to_string()))?
        .trim_ascii();
    if let Some((change, json)) = as_api_servers_write(line)
        && let Ok(object) = ObjectChange::read(cluster, resource, change, json, keeps_pods)
    {
        return Ok(Event::Object(object));
    }
    let Envelope { r#type, object } =
        serde_json::from_str(line).map_err(|error| no_event(&error))?;
    let change = match r#type.as_ref() {
        "ADDED" => Change::Added,
        "MODIFIED" => Change::Modified,
        "DELETED" => Change::Deleted,
        "BOOKMARK" => return bookmark(object.get()),
        "ERROR" => return Ok(Event::Failed(Refusal::of_event(object.get()))),
        other => {
            let short: String = other.chars().take(40).collect();
            return Err(Garbage::UnknownType(printable(&short).into_owned()));
        }
    };
    Ok(Event::Object(ObjectChange::read(cluster, resource, change, object.get(), keeps_pods)?))
}

#[derive(serde::Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The object of a line in the form that every API server writes, found without parsing the line, to parse it only
/// once.
fn as_api_servers_write(line: &str) -> Option<(Change, &str)> {
    let rest = line.strip_prefix(r#"{"type":""#)?.strip_suffix('}')?;
    for (name, change) in [
        (r#"MODIFIED","object":"#, Change::Modified),
        (r#"ADDED","object":"#, Change::Added),
        (r#"DELETED","object":"#, Change::Deleted),
    ] {
        if let Some(object) = rest.strip_prefix(name) {
            return Some((change, object));
        }
    }
    None
}

/// Error for a line that is no event. The parser's message quotes parts of the line.
fn no_event(error: &serde_json::Error) -> Garbage {
    Garbage::NoEvent(clipped(&error.to_string()).into_owned())
}

fn bookmark(json: &str) -> Result<Event, Garbage> {
    #[derive(serde::Deserialize)]
    struct Bookmark {
        metadata: meta_v1::ObjectMeta,
    }
    let bookmark: Bookmark = serde_json::from_str(json).map_err(|error| no_event(&error))?;
    let version = bookmark.metadata.resource_version.parse().map_err(|_| Garbage::Unversioned)?;
    let ends_list =
        bookmark.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true");
    Ok(Event::Bookmark { version, ends_list })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(text: &str) -> Vec<Result<Event, Garbage>> {
        let cluster = Cluster::new();
        let mut decoder = Decoder::new(&cluster, Resource::Pods, false);
        decoder.push(text.as_bytes());
        decoder.by_ref().collect()
    }

    fn one(line: &str) -> Result<Event, Garbage> {
        let mut events = decode_all(&format!("{line}\n"));
        assert_eq!(events.len(), 1);
        events.remove(0)
    }

    const POD: &str = r#"{"metadata":{"name":"p","uid":"u","resourceVersion":"5"},"spec":{"containers":[{"name":"c"}]}}"#;

    #[test]
    fn an_event_may_be_written_in_any_order() {
        let lines = [
            format!(r#"{{"type":"MODIFIED","object":{POD}}}"#),
            format!(r#" {{ "object" : {POD}, "type" : "MODIFIED" }} "#),
            format!(r#"{{"type":"MODIFIED","object":{POD},"more":{{}}}}"#),
        ];
        for line in lines {
            let Ok(Event::Object(object)) = one(&line) else { panic!("{line}") };
            assert_eq!((object.change, object.version), (Change::Modified, Some(5)));
            assert!(object.delta.is_ok());
        }
    }

    #[test]
    fn a_bookmark_is_a_skeleton() {
        let line = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"297","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}"#;
        assert!(matches!(one(line), Ok(Event::Bookmark { version: 297, ends_list: true })));
        let plain = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"298"}}}"#;
        assert!(matches!(one(plain), Ok(Event::Bookmark { version: 298, ends_list: false })));
        let bad = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"x"}}}"#;
        assert_eq!(one(bad).unwrap_err(), Garbage::Unversioned);
    }

    #[test]
    fn garbage_is_garbage_and_an_error_is_none() {
        let error = r#"{"type":"ERROR","object":{"kind":"Status","message":"too old resource version: 588 (605)","reason":"Expired","code":410}}"#;
        assert!(matches!(one(error), Ok(Event::Failed(refusal)) if refusal.code == 410));
        assert_eq!(
            one(r#"{"type":"SURPRISE","object":{}}"#).unwrap_err().to_string(),
            "an event of the unknown type `SURPRISE`"
        );
        for line in ["<html>", r#"{"type":"ADDED""#, "7", r#"{"type":"ADDED"}"#] {
            assert!(matches!(one(line), Err(Garbage::NoEvent(_))), "{line}");
        }
        assert!(matches!(one(r#"{"type":"ADDED","object":{}}"#), Err(Garbage::NoObject(_))));
        let events = decode_all(&format!("\u{1}\n{{\"type\":\"ADDED\",\"object\":{POD}}}\n"));
        assert!(matches!(&events[..], [Err(_), Ok(Event::Object(_))]));
    }
}
