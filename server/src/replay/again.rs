//! Again: one recorded attempt, and how it is made once more.

use std::sync::Arc;

use berth_engine::{
    BatchRequest, Cluster, Decision, EngineError, Explanation, Outcome, PlaceRequest, Pod, PodKey,
    Policy, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;
use prost::Message;

use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::convert;
use crate::service::recorder::columns;
use crate::service::recorder::decode::{Dictionary, PodSource, RecordError};
use crate::service::recorder::record::{Answer, Attempt, RecordedPod};

/// A recorded attempt. Clones share it.
#[derive(Clone)]
pub(crate) struct Attempted {
    /// Its number in the journal.
    pub(crate) sequence: u64,
    /// Number of the server's run in the journal, from 1.
    pub(super) run: u64,
    /// The record, without its pods.
    pub(crate) record: Arc<Attempt>,
    pods: Arc<Vec<PodSource>>,
    dictionary: Dictionary,
}

impl std::fmt::Debug for Attempted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempted").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Attempted {
    /// An attempt with its run and its number, and with the pods that a dictionary has for it.
    ///
    /// # Errors
    /// [`RecordError`]: a pod's template is missing.
    pub(crate) fn of(
        mut record: Attempt,
        (run, sequence): (u64, u64),
        dictionary: &Dictionary,
    ) -> Result<Attempted, RecordError> {
        let (pods, templates) = (&mut record.pods, std::mem::take(&mut record.templates));
        if !templates.is_empty() && templates.len() != pods.len() {
            let reason = "an attempt has not one template for each of its pods";
            return Err(RecordError::Malformed(reason.to_owned()));
        }
        pods.iter_mut().zip(templates).for_each(|(pod, template)| pod.template = template);
        let pods = std::mem::take(pods).into_iter().map(|pod| dictionary.resolve(pod));
        let pods = Arc::new(pods.collect::<Result<Vec<_>, _>>()?);
        let (record, dictionary) = (Arc::new(record), dictionary.clone());
        Ok(Attempted { sequence, run, record, pods, dictionary })
    }

    /// The pods of the attempt, as they were recorded.
    pub(crate) fn pods(&self) -> impl Iterator<Item = RecordedPod> {
        self.pods.iter().flat_map(PodSource::pods)
    }

    /// The object of a pod, as it was recorded.
    ///
    /// # Errors
    /// [`RecordError`]: it cannot be read.
    pub(crate) fn object(&self, index: usize) -> Result<Option<core_v1::Pod>, RecordError> {
        let sources = self.pods.iter().flat_map(|source| source.pods().map(move |it| (source, it)));
        sources.skip(index).map(|(source, pod)| source.object_of(&pod)).next().transpose()
    }

    /// Whether the attempt is about a pod of this name.
    pub(super) fn names(&self, pod: &PodKey) -> bool {
        self.pods().any(|it| it.namespace == *pod.namespace && it.name == *pod.name)
    }

    /// The answer that was recorded; `None` where the record does not fit together.
    pub(crate) fn answer(&self) -> Option<Answer> {
        let Attempt { generation, results, gang_outcome, preemption, .. } = &*self.record;
        let columns = results.clone().unwrap_or_default();
        let name = |number| self.dictionary.name(number);
        Some(Answer {
            results: columns::results(&columns, *generation, self.pods(), name)?,
            gang: gang_outcome.clone(),
            preemption: preemption.as_deref().cloned(),
        })
    }

    /// Whether this is the answer that was recorded, to the last byte.
    pub(crate) fn is_answered_by(&self, answer: &Answer) -> bool {
        self.answer().is_some_and(|recorded| recorded.encode_to_vec() == answer.encode_to_vec())
    }

    /// Makes the recorded attempt on a cluster, and returns the answer.
    pub(super) fn again(&self, cluster: &Cluster, profiles: &Profiles) -> Answer {
        let failed = |message| answered([Err(EngineError::SchedulerError { message })]);
        self.made(cluster, profiles).unwrap_or_else(failed)
    }

    fn made(&self, cluster: &Cluster, profiles: &Profiles) -> Result<Answer, String> {
        let record = &*self.record;
        let policy = profiles.of_scheduler(&record.profile)?;
        let pods = self.compiled(cluster).map_err(|error| error.to_string())?;
        if record.is_batch {
            return self.made_batch(cluster, policy, &pods).map_err(|error| error.to_string());
        }
        let Some(pod) = pods.first() else { return Err("the attempt has no pod".to_owned()) };
        if let Some(options) = &record.preempt {
            let options = convert::preempt_options(Some(options), "options");
            let options = options.map_err(|error| error.to_string())?;
            let (tie_break, now) = (self.tie_break(), record.now);
            let cancelled = &|| false;
            let request = PreemptRequest { pod, policy, tie_break, options, cancelled, now };
            return Ok(match cluster.preempt(&request) {
                Ok(made) => {
                    Answer { preemption: Some(convert::preemption(made)), ..Answer::default() }
                }
                Err(error) => answered([Err(error)]),
            });
        }
        let (tie_break, now) = (self.tie_break(), record.now);
        let decided = cluster.place(&PlaceRequest { pod, policy, tie_break, now });
        Ok(answered([decided.map(|decision| self.as_asked(decision))]))
    }

    /// Explains the decision about one of the pods, on a cluster on which those before it are assumed first. `None` if
    /// that is not known: the pods of a gang may have evicted others.
    pub(super) fn explained(
        &self,
        index: usize,
        cluster: &Cluster,
        profiles: &Profiles,
        is_detailed: &dyn Fn(&str) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Result<Explanation, EngineError>> {
        let record = &*self.record;
        let evicts = record.gang_outcome.as_ref().is_some_and(|it| !it.preemptions.is_empty());
        let policy = profiles.of_scheduler(&record.profile).ok().filter(|_| !evicts)?;
        let pods = self.compiled(cluster).ok()?;
        let (before, pod) = (pods.get(..index)?, pods.get(index)?);
        let (tie_break, now) = (self.tie_break(), record.now);
        let request = PlaceRequest { pod, policy, tie_break, now };
        if before.is_empty() {
            return Some(cluster.explain_unless(&request, is_detailed, cancelled));
        }
        let (pods, assume, gang) = (before, true, None);
        let then = cluster.fork();
        then.place_batch(&BatchRequest { pods, policy, tie_break, assume, gang, cancelled, now });
        Some(then.explain_unless(&request, is_detailed, cancelled))
    }

    fn compiled(&self, cluster: &Cluster) -> Result<Vec<Pod>, RecordError> {
        let mut pods = Vec::new();
        self.pods.iter().try_for_each(|run| run.compile_all(cluster, &mut pods))?;
        Ok(pods)
    }

    fn made_batch(
        &self,
        cluster: &Cluster,
        policy: &Policy,
        pods: &[Pod],
    ) -> Result<Answer, CallError> {
        let gang = self.record.gang.as_ref();
        let gang = gang.map(|gang| convert::gang(gang, pods.len())).transpose()?;
        let request = BatchRequest {
            pods,
            policy,
            tie_break: self.tie_break(),
            assume: self.record.assumes,
            gang,
            cancelled: &|| false,
            now: self.record.now,
        };
        // What is assumed is assumed on a copy.
        let outcome = match request.assume {
            true => cluster.fork().place_batch(&request),
            false => cluster.place_batch(&request),
        };
        let gang = gang.and(outcome.gang).map(convert::gang_outcome);
        Ok(Answer { gang, ..answered(outcome.results) })
    }

    /// The decision of a pod that was to be assumed: it is, if it has a node.
    fn as_asked(&self, mut decision: Decision) -> Decision {
        if let Outcome::Placed(placement) = &mut decision.outcome {
            placement.assumed = self.record.assumes;
        }
        decision
    }

    fn tie_break(&self) -> TieBreak {
        self.record.seed.map_or(TieBreak::Lexicographic, TieBreak::Seeded)
    }
}

/// The answer that these decisions are.
fn answered(decided: impl IntoIterator<Item = Result<Decision, EngineError>>) -> Answer {
    let result = |decided: Result<Decision, EngineError>| {
        convert::place_result(decided.map_err(CallError::undecided))
    };
    Answer { results: decided.into_iter().map(result).collect(), ..Answer::default() }
}
