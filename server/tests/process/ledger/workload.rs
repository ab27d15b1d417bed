//! Requests of several clients to a ledger, made from a seed: few names, so that clients conflict, and requests that
//! depend on earlier responses, so that many succeed.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    AcquireIdentityRequest, AcquireIdentityResponse, AdvanceFenceRequest, AdvanceFenceResponse,
    AttachVolumeRequest, AttachVolumeResponse, BreakAttachmentRequest, BreakAttachmentResponse,
    DetachVolumeRequest, DetachVolumeResponse, FenceRecord, IdentityRecord,
    RecordIdentityEventRequest, RecordIdentityEventResponse, VolumeRecord,
};
use berth_server::ledger::{Blind, Call, ForceRight};

/// Returns a call at this time by a user who may do everything, on a server that has seen nothing.
pub(crate) fn call(now: i64) -> Call<'static> {
    Call { user: "user", now, witness: &Blind, force: ForceRight::All }
}

/// SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub(crate) const NAMESPACE: &str = "default";
const NODES: [&str; 3] = ["n0", "n1", "n2"];
const SCOPES: [&str; 4] = ["compute", "storage", "network", "network+storage"];

/// Access modes by the volume's number.
pub(crate) fn modes(volume: &str) -> &'static str {
    match volume {
        "v1" => "ReadWriteOncePod",
        "v3" => "ReadWriteMany",
        _ => "ReadWriteOnce",
    }
}

/// A request that may change the ledger. No two requests have one actor, so that the journal line of each is found.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Acquire(AcquireIdentityRequest),
    Event(RecordIdentityEventRequest),
    Attach(AttachVolumeRequest),
    Detach(DetachVolumeRequest),
    Break(BreakAttachmentRequest),
    Fence(AdvanceFenceRequest),
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(crate) enum Response {
    Acquire(AcquireIdentityResponse),
    Event(RecordIdentityEventResponse),
    Attach(AttachVolumeResponse),
    Detach(DetachVolumeResponse),
    Break(BreakAttachmentResponse),
    Fence(AdvanceFenceResponse),
}

impl Response {
    /// The token of the grant in the response, or 0 without one.
    pub(crate) fn token(&self) -> u64 {
        match self {
            Response::Acquire(answer) => answer.token,
            Response::Attach(answer) => answer.token,
            _ => 0,
        }
    }
}

impl Request {
    pub(crate) fn actor(&self) -> &str {
        match self {
            Request::Acquire(request) => &request.actor,
            Request::Event(request) => &request.actor,
            Request::Attach(request) => &request.actor,
            Request::Detach(request) => &request.actor,
            Request::Break(request) => &request.actor,
            Request::Fence(request) => &request.actor,
        }
    }
}

/// The records of the latest responses, shared by all clients.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    identities: BTreeMap<String, IdentityRecord>,
    volumes: BTreeMap<String, VolumeRecord>,
    fences: BTreeMap<String, FenceRecord>,
    /// Tokens of ended grants, by which nothing may happen any more.
    stale: Vec<u64>,
}

impl Seen {
    pub(crate) fn learn(&mut self, answer: &Response) {
        let (identity, volume, fence) = match answer {
            Response::Acquire(answer) => (answer.record.as_ref(), None, None),
            Response::Event(answer) => (answer.record.as_ref(), None, None),
            Response::Attach(answer) => (None, answer.record.as_ref(), None),
            Response::Detach(answer) => (None, answer.record.as_ref(), None),
            Response::Break(answer) => (None, answer.record.as_ref(), None),
            Response::Fence(answer) => (None, None, answer.record.as_ref()),
        };
        if let Some(record) = identity {
            let before = self.identities.insert(record.name.clone(), record.clone());
            let before = before.map_or(0, |before| before.token);
            self.note_stale(before, before != record.token);
        }
        if let Some(record) = volume {
            let before = self.volumes.insert(record.volume.clone(), record.clone());
            for old in before.into_iter().flat_map(|before| before.holders) {
                self.note_stale(old.token, record.holders.iter().all(|new| new.token != old.token));
            }
        }
        if let Some(record) = fence {
            self.fences.insert(record.node_name.clone(), record.clone());
        }
    }

    fn note_stale(&mut self, token: u64, is_over: bool) {
        if is_over && token != 0 {
            self.stale.push(token);
        }
    }

    /// Makes a request with this actor, which no other request may have.
    pub(crate) fn request(&self, chance: &mut Chance, actor: String) -> Request {
        let node = NODES[chance.below(3) as usize].to_owned();
        let uid = format!("uid-{actor}");
        match chance.below(100) {
            0..25 => {
                let name = format!("pet-{}", chance.below(4));
                let held = self.identities.get(&name).filter(|_| chance.is(20));
                let uid = held.map_or(uid, |held| held.holder_uid.clone());
                let uid = if uid.is_empty() { format!("again-{actor}") } else { uid };
                let node_name = if chance.is(70) { node } else { String::new() };
                let namespace = NAMESPACE.to_owned();
                Request::Acquire(AcquireIdentityRequest { namespace, name, uid, node_name, actor })
            }
            25..45 => self.event(chance, actor, uid),
            45..65 => {
                let volume = format!("v{}", chance.below(4));
                let known = self.volumes.get(&volume).map(|record| record.version);
                let known = known.map(|version| version + u64::from(chance.is(20)));
                Request::Attach(AttachVolumeRequest {
                    access_modes: vec![modes(&volume).to_owned()],
                    volume,
                    node,
                    pod_uid: uid,
                    expected_version: known.filter(|_| chance.is(30)),
                    actor,
                })
            }
            65..80 => self.detach(chance, actor, node, uid),
            80..87 => Request::Break(BreakAttachmentRequest {
                volume: format!("v{}", chance.below(4)),
                node,
                expected_version: None,
                out_of_service_taint: chance.is(30),
                node_ready: ["", "True", "Unknown"][chance.below(3) as usize].to_owned(),
                node_object_deleted: chance.is(10),
                actor,
            }),
            _ => self.fence(chance, actor, node),
        }
    }

    fn event(&self, chance: &mut Chance, actor: String, uid: String) -> Request {
        let name = format!("pet-{}", chance.below(4));
        let held = self.identities.get(&name).cloned().unwrap_or_default();
        let is_stale = !self.stale.is_empty() && chance.is(25);
        let types = [
            "RemovedByNodeAgent",
            "RemovedByPodGC",
            "RemovedAfterFence",
            "RemovedAfterFence",
            "ForceDeletedByUser",
            "ForceDeletedByUser",
            "DeletionRequested",
            "NodeObjectDeleted",
        ];
        Request::Event(RecordIdentityEventRequest {
            namespace: NAMESPACE.to_owned(),
            name,
            uid: if held.holder_uid.is_empty() { uid } else { held.holder_uid },
            r#type: types[chance.below(8) as usize].to_owned(),
            acknowledged: chance.is(50),
            token: if is_stale {
                self.stale[chance.below(self.stale.len() as u64) as usize]
            } else if chance.is(50) {
                held.token
            } else {
                0
            },
            actor,
        })
    }

    fn detach(&self, chance: &mut Chance, actor: String, node: String, uid: String) -> Request {
        let volume = format!("v{}", chance.below(4));
        let record = self.volumes.get(&volume).cloned().unwrap_or_default();
        let n_holders = record.holders.len() as u64;
        let held =
            (n_holders > 0).then(|| record.holders[chance.below(n_holders) as usize].clone());
        let is_stale = !self.stale.is_empty() && chance.is(25);
        let (node, pod_uid, token) = match held {
            Some(held) => (held.node, held.pod_uid, if chance.is(50) { held.token } else { 0 }),
            None => (node, uid, 0),
        };
        Request::Detach(DetachVolumeRequest {
            volume,
            node,
            pod_uid,
            expected_version: None,
            pod_gone: chance.is(80),
            mounted: chance.is(90).then_some(false),
            token: match is_stale {
                true => self.stale[chance.below(self.stale.len() as u64) as usize],
                false => token,
            },
            actor,
        })
    }

    fn fence(&self, chance: &mut Chance, actor: String, node: String) -> Request {
        let record = self.fences.get(&node).cloned().unwrap_or_default();
        let next = match &*record.state {
            "Fencing" => ["FenceConfirmed", "FenceConfirmed", "FenceFailed", "FenceAccepted"],
            _ if record.renewal.is_some() => {
                ["FenceConfirmed", "FenceFailed", "RemovePod", "NodeReturned"]
            }
            "Fenced" | "AttachmentsBroken" => match chance.below(3) {
                0 => ["Decide", "RemovePod", "BreakAttachment", "ReleaseIdentity"],
                _ => ["NodeReturned", "NodeReturned", "NodeReturned", "BreakAttachment"],
            },
            _ => ["Decide", "Decide", "Decide", "NodeReturned"],
        };
        let r#type = next[chance.below(4) as usize].to_owned();
        let token = record.renewal.map_or(record.token, |renewal| renewal.token);
        let is_told = match &*r#type {
            "FenceConfirmed" => true,
            "Decide" => ["Fenced", "AttachmentsBroken"].contains(&&*record.state),
            _ => false,
        };
        Request::Fence(AdvanceFenceRequest {
            node_name: node,
            scope: match &*r#type {
                "Decide" => SCOPES[chance.below(4) as usize].to_owned(),
                _ => String::new(),
            },
            r#type,
            rebooted: chance.is(80),
            no_leftover_processes: chance.is(80),
            token: if is_told { token.max(1) } else { 0 },
            actor,
        })
    }
}
