//! Told: an attempt as the record that a journal has of it. The thread that makes an attempt encodes the record, as
//! pods and nodes are in its cache then: the thread that writes journals would otherwise fetch, and free, what belongs
//! to other cores. Only encodings that pods share are passed on by reference.

use std::sync::Arc;

use berth_engine::{Attempt as Made, Generation, Pod, TieBreak};
use prost::Message;
use smallvec::SmallVec;

use super::columns::{self, Run, Texts};
use super::record::{Attempt, Columns, RecordedPod};
use crate::clock;
use crate::service::convert;

/// The encoding that a pod of a request shares with pods like it; `None` for a pod that has its own.
pub(super) type Shared = Option<Arc<Box<[u8]>>>;

/// An attempt, but for what its segment knows: the numbers of templates and names.
#[derive(Debug)]
pub(super) struct Told {
    /// The encoded [`Attempt`], without what [`AttemptEnd`](super::record::AttemptEnd) adds.
    pub(super) encoded: Vec<u8>,
    /// For each of the pods.
    pub(super) shared: SmallVec<[Shared; 1]>,
    /// For each result, the node's name; empty for one that is not merely a node.
    pub(super) nodes: Texts,
    /// The name of a pod of which there is no encoding: the attempt cannot be written.
    pub(super) unkept: Option<String>,
    /// Number of pods decided for.
    pub(super) n_decisions: usize,
}

/// Number of bytes that the numbers of templates and names take, for one pod.
const END_BYTES: usize = 24;

impl Told {
    pub(super) fn of(generation: Generation, made: &Made<'_>) -> Told {
        let Draft { attempt, shared, nodes, unkept } = Draft::of(generation, made);
        let mut encoded = Vec::with_capacity(attempt.encoded_len() + END_BYTES);
        attempt.encode_raw(&mut encoded);
        let n_decisions = nodes.len() + usize::from(attempt.preemption.is_some());
        Told { encoded, shared, nodes, unkept, n_decisions }
    }

    /// Number of bytes that it takes, about.
    pub(super) fn n_bytes(&self) -> usize {
        let shared = self.shared.iter().flatten().map(|shared| shared.len());
        self.encoded.len() + self.nodes.n_bytes() + shared.sum::<usize>()
    }
}

/// What an attempt is told of, before it is encoded.
#[derive(Default)]
struct Draft {
    /// Without [`RecordedPod::template`] and [`Columns::nodes`].
    attempt: Attempt,
    shared: SmallVec<[Shared; 1]>,
    nodes: Texts,
    unkept: Option<String>,
}

impl Draft {
    fn of(generation: Generation, made: &Made<'_>) -> Draft {
        let (policy, tie_break, now) = match *made {
            Made::Place { request, .. } => (request.policy, request.tie_break, request.now),
            Made::Batch { request, .. } => (request.policy, request.tie_break, request.now),
            Made::Preempt { request, .. } => (request.policy, request.tie_break, request.now),
        };
        let mut told = Draft {
            attempt: Attempt {
                generation: generation.get(),
                unix_micros: clock::unix_micros(),
                profile: policy.spec().scheduler_name.clone(),
                policy: policy.fingerprint(),
                seed: match tie_break {
                    TieBreak::Seeded(seed) => Some(seed),
                    TieBreak::Lexicographic => None,
                },
                now,
                ..Attempt::default()
            },
            ..Draft::default()
        };
        told.add_what_was_made(generation, made);
        told
    }

    fn add_what_was_made(&mut self, generation: Generation, made: &Made<'_>) {
        let mut results = Columns::default();
        match *made {
            Made::Place { request, assumes, result } => {
                self.attempt.assumes = assumes;
                self.add_pods([request.pod]);
                columns::push(&mut results, &mut self.nodes, result, generation);
            }
            Made::Batch { request, positions, outcome } => {
                (self.attempt.assumes, self.attempt.is_batch) = (request.assume, true);
                // Pods that were not decided are left out, as if the request did not have them.
                let decided = positions.iter().filter_map(|at| {
                    let (pod, result) = (request.pods.get(*at)?, outcome.results.get(*at)?);
                    (*result != Err(berth_engine::EngineError::Cancelled)).then_some((pod, result))
                });
                self.add_pods(decided.clone().map(|(pod, _)| pod));
                for (_, result) in decided {
                    columns::push(&mut results, &mut self.nodes, result.as_ref(), generation);
                }
                if let Some((gang, outcome)) = request.gang.zip(outcome.gang.clone()) {
                    self.attempt.gang = Some(convert::recorded_gang(gang));
                    self.attempt.gang_outcome = Some(convert::gang_outcome(outcome));
                }
            }
            Made::Preempt { request, result } => {
                self.add_pods([request.pod]);
                self.attempt.preempt = Some(convert::recorded_options(request.options));
                match result {
                    Ok(made) => {
                        let made = convert::preemption(made.clone());
                        self.attempt.preemption = Some(Box::new(made));
                    }
                    Err(error) => {
                        columns::push(&mut results, &mut self.nodes, Err(error), generation);
                    }
                }
            }
        }
        self.attempt.results = Some(results);
    }

    /// Adds pods, replicas that follow each other as one.
    fn add_pods<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>) {
        let mut run: Option<Run<'_>> = None;
        for pod in pods {
            if run.as_mut().is_some_and(|run| run.extend(pod)) {
                continue;
            }
            self.add_run(run.replace(Run::of(pod)));
        }
        self.add_run(run);
    }

    fn add_run(&mut self, run: Option<Run<'_>>) {
        let Some(run) = run else { return };
        let (mut recorded, shared) = recorded(run.first());
        recorded.count = run.count();
        if shared.is_none() && recorded.encoded.is_empty() {
            self.unkept.get_or_insert_with(|| recorded.name.clone());
        }
        self.attempt.pods.push(recorded);
        self.shared.push(shared);
    }
}

/// A pod without the number of its template, and the template. If there is none, its encoding is empty for a pod that
/// is not kept.
pub(super) fn recorded(pod: &Pod) -> (RecordedPod, Shared) {
    let template = pod.shared_encoding().cloned();
    let own = || pod.encoded().map(|encoded| encoded.into_owned()).unwrap_or_default();
    let recorded = RecordedPod {
        namespace: String::from(&*pod.key().namespace),
        name: String::from(&*pod.key().name),
        uid: pod.uid().to_owned(),
        node: pod.node_name().unwrap_or_default().to_owned(),
        encoded: if template.is_some() { Vec::new() } else { own() },
        template: 0,
        is_reported: pod.is_reported(),
        count: 0,
    };
    (recorded, template)
}
