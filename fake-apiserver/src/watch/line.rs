//! Lines of a watch: one JSON object each, with a newline at the end.

use serde_json::Value;

use crate::resource::Resource;
use crate::selector::Selector;
use crate::status::Refusal;
use crate::store::{Change, Event};
use crate::stored::Stored;
use crate::table;
use crate::target::Target;

/// Renders the lines of a watch of one resource.
pub(super) struct Lines {
    resource: &'static Resource,
    /// Start of an object: `"object":{"kind":…,"apiVersion":…,`.
    opening: String,
    /// Whether objects come as tables of one row.
    as_tables: bool,
}

impl Lines {
    pub(super) fn new(resource: &'static Resource, as_tables: bool) -> Lines {
        let opening = format!(r#"","object":{}"#, resource.opening());
        Lines { resource, opening, as_tables }
    }

    pub(super) fn added(&self, object: &Stored) -> Vec<u8> {
        self.object(Change::Added, object)
    }

    fn object(&self, change: Change, object: &Stored) -> Vec<u8> {
        if self.as_tables {
            let table = table::of_one(self.resource, object);
            return format!("{{\"type\":\"{}\",\"object\":{table}}}\n", change.name()).into_bytes();
        }
        let mut line = Vec::with_capacity(object.n_bytes() + self.opening.len() + 24);
        line.extend_from_slice(br#"{"type":""#);
        line.extend_from_slice(change.name().as_bytes());
        line.extend_from_slice(self.opening.as_bytes());
        object.write_rest(self.resource, &mut line);
        line.extend_from_slice(b"}\n");
        line
    }

    /// The line of `event` for a watch of `target` and `selector`; `None` if the watch does not select it. An object
    /// that enters the selection is ADDED; one that leaves it is DELETED, with the old state under the new version
    /// (recording 04).
    pub(super) fn event(
        &self,
        event: &Event,
        target: &Target,
        selector: &Selector,
    ) -> Option<Vec<u8>> {
        if !concerns(&event.key, target) {
            return None;
        }
        let selects = |object: &Stored| selector.selects(&event.key, object);
        let was_in = event.before.as_ref().is_some_and(|before| selects(before));
        let is_in = event.change != Change::Deleted && selects(&event.object);
        match (was_in, is_in, &event.before) {
            (false, false, _) => None,
            (false, true, _) => Some(self.object(Change::Added, &event.object)),
            (true, true, _) => Some(self.object(Change::Modified, &event.object)),
            (true, false, Some(before)) if event.change != Change::Deleted => {
                let kept = self.resource.kept_as();
                let left = Stored::new(kept, event.object.version, before.to_plain());
                Some(self.object(Change::Deleted, &left))
            }
            (true, false, _) => Some(self.object(Change::Deleted, &event.object)),
        }
    }

    /// The line of a bookmark: a skeleton of the kind with a version (recordings 03, 05).
    pub(super) fn bookmark(&self, version: u64, ends_initial_events: bool) -> Vec<u8> {
        let annotation = if ends_initial_events {
            r#","annotations":{"k8s.io/initial-events-end":"true"}"#
        } else {
            ""
        };
        let (opening, skeleton) = (&self.opening, self.resource.skeleton);
        format!(
            r#"{{"type":"BOOKMARK{opening}"metadata":{{"resourceVersion":"{version}"{annotation}}}{skeleton}}}}}"#
        )
        .into_bytes()
        .into_iter()
        .chain([b'\n'])
        .collect()
    }

    pub(super) fn error(&self, refusal: &Refusal) -> Vec<u8> {
        let status: Value = refusal.to_status();
        format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n").into_bytes()
    }
}

/// Whether `target` (a collection, in a namespace or all, or one object) contains `key`.
fn concerns(key: &str, target: &Target) -> bool {
    let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
    (target.namespace.is_empty() || target.namespace == namespace)
        && target.name.as_deref().is_none_or(|wanted| wanted == name)
}
