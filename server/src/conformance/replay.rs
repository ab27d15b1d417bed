//! Drives one case through the engine. Only the recorded effects are applied, never the engine's own choice, so that
//! every step starts from the recorded state.

use std::collections::BTreeMap;

use berth_engine::{
    Cluster, ClusterState, Decision, Delta, Object, PlaceRequest, PodKey, Policy, PreemptOptions,
    PreemptRequest, TieBreak, WireObject,
};
use berth_proto::Time;
use berth_proto::core_v1::{Pod, PodCondition};

use super::case::{Case, ClusterObjects, Expect, Step, Volumes};
use super::claims::{self, Claims};
use super::compare::{self, EngineResults};
use super::report::CaseReport;
use super::tally::{Aspect, Difference, Place, Tallies};
use crate::feed::object_name;

/// 2026-01-01T00:00:00Z, the start time of a pod bound in step 0; each later step adds a second.
const EPOCH_UNIX_SECONDS: i64 = 1_767_225_600;

/// Replays every step of a case.
pub fn replay(case: &Case, policy: &Policy) -> CaseReport {
    let mut report = CaseReport::new(&case.id);
    let mut replay = match Replay::start(case, policy) {
        Ok(replay) => replay,
        Err(reason) => return unusable(case, &reason),
    };
    for (index, step) in case.steps.iter().enumerate() {
        if let Err(reason) = replay.step(case, index, step, &mut report) {
            report.differences.push(defect(index, reason));
            break;
        }
    }
    report
}

/// Report of a case that cannot be replayed although it should be: one difference.
pub fn unusable(case: &Case, reason: &str) -> CaseReport {
    let mut report = CaseReport::new(&case.id);
    report.differences.push(defect(0, reason.to_owned()));
    report
}

fn defect(step: usize, got: String) -> Difference {
    let expected = "a case that can be replayed".to_owned();
    Difference { place: Place::Step { step, node: None }, aspect: Aspect::Outcome, expected, got }
}

struct Replay<'a> {
    cluster: Cluster,
    policy: &'a Policy,
    /// Every pod that the cluster holds, by `namespace/name`.
    pods: BTreeMap<String, Pod>,
    claims: Claims,
}

impl<'a> Replay<'a> {
    fn start(case: &Case, policy: &'a Policy) -> Result<Replay<'a>, String> {
        let cluster = Cluster::new();
        let state = compile(&cluster, &case.cluster)?;
        if let Some(rejected) = cluster.replace(state).rejected.first() {
            return Err(format!("{}: {}", rejected.object, rejected.error));
        }
        let pods = case.cluster.pods.iter().map(|pod| (key_of(pod), pod.clone())).collect();
        Ok(Replay { cluster, policy, pods, claims: Claims::of(&case.cluster) })
    }

    fn step(
        &mut self,
        case: &Case,
        index: usize,
        step: &Step,
        report: &mut CaseReport,
    ) -> Result<(), String> {
        match (&step.pod, &step.retry, &step.delete) {
            (None, None, Some(names)) => self.delete(names),
            (Some(pod), None, None) => {
                self.attempt(case, index, step, pod, report)?;
                self.apply(index, pod, expect_of(step)?)
            }
            (None, Some(name), None) => {
                let pod = self
                    .pods
                    .get(name)
                    .cloned()
                    .ok_or_else(|| format!("retry of unknown pod `{name}`"))?;
                self.attempt(case, index, step, &pod, report)?;
                self.apply(index, &pod, expect_of(step)?)
            }
            _ => Err("a step must have exactly one of `pod`, `retry`, `delete`".to_owned()),
        }
    }

    /// Runs the plain attempt, the explained one and the one that may evict, and compares the results with the record.
    fn attempt(
        &self,
        case: &Case,
        index: usize,
        step: &Step,
        pod: &Pod,
        report: &mut CaseReport,
    ) -> Result<(), String> {
        let expect = expect_of(step)?;
        let compiled = self.cluster.compile_pod(pod).map_err(|error| format!("pod: {error}"))?;
        let tie_break = TieBreak::Lexicographic;
        let request = PlaceRequest { pod: &compiled, policy: self.policy, tie_break };
        let placed = self.cluster.place(&request);
        let volumes = match &expect.bind {
            Some(node) => self.volumes_on(node, pod, placed.as_ref().ok())?,
            None => None,
        };
        let (policy, options) = (self.policy, PreemptOptions::default());
        let request_to_preempt =
            PreemptRequest { pod: &compiled, policy, tie_break, options, cancelled: &|| false };
        let attempted = self.cluster.preempt(&request_to_preempt);
        let runs = attempted.as_ref().is_ok_and(|attempt| attempt.post_filter.is_some());
        let candidates = (runs || expect.preemption.is_some())
            .then(|| self.cluster.list_candidates(&request_to_preempt));
        let status = pod.status.as_ref().map(|status| status.nominated_node_name.clone());
        let results = EngineResults {
            explained: self.cluster.explain(&request),
            placed,
            attempted,
            candidates,
            nominated_to: status.filter(|node| !node.is_empty()),
            volumes,
        };
        let mut tallies = Tallies::default();
        let differences = compare::compare(case, index, expect, &results, &mut tallies);
        report.n_attempts += 1;
        report.tallies.add(&tallies);
        report.differences.extend(differences);
        Ok(())
    }

    /// Effects on the pod's claims if it is placed on `node`. Where the record goes on with another of the best nodes
    /// than the engine chose, the engine decides once more, with the pod pinned to the recorded node.
    fn volumes_on(
        &self,
        node: &str,
        pod: &Pod,
        placed: Option<&Decision>,
    ) -> Result<Option<Volumes>, String> {
        let volumes = placed.and_then(|decision| claims::volumes_on(node, decision));
        let has_volumes = pod.spec.as_ref().is_some_and(|spec| !spec.volumes.is_empty());
        if volumes.is_some() || !has_volumes {
            return Ok(volumes);
        }
        let mut pinned = pod.clone();
        node.clone_into(&mut pinned.spec.get_or_insert_default().node_name);
        let pinned = self.cluster.compile_pod(&pinned).map_err(|error| format!("pod: {error}"))?;
        let tie_break = TieBreak::Lexicographic;
        let request = PlaceRequest { pod: &pinned, policy: self.policy, tie_break };
        let placed = self.cluster.place(&request).ok();
        Ok(placed.and_then(|decision| claims::volumes_on(node, &decision)))
    }

    fn apply(&mut self, index: usize, pod: &Pod, expect: &Expect) -> Result<(), String> {
        let now = Time::from_unix_seconds(
            EPOCH_UNIX_SECONDS + i64::try_from(index).unwrap_or(i64::MAX / 2),
        );
        self.delete(&expect.evict)?;
        for name in &expect.terminate {
            if let Some(mut victim) = self.pods.get(name).cloned() {
                terminate(&mut victim, now);
                self.upsert(victim)?;
            }
        }
        for name in &expect.clear_nominations {
            if let Some(mut pending) = self.pods.get(name).cloned() {
                pending.status.get_or_insert_default().nominated_node_name.clear();
                self.upsert(pending)?;
            }
        }
        let mut pod = pod.clone();
        if let Some(node) = &expect.bind {
            pod.spec.get_or_insert_default().node_name.clone_from(node);
            let status = pod.status.get_or_insert_default();
            status.start_time = Some(now);
            status.nominated_node_name.clear();
            self.upsert(pod)?;
            for object in self.claims.bind(&expect.volumes, node)? {
                apply(&self.cluster, Delta::UpsertObject(compile_object(&self.cluster, object)?))?;
            }
        } else if let Some(node) = &expect.nominate {
            pod.status.get_or_insert_default().nominated_node_name.clone_from(node);
            self.upsert(pod)?;
        }
        Ok(())
    }

    fn upsert(&mut self, pod: Pod) -> Result<(), String> {
        let compiled = self.cluster.compile_pod(&pod).map_err(|error| format!("pod: {error}"))?;
        apply(&self.cluster, Delta::UpsertPod(compiled))?;
        self.pods.insert(key_of(&pod), pod);
        Ok(())
    }

    fn delete(&mut self, names: &[String]) -> Result<(), String> {
        for name in names {
            let (namespace, pod) =
                name.split_once('/').ok_or_else(|| format!("`{name}` is not `namespace/name`"))?;
            if self.pods.remove(name).is_some() {
                let key = PodKey::new(namespace, pod);
                apply(&self.cluster, Delta::DeletePod { key, uid: None })?;
            }
        }
        Ok(())
    }
}

fn apply(cluster: &Cluster, delta: Delta) -> Result<(), String> {
    match cluster.apply(vec![delta]).rejected.first() {
        Some(rejected) => Err(format!("{}: {}", rejected.object, rejected.error)),
        None => Ok(()),
    }
}

/// Compiles the objects of a case for the engine.
fn compile(cluster: &Cluster, objects: &ClusterObjects) -> Result<ClusterState, String> {
    let mut state = ClusterState::default();
    for (i, node) in objects.nodes.iter().enumerate() {
        let compiled = cluster.compile_node(node);
        state.nodes.push(compiled.map_err(|error| format!("cluster.nodes[{i}]: {error}"))?);
    }
    for object in objects.others() {
        state.objects.push(compile_object(cluster, object)?);
    }
    for (i, pod) in objects.pods.iter().enumerate() {
        let compiled = cluster.compile_pod(pod);
        state.pods.push(compiled.map_err(|error| format!("cluster.pods[{i}]: {error}"))?);
    }
    Ok(state)
}

fn compile_object(cluster: &Cluster, object: WireObject<'_>) -> Result<Object, String> {
    let name = || object_name(object.kind().name(), object.metadata());
    cluster.compile_object(object).map_err(|error| format!("{}: {error}", name()))
}

fn expect_of(step: &Step) -> Result<&Expect, String> {
    step.expect.as_deref().ok_or_else(|| "an attempt without `expect`".to_owned())
}

fn key_of(pod: &Pod) -> String {
    let metadata = pod.metadata.as_ref();
    let (namespace, name) =
        metadata.map_or(("", ""), |metadata| (metadata.namespace.as_str(), metadata.name.as_str()));
    format!("{namespace}/{name}")
}

fn terminate(pod: &mut Pod, now: Time) {
    pod.metadata.get_or_insert_default().deletion_timestamp.get_or_insert(now);
    pod.status.get_or_insert_default().conditions.push(PodCondition {
        r#type: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: "PreemptionByScheduler".to_owned(),
        ..PodCondition::default()
    });
}
