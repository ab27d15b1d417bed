//! An endless sequence of encoded requests from a finite workload.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_client::Mode;
use berth_proto::berth_v1::{
    PlaceBatchRequest, PlaceMode, PlaceRequest, PlaceStreamRequest, PodKey,
};
use berth_proto::core_v1::Pod;
use prost::Message as _;

use super::LoadSpec;
use super::wire::{PodTemplate, put_length};

/// Divides the pods of a workload into requests, and repeats them under new names when they run out.
///
/// The pods are encoded once, so that a request costs the load generator little more than copying its bytes.
#[derive(Debug)]
pub struct Requests {
    pods: Vec<PodTemplate>,
    next: AtomicU64,
    entries_per_request: u64,
    replicas: u32,
    mode: Mode,
    /// The fields that all requests share, encoded.
    shared: Vec<u8>,
}

/// One encoded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Unique within the run.
    pub sequence: u64,
    /// Number of pods of the request, replicas included.
    pub n_pods: u64,
    /// The encoded message of the run's mode.
    pub message: Vec<u8>,
}

/// Field numbers: `PlaceStreamRequest.sequence` and `.entries`, `PlaceBatchRequest.entries`, `PlaceRequest.pod`,
/// `BatchEntry.pod` and `.replicas`.
const STREAM_ENTRIES: u8 = 2;
const BATCH_ENTRIES: u8 = 1;
const PLACE_POD: u8 = 1;
const ENTRY_POD: u8 = 1;

impl Requests {
    /// Requests of `spec.batch_size` pods in entries of `spec.replicas`; `pods` is not empty.
    pub fn new(pods: &[Pod], spec: &LoadSpec) -> Self {
        debug_assert!(!pods.is_empty());
        let (mode, tie_break) = (spec.options.mode.into(), spec.options.tie_break);
        // A run may take longer than any time to live: what it assumes stays until it is deleted.
        let assume_ttl_ms = (spec.options.mode == PlaceMode::Assume).then_some(0);
        let admit = spec.options.admit;
        let shared = match spec.mode {
            Mode::Unary => {
                PlaceRequest { mode, tie_break, admit, assume_ttl_ms, ..Default::default() }
                    .encode_to_vec()
            }
            Mode::Batch => {
                PlaceBatchRequest { mode, tie_break, admit, assume_ttl_ms, ..Default::default() }
                    .encode_to_vec()
            }
            Mode::Stream => {
                PlaceStreamRequest { mode, tie_break, admit, assume_ttl_ms, ..Default::default() }
                    .encode_to_vec()
            }
        };
        Self {
            pods: pods.iter().map(PodTemplate::new).collect(),
            next: AtomicU64::new(0),
            entries_per_request: (spec.batch_size / spec.replicas.max(1) as usize).max(1) as u64,
            replicas: spec.replicas,
            mode: spec.mode,
            shared,
        }
    }

    /// The next request.
    pub fn next(&self) -> Outgoing {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let n_pods = self.entries_per_request * u64::from(self.replicas.max(1));
        let mut message = Vec::with_capacity(self.entries_per_request as usize * 512 + 64);
        message.extend_from_slice(&self.shared);
        let mut pod = Vec::with_capacity(1024);
        match self.mode {
            Mode::Unary => {
                self.put_pod(sequence, &mut pod);
                put_length(PLACE_POD, pod.len(), &mut message);
                message.append(&mut pod);
            }
            Mode::Batch => self.put_entries(sequence, BATCH_ENTRIES, &mut message),
            Mode::Stream => {
                let numbered = PlaceStreamRequest { sequence, ..PlaceStreamRequest::default() };
                // A vector grows as needed, so there is nothing to fail.
                numbered.encode(&mut message).ok();
                self.put_entries(sequence, STREAM_ENTRIES, &mut message);
            }
        }
        Outgoing { sequence, n_pods, message }
    }

    /// Keys of the pods of request `sequence`, with replicas named as the server names them.
    pub fn keys(&self, sequence: u64) -> Vec<PodKey> {
        let mut keys = Vec::new();
        for number in self.entries(sequence) {
            let (template, round) = self.template(number);
            let key = template.identity(round);
            if self.replicas <= 1 {
                keys.push(key);
                continue;
            }
            keys.extend((0..self.replicas).map(|replica| PodKey {
                namespace: key.namespace.clone(),
                name: format!("{}-{replica}", key.name),
                uid: format!("{}-{replica}", key.uid),
            }));
        }
        keys
    }

    fn entries(&self, sequence: u64) -> std::ops::Range<u64> {
        let first = sequence * self.entries_per_request;
        first..first + self.entries_per_request
    }

    fn template(&self, number: u64) -> (&PodTemplate, u64) {
        let n_pods = self.pods.len() as u64;
        (&self.pods[(number % n_pods) as usize], number / n_pods)
    }

    fn put_pod(&self, number: u64, out: &mut Vec<u8>) {
        let (template, round) = self.template(number);
        template.put(round, out);
    }

    /// Appends the request's `BatchEntry` messages as field `field`.
    fn put_entries(&self, sequence: u64, field: u8, message: &mut Vec<u8>) {
        // `BatchEntry.replicas`, encoded; nothing when it is 0.
        let replicas = berth_proto::berth_v1::BatchEntry { pod: None, replicas: self.replicas }
            .encode_to_vec();
        let mut pod = Vec::with_capacity(1024);
        for number in self.entries(sequence) {
            pod.clear();
            self.put_pod(number, &mut pod);
            let n_bytes = 1 + prost::length_delimiter_len(pod.len()) + pod.len() + replicas.len();
            put_length(field, n_bytes, message);
            put_length(ENTRY_POD, pod.len(), message);
            message.extend_from_slice(&pod);
            message.extend_from_slice(&replicas);
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_client::{Mode, PlaceOptions};
    use berth_proto::berth_v1::{
        BatchEntry, PlaceBatchRequest, PlaceMode, PlaceRequest, PlaceStreamRequest, TieBreak,
    };
    use berth_proto::core_v1::Pod;
    use berth_synthetic::workload::{WorkloadSpec, generate, renamed};
    use prost::Message as _;

    use super::Requests;
    use crate::load::LoadSpec;

    fn pods() -> Vec<Pod> {
        generate(&WorkloadSpec { n_pods: 5, ..WorkloadSpec::default() })
    }

    fn spec(mode: Mode, batch_size: usize, replicas: u32) -> LoadSpec {
        let tie_break = Some(TieBreak { rule: 1, seed: 300 });
        let options =
            PlaceOptions { mode: PlaceMode::Assume, tie_break, ..PlaceOptions::default() };
        LoadSpec { mode, batch_size, replicas, options, ..LoadSpec::default() }
    }

    /// Pod `number` of the endless workload, built without templates.
    fn pod(number: usize) -> Pod {
        let pods = pods();
        let pod = &pods[number % pods.len()];
        match number / pods.len() {
            0 => pod.clone(),
            round => renamed(pod, &format!("{}-r{round}", pod.metadata.as_ref().unwrap().name)),
        }
    }

    #[test]
    fn messages_equal_the_encoded_types() {
        let (mode, tie_break, assume_ttl_ms) = (2, Some(TieBreak { rule: 1, seed: 300 }), Some(0));
        let unary = Requests::new(&pods(), &spec(Mode::Unary, 1, 1));
        let batch = Requests::new(&pods(), &spec(Mode::Batch, 6, 2));
        let stream = Requests::new(&pods(), &spec(Mode::Stream, 3, 1));
        for sequence in 0..7 {
            let entries = |replicas| {
                (sequence * 3..sequence * 3 + 3)
                    .map(|number| BatchEntry { pod: Some(pod(number).into()), replicas })
                    .collect::<Vec<_>>()
            };
            let sent = unary.next();
            let pod = Some(pod(sequence).into());
            let expected =
                PlaceRequest { pod, mode, tie_break, assume_ttl_ms, ..Default::default() };
            assert_eq!(PlaceRequest::decode(sent.message.as_slice()).unwrap(), expected);
            assert_eq!((sent.sequence, sent.n_pods), (sequence as u64, 1));

            let sent = batch.next();
            let default = PlaceBatchRequest::default();
            let expected = PlaceBatchRequest {
                entries: entries(2),
                mode,
                tie_break,
                assume_ttl_ms,
                ..default
            };
            assert_eq!(PlaceBatchRequest::decode(sent.message.as_slice()).unwrap(), expected);
            assert_eq!(sent.n_pods, 6);

            let sent = stream.next();
            let (sequence, entries) = (sequence as u64, entries(1));
            let default = PlaceStreamRequest::default();
            let expected =
                PlaceStreamRequest { sequence, entries, mode, tie_break, assume_ttl_ms, ..default };
            assert_eq!(PlaceStreamRequest::decode(sent.message.as_slice()).unwrap(), expected);
        }
    }

    #[test]
    fn keys_name_every_pod_of_a_request() {
        let names = |requests: &Requests, sequence| -> Vec<String> {
            requests.keys(sequence).into_iter().map(|key| key.name).collect()
        };
        let name = |number| pod(number).metadata.unwrap().name;
        let stream = Requests::new(&pods(), &spec(Mode::Stream, 2, 1));
        assert_eq!(names(&stream, 2), [name(4), name(5)]);
        assert!(name(5).ends_with("-r1"));
        let batch = Requests::new(&pods(), &spec(Mode::Batch, 2, 2));
        assert_eq!(names(&batch, 1), [format!("{}-0", name(1)), format!("{}-1", name(1))]);
    }
}
