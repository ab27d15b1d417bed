//! Gang: many pods of which a minimum number gets a node, or none does. Decided on a fork, committed as a whole.

use std::sync::Arc;

use super::batch::{Results, decision_order, node_of};
use super::batch_request::{BatchOutcome, BatchRequest, Gang, GangOutcome, GangPreemption};
use super::fork::Fork;
use super::step::Step;
use super::writer::Writer;
use super::{Cluster, OPTIMISTIC_TRIES, as_assumed, check_uid, commit};
use crate::error::EngineError;
use crate::model::Pod;
use crate::place::Decided;
use crate::place::basis::Touched;
use crate::place::decision::{Decision, Outcome};
use crate::plan::request::PlaceRequest;
use crate::preempt::outcome::{Candidate, PostFilter};
use crate::preempt::request::{PreemptOptions, PreemptRequest};
use crate::snapshot::{AssumptionStamp, Generation, Snapshot};

impl Cluster {
    /// Decides for a gang on the published snapshot; if its basis has changed when it is committed, decides again, and
    /// after a few tries under the writer's lock.
    pub(super) fn place_gang(&self, request: &BatchRequest<'_>, gang: Gang) -> BatchOutcome {
        let (generation, outcome) = self.decide_gang(request, gang);
        let is_cancelled = outcome.results.contains(&Err(EngineError::Cancelled));
        if !is_cancelled {
            let all: Vec<usize> = (0..request.pods.len()).collect();
            self.tell_batch(generation, request, &all, &outcome);
        }
        outcome
    }

    /// The outcome of a gang, with the generation that it was decided on.
    fn decide_gang(&self, request: &BatchRequest<'_>, gang: Gang) -> (Generation, BatchOutcome) {
        for _ in 0..OPTIMISTIC_TRIES {
            let (base, held) = {
                let writer = self.writer();
                (self.snapshot(), held(&writer, request.pods))
            };
            let attempt = self.attempt_gang(&base, &held, request, gang);
            if !request.assume || !attempt.is_placed {
                return (base.generation, attempt.outcome());
            }
            let mut writer = self.writer();
            if attempt.holds(&base, &writer) {
                return (base.generation, self.commit_gang(&mut writer, attempt));
            }
        }
        let mut writer = self.writer();
        let base = writer.draft.snapshot.clone();
        let held = held(&writer, request.pods);
        let attempt = self.attempt_gang(&base, &held, request, gang);
        let is_placed = attempt.is_placed;
        let outcome =
            if is_placed { self.commit_gang(&mut writer, attempt) } else { attempt.outcome() };
        (base.generation, outcome)
    }

    fn attempt_gang(
        &self,
        base: &Snapshot,
        held: &[Option<Arc<str>>],
        request: &BatchRequest<'_>,
        gang: Gang,
    ) -> Attempt {
        let mut fork = Fork::of(base, self.versions.clone(), &self.memo);
        if gang.preempt.is_some() {
            let members = request.pods.iter().zip(held);
            members.for_each(|(pod, held)| {
                held.iter().for_each(|node| fork.shield(pod.key(), node));
            });
        }
        let mut results = Results::of(request);
        let mut decided =
            Members { cluster: self, request, fork, steps: Vec::new(), preemptions: Vec::new() };
        for index in decision_order(request.pods) {
            results.set_once(index, || decided.decide(index, held[index].as_ref(), gang.preempt));
        }
        let is_cancelled = results.is_cancelled() || (request.cancelled)();
        let results = results.into_results();
        let n_placed = results.iter().filter_map(node_of).count();
        let min_count = if gang.min_count == 0 { request.pods.len() } else { gang.min_count };
        let is_placed = !is_cancelled && n_placed >= min_count;
        let Members { steps, preemptions, .. } = decided;
        let nominate = |(index, step): &(Option<usize>, Step)| match step {
            Step::Nominate { .. } => *index,
            Step::Assume { .. } | Step::Clear { .. } => None,
        };
        let nominated = steps.iter().filter_map(nominate).filter(|_| is_placed).collect();
        Attempt { results, n_placed, is_placed, steps, preemptions, nominated }
    }

    fn commit_gang(&self, writer: &mut Writer, mut attempt: Attempt) -> BatchOutcome {
        let stamp = AssumptionStamp::after(writer.draft.snapshot.generation);
        for (index, step) in std::mem::take(&mut attempt.steps) {
            if let (Step::Assume { .. }, Some(index)) = (&step, index) {
                let result =
                    std::mem::replace(&mut attempt.results[index], Err(EngineError::Cancelled));
                attempt.results[index] = result.map(|decision| as_assumed(decision, stamp));
            }
            writer.carry_out(step);
        }
        self.publish(writer);
        attempt.outcome()
    }
}

/// The nodes of members that have one already.
fn held(writer: &Writer, pods: &[Pod]) -> Vec<Option<Arc<str>>> {
    pods.iter().map(|pod| writer.node_of(pod.key())).collect()
}

/// A gang that is decided but not committed.
struct Attempt {
    results: Vec<Result<Decision, EngineError>>,
    n_placed: usize,
    is_placed: bool,
    /// Steps to commit, each with the member that it places or nominates.
    steps: Vec<(Option<usize>, Step)>,
    preemptions: Vec<GangPreemption>,
    /// Members that the commit nominates.
    nominated: Vec<usize>,
}

impl Attempt {
    /// Whether the attempt's basis is unchanged. Changes by its own evictions do not count: members that rest on these
    /// are only nominated.
    fn holds(&self, base: &Snapshot, writer: &Writer) -> bool {
        let untouched = Touched::default();
        self.steps.iter().all(|(_, step)| commit::check(step, base, &untouched, writer).is_ok())
    }

    fn outcome(self) -> BatchOutcome {
        let Attempt { results, n_placed, is_placed, preemptions, nominated, .. } = self;
        let preemptions = if is_placed { preemptions } else { Vec::new() };
        let gang = GangOutcome { placed: is_placed, n_placed, preemptions, nominated };
        BatchOutcome { results, gang: Some(gang) }
    }
}

/// The members while they are being decided.
struct Members<'a> {
    cluster: &'a Cluster,
    request: &'a BatchRequest<'a>,
    fork: Fork<'a>,
    steps: Vec<(Option<usize>, Step)>,
    preemptions: Vec<GangPreemption>,
}

impl Members<'_> {
    fn decide(
        &mut self,
        index: usize,
        held: Option<&Arc<str>>,
        preempt: Option<PreemptOptions>,
    ) -> Result<Decision, EngineError> {
        let pod = &self.request.pods[index];
        if self.request.assume {
            check_uid(pod)?;
        }
        if let Some(node) = held {
            return Err(EngineError::AlreadyPlaced { pod: pod.key().clone(), node: node.clone() });
        }
        let decided = self.fork.decide(&self.place_request(pod), self.cluster.kernels)?;
        if let Some(step) = Step::of(pod, &decided) {
            self.take(index, step, &decided);
            return Ok(decided.decision);
        }
        match (&decided.decision.outcome, preempt) {
            (Outcome::Unschedulable(_), Some(options)) => self.make_room(index, options),
            _ => Ok(decided.decision),
        }
    }

    /// Puts a member onto its node on the fork. A member that rests on evictions has to wait for them, so it is only
    /// nominated.
    fn take(&mut self, index: usize, step: Step, decided: &Decided) {
        let pod = &self.request.pods[index];
        let step = if step.basis().touched(&self.fork.touched).is_some() {
            let basis = step.basis();
            Step::Nominate { pod: pod.clone(), node: step.node().clone(), basis }
        } else {
            step
        };
        self.fork.commit(pod, decided);
        self.steps.push((Some(index), step));
    }

    /// Evicts pods on the fork for a member that fits nowhere, where that helps.
    fn make_room(
        &mut self,
        index: usize,
        options: PreemptOptions,
    ) -> Result<Decision, EngineError> {
        let pod = &self.request.pods[index];
        let BatchRequest { policy, tie_break, now, .. } = *self.request;
        let cancelled = &|| false;
        let request = PreemptRequest { pod, policy, tie_break, options, cancelled, now };
        let Cluster { kernels, versions, .. } = self.cluster;
        let preemption = self.fork.preempt(&request, *kernels, versions)?;
        let Some(post_filter) = preemption.post_filter else { return Ok(preemption.decision) };
        let Some(candidate) = &post_filter.chosen else { return Ok(preemption.decision) };
        match self.displace(pod, &post_filter, candidate)? {
            Some(decided) => {
                let cleared = Step::of_post_filter(pod, &post_filter, self.fork.base);
                let cleared = cleared.into_iter().filter(|step| matches!(step, Step::Clear { .. }));
                self.steps.extend(cleared.map(|step| (None, step)));
                if let Some(step) = Step::of(pod, &decided) {
                    self.take(index, step.evicting(), &decided);
                }
                self.preemptions.push(GangPreemption { index, post_filter });
                Ok(decided.decision)
            }
            None => Ok(preemption.decision),
        }
    }

    /// Removes the victims from the fork and decides again, with the pod nominated to the node; `None`, with the fork
    /// restored, if the pod does not get the node.
    fn displace(
        &mut self,
        pod: &Pod,
        post_filter: &PostFilter,
        candidate: &Candidate,
    ) -> Result<Option<Decided>, EngineError> {
        let saved = self.fork.evict(candidate, &post_filter.cleared_nominations);
        let promised = pod.nominated_to(Some(candidate.node.clone()));
        let decided = self.fork.decide(&self.place_request(&promised), self.cluster.kernels);
        let is_there = |decided: &Decided| match &decided.decision.outcome {
            Outcome::Placed(placement) => placement.node == candidate.node,
            Outcome::Unschedulable(_) | Outcome::Gated { .. } => false,
        };
        match decided {
            Ok(decided) if is_there(&decided) => Ok(Some(decided)),
            other => {
                self.fork.restore(saved);
                other.map(|_| None)
            }
        }
    }

    fn place_request<'p>(&self, pod: &'p Pod) -> PlaceRequest<'p>
    where
        Self: 'p,
    {
        let BatchRequest { policy, tie_break, now, .. } = *self.request;
        PlaceRequest { pod, policy, tie_break, now }
    }
}
