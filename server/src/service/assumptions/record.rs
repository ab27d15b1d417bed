//! Stored form of assumptions: what a ledger keeps of the pods that were assumed for a call, so that a server that is
//! started again has them.
//!
//! The pods of a call are split into records of a bounded size. A record has two parts: its *body*, which never changes,
//! and its *state*, which is small and is written again whenever a pod of it ends or gets another time to live. Bodies are
//! compressed, since the pods of a call are alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{self as engine, Pod, PodKey};
use berth_proto::{berth_v1 as wire, core_v1};
use lz4_flex::block;
use prost::Message;

use crate::clock;
use crate::ledger::{Key, LedgerError};
use crate::service::convert;

/// Number of pods from which a record takes no further one, unless the call would have more records than [`MAX_RECORDS`].
const MAX_PODS: usize = 64;
/// Number of bytes of objects from which a record takes no further one, likewise.
const MAX_OBJECT_BYTES: usize = 64 << 10;
/// Maximum number of bytes that one compressed byte stands for: more than LZ4 reaches.
const MAX_RATIO: usize = 256;
/// Maximum number of records of a call: their changeable parts are written by one transaction.
pub(super) const MAX_RECORDS: usize = 100;

/// A pod that was assumed, as it is to be stored.
#[derive(Clone, Debug)]
pub(super) struct Assumed {
    pub(super) token: u64,
    /// The pod, with its object.
    pub(super) pod: Pod,
    pub(super) node: Arc<str>,
    pub(super) volumes: engine::VolumeBindings,
    pub(super) devices: Option<Arc<engine::AssignedDevices>>,
}

/// A new record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewRecord {
    /// Token of the first pod; those of the others follow.
    pub(super) first: u64,
    pub(super) n_pods: usize,
    /// The encoded body, compressed.
    pub(super) body: Vec<u8>,
}

/// The changeable part of a record, for one pod: whether it has ended, and its time to live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) has_ended: bool,
    /// Time to live; `None` for none.
    pub(super) ttl: Option<Duration>,
}

/// A pod of a record that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) token: u64,
    pub(super) user: Arc<str>,
    pub(super) standing: Standing,
    pub(super) key: PodKey,
    pub(super) uid: String,
    /// The pod's object without a node; pods that are alike share it, and its name is not theirs.
    pub(super) object: Arc<core_v1::Pod>,
    pub(super) node: Arc<str>,
    pub(super) volumes: engine::VolumeBindings,
    pub(super) devices: Option<Arc<engine::AssignedDevices>>,
}

/// What the next committer has to know besides the records.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Position {
    /// Greater than every token that was told.
    #[prost(uint64, tag = "1")]
    pub(super) next_token: u64,
    /// How far the committer's feed was: the newest version of each kind.
    #[prost(btree_map = "string, uint64", tag = "2")]
    pub(super) versions: BTreeMap<String, u64>,
}

/// The value of a nomination.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Nomination {
    #[prost(message, optional, tag = "1")]
    pub(super) object: Option<core_v1::Pod>,
    #[prost(string, tag = "2")]
    pub(super) node: String,
}

#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(string, tag = "1")]
    user: String,
    /// For people: when the pods were assumed, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    since_unix_ms: u64,
    #[prost(message, repeated, tag = "3")]
    objects: Vec<core_v1::Pod>,
    #[prost(message, repeated, tag = "4")]
    pods: Vec<BodyPod>,
}

#[derive(Clone, PartialEq, Message)]
struct BodyPod {
    /// Position of the object, which pods that are alike share.
    #[prost(uint32, tag = "1")]
    object: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    uid: String,
    #[prost(string, tag = "4")]
    node: String,
    #[prost(message, optional, tag = "5")]
    volumes: Option<wire::VolumeBindings>,
    #[prost(message, optional, tag = "6")]
    devices: Option<wire::AssignedDevices>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct State {
    /// Time to live in milliseconds of the pods that are not listed.
    #[prost(uint64, optional, tag = "1")]
    ttl_ms: Option<u64>,
    /// The pods whose standing differs.
    #[prost(message, repeated, tag = "2")]
    others: Vec<StatePod>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct StatePod {
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(bool, tag = "2")]
    has_ended: bool,
    #[prost(uint64, optional, tag = "3")]
    ttl_ms: Option<u64>,
}

/// Splits what a call has assumed into records; the pods are in the order of their tokens. `None` if a pod has no object.
pub(super) fn split(pods: &[Assumed], user: &str) -> Option<Vec<NewRecord>> {
    let since_unix_ms = clock::unix_micros() / 1_000;
    let new = || Body { user: user.to_owned(), since_unix_ms, ..Body::default() };
    let (mut records, mut body, mut n_object_bytes) = (Vec::new(), new(), 0);
    // The first pod with each object of the body.
    let mut firsts: Vec<&Pod> = Vec::new();
    // Half of the limit, since a record also ends where a token is missing.
    let least = pods.len().div_ceil(MAX_RECORDS / 2);
    for (at, assumed) in pods.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| pods.get(before));
        let is_next = before.is_some_and(|before| before.token + 1 == assumed.token);
        let has_room = body.pods.len() < least
            || body.pods.len() < MAX_PODS && n_object_bytes < MAX_OBJECT_BYTES;
        if let Some(before) = before.filter(|_| !(is_next && has_room)) {
            records.push(finish(&std::mem::replace(&mut body, new()), before.token));
            firsts.clear();
            n_object_bytes = 0;
        }
        let known = firsts.iter().rposition(|first| first.has_object_of(&assumed.pod));
        if known.is_none() {
            let mut object = assumed.pod.object()?;
            if let Some(spec) = &mut object.spec {
                spec.node_name.clear();
            }
            n_object_bytes += object.encoded_len();
            body.objects.push(object);
            firsts.push(&assumed.pod);
        }
        body.pods.push(body_pod(assumed, known.unwrap_or(firsts.len() - 1)));
    }
    if let Some(last) = pods.last() {
        records.push(finish(&body, last.token));
    }
    Some(records)
}

fn body_pod(assumed: &Assumed, object: usize) -> BodyPod {
    let Assumed { pod, node, volumes, devices, .. } = assumed;
    BodyPod {
        object: convert::saturate(object),
        name: pod.key().name.to_string(),
        uid: pod.uid().to_owned(),
        node: node.to_string(),
        volumes: convert::volume_bindings(volumes.clone()),
        devices: devices.as_deref().map(convert::assigned_devices),
    }
}

fn finish(body: &Body, last: u64) -> NewRecord {
    let n_pods = body.pods.len();
    NewRecord { first: last + 1 - n_pods as u64, n_pods, body: pack(body) }
}

fn pack(body: &Body) -> Vec<u8> {
    block::compress_prepend_size(&body.encode_to_vec())
}

fn unpack(key: &Key, packed: &[u8]) -> Result<Body, LedgerError> {
    let (n_bytes, packed) =
        block::uncompressed_size(packed).map_err(|error| damaged(key, &error))?;
    if n_bytes > packed.len().saturating_mul(MAX_RATIO) {
        return Err(damaged(key, &"it is too short for the length that it names"));
    }
    let encoded = block::decompress(packed, n_bytes).map_err(|error| damaged(key, &error))?;
    match encoded.len() == n_bytes {
        true => decode_whole(key, &encoded),
        false => Err(damaged(key, &"it is shorter than it says")),
    }
}

/// Encodes the state of a record. All pods but a few have the same time to live.
pub(super) fn encode(standings: &[Standing]) -> Vec<u8> {
    let ttl_ms = |standing: &Standing| standing.ttl.map(clock::as_millis);
    let usual = standings.iter().find(|standing| !standing.has_ended).and_then(ttl_ms);
    let others = (0..).zip(standings).filter_map(|(index, standing)| {
        let (has_ended, ttl_ms) = (standing.has_ended, ttl_ms(standing));
        (has_ended || ttl_ms != usual).then_some(StatePod { index, has_ended, ttl_ms })
    });
    State { ttl_ms: usual, others: others.collect() }.encode_to_vec()
}

/// The value of a pod's nomination to a node; `None` if the pod has no object.
pub(super) fn encode_nomination(pod: &Pod, node: &str) -> Option<Vec<u8>> {
    let nomination = Nomination { object: Some(pod.object()?), node: node.to_owned() };
    Some(nomination.encode_to_vec())
}

/// Reads a nomination, or the position.
pub(super) fn decode_whole<M: Message + Default>(
    key: &Key,
    value: &[u8],
) -> Result<M, LedgerError> {
    M::decode(value).map_err(|error| damaged(key, &error))
}

fn damaged(key: &Key, reason: &dyn std::fmt::Display) -> LedgerError {
    LedgerError::Damaged { reason: format!("`{}`: {reason}", key.as_str()) }
}

/// Reads the state of a record of so many pods.
pub(super) fn decode_state(
    key: &Key,
    n_pods: usize,
    state: &[u8],
) -> Result<Vec<Standing>, LedgerError> {
    let state: State = decode_whole(key, state)?;
    let usual = Standing { has_ended: false, ttl: state.ttl_ms.map(Duration::from_millis) };
    let mut standings = vec![usual; n_pods];
    for StatePod { index, has_ended, ttl_ms } in state.others {
        let standing = standings.get_mut(index as usize);
        let standing = standing.ok_or_else(|| damaged(key, &"it names a pod that is not there"))?;
        *standing = Standing { has_ended, ttl: ttl_ms.map(Duration::from_millis) };
    }
    Ok(standings)
}

/// Reads the pods of the record `first` from its two parts.
pub(super) fn decode(first: u64, body: &[u8], state: &[u8]) -> Result<Vec<Stored>, LedgerError> {
    let key = Key::reservation(first);
    let body = unpack(&key, body)?;
    let standings = decode_state(&Key::reservation_state(first), body.pods.len(), state)?;
    let user: Arc<str> = body.user.into();
    let objects: Vec<Arc<core_v1::Pod>> = body.objects.into_iter().map(Arc::new).collect();
    let mut stored = Vec::with_capacity(standings.len());
    for ((token, pod), standing) in (first..).zip(body.pods).zip(standings) {
        let object = objects.get(pod.object as usize).cloned();
        let object = object.ok_or_else(|| damaged(&key, &"it lacks the object of a pod"))?;
        let (key, uid, user) = (named(&object, &pod.name), pod.uid, user.clone());
        let (node, volumes) = (pod.node.into(), convert::stored_volumes(pod.volumes));
        let devices = pod.devices.map(convert::stored_devices).map(Arc::new);
        stored.push(Stored { token, user, standing, key, uid, object, node, volumes, devices });
    }
    Ok(stored)
}

/// Name of an object's pod.
pub(super) fn key_of(object: &core_v1::Pod) -> PodKey {
    named(object, object.metadata.as_ref().map_or("", |metadata| &metadata.name))
}

/// A name in an object's namespace.
fn named(object: &core_v1::Pod, name: &str) -> PodKey {
    let namespace = object.metadata.as_ref().map_or("", |metadata| &metadata.namespace);
    PodKey::new(if namespace.is_empty() { "default" } else { namespace }, name)
}

#[cfg(test)]
pub(super) mod tests {
    use berth_proto::meta_v1;

    use super::*;

    /// The body of a record of pods that share an object.
    pub(in super::super) fn body(names: &[&str]) -> Vec<u8> {
        let metadata = meta_v1::ObjectMeta::default();
        let object = core_v1::Pod { metadata: Some(metadata), ..core_v1::Pod::default() };
        let pod = |name: &&str| BodyPod {
            name: (*name).to_owned(),
            uid: format!("u-{name}"),
            node: "n".to_owned(),
            ..BodyPod::default()
        };
        let pods = names.iter().map(pod).collect();
        pack(&Body { user: "u".to_owned(), objects: vec![object], pods, ..Body::default() })
    }

    /// The state of a record, from its pods' times to live in seconds.
    pub(in super::super) fn state(ttls: &[Option<u64>]) -> Vec<u8> {
        let standing =
            |ttl: &Option<u64>| Standing { has_ended: false, ttl: ttl.map(Duration::from_secs) };
        encode(&ttls.iter().map(standing).collect::<Vec<_>>())
    }

    #[test]
    fn a_damaged_body_is_refused_and_costs_nothing() {
        let (whole, state) = (body(&["a", "b"]), state(&[None, None]));
        assert_eq!(decode(7, &whole, &state).unwrap().len(), 2);
        for n_bytes in 0..whole.len() {
            assert!(decode(7, &whole[..n_bytes], &state).is_err(), "{n_bytes}");
        }
        let mut huge = whole;
        huge[..4].fill(0xff);
        let refused = decode(7, &huge, &state).unwrap_err();
        assert!(refused.to_string().contains("too short for the length"), "{refused}");
    }
}
