//! Loads a dump into the cluster: compiles on all cores, then makes one replacement in one generation.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use berth_engine as engine;
use berth_engine::{Cluster, ClusterState, Generation, ModelError, ObjectKind};
use berth_proto::core_v1;
use rayon::prelude::*;

use super::dump::Reading;
use super::item::{Ignored, Parsed, Written, add};
use super::{Dump, Findings, Located, Location, Refused, UnknownFields, WrittenObject};
use crate::feed::{FeedError, object_name};

/// Result of loading a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// Generation with the dump.
    pub generation: Generation,
    /// Number of accepted objects.
    pub n_taken: usize,
    /// Number of nodes in the cluster.
    pub n_nodes: usize,
    /// Number of pods on nodes of the cluster.
    pub n_pods: usize,
    /// Number of pods without a node.
    pub n_pending: usize,
    /// Number of pods on nodes that the dump does not have.
    pub n_orphaned: usize,
    /// Numbers of objects of the other kinds that placements depend on, by kind; kinds without objects are left out.
    pub n_objects: BTreeMap<ObjectKind, usize>,
    /// Numbers of objects of kinds that Berth does not read, by kind.
    pub ignored_kinds: BTreeMap<String, usize>,
    /// Refused objects: those that could not be read first, then those that the cluster refused.
    pub refused: Vec<Refused>,
    /// Faults of objects that were loaded all the same.
    pub warnings: Findings,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport {
            generation,
            n_taken: _,
            n_nodes,
            n_pods,
            n_pending,
            n_orphaned,
            n_objects,
            ignored_kinds,
            refused,
            warnings: _,
        } = self;
        let n_objects: usize = n_objects.values().sum();
        let n_ignored: usize = ignored_kinds.values().sum();
        write!(
            f,
            "{n_nodes} nodes, {n_pods} pods on them, {n_pending} pending, {n_orphaned} on unknown nodes; \
             {n_objects} objects that placements depend on, {n_ignored} of other kinds; {} refused; generation {generation}",
            refused.len()
        )
    }
}

/// Replaces the cluster by the contents of the dump; assumed pods stay. Refused objects are listed, everything else
/// loads.
pub fn load(cluster: &Cluster, dump: Dump) -> LoadReport {
    let Dump {
        nodes,
        objects,
        pods,
        workloads,
        mut ignored_kinds,
        misspelt_kinds,
        refused,
        warnings,
    } = dump;
    for workload in workloads {
        *ignored_kinds.entry(workload.value.kind().name().to_owned()).or_default() += 1;
    }
    let nodes = nodes.into_par_iter().map(|node| compile_node(cluster, node));
    let objects = objects.into_par_iter().map(|object| compile_object(cluster, object));
    let pods = pods.into_par_iter().map(|pod| compile_pod(cluster, pod));
    let mut compiled =
        Compiled { ignored_kinds, misspelt_kinds, refused, warnings, ..Dump::empty() };
    let parsed: Vec<_> = nodes.chain(objects).chain(pods).collect();
    parsed.into_iter().for_each(|parsed| add(&mut compiled, parsed));
    publish(cluster, compiled)
}

/// Reads and loads files like [`load`], but no object is kept once it is compiled: a fraction of the memory.
///
/// # Errors
/// The error of the first file that cannot be read; the cluster is unchanged then.
pub fn load_files(
    cluster: &Cluster,
    paths: &[PathBuf],
    unknown_fields: UnknownFields,
) -> Result<LoadReport, FeedError> {
    let mut compiled: Compiled = Dump::empty();
    for path in paths {
        let reading = Reading { unknown_fields, workloads: false };
        compiled.append(super::read_each(path, reading, |written| compile(cluster, written))?);
    }
    check_kinds(paths, &compiled)?;
    Ok(publish(cluster, compiled))
}

/// Refuses files without any object that is read. An empty `List` is an empty cluster; a list of something else is an
/// error.
fn check_kinds(paths: &[PathBuf], compiled: &Compiled) -> Result<(), FeedError> {
    let Dump { nodes, objects, pods, ignored_kinds, refused, .. } = compiled;
    let has_none = nodes.is_empty() && objects.is_empty() && pods.is_empty() && refused.is_empty();
    match ignored_kinds.keys().next() {
        Some(kind) if has_none => {
            let paths: Vec<String> =
                paths.iter().map(|path| format!("`{}`", path.display())).collect();
            Err(FeedError::OtherKinds { paths: paths.join(", "), kind: kind.clone() })
        }
        Some(_) | None => Ok(()),
    }
}

/// Loads files like [`load_files`], and returns the pods for which `keep` holds as they were written, in file order,
/// including those that the cluster refused. `keep` sees every pod before the cluster does, and may fill in missing
/// fields.
///
/// # Errors
/// The errors of [`load_files`].
pub fn load_files_keeping(
    cluster: &Cluster,
    paths: &[PathBuf],
    unknown_fields: UnknownFields,
    keep: impl Fn(&mut core_v1::Pod) -> bool + Sync,
) -> Result<(LoadReport, Vec<Located<core_v1::Pod>>), FeedError> {
    let kept = Mutex::new(Vec::new());
    let mut compiled: Compiled = Dump::empty();
    for (index, path) in paths.iter().enumerate() {
        let reading = Reading { unknown_fields, workloads: false };
        compiled.append(super::read_each(path, reading, |mut written| {
            if let Parsed::Pod(pod) = &mut written
                && keep(&mut pod.value)
            {
                let Located { value, location } = pod;
                let pod = Located { value: (**value).clone(), location: location.clone() };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push((index, pod));
            }
            compile(cluster, written)
        })?);
    }
    check_kinds(paths, &compiled)?;
    let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    kept.sort_by_key(|(index, Located { location, .. })| {
        (*index, location.document, location.item)
    });
    Ok((publish(cluster, compiled), kept.into_iter().map(|(_, pod)| pod).collect()))
}

type Compiled = Dump<engine::Node, engine::Pod, engine::Object>;
type CompiledItem = Parsed<engine::Node, engine::Pod, engine::Object>;

fn compile(cluster: &Cluster, written: Written) -> CompiledItem {
    match written {
        Parsed::Node(node) => compile_node(cluster, node),
        Parsed::Pod(pod) => compile_pod(cluster, pod),
        Parsed::Object(object) => compile_object(cluster, object),
        Parsed::Workload(workload) => {
            Parsed::Ignored(Ignored { kind: workload.value.kind().name().to_owned(), fault: None })
        }
        Parsed::Ignored(kind) => Parsed::Ignored(kind),
        Parsed::Refused(refused) => Parsed::Refused(refused),
    }
}

fn compile_node(cluster: &Cluster, node: Located<impl Borrow<core_v1::Node>>) -> CompiledItem {
    let Located { value, location } = node;
    let node = value.borrow();
    match cluster.compile_node(node) {
        Ok(value) => Parsed::Node(Located { value, location }),
        Err(error) => refuse(location, object_name("Node", node.metadata.as_ref()), error),
    }
}

fn compile_object(cluster: &Cluster, object: Located<WrittenObject>) -> CompiledItem {
    let Located { value, location } = object;
    let object = value.as_wire();
    match cluster.compile_object(object) {
        Ok(value) => Parsed::Object(Located { value, location }),
        Err(error) => refuse(location, object_name(object.kind().name(), object.metadata()), error),
    }
}

fn compile_pod(cluster: &Cluster, pod: Located<impl Borrow<core_v1::Pod>>) -> CompiledItem {
    let Located { value, location } = pod;
    let pod = value.borrow();
    match cluster.compile_reported_pod(pod) {
        Ok(value) => Parsed::Pod(Located { value, location }),
        Err(error) => refuse(location, object_name("Pod", pod.metadata.as_ref()), error),
    }
}

fn refuse(location: Location, object: String, error: ModelError) -> CompiledItem {
    Parsed::Refused(refused(location, object, error))
}

fn refused(location: Location, object: String, error: ModelError) -> Refused {
    let ModelError { field, reason } = error;
    Refused { location, object, field, reason }
}

/// Makes one replacement in one generation; objects that the cluster refuses are added to those that could not be read.
fn publish(cluster: &Cluster, compiled: Compiled) -> LoadReport {
    let Dump { nodes, objects, pods, ignored_kinds, refused: mut all_refused, warnings, .. } =
        compiled;
    let (nodes, mut places) = with_places(nodes);
    let (objects, object_places) = with_places(objects);
    let (pods, pod_places) = with_places(pods);
    // The engine numbers nodes first, then objects, then pods.
    places.extend(object_places.into_iter().chain(pod_places));
    let applied = cluster.replace(ClusterState { nodes, objects, pods });
    let n_taken = places.len().saturating_sub(applied.rejected.len());
    all_refused.extend(applied.rejected.into_iter().filter_map(|rejected| {
        Some(refused(places.get(rejected.index)?.clone(), rejected.object, rejected.error))
    }));
    let snapshot = cluster.snapshot();
    LoadReport {
        generation: applied.generation,
        n_taken,
        n_nodes: snapshot.n_nodes(),
        n_pods: snapshot.n_pods(),
        n_pending: snapshot.n_pending(),
        n_orphaned: snapshot.n_orphaned(),
        n_objects: ObjectKind::ALL
            .into_iter()
            .map(|kind| (kind, snapshot.n_objects(kind)))
            .filter(|(_, n)| *n > 0)
            .collect(),
        ignored_kinds,
        refused: all_refused,
        warnings,
    }
}

fn with_places<T>(located: Vec<Located<T>>) -> (Vec<T>, Vec<Location>) {
    located.into_iter().map(|located| (located.value, located.location)).unzip()
}
