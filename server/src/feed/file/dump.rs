//! The contents of files: objects, each with its location, and what was refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_engine::workload::Workload;
use berth_proto::core_v1;

use super::written::WrittenObject;

/// Treatment of objects with fields that Kubernetes does not know, and of pods without containers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// The object is refused, since what its author wrote is not what would be read.
    #[default]
    Refuse,
    /// The object is used, and the fault is a warning: a newer cluster has fields of its own.
    Warn,
}

/// How the objects of a file are read.
#[derive(Copy, Clone, Debug)]
pub(super) struct Reading {
    pub(super) unknown_fields: UnknownFields,
    /// Whether workloads are read; otherwise they are of kinds that Berth does not read.
    pub(super) workloads: bool,
}

/// Contents of one or several files: objects as they were written, or (inside this module) compiled.
#[derive(Debug)]
pub struct Dump<N = core_v1::Node, P = core_v1::Pod, O = WrittenObject> {
    /// Nodes in file order.
    pub nodes: Vec<Located<N>>,
    /// Objects of the other kinds that placements depend on, in file order.
    pub objects: Vec<Located<O>>,
    /// Pods in file order, pending and terminal ones included.
    pub pods: Vec<Located<P>>,
    /// Workloads of the kinds that placements do not depend on, in file order; ReplicationControllers, ReplicaSets and
    /// StatefulSets are among the objects.
    pub workloads: Vec<Located<Workload>>,
    /// Objects of kinds that Berth does not read, counted by kind.
    pub ignored_kinds: BTreeMap<String, usize>,
    /// Faults of those kinds that neither Kubernetes nor an extension of it can have: misspelt names.
    pub misspelt_kinds: Findings,
    /// Objects that could not be read, in file order.
    pub refused: Vec<Refused>,
    /// Faults of objects that were read all the same, in file order.
    pub warnings: Findings,
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
            workloads: Vec::new(),
            ignored_kinds: BTreeMap::new(),
            misspelt_kinds: Findings::default(),
            refused: Vec::new(),
            warnings: Findings::default(),
        }
    }

    /// Appends the contents of another file.
    pub fn append(&mut self, mut other: Dump<N, P, O>) {
        self.nodes.append(&mut other.nodes);
        self.objects.append(&mut other.objects);
        self.pods.append(&mut other.pods);
        self.misspelt_kinds.append(other.misspelt_kinds);
        self.workloads.append(&mut other.workloads);
        self.refused.append(&mut other.refused);
        self.warnings.append(other.warnings);
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

/// Maximum number of findings that are kept.
const MAX_FINDINGS: usize = 100;

/// Faults of objects that were not refused for them: the first hundred, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first ones, in file order.
    pub listed: Vec<Refused>,
    /// Number of the others.
    pub n_more: usize,
}

impl Findings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// A line for each listed finding, and one for the others.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = (self.n_more > 0).then(|| format!("{} more of these", self.n_more));
        self.listed.iter().map(ToString::to_string).chain(more)
    }

    pub(super) fn add(&mut self, finding: Refused) {
        if self.listed.len() < MAX_FINDINGS {
            self.listed.push(finding);
        } else {
            self.n_more += 1;
        }
    }

    fn append(&mut self, other: Findings) {
        other.listed.into_iter().for_each(|finding| self.add(finding));
        self.n_more += other.n_more;
    }
}

/// A fault of an object, and where it is. But for [`Findings`], nothing of the object was applied.
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
