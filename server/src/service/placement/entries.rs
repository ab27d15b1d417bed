//! The entries of a request: replicas expanded, decided by priority and then in the order of the request. A server's
//! calls and the command line over a dump share this code.

use std::cmp::Reverse;
use std::collections::HashSet;

use berth_engine::{
    BatchRequest, Cluster, Decision, EngineError, Generation, Outcome, PlaceRequest, Pod, PodKey,
    Policy, TieBreak,
};
use berth_proto::berth_v1::BatchEntry;
use rayon::prelude::*;

use crate::clock;
use crate::policy::Profiles;
use crate::service::convert::{self, Mode};
use crate::service::{CallError, SentPod};

/// Number of entries from which on they are compiled on all cores.
const MANY_ENTRIES: usize = 256;

/// A pod of a request, or as many of them as `replicas` says.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) pod: Option<SentPod>,
    pub(crate) replicas: u32,
}

impl From<BatchEntry> for Entry {
    fn from(BatchEntry { pod, replicas }: BatchEntry) -> Entry {
        Entry { pod: pod.map(SentPod::Encoded), replicas }
    }
}

/// A pod's decision, or the error.
pub(crate) type PodResult = Result<Decision, CallError>;

/// An entry's pod with its policy, or the error; and the number of replicas.
pub(crate) type Compiled<'s> = (Result<(Pod, &'s Policy), CallError>, u32);

pub(crate) fn compile<'s>(
    cluster: &Cluster,
    profiles: &'s Profiles,
    entries: Vec<Entry>,
    keep_objects: bool,
) -> Vec<Compiled<'s>> {
    let compile_one = |Entry { pod, replicas }: Entry| {
        let pod = pod.ok_or_else(convert::no_pod);
        (pod.and_then(|pod| pod.compile(cluster, profiles, keep_objects)), replicas)
    };
    if entries.len() < MANY_ENTRIES {
        entries.into_iter().map(compile_one).collect()
    } else {
        entries.into_par_iter().map(compile_one).collect()
    }
}

/// Number of pods to decide for, and of those that are refused; replicas counted.
pub(crate) fn count(compiled: &[Compiled<'_>]) -> (usize, usize) {
    compiled.iter().fold((0, 0), |(n_pods, n_refused), (entry, replicas)| {
        let n = (*replicas).max(1) as usize;
        if entry.is_ok() { (n_pods + n, n_refused) } else { (n_pods, n_refused + n) }
    })
}

/// Index of the first entry whose profile differs from the entries before it.
pub(crate) fn other_profile(compiled: &[Compiled<'_>]) -> Option<usize> {
    let mut policies = compiled
        .iter()
        .enumerate()
        .filter_map(|(at, (entry, _))| Some((at, entry.as_ref().ok()?.1)));
    let (_, first) = policies.next()?;
    policies.find(|(_, policy)| !std::ptr::eq(*policy, first)).map(|(at, _)| at)
}

/// Adds `NAME-0` to `NAME-(n-1)` with uids `UID-0` …, or the pod itself if `replicas` is at most 1.
pub(crate) fn add_replicas(pod: Pod, replicas: u32, pods: &mut Vec<Pod>) {
    if replicas <= 1 {
        pods.push(pod);
        return;
    }
    pods.extend((0..replicas).map(|replica| {
        let key = PodKey::new(&pod.key().namespace, &format!("{}-{replica}", pod.key().name));
        let uid = match pod.uid() {
            "" => String::new(),
            uid => format!("{uid}-{replica}"),
        };
        pod.with_identity(key, &uid)
    }));
}

/// The error of a pod with the path of the pod before the path inside of it.
pub(crate) fn within(path: &str, error: CallError) -> CallError {
    match error {
        CallError::Engine(EngineError::Model(error)) if error.field == "pod" => {
            CallError::field(path, error.reason)
        }
        CallError::Engine(EngineError::Model(error)) => {
            CallError::field(format!("{path}.{}", error.field), error.reason)
        }
        CallError::NotAdmitted(mut error) => {
            error.field = format!("{path}.{}", error.field);
            CallError::NotAdmitted(error)
        }
        other => other,
    }
}

/// Options that the pods of one request share.
#[derive(Copy, Clone)]
pub(crate) struct Terms<'a> {
    pub(crate) mode: Mode,
    pub(crate) tie_break: TieBreak,
    /// Called before each pod; once it returns true the remaining pods are refused.
    pub(crate) cancelled: &'a dyn Fn() -> bool,
}

/// Decides for every pod, each seeing those decided before it as placed; returns one result per pod, in the order of
/// the request.
pub(crate) fn decide(
    cluster: &Cluster,
    compiled: Vec<Compiled<'_>>,
    terms: Terms<'_>,
) -> Vec<PodResult> {
    let is_of_one_profile = other_profile(&compiled).is_none();
    let (mut pods, mut slots, mut results) = expand(compiled);
    if is_of_one_profile {
        decide_runs(cluster, &pods, &slots, terms, &mut results);
        return results;
    }
    sort_by_priority(&mut pods, &mut slots);
    match terms.mode {
        Mode::Assume => decide_runs(cluster, &pods, &slots, terms, &mut results),
        Mode::DryRun => try_runs(cluster, &pods, &slots, terms, &mut results),
    }
    results
}

/// Index of a pod's decision in the results, and the profile that decides.
type ResultSlot<'s> = (usize, &'s Policy);

/// Expands replicas. Returns the pods, each one's place, and the results, with placeholders for those of the pods.
fn expand(compiled: Vec<Compiled<'_>>) -> (Vec<Pod>, Vec<ResultSlot<'_>>, Vec<PodResult>) {
    let (n_pods, n_refused) = count(&compiled);
    let mut results = Vec::with_capacity(n_pods + n_refused);
    let (mut pods, mut slots) = (Vec::with_capacity(n_pods), Vec::with_capacity(n_pods));
    for (entry, replicas) in compiled {
        let n = replicas.max(1) as usize;
        match entry {
            Ok((pod, policy)) => {
                add_replicas(pod, replicas, &mut pods);
                slots.extend((results.len()..results.len() + n).map(|at| (at, policy)));
                // A placeholder: each is decided later.
                results.extend((0..n).map(|_| Err(CallError::Broken)));
            }
            Err(error) => results.extend(std::iter::repeat_n(Err(error), n)),
        }
    }
    (pods, slots, results)
}

/// Sorts pods by priority. The engine orders the pods of one call; pods of several profiles take several calls.
fn sort_by_priority(pods: &mut Vec<Pod>, slots: &mut Vec<ResultSlot<'_>>) {
    let mut both: Vec<_> = pods.drain(..).zip(slots.drain(..)).collect();
    both.sort_by_key(|(pod, _)| Reverse(pod.priority()));
    (*pods, *slots) = both.into_iter().unzip();
}

/// Decides runs of consecutive pods of one profile, each run in one call of the engine.
fn decide_runs(
    cluster: &Cluster,
    mut pods: &[Pod],
    slots: &[ResultSlot<'_>],
    terms: Terms<'_>,
    results: &mut [PodResult],
) {
    let Terms { mode, tie_break, cancelled } = terms;
    for slots in slots.chunk_by(|(_, a), (_, b)| std::ptr::eq(*a, *b)) {
        let (run, rest) = pods.split_at(slots.len());
        pods = rest;
        let Some((_, policy)) = slots.first() else { continue };
        let decided = cluster.place_batch(&BatchRequest {
            pods: run,
            policy,
            tie_break,
            assume: mode == Mode::Assume,
            gang: None,
            cancelled,
            now: Some(clock::unix_seconds()),
        });
        for ((position, _), decision) in slots.iter().zip(decided.results) {
            results[*position] = decision.map_err(CallError::undecided);
        }
    }
}

/// Uid for a pod that has none, where one is needed to assume it.
const STAND_IN_UID: &str = "dry-run";

/// Dry run of pods of several profiles. A call of the engine does not see the dry runs of an earlier call, so the pods
/// are assumed on a fork that is thrown away.
fn try_runs(
    cluster: &Cluster,
    pods: &[Pod],
    slots: &[ResultSlot<'_>],
    terms: Terms<'_>,
    results: &mut [PodResult],
) {
    let fork = cluster.fork();
    let generation = fork.snapshot().generation();
    let held: Vec<Pod> = pods
        .iter()
        .map(|pod| match pod.uid() {
            "" => pod.with_identity(pod.key().clone(), STAND_IN_UID),
            _ => pod.clone(),
        })
        .collect();
    decide_runs(&fork, &held, slots, Terms { mode: Mode::Assume, ..terms }, results);
    let mut placed_here = HashSet::new();
    for (pod, (position, policy)) in pods.iter().zip(slots) {
        let result = &mut results[*position];
        let is_on_a_node =
            matches!(result, Err(CallError::Engine(EngineError::AlreadyPlaced { .. })));
        if is_on_a_node && !placed_here.contains(pod.key()) {
            // It runs already, so it needs no second place; decide only where else it would go.
            let request = PlaceRequest {
                pod,
                policy,
                tie_break: terms.tie_break,
                now: Some(clock::unix_seconds()),
            };
            *result = fork.place(&request).map_err(CallError::undecided);
        }
        if let Ok(decision) = result {
            if !is_on_a_node && matches!(decision.outcome, Outcome::Placed(_)) {
                placed_here.insert(pod.key());
            }
            unhold(decision, pod, generation);
        }
    }
}

/// Turns a decision that assumed its pod on a fork into the one of a dry run.
fn unhold(decision: &mut Decision, pod: &Pod, generation: Generation) {
    decision.generation = generation;
    decision.uid = pod.uid().into();
    if let Outcome::Placed(placement) = &mut decision.outcome {
        (placement.assumed, placement.stamp) = (false, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use berth_engine::PolicySpec;
    use berth_proto::core_v1;

    fn other(mut pod: core_v1::Pod) -> core_v1::Pod {
        "other".clone_into(&mut pod.spec.as_mut().unwrap().scheduler_name);
        pod
    }

    /// Checks the nodes that the pods of a dry run get; `Err` for a pod that is on a node already.
    fn check(pods: &[core_v1::Pod], expected: &[Result<Option<&str>, &str>]) {
        let spec = PolicySpec { scheduler_name: "other".into(), ..PolicySpec::default() };
        let profiles = Profiles::from(vec![Policy::default(), Policy::new(spec).unwrap()]);
        let state = fixture::state_of(&[("n0", "4"), ("n1", "4")], profiles);
        fixture::run(&state.cluster, &fixture::pod("there", "3", 0), "n0");
        let before = state.cluster.snapshot().generation();
        let entries = pods.iter().map(|pod| fixture::entry(pod, 1).into()).collect();
        let compiled = compile(&state.cluster, &state.profiles, entries, false);
        let terms =
            Terms { mode: Mode::DryRun, tie_break: TieBreak::Lexicographic, cancelled: &|| false };
        let results = decide(&state.cluster, compiled, terms);
        let found: Vec<_> = results
            .iter()
            .map(|result| match result {
                Ok(decision) => match &decision.outcome {
                    Outcome::Placed(placement) => Ok(Some(&*placement.node)),
                    _ => Ok(None),
                },
                Err(CallError::Engine(EngineError::AlreadyPlaced { node, .. })) => Err(&**node),
                Err(error) => panic!("{error}"),
            })
            .collect();
        assert_eq!(found, expected);
        for (result, pod) in results.iter().zip(pods) {
            let Ok(decision) = result else { continue };
            assert_eq!(
                (&*decision.uid, decision.generation),
                (&*pod.metadata.as_ref().unwrap().uid, before)
            );
            let is_assumed =
                matches!(&decision.outcome, Outcome::Placed(placement) if placement.assumed);
            assert!(!is_assumed, "{decision:?}");
        }
        let after = state.cluster.snapshot();
        assert_eq!((after.generation(), after.n_assumed()), (before, 0));
    }

    /// A dry run has the same results whether one profile or several decide.
    #[test]
    fn a_dry_run_of_several_profiles_is_one_of_one() {
        let pod = |name: &str, priority| fixture::pod(name, "3", priority);
        let mut nameless = pod("b", 5);
        nameless.metadata.as_mut().unwrap().uid.clear();
        let expected = [Ok(None), Ok(Some("n1"))];
        check(&[pod("a", 0), nameless.clone()], &expected);
        check(&[other(pod("a", 0)), nameless.clone()], &expected);
        check(&[pod("a", 0), other(nameless)], &expected);
        // A running pod is decided all the same; a pod that occurs twice is on a node the second time.
        let expected = [Ok(None), Ok(Some("n1"))];
        check(&[pod("there", 5), pod("a", 9)], &expected);
        check(&[pod("there", 5), other(pod("a", 9))], &expected);
        let twice = [Ok(Some("n1")), Ok(None), Err("n1")];
        check(&[pod("a", 9), pod("b", 5), pod("a", 1)], &twice);
        check(&[pod("a", 9), other(pod("b", 5)), pod("a", 1)], &twice);
    }
}
