//! Drives one case through the engine. Only the recorded effects are applied, never the engine's own choice, so that
//! every step starts from the recorded state.

use std::collections::BTreeMap;

use berth_engine::{
    AssignedDevices, Cluster, ClusterState, Decision, Delta, EXTENDED_CLAIM_ANNOTATION,
    Explanation, Object, ObjectKey, ObjectKind, PlaceRequest, Plugin, PodKey, Policy,
    PreemptOptions, PreemptRequest, TieBreak, Verdict, WireObject,
};
use berth_proto::Time;
use berth_proto::core_v1::{Pod, PodCondition};
use berth_proto::resource_v1::ResourceClaim;

use super::case::{After, Case, ClusterObjects, Expect, Removed, Step, Volumes, Wait};
use super::claims::{self, Claims};
use super::compare::{self, EngineResults};
use super::report::CaseReport;
use super::tally::{Aspect, Difference, Place};
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
    /// The policy for pods that were in the queue already: DynamicResources holds none of them back.
    queued: Policy,
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
        let mut spec = policy.spec().clone();
        spec.pre_enqueue.retain(|plugin| *plugin != Plugin::DynamicResources);
        let queued = Policy::new(spec).map_err(|error| error.to_string())?;
        Ok(Replay { cluster, policy, queued, pods, claims: Claims::of(&case.cluster) })
    }

    fn step(
        &mut self,
        case: &Case,
        index: usize,
        step: &Step,
        report: &mut CaseReport,
    ) -> Result<(), String> {
        if let Some(objects) = &step.objects {
            self.upsert_all(objects)?;
        }
        if let Some(objects) = &step.apply {
            self.upsert_all(objects)?;
        }
        if let Some(removed) = &step.remove {
            self.remove(removed)?;
        }
        if let Some(name) = &step.commit {
            self.upsert_claims(&expect_of(step)?.claims)?;
            let pod = self.pods.get(name).cloned();
            return pod.map_or(Ok(()), |pod| self.upsert(pod));
        }
        if let Some(name) = &step.rollback {
            return self.delete(std::slice::from_ref(name));
        }
        match (&step.pod, &step.retry, &step.delete) {
            (None, None, Some(names)) => self.delete(names),
            (Some(pod), None, None) => {
                self.attempt(case, index, step, pod, report)?;
                self.apply(index, step, pod, report)
            }
            (None, None, None) if step.apply.is_some() || step.remove.is_some() => Ok(()),
            (None, Some(name), None) => {
                let pod = self
                    .pods
                    .get(name)
                    .cloned()
                    .ok_or_else(|| format!("retry of unknown pod `{name}`"))?;
                self.attempt(case, index, step, &pod, report)?;
                self.apply(index, step, &pod, report)
            }
            _ => Err("a step must have exactly one of its kinds".to_owned()),
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
        let policy = if step.queued { &self.queued } else { self.policy };
        let now = Some(time_of(index));
        let request = PlaceRequest { pod: &compiled, policy, tie_break, now };
        let placed = self.cluster.place(&request);
        let volumes = match &expect.bind {
            Some(node) => self.volumes_on(node, pod, placed.as_ref().ok())?,
            None => None,
        };
        let options = PreemptOptions::default();
        let request_to_preempt = PreemptRequest {
            pod: &compiled,
            policy,
            tie_break,
            options,
            cancelled: &|| false,
            now,
        };
        let attempted = self.cluster.preempt(&request_to_preempt);
        let runs = attempted.as_ref().is_ok_and(|attempt| attempt.post_filter.is_some());
        let candidates = (runs || expect.preemption.is_some())
            .then(|| self.cluster.list_candidates(&request_to_preempt));
        let status = pod.status.as_ref().map(|status| status.nominated_node_name.clone());
        let explained = self.cluster.explain(&request);
        let pre_bind = expect.bind.as_ref().filter(|_| step.after != After::Inflight);
        let pre_bind = pre_bind.or_else(|| Self::reserved_on(step, expect));
        let pre_bind = pre_bind.and_then(|node| {
            let devices = given_by(node, explained.as_ref().ok()?);
            let now = Time::from_unix_seconds(time_of(index));
            Some(self.cluster.pre_bind(&compiled, devices, now))
        });
        let fails = expect.bind.is_none();
        let written = pre_bind.as_ref().and_then(|written| written.as_ref().ok());
        let written = written.filter(|_| fails).map(|written| &written.claims[..]);
        let unreserved = self.cluster.unreserve(&compiled, written.unwrap_or_default());
        let results = EngineResults {
            explained,
            unreserved: if fails { unreserved } else { Vec::new() },
            pre_bind,
            placed,
            attempted,
            candidates,
            nominated_to: status.filter(|node| !node.is_empty()),
            volumes,
        };
        compare::compare(case, index, expect, &results, report);
        report.n_attempts += 1;
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
        let request = PlaceRequest { pod: &pinned, policy: self.policy, tie_break, now: None };
        let placed = self.cluster.place(&request).ok();
        Ok(placed.and_then(|decision| claims::volumes_on(node, &decision)))
    }

    /// Applies the recorded effects of an attempt.
    fn apply(
        &mut self,
        index: usize,
        step: &Step,
        pod: &Pod,
        report: &mut CaseReport,
    ) -> Result<(), String> {
        let expect = expect_of(step)?;
        let now = Time::from_unix_seconds(time_of(index));
        if step.after == After::Inflight && !expect.in_flight.is_empty() {
            return self.fly(index, pod, expect);
        }
        self.upsert_claims(&expect.claims)?;
        if expect.bind.is_some() || Self::reserved_on(step, expect).is_some() {
            // The claim for extended resources is gone again once binding has failed.
            let extended = expect.reserved.iter().filter(|claim| is_extended(claim));
            let extended: Vec<ResourceClaim> = extended.cloned().collect();
            self.upsert_claims(&extended)?;
            self.waits(index, pod, expect, report)?;
            for claim in extended {
                let metadata = claim.metadata.unwrap_or_default();
                let name = format!("{}/{}", metadata.namespace, metadata.name);
                self.delete_object(ObjectKind::ResourceClaim, &name)?;
            }
        }
        for name in &expect.claims_deleted {
            self.delete_object(ObjectKind::ResourceClaim, name)?;
        }
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
        } else {
            // It may be tried again.
            self.pods.entry(key_of(&pod)).or_insert(pod);
        }
        Ok(())
    }

    /// Compares the conditions that PreBind waits for, once the claims are written.
    fn waits(
        &self,
        index: usize,
        pod: &Pod,
        expect: &Expect,
        report: &mut CaseReport,
    ) -> Result<(), String> {
        let compiled = self.cluster.compile_pod(pod).map_err(|error| format!("pod: {error}"))?;
        let awaited = self.cluster.awaited_devices(&compiled).unwrap_or_default();
        let got = awaited.into_iter().map(|device| Wait {
            claim: format!("{}/{}", device.namespace, device.claim),
            driver: device.driver.to_string(),
            pool: device.pool.to_string(),
            device: device.device,
            conditions: device.conditions.iter().map(ToString::to_string).collect(),
        });
        let (mut got, mut expected): (Vec<Wait>, _) = (got.collect(), expect.waits.clone());
        got.sort();
        expected.sort();
        if !got.is_empty() || !expected.is_empty() {
            let place = || Place::Step { step: index, node: None };
            let texts = || (format!("{expected:?}"), format!("{got:?}"));
            report.note(Aspect::Waits, got == expected, place, texts);
        }
        Ok(())
    }

    /// Reserves what the record says for a pod whose claims stay in flight.
    fn fly(&mut self, index: usize, pod: &Pod, expect: &Expect) -> Result<(), String> {
        let mut pinned = pod.clone();
        let node = expect.bind.clone().unwrap_or_default();
        pinned.spec.get_or_insert_default().node_name = node;
        let compiled =
            self.cluster.compile_pod(&pinned).map_err(|error| format!("pod: {error}"))?;
        let tie_break = TieBreak::Lexicographic;
        let (policy, now) = (&self.queued, Some(time_of(index)));
        let request = PlaceRequest { pod: &compiled, policy, tie_break, now };
        self.cluster.assume(&request).map_err(|error| format!("in flight: {error}"))?;
        self.pods.insert(key_of(&pinned), pinned);
        Ok(())
    }

    fn upsert_all(&mut self, objects: &ClusterObjects) -> Result<(), String> {
        for node in &objects.nodes {
            let compiled = self.cluster.compile_node(node).map_err(|error| error.to_string())?;
            apply(&self.cluster, Delta::UpsertNode(compiled))?;
        }
        for object in objects.others() {
            apply(&self.cluster, Delta::UpsertObject(compile_object(&self.cluster, object)?))?;
        }
        for pod in &objects.pods {
            self.upsert(pod.clone())?;
        }
        Ok(())
    }

    fn upsert_claims(&self, claims: &[ResourceClaim]) -> Result<(), String> {
        for claim in claims {
            let object = compile_object(&self.cluster, WireObject::from(claim))?;
            apply(&self.cluster, Delta::UpsertObject(object))?;
        }
        Ok(())
    }

    fn remove(&self, removed: &Removed) -> Result<(), String> {
        let kinds = [
            (ObjectKind::ResourceClaim, &removed.resource_claims),
            (ObjectKind::ResourceSlice, &removed.resource_slices),
            (ObjectKind::DeviceClass, &removed.device_classes),
        ];
        for (kind, names) in kinds {
            names.iter().try_for_each(|name| self.delete_object(kind, name))?;
        }
        Ok(())
    }

    fn delete_object(&self, kind: ObjectKind, name: &str) -> Result<(), String> {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        apply(&self.cluster, Delta::DeleteObject(ObjectKey::new(kind, namespace, name)))
    }

    /// The node on which PreBind did its work before something failed.
    fn reserved_on<'e>(step: &'e Step, expect: &'e Expect) -> Option<&'e String> {
        let is_written = step.after == After::BindFails || expect.pre_bind.is_some();
        let of_best = || expect.best.as_ref().and_then(|best| best.first());
        is_written.then(|| step.bind_to.as_ref().or_else(of_best)).flatten()
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

/// Whether a claim stands for extended resources of a pod.
fn is_extended(claim: &ResourceClaim) -> bool {
    let metadata = claim.metadata.as_ref();
    metadata.is_some_and(|metadata| metadata.annotations.contains_key(EXTENDED_CLAIM_ANNOTATION))
}

/// The time of a step in seconds since 1970.
fn time_of(index: usize) -> i64 {
    EPOCH_UNIX_SECONDS + i64::try_from(index).unwrap_or(i64::MAX / 2)
}

/// The devices that a feasible node gives.
fn given_by<'e>(node: &str, explained: &'e Explanation) -> Option<&'e AssignedDevices> {
    let verdict = explained.nodes.iter().find(|verdict| *verdict.node == *node)?;
    match &verdict.verdict {
        Verdict::Feasible { devices, .. } => devices.as_deref(),
        Verdict::Rejected { .. } => None,
    }
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
