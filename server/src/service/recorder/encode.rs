//! What the engine tells, as records.

use std::io;
use std::sync::Arc;

use berth_engine::{
    BatchOutcome, BatchRequest, Beginning, Change, ClusterState, Decision, Delta, EngineError,
    Gang, GangOutcome, Pod, PodKey, PreemptOptions, Preemption, Recollection, Reservation,
    TieBreak,
};
use berth_proto::berth_v1 as wire;
use rustc_hash::FxHashMap;

use super::columns::{self, Numbers};
use super::record::{
    Answer, Attempt, Columns, Fenced, Kind, Recalled, RecalledImage, RecalledPort, Record,
    RecordedObject, RecordedPod, Reserved,
};
use crate::journal::writer::Writer;
use crate::service::{CallError, convert};

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

/// An attempt that was told: everything that its record needs.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) generation: u64,
    pub(super) unix_micros: u64,
    pub(super) profile: String,
    pub(super) policy: u64,
    pub(super) tie_break: TieBreak,
    pub(super) now: Option<i64>,
    pub(super) pods: Vec<Pod>,
    pub(super) assumes: bool,
    pub(super) kind: ToldKind,
}

#[derive(Debug)]
pub(crate) enum ToldKind {
    One(Result<Decision, EngineError>),
    Many { results: Vec<Result<Decision, EngineError>>, gang: Option<(Gang, GangOutcome)> },
    Preempt { options: PreemptOptions, result: Result<Preemption, EngineError> },
}

impl Told {
    /// Many pods; those that were not decided are left out, as if they had not been asked for.
    pub(super) fn of_batch(
        request: &BatchRequest<'_>,
        positions: &[usize],
        outcome: &BatchOutcome,
    ) -> (Vec<Pod>, ToldKind) {
        let decided = positions.iter().filter_map(|at| {
            let (pod, result) = (request.pods.get(*at)?, outcome.results.get(*at)?);
            (*result != Err(EngineError::Cancelled)).then(|| (pod.clone(), result.clone()))
        });
        let (pods, results) = decided.unzip();
        let gang = request.gang.zip(outcome.gang.clone());
        (pods, ToldKind::Many { results, gang })
    }
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
        let Told { generation, unix_micros, profile, policy, tie_break, now, pods, assumes, kind } =
            told;
        let seed = match tie_break {
            TieBreak::Seeded(seed) => Some(seed),
            TieBreak::Lexicographic => None,
        };
        let gang = match &kind {
            ToldKind::Many { gang: Some((gang, _)), .. } => Some(recorded_gang(*gang)),
            _ => None,
        };
        let preempt = match &kind {
            ToldKind::Preempt { options, .. } => Some(convert::recorded_options(*options)),
            _ => None,
        };
        let is_batch = matches!(kind, ToldKind::Many { .. });
        let pods = self.pods(&pods)?;
        let (results, gang_outcome, preemption) = match kind {
            ToldKind::One(result) => (vec![result], None, None),
            ToldKind::Many { results, gang } => (results, gang.map(|(_, outcome)| outcome), None),
            ToldKind::Preempt { result: Ok(preemption), .. } => {
                (Vec::new(), None, Some(preemption))
            }
            ToldKind::Preempt { result: Err(error), .. } => (vec![Err(error)], None, None),
        };
        let results = self.columns(results, generation)?;
        self.put(Kind::Attempt(Attempt {
            generation,
            unix_micros,
            profile,
            policy,
            seed,
            now,
            pods,
            assumes,
            is_batch,
            gang,
            preempt,
            results: Some(results),
            gang_outcome: gang_outcome.map(convert::gang_outcome),
            preemption: preemption.map(convert::preemption).map(Box::new),
        }))
    }

    fn columns(
        &mut self,
        results: Vec<Result<Decision, EngineError>>,
        generation: u64,
    ) -> io::Result<Columns> {
        let mut columns = Columns::default();
        for result in results {
            columns::push(&mut columns, result, generation, |name| self.number(name))?;
        }
        Ok(columns)
    }

    /// The number of a node's name, which is written before it is first used.
    fn number(&mut self, name: &Arc<str>) -> io::Result<u32> {
        let (number, is_new) = self.names.of(name);
        if is_new {
            self.put(Kind::Name(name.to_string()))?;
        }
        Ok(number)
    }

    /// Many pods, replicas that follow each other as one.
    fn pods(&mut self, pods: &[Pod]) -> io::Result<Vec<RecordedPod>> {
        let (mut recorded, mut first) = (Vec::<RecordedPod>::new(), None);
        for pod in pods {
            let run = recorded.last_mut().zip(first);
            if !run.is_some_and(|(run, first)| columns::extend(run, first, pod)) {
                recorded.push(self.pod(pod)?);
                first = Some(pod);
            }
        }
        Ok(recorded)
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
        let template = match pod.shared_encoding() {
            Some(shared) => self.template(shared)?,
            None => 0,
        };
        let encoded = match template {
            0 => pod.encoded().ok_or_else(|| not_kept("pod", &pod.key().name))?.into_owned(),
            _ => Vec::new(),
        };
        Ok(RecordedPod {
            namespace: pod.key().namespace.to_string(),
            name: pod.key().name.to_string(),
            uid: pod.uid().to_owned(),
            node: pod.node_name().unwrap_or_default().to_owned(),
            encoded,
            template,
            is_reported: pod.is_reported(),
            count: 0,
        })
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

/// What came of an attempt, as it is compared.
pub(crate) fn answer(kind: ToldKind) -> Answer {
    let result = |result: Result<Decision, EngineError>| {
        convert::place_result(result.map_err(CallError::undecided))
    };
    match kind {
        ToldKind::One(decided) => Answer { results: vec![result(decided)], ..Answer::default() },
        ToldKind::Many { results, gang } => Answer {
            results: results.into_iter().map(result).collect(),
            gang: gang.map(|(_, outcome)| convert::gang_outcome(outcome)),
            preemption: None,
        },
        ToldKind::Preempt { result: Ok(preemption), .. } => {
            Answer { preemption: Some(convert::preemption(preemption)), ..Answer::default() }
        }
        ToldKind::Preempt { result: Err(error), .. } => {
            Answer { results: vec![result(Err(error))], ..Answer::default() }
        }
    }
}

fn recorded_gang(gang: Gang) -> wire::Gang {
    let Gang { min_count, preempt } = gang;
    wire::Gang {
        min_count: convert::saturate(min_count),
        preempt: preempt.is_some(),
        preempt_options: preempt.map(convert::recorded_options),
    }
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
