//! What a journal holds, record by record. Field numbers are never reused: segments of earlier versions stay readable.
//!
//! A segment begins with a [`Start`], followed by the changes that make an empty cluster hold what the recorded one held,
//! up to a [`Published`]. After it come the changes of each generation, again up to its `Published`, and attempts in
//! between: each after the `Published` of the generation that it was decided on, but not at once.

use berth_proto::berth_v1 as wire;
use prost::{Message, Oneof};

/// One record.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(
        oneof = "Kind",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18"
    )]
    pub(crate) kind: Option<Kind>,
}

/// One record as far as attempts go: what they need, and nothing of the changes around them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttemptRecord {
    #[prost(oneof = "AttemptKind", tags = "1, 3, 4, 18")]
    pub(crate) kind: Option<AttemptKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AttemptKind {
    #[prost(message, tag = "1")]
    Start(Start),
    #[prost(message, boxed, tag = "3")]
    Attempt(Box<Attempt>),
    #[prost(bytes, tag = "4")]
    Template(Vec<u8>),
    #[prost(string, tag = "18")]
    Name(String),
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Kind {
    #[prost(message, tag = "1")]
    Start(Start),
    #[prost(message, tag = "2")]
    Published(Published),
    #[prost(message, tag = "3")]
    Attempt(Attempt),
    /// The encoding of a pod without name and uid, for [`RecordedPod::template`]: the first of a segment has number 1.
    #[prost(bytes, tag = "4")]
    Template(Vec<u8>),
    /// The encoded node.
    #[prost(bytes, tag = "5")]
    UpsertNode(Vec<u8>),
    #[prost(string, tag = "6")]
    DeleteNode(String),
    #[prost(message, tag = "7")]
    UpsertPod(RecordedPod),
    /// An empty uid stands for any.
    #[prost(message, tag = "8")]
    DeletePod(wire::PodKey),
    #[prost(message, tag = "9")]
    UpsertObject(RecordedObject),
    #[prost(message, tag = "10")]
    DeleteObject(wire::ObjectKey),
    /// Of the upserts that follow, up to `ReplaceEnd`, is made the whole cluster.
    #[prost(bool, tag = "11")]
    ReplaceBegin(bool),
    #[prost(bool, tag = "12")]
    ReplaceEnd(bool),
    #[prost(message, tag = "13")]
    Reserved(Reserved),
    #[prost(message, tag = "14")]
    NominationCleared(wire::PodKey),
    #[prost(message, tag = "15")]
    TakenBack(wire::PodKey),
    #[prost(message, tag = "16")]
    Fenced(Fenced),
    #[prost(message, tag = "17")]
    Recalled(Recalled),
    /// Name of a node, for [`Columns::nodes`]: the first of a segment has number 1.
    #[prost(string, tag = "18")]
    Name(String),
}

/// Where a segment begins.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Start {
    /// When the server was started, in microseconds since 1970: segments of one run follow from each other.
    #[prost(uint64, tag = "1")]
    pub(crate) run: u64,
    /// When the segment was begun, in microseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub(crate) unix_micros: u64,
    /// The generation that it begins with.
    #[prost(uint64, tag = "7")]
    pub(crate) generation: u64,
    /// Version of Berth.
    #[prost(string, tag = "3")]
    pub(crate) berth: String,
    /// Version of Kubernetes that is followed.
    #[prost(string, tag = "4")]
    pub(crate) kubernetes: String,
    /// The KubeSchedulerConfiguration that is decided by; empty for kube-scheduler's default profile.
    #[prost(string, tag = "5")]
    pub(crate) policy: String,
    /// The scheduler name of the default profile, where `policy` is empty.
    #[prost(string, tag = "6")]
    pub(crate) scheduler_name: String,
}

/// A generation whose changes came before.
#[derive(Copy, Clone, PartialEq, Eq, Message)]
pub(crate) struct Published {
    #[prost(uint64, tag = "1")]
    pub(crate) generation: u64,
    /// When, in microseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub(crate) unix_micros: u64,
}

/// A pod.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RecordedPod {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) uid: String,
    #[prost(string, tag = "4")]
    pub(crate) node: String,
    /// Its encoding, perhaps under another name; where it is empty there is a template.
    #[prost(bytes, tag = "5")]
    pub(crate) encoded: Vec<u8>,
    #[prost(uint32, tag = "6")]
    pub(crate) template: u32,
    /// Whether a feed has reported it.
    #[prost(bool, tag = "7")]
    pub(crate) is_reported: bool,
    /// If it is greater than 1, the pod stands for so many, whose names and uids end with this one's number and those that
    /// follow it.
    #[prost(uint32, tag = "8")]
    pub(crate) count: u32,
}

/// An object other than a node or a pod.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RecordedObject {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(bytes, tag = "2")]
    pub(crate) encoded: Vec<u8>,
}

/// A pod that was assumed on a node, or nominated to it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reserved {
    #[prost(message, optional, tag = "1")]
    pub(crate) pod: Option<RecordedPod>,
    #[prost(string, tag = "2")]
    pub(crate) node: String,
    #[prost(bool, tag = "3")]
    pub(crate) is_nomination: bool,
    #[prost(message, optional, tag = "4")]
    pub(crate) volumes: Option<wire::VolumeBindings>,
    #[prost(message, optional, tag = "5")]
    pub(crate) devices: Option<wire::AssignedDevices>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Fenced {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(bool, tag = "2")]
    pub(crate) is_fenced: bool,
}

/// Something of the past that no object tells; exactly one of the fields besides `node` is set.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Recalled {
    #[prost(string, tag = "1")]
    pub(crate) node: String,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) n_contradictions: Option<u64>,
    /// Of all nodes, if `node` is empty; then only names and sizes count.
    #[prost(message, repeated, tag = "3")]
    pub(crate) images: Vec<RecalledImage>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) pod_order: Vec<wire::PodKey>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) freed_ports: Vec<RecalledPort>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RecalledImage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    pub(crate) size_bytes: i64,
    #[prost(uint32, tag = "3")]
    pub(crate) n_nodes: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RecalledPort {
    #[prost(string, tag = "1")]
    pub(crate) protocol: String,
    #[prost(string, tag = "2")]
    pub(crate) ip: String,
    #[prost(int32, tag = "3")]
    pub(crate) port: i32,
}

/// An attempt to place pods, with all that its answer depends on.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attempt {
    /// The generation that it was decided on.
    #[prost(uint64, tag = "1")]
    pub(crate) generation: u64,
    /// When it was told, in microseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub(crate) unix_micros: u64,
    /// The profile by its scheduler name.
    #[prost(string, tag = "3")]
    pub(crate) profile: String,
    /// Fingerprint of the profile.
    #[prost(fixed64, tag = "12")]
    pub(crate) policy: u64,
    /// Seed of a hash that breaks ties; absent where names do.
    #[prost(uint64, optional, tag = "4")]
    pub(crate) seed: Option<u64>,
    /// The time that the decision reads, in seconds since 1970.
    #[prost(int64, optional, tag = "5")]
    pub(crate) now: Option<i64>,
    /// In the order in which they were decided.
    #[prost(message, repeated, tag = "6")]
    pub(crate) pods: Vec<RecordedPod>,
    /// Whether they were to be assumed.
    #[prost(bool, tag = "7")]
    pub(crate) assumes: bool,
    /// Set for many pods at once.
    #[prost(bool, tag = "8")]
    pub(crate) is_batch: bool,
    /// Set for a gang.
    #[prost(message, optional, tag = "9")]
    pub(crate) gang: Option<wire::Gang>,
    /// Set where others may be evicted for one pod.
    #[prost(message, optional, tag = "10")]
    pub(crate) preempt: Option<wire::PreemptOptions>,
    /// One result for each pod; for a preemption only an error.
    #[prost(message, optional, tag = "11")]
    pub(crate) results: Option<Columns>,
    #[prost(message, optional, tag = "13")]
    pub(crate) gang_outcome: Option<wire::GangOutcome>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(crate) preemption: Option<Box<wire::PreemptResponse>>,
    /// [`RecordedPod::template`] of each of the pods, where these do not have it.
    #[prost(uint32, repeated, tag = "15")]
    pub(crate) templates: Vec<u32>,
}

/// What is known of an attempt only when it is written. Behind an encoded [`Attempt`] it completes it, as fields of a
/// message may come in parts.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct AttemptEnd {
    #[prost(message, optional, tag = "11")]
    pub(crate) results: Option<ColumnsEnd>,
    #[prost(uint32, repeated, tag = "15")]
    pub(crate) templates: Vec<u32>,
}

/// The part of [`Columns`] likewise.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ColumnsEnd {
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) nodes: Vec<u32>,
}

/// A [`Record`] of an attempt that is encoded.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct EncodedAttempt {
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(crate) attempt: Option<Vec<u8>>,
}

/// Results of many pods.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Columns {
    /// Number of the node's name, for each pod; 0 for a result of `others`.
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) nodes: Vec<u32>,
    /// For each pod with a node: its score and 1, or 0 if the only feasible node was not scored.
    #[prost(int64, repeated, tag = "2")]
    pub(crate) scores: Vec<i64>,
    /// Likewise, the number of feasible nodes.
    #[prost(uint32, repeated, tag = "3")]
    pub(crate) n_feasible: Vec<u32>,
    /// Likewise, the number of nodes with the best score.
    #[prost(uint32, repeated, tag = "4")]
    pub(crate) n_best: Vec<u32>,
    /// Likewise, whether the pod is assumed.
    #[prost(bool, repeated, tag = "5")]
    pub(crate) assumed: Vec<bool>,
    /// Results that are not merely a node.
    #[prost(message, repeated, tag = "6")]
    pub(crate) others: Vec<wire::PlaceResult>,
}

/// What came of an attempt.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    /// One for each pod.
    #[prost(message, repeated, tag = "1")]
    pub(crate) results: Vec<wire::PlaceResult>,
    #[prost(message, optional, tag = "2")]
    pub(crate) gang: Option<wire::GangOutcome>,
    #[prost(message, optional, tag = "3")]
    pub(crate) preemption: Option<wire::PreemptResponse>,
}

impl Answer {
    /// The results, one for each pod, that of a preemption as well.
    pub(crate) fn into_results(self) -> impl Iterator<Item = wire::PlaceResult> {
        let preempted = self.preemption.and_then(|preemption| preemption.decision);
        let result = |decision| wire::PlaceResult {
            result: Some(wire::place_result::Result::Decision(decision)),
        };
        self.results.into_iter().chain(preempted.map(result))
    }
}
