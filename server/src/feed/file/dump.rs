//! The contents of files: objects, each with its location, and what was refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_proto::core_v1;

use super::written::WrittenObject;

/// Contents of one or several files: objects as they were written, or (inside this module) compiled.
#[derive(Debug)]
pub struct Dump<N = core_v1::Node, P = core_v1::Pod, O = WrittenObject> {
    /// Nodes in file order.
    pub nodes: Vec<Located<N>>,
    /// Objects of the other kinds that placements depend on, in file order.
    pub objects: Vec<Located<O>>,
    /// Pods in file order, pending and terminal ones included.
    pub pods: Vec<Located<P>>,
    /// Objects of kinds that Berth does not read, counted by kind.
    pub ignored_kinds: BTreeMap<String, usize>,
    /// Objects that could not be read, in file order.
    pub refused: Vec<Refused>,
}

impl Default for Dump {
    fn default() -> Dump {
        Dump::empty()
    }
}

impl<N, P, O> Dump<N, P, O> {
    /// A dump without objects.
    pub(super) fn empty() -> Dump<N, P, O> {
        Dump {
            nodes: Vec::new(),
            objects: Vec::new(),
            pods: Vec::new(),
            ignored_kinds: BTreeMap::new(),
            refused: Vec::new(),
        }
    }

    /// Appends the contents of another file.
    pub fn append(&mut self, mut other: Dump<N, P, O>) {
        self.nodes.append(&mut other.nodes);
        self.objects.append(&mut other.objects);
        self.pods.append(&mut other.pods);
        self.refused.append(&mut other.refused);
        for (kind, n) in other.ignored_kinds {
            *self.ignored_kinds.entry(kind).or_default() += n;
        }
    }
}

/// An object with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// The object as it was written; compiled and checked later.
    pub value: T,
    /// Location of the object.
    pub location: Location,
}

/// Location of an object, for people: `nodes.yaml:120 (document 2, item 3)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Name of the file as given; `-` is standard input.
    pub path: Arc<str>,
    /// The line on which the object starts, from 1.
    pub line: u64,
    /// Position of the document in the file, from 0.
    pub document: usize,
    /// Position in the document's list, from 0; `None` for a document that is one object.
    pub item: Option<usize>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (document {}", self.path, self.line, self.document)?;
        if let Some(item) = self.item {
            write!(f, ", item {item}")?;
        }
        f.write_str(")")
    }
}

/// A refused object, and the reason. Nothing of it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Location of the object.
    pub location: Location,
    /// Name of the object, as far as that could be read: ``Pod `default/web-0` ``.
    pub object: String,
    /// Path of the bad field, for example `spec.containers[0].resources.requests[cpu]`.
    pub field: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { location, object, field, reason } = self;
        write!(f, "{location}: {object}: `{field}`: {reason}")
    }
}
