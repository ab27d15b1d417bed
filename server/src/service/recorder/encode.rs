//! What the engine tells, as records.

use std::io;
use std::sync::Arc;

use berth_engine::{
    Beginning, Change, ClusterState, Delta, Pod, PodKey, Recollection, Reservation,
};
use berth_proto::berth_v1 as wire;
use prost::Message;
use rustc_hash::FxHashMap;

use super::columns::Numbers;
use super::record::{
    Attempt, AttemptEnd, ColumnsEnd, EncodedAttempt, Fenced, Kind, Recalled, RecalledImage,
    RecalledPort, Record, RecordedObject, RecordedPod, Reserved,
};
use super::told::{Shared, Told, recorded};
use crate::journal::writer::Writer;
use crate::service::convert;

/// Number of bytes of the templates of a segment from which on pods are written whole.
const MAX_TEMPLATE_BYTES: usize = 16 << 20;

/// What pods share, and its number.
type Template = (Arc<Box<[u8]>>, u32);

/// Writes the records of one segment.
pub(super) struct Encoder {
    pub(super) writer: Writer,
    /// The templates by their addresses, which they keep.
    templates: FxHashMap<usize, Template>,
    n_template_bytes: usize,
    names: Numbers,
}

impl Encoder {
    pub(super) fn new(writer: Writer) -> Encoder {
        let (templates, names) = (FxHashMap::default(), Numbers::default());
        Encoder { writer, templates, n_template_bytes: 0, names }
    }

    pub(super) fn put(&mut self, kind: Kind) -> io::Result<()> {
        self.writer.push(&Record { kind: Some(kind) })
    }

    /// Writes the changes that make an empty cluster hold what another one holds.
    ///
    /// # Errors
    /// The segment cannot be written; an object that is not kept.
    pub(super) fn beginning(&mut self, beginning: &Beginning) -> io::Result<()> {
        beginning.changes().into_iter().try_for_each(|change| self.change(change))
    }

    /// Writes a change.
    ///
    /// # Errors
    /// The segment cannot be written; an object that is not kept.
    pub(super) fn change(&mut self, change: Change) -> io::Result<()> {
        let kind = match change {
            Change::Delta(delta) => return self.delta(&delta),
            Change::Replaced(state) => return self.replaced(*state),
            Change::Assumed(reservation) => self.reserved(&reservation)?,
            Change::Nominated { pod, node } => Kind::Reserved(Reserved {
                pod: Some(self.pod(&pod)?),
                node: node.to_string(),
                is_nomination: true,
                ..Reserved::default()
            }),
            Change::NominationCleared { pod } => Kind::NominationCleared(key(&pod, "")),
            Change::TakenBack { pod, uid } => Kind::TakenBack(key(&pod, &uid)),
            Change::Fenced { node, is_fenced } => {
                Kind::Fenced(Fenced { node: node.to_string(), is_fenced })
            }
            Change::Recalled(recollection) => Kind::Recalled(recalled(recollection)),
        };
        self.put(kind)
    }

    /// Writes an attempt.
    ///
    /// # Errors
    /// The segment cannot be written; an object that is not kept.
    pub(super) fn attempt(&mut self, told: Told) -> io::Result<()> {
        let Told { mut encoded, shared, nodes, unkept, .. } = told;
        if let Some(name) = unkept {
            return Err(not_kept("pod", &name));
        }
        let mut templates = Vec::with_capacity(shared.len());
        for shared in &shared {
            templates.push(shared.as_ref().map_or(Ok(0), |shared| self.template(shared))?);
        }
        if shared.iter().zip(&templates).any(|(shared, number)| shared.is_some() && *number == 0) {
            encoded = with_whole_pods(&encoded, &shared, &templates)?;
        }
        let mut numbers = Vec::with_capacity(nodes.len());
        for name in nodes.iter() {
            numbers.push(if name.is_empty() { 0 } else { self.number(name)? });
        }
        let end = AttemptEnd { results: Some(ColumnsEnd { nodes: numbers }), templates };
        end.encode(&mut encoded).map_err(io::Error::other)?;
        self.writer.push(&EncodedAttempt { attempt: Some(encoded) })
    }

    /// The number of a node's name, which is written before it is first used.
    fn number(&mut self, name: &str) -> io::Result<u32> {
        let (number, is_new) = self.names.of(name);
        if is_new {
            self.put(Kind::Name(name.to_owned()))?;
        }
        Ok(number)
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        let kind = match delta {
            Delta::UpsertNode(node) => {
                let encoded = node.encoded().ok_or_else(|| not_kept("node", node.name()))?;
                Kind::UpsertNode(encoded.to_vec())
            }
            Delta::DeleteNode(name) => Kind::DeleteNode(name.to_string()),
            Delta::UpsertPod(pod) => Kind::UpsertPod(self.pod(pod)?),
            Delta::UpsertObject(object) => {
                let key = object.key();
                let encoded = object.encoded().ok_or_else(|| not_kept("object", &key.name))?;
                let (kind, encoded) = (key.kind.name().to_owned(), encoded.to_vec());
                Kind::UpsertObject(RecordedObject { kind, encoded })
            }
            Delta::DeleteObject(key) => Kind::DeleteObject(wire::ObjectKey {
                kind: key.kind.name().to_owned(),
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
            }),
            Delta::DeletePod { key: pod, uid } => {
                Kind::DeletePod(key(pod, uid.as_deref().unwrap_or_default()))
            }
        };
        self.put(kind)
    }

    fn replaced(&mut self, state: ClusterState) -> io::Result<()> {
        let ClusterState { nodes, objects, pods } = state;
        self.put(Kind::ReplaceBegin(true))?;
        let nodes = nodes.into_iter().map(Delta::UpsertNode);
        let objects = objects.into_iter().map(Delta::UpsertObject);
        let pods = pods.into_iter().map(Delta::UpsertPod);
        nodes.chain(objects).chain(pods).try_for_each(|delta| self.delta(&delta))?;
        self.put(Kind::ReplaceEnd(true))
    }

    fn reserved(&mut self, reservation: &Reservation) -> io::Result<Kind> {
        let Reservation { pod, node, volumes, devices } = reservation;
        Ok(Kind::Reserved(Reserved {
            pod: Some(self.pod(pod)?),
            node: node.to_string(),
            is_nomination: false,
            volumes: convert::volume_bindings(volumes.clone()),
            devices: devices.as_deref().map(convert::assigned_devices),
        }))
    }

    fn pod(&mut self, pod: &Pod) -> io::Result<RecordedPod> {
        let (mut recorded, template) = recorded(pod);
        self.resolve(&mut recorded, template)?;
        Ok(recorded)
    }

    /// Gives a pod the number of its template, or all of it.
    fn resolve(&mut self, pod: &mut RecordedPod, template: Shared) -> io::Result<()> {
        if let Some(shared) = template {
            pod.template = self.template(&shared)?;
            if pod.template == 0 {
                pod.encoded = shared.to_vec();
            }
        } else if pod.encoded.is_empty() {
            return Err(not_kept("pod", &pod.name));
        }
        Ok(())
    }

    /// The number of a template, which is written before it is first used; 0 for none.
    fn template(&mut self, shared: &Arc<Box<[u8]>>) -> io::Result<u32> {
        let address = Arc::as_ptr(shared).addr();
        if let Some((_, number)) = self.templates.get(&address) {
            return Ok(*number);
        }
        if self.n_template_bytes > MAX_TEMPLATE_BYTES {
            return Ok(0);
        }
        self.n_template_bytes += shared.len();
        self.put(Kind::Template(shared.to_vec()))?;
        let number = convert::saturate(self.templates.len() + 1);
        self.templates.insert(address, (shared.clone(), number));
        Ok(number)
    }
}

/// An encoded attempt that has all of those of its pods for whose templates the segment has no room.
fn with_whole_pods(encoded: &[u8], shared: &[Shared], templates: &[u32]) -> io::Result<Vec<u8>> {
    let mut attempt = Attempt::decode(encoded).map_err(io::Error::other)?;
    let shared = shared.iter().zip(templates);
    for (pod, (shared, template)) in attempt.pods.iter_mut().zip(shared) {
        if let Some(shared) = shared.as_ref().filter(|_| *template == 0) {
            pod.encoded = shared.to_vec();
        }
    }
    Ok(attempt.encode_to_vec())
}

fn recalled(recollection: Recollection) -> Recalled {
    let of = |node: Arc<str>| Recalled { node: node.to_string(), ..Recalled::default() };
    match recollection {
        Recollection::Contradictions(n) => {
            Recalled { n_contradictions: Some(n), ..Recalled::default() }
        }
        Recollection::ImageSizes(sizes) => {
            let image = |(name, size_bytes): (Arc<str>, i64)| RecalledImage {
                name: name.to_string(),
                size_bytes,
                n_nodes: 0,
            };
            Recalled { images: sizes.into_iter().map(image).collect(), ..Recalled::default() }
        }
        Recollection::Images { node, images } => {
            let image = |seen: berth_engine::SeenImage| RecalledImage {
                name: seen.name.to_string(),
                size_bytes: seen.size_bytes,
                n_nodes: seen.n_nodes,
            };
            Recalled { images: images.into_iter().map(image).collect(), ..of(node) }
        }
        Recollection::PodOrder { node, pods } => {
            Recalled { pod_order: pods.iter().map(|pod| key(pod, "")).collect(), ..of(node) }
        }
        Recollection::FreedPorts { node, ports } => {
            let port = |freed: berth_engine::FreedPort| RecalledPort {
                protocol: freed.protocol.to_string(),
                ip: freed.ip.to_string(),
                port: freed.port,
            };
            Recalled { freed_ports: ports.into_iter().map(port).collect(), ..of(node) }
        }
    }
}

fn key(pod: &PodKey, uid: &str) -> wire::PodKey {
    convert::pod_key(pod, uid)
}

fn not_kept(kind: &str, name: &str) -> io::Error {
    io::Error::other(format!("the object of {kind} `{name}` is not kept"))
}
