//! From a dump to the cluster: compile on all cores, then one replacement in one generation.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use berth_engine as engine;
use berth_engine::{Cluster, Generation, ModelError};
use berth_proto::core_v1;
use rayon::prelude::*;

use super::item::{Object, Parsed, collect, parse_all};
use super::{Dump, Located, Location, Refused};
use crate::feed::{FeedError, object_name};

/// What a dump became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The generation that holds it.
    pub generation: Generation,
    /// Nodes of the cluster.
    pub n_nodes: usize,
    /// Pods on nodes of the cluster.
    pub n_pods: usize,
    /// Pods without a node.
    pub n_pending: usize,
    /// Pods on nodes that the dump does not have.
    pub n_orphaned: usize,
    /// Objects of kinds that Berth does not read, by kind.
    pub ignored_kinds: BTreeMap<String, usize>,
    /// Objects that were not taken: those that could not be read first, then those that could not hold.
    pub refused: Vec<Refused>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadReport {
            generation,
            n_nodes,
            n_pods,
            n_pending,
            n_orphaned,
            ignored_kinds,
            refused,
        } = self;
        let n_ignored: usize = ignored_kinds.values().sum();
        write!(
            f,
            "{n_nodes} nodes, {n_pods} pods on them, {n_pending} pending, {n_orphaned} on unknown nodes; \
             {n_ignored} objects of other kinds; {} refused; generation {generation}",
            refused.len()
        )
    }
}

/// Makes the cluster exactly what the dump holds; assumed pods stay. Refused objects are listed, everything else loads.
pub fn load(cluster: &Cluster, dump: Dump) -> LoadReport {
    let Dump { nodes, pods, ignored_kinds, refused } = dump;
    let nodes = nodes.into_par_iter().map(|node| compile_node(cluster, node));
    let pods = pods.into_par_iter().map(|pod| compile_pod(cluster, pod));
    let mut compiled = Compiled { ignored_kinds, refused, ..collect(Vec::new()) };
    compiled.append(collect(nodes.chain(pods).collect()));
    publish(cluster, compiled)
}

/// As reading the files and then [`load`], but no object is kept once it is compiled: a fraction of the memory.
///
/// # Errors
/// The first file that cannot be read; the cluster is as it was then.
pub fn load_files(cluster: &Cluster, paths: &[PathBuf]) -> Result<LoadReport, FeedError> {
    let mut compiled: Compiled = collect(Vec::new());
    for path in paths {
        let (name, text) = super::open(path)?;
        let items = super::cut(&name, &text)?;
        compiled.append(parse_all(items, |object| compile(cluster, object)));
    }
    Ok(publish(cluster, compiled))
}

type Compiled = Dump<engine::Node, engine::Pod>;

fn compile(cluster: &Cluster, object: Object) -> Parsed<engine::Node, engine::Pod> {
    match object {
        Parsed::Node(node) => compile_node(cluster, node),
        Parsed::Pod(pod) => compile_pod(cluster, pod),
        Parsed::Ignored(kind) => Parsed::Ignored(kind),
        Parsed::Refused(refused) => Parsed::Refused(refused),
    }
}

fn compile_node(
    cluster: &Cluster,
    node: Located<impl Borrow<core_v1::Node>>,
) -> Parsed<engine::Node, engine::Pod> {
    let Located { value, location } = node;
    let node = value.borrow();
    match cluster.compile_node(node) {
        Ok(value) => Parsed::Node(Located { value, location }),
        Err(error) => refuse(location, object_name("Node", node.metadata.as_ref()), error),
    }
}

fn compile_pod(
    cluster: &Cluster,
    pod: Located<impl Borrow<core_v1::Pod>>,
) -> Parsed<engine::Node, engine::Pod> {
    let Located { value, location } = pod;
    let pod = value.borrow();
    match cluster.compile_pod(pod) {
        Ok(value) => Parsed::Pod(Located { value, location }),
        Err(error) => refuse(location, object_name("Pod", pod.metadata.as_ref()), error),
    }
}

fn refuse(
    location: Location,
    object: String,
    error: ModelError,
) -> Parsed<engine::Node, engine::Pod> {
    Parsed::Refused(refused(location, object, error))
}

fn refused(location: Location, object: String, error: ModelError) -> Refused {
    let ModelError { field, reason } = error;
    Refused { location, object, field, reason }
}

/// One replacement, one generation; what the cluster refuses joins what could not be read.
fn publish(cluster: &Cluster, compiled: Compiled) -> LoadReport {
    let Dump { nodes, pods, ignored_kinds, refused: mut all_refused } = compiled;
    let (nodes, node_places): (Vec<_>, Vec<_>) =
        nodes.into_iter().map(|node| (node.value, node.location)).unzip();
    let (pods, pod_places): (Vec<_>, Vec<_>) =
        pods.into_iter().map(|pod| (pod.value, pod.location)).unzip();
    // The engine numbers nodes first, then pods.
    let places = [node_places, pod_places].concat();
    let applied = cluster.replace(nodes, pods);
    all_refused.extend(applied.rejected.into_iter().filter_map(|rejected| {
        Some(refused(places.get(rejected.index)?.clone(), rejected.object, rejected.error))
    }));
    let snapshot = cluster.snapshot();
    LoadReport {
        generation: applied.generation,
        n_nodes: snapshot.n_nodes(),
        n_pods: snapshot.n_pods(),
        n_pending: snapshot.n_pending(),
        n_orphaned: snapshot.n_orphaned(),
        ignored_kinds,
        refused: all_refused,
    }
}
