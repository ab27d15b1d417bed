//! The engine over a dump, in this process.

use std::collections::HashSet;
use std::path::PathBuf;

use berth_engine::workload::DaemonNode;
use berth_engine::{
    AdmissionContext, AdmissionError, BatchRequest, Cluster, Delta, EngineError, ObjectKey,
    PlaceRequest, Pod, PodKey, Policy, PreemptRequest, Snapshot, TieBreak, admit_claim, admit_pod,
};
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainResponse, ListCandidatesResponse, PlaceBatchResponse,
    PreemptOptions, PreemptResponse,
};
use berth_proto::core_v1::{self, Node};
use berth_proto::meta_v1::ObjectMeta;

use super::counts::Counts;
use crate::cli::admission::is_usual;
use crate::cli::what_if::Change;
use crate::cli::{CliError, manifest};
use crate::clock;
use crate::feed::file::{
    self, Findings, LoadReport, Located, Location, Refused, UnknownFields, WrittenObject,
};
use crate::feed::{FeedError, object_name};
use crate::policy::Profiles;
use crate::service::admission;
use crate::service::autoscaler::{consolidate, drain, fit, headroom, scale_in, scale_up};
use crate::service::cluster;
use crate::service::convert::{self, Mode};
use crate::service::placement::entries::{self, Compiled, Entry, Terms};
use crate::service::placement::gang;
use crate::service::{CallError, CancelOnDrop, Deadline};

/// A cluster of this process alone.
pub(in crate::cli) struct Local {
    cluster: Cluster,
    pub(super) profiles: Profiles,
    tie_break: TieBreak,
    /// The dump's pods that may be named on the command line, as written and admitted; without the refused ones.
    pub(in crate::cli) pods: Vec<core_v1::Pod>,
    /// Objects of the dump that were refused.
    pub(super) refused: Vec<Refused>,
    /// Faults of objects of the dump that were used all the same.
    pub(super) warnings: Findings,
    pub(super) unknown_fields: UnknownFields,
    /// Warnings about pods of the dump.
    pub(super) notes: Vec<String>,
    pub(super) what_if: Option<String>,
}

/// The files of a dump, and how strictly they are read.
#[derive(Copy, Clone)]
pub(super) struct Files<'a> {
    pub(super) paths: &'a [PathBuf],
    pub(super) unknown_fields: UnknownFields,
}

impl Local {
    /// Loads the dump; also returns its nodes with the names `nodes` as they were written.
    pub(super) fn load(
        files: Files<'_>,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
        nodes: &[String],
        profiles: Profiles,
        tie_break: TieBreak,
    ) -> Result<(Local, Vec<Node>), FeedError> {
        let cluster = Cluster::new();
        let (report, asked_for, written) = if nodes.is_empty() {
            let Files { paths, unknown_fields } = files;
            let keep = |pod: &mut core_v1::Pod| {
                complete(pod);
                manifest::is_written_by_hand(pod) || is_asked_for(pod)
            };
            let (report, asked_for) =
                file::load_files_keeping(&cluster, paths, unknown_fields, keep)?;
            (report, asked_for, Vec::new())
        } else {
            load_keeping_nodes(&cluster, files, &is_asked_for, nodes)?
        };
        let place = |at: &Location| (at.path.clone(), at.document, at.item);
        let refused_at: HashSet<_> = report.refused.iter().map(|r| place(&r.location)).collect();
        let is_taken = |pod: &Located<_>| !refused_at.contains(&place(&pod.location));
        let taken = asked_for.into_iter().filter(is_taken);
        let mut pods: Vec<core_v1::Pod> = taken.map(|pod| pod.value).collect();
        let notes = admit_written(&cluster, &pods);
        pods.retain(is_asked_for);
        let local = Local {
            cluster,
            profiles,
            tie_break,
            pods,
            refused: report.refused,
            warnings: report.warnings,
            unknown_fields: files.unknown_fields,
            notes,
            what_if: None,
        };
        Ok((local, written))
    }

    /// A cluster that was read already. Of its pods those for which `is_asked_for` holds may be named.
    pub(super) fn of(
        cluster: Cluster,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool,
        profiles: Profiles,
        tie_break: TieBreak,
        unknown_fields: UnknownFields,
    ) -> Local {
        let known = cluster.pod_listing(|_, _| true).pods;
        let pods =
            known.iter().filter_map(|(pod, _)| pod.reported()).filter(is_asked_for).collect();
        Local {
            cluster,
            profiles,
            tie_break,
            pods,
            refused: Vec::new(),
            warnings: Findings::default(),
            unknown_fields,
            notes: Vec::new(),
            what_if: None,
        }
    }

    /// A pod of the cluster, with the facts that questions about its life read.
    pub(super) fn pod(&self, key: &PodKey) -> Option<wire::GetPodResponse> {
        let key = Some(convert::pod_key(key, ""));
        let request = wire::GetPodRequest { key, session_id: String::new() };
        cluster::get_pod_now(&self.cluster, &request).ok()
    }

    pub(super) fn list_pods(
        &self,
        mut request: wire::ListPodsRequest,
    ) -> Result<Vec<wire::PodSummary>, CliError> {
        let never = CancelOnDrop::new(Deadline(None));
        let mut pods = Vec::new();
        loop {
            request.page_size = u32::MAX;
            let page = cluster::list_pods_now(&self.cluster, &request, &never.token());
            let page = page.map_err(|error| CliError::Request(error.to_string()))?;
            pods.extend(page.pods);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(pods);
            }
        }
    }

    pub(super) fn list_nodes(
        &self,
        label_selector: String,
    ) -> Result<Vec<wire::NodeSummary>, CliError> {
        let never = CancelOnDrop::new(Deadline(None));
        let mut request = wire::ListNodesRequest { label_selector, ..Default::default() };
        let mut nodes = Vec::new();
        loop {
            request.page_size = u32::MAX;
            let snapshot = self.cluster.snapshot();
            let page = cluster::list_nodes_now(&snapshot, &request, &never.token());
            let page = page.map_err(|error| CliError::Request(error.to_string()))?;
            nodes.extend(page.nodes);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(nodes);
            }
        }
    }

    pub(super) fn list_pending(
        &self,
        request: &wire::ListPendingRequest,
    ) -> Result<wire::ListPendingResponse, CliError> {
        let Local { cluster, profiles, tie_break, .. } = self;
        cluster::pending::list(cluster, profiles, *tie_break, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn cluster(&self) -> wire::GetClusterResponse {
        wire::GetClusterResponse {
            scheduler_names: self.profiles.names().map(str::to_owned).collect(),
            decidable: true,
            ..cluster::sizes(&self.cluster)
        }
    }

    /// Reason why the dump's pod `namespace/name` was refused.
    pub(in crate::cli) fn refusal_of(&self, name: &str) -> Option<&Refused> {
        let object = format!("Pod `{name}`");
        self.refused.iter().find(|refused| refused.object == object)
    }

    /// Whether pods of `scheduler_name` are decided here (S-Q-2).
    pub(in crate::cli) fn has_profile(&self, scheduler_name: &str) -> bool {
        self.profiles.get(scheduler_name).is_some()
    }

    /// Priority that the pod has once it is admitted; 0 if it is refused.
    pub(in crate::cli) fn priority_of(&self, pod: &core_v1::Pod) -> i32 {
        let mut pod = pod.clone();
        if self.admit(&mut pod).is_err() {
            return 0;
        }
        pod.spec.and_then(|spec| spec.priority).unwrap_or(0)
    }

    pub(super) fn fork(&mut self, what_if: String) {
        self.cluster = self.cluster.fork();
        self.what_if = Some(what_if);
    }

    /// Applies changes, pods and new claims as admission makes them; returns the index and reason of refused ones.
    pub(super) fn apply(&self, changes: &[Change]) -> Vec<(usize, String)> {
        let snapshot = self.cluster.snapshot();
        let (mut deltas, mut positions, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (index, change) in changes.iter().enumerate() {
            let mut change = change.clone();
            if let Err(error) = admit_change(&mut change, &snapshot) {
                refused.push((index, format!("{}: {error}", name_of(&change))));
                continue;
            }
            match change.compile(&self.cluster) {
                Ok(delta) => {
                    deltas.push(delta);
                    positions.push(index);
                }
                Err(error) => refused.push((index, format!("{}: {error}", name_of(&change)))),
            }
        }
        let rejected = self.cluster.apply(deltas).rejected.into_iter();
        refused.extend(
            rejected.filter_map(|rejected| {
                Some((*positions.get(rejected.index)?, rejected.to_string()))
            }),
        );
        refused.sort();
        refused
    }

    pub(super) fn counts(&self) -> Counts {
        let snapshot = self.cluster.snapshot();
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (n_pods, n_orphaned) = (snapshot.n_pods(), snapshot.n_orphaned());
        Counts {
            n_nodes: wide(snapshot.n_nodes()),
            n_all_pods: wide(n_pods + snapshot.n_pending() + n_orphaned),
            n_orphaned_pods: wide(n_orphaned),
        }
    }

    /// Applies changes that add objects, without those that the cluster has; returns the index and reason of refused
    /// ones.
    pub(super) fn apply_missing(&self, changes: &[Change]) -> Vec<(usize, String)> {
        let snapshot = self.cluster.snapshot();
        let is_missing = |(_, change): &(usize, &Change)| match change {
            Change::Object(object) => !snapshot.has_object(&key_of(object)),
            Change::Node(_) | Change::Pod(_) | Change::NoNode(_) | Change::NoPod(_) => true,
        };
        let (positions, missing): (Vec<usize>, Vec<Change>) = changes
            .iter()
            .enumerate()
            .filter(is_missing)
            .map(|(index, change)| (index, change.clone()))
            .unzip();
        let refused = self.apply(&missing).into_iter();
        refused.filter_map(|(index, reason)| Some((*positions.get(index)?, reason))).collect()
    }

    /// The nodes, as the controller of DaemonSets reads them, by name.
    pub(super) fn daemon_nodes(&self) -> Vec<DaemonNode> {
        self.cluster.snapshot().nodes().iter().map(DaemonNode::from).collect()
    }

    /// Decides like a server, as a dry run unless `assume` is set.
    pub(super) fn place(
        &self,
        entries: Vec<BatchEntry>,
        assume: bool,
        gang: Option<wire::Gang>,
    ) -> Result<PlaceBatchResponse, CliError> {
        let names: Vec<String> = entries.iter().map(manifest::name_of_entry).collect();
        let entries = entries.into_iter().map(Entry::from).collect();
        let (compiled, admissions) =
            admission::compile(&self.cluster, &self.profiles, entries, true, false);
        match gang {
            Some(gang) => {
                let answer = self.place_gang(&names, compiled, &gang)?;
                Ok(PlaceBatchResponse { admissions, ..answer })
            }
            None => {
                let mode = if assume { Mode::Assume } else { Mode::DryRun };
                let tie_break = self.tie_break;
                let terms = Terms { mode, tie_break, cancelled: &|| false };
                let results = entries::decide(&self.cluster, compiled, terms);
                let results = results.into_iter().map(convert::place_result).collect();
                Ok(PlaceBatchResponse { results, gang: None, admissions })
            }
        }
    }

    fn place_gang(
        &self,
        names: &[String],
        compiled: Vec<Compiled<'_>>,
        gang: &wire::Gang,
    ) -> Result<PlaceBatchResponse, CliError> {
        for (name, (member, _)) in names.iter().zip(&compiled) {
            if let Err(error) = member {
                return Err(CliError::Request(format!("pod `{name}` of the gang: {error}")));
            }
        }
        let refused = |error: CallError| CliError::Request(error.to_string());
        let (pods, policy) = gang::members(compiled).map_err(refused)?;
        let gang = convert::gang(gang, pods.len()).map_err(refused)?;
        let decided = self.cluster.place_batch(&BatchRequest {
            pods: &pods,
            policy,
            tie_break: self.tie_break,
            assume: false,
            gang: Some(gang),
            cancelled: &|| false,
            now: Some(clock::unix_seconds()),
        });
        let results = decided.results.into_iter();
        let results = results.map(|result| result.map_err(CallError::undecided));
        Ok(PlaceBatchResponse {
            results: results.map(convert::place_result).collect(),
            gang: decided.gang.map(convert::gang_outcome),
            ..PlaceBatchResponse::default()
        })
    }

    pub(super) fn explain(
        &self,
        mut pod: core_v1::Pod,
        node_names: &[String],
    ) -> Result<ExplainResponse, CliError> {
        let admission = self.admit(&mut pod)?;
        let (pod, policy) = self.compile(&pod)?;
        let request = PlaceRequest {
            pod: &pod,
            policy,
            tie_break: self.tie_break,
            now: Some(clock::unix_seconds()),
        };
        let named: HashSet<&str> = node_names.iter().map(String::as_str).collect();
        let is_detailed = |node: &str| named.contains(node);
        let explained =
            self.cluster.explain_unless(&request, &is_detailed, &|| false).map_err(failed)?;
        let answer = convert::explanation(explained, node_names, || Ok::<(), CliError>(()))?;
        Ok(ExplainResponse { admission, ..answer })
    }

    pub(super) fn preempt(
        &self,
        mut pod: core_v1::Pod,
        options: &PreemptOptions,
    ) -> Result<PreemptResponse, CliError> {
        let admission = self.admit(&mut pod)?;
        let attempt = self.attempt(&pod, options, |cluster, request| cluster.preempt(request))?;
        Ok(PreemptResponse { admission, ..convert::preemption(attempt) })
    }

    pub(super) fn list_candidates(
        &self,
        mut pod: core_v1::Pod,
        options: &PreemptOptions,
    ) -> Result<ListCandidatesResponse, CliError> {
        let admission = self.admit(&mut pod)?;
        let list =
            self.attempt(&pod, options, |cluster, request| cluster.list_candidates(request))?;
        Ok(ListCandidatesResponse { admission, ..convert::candidate_list(list) })
    }

    pub(super) fn simulate_drain(
        &self,
        request: wire::SimulateDrainRequest,
    ) -> Result<wire::SimulateDrainResponse, CliError> {
        let Local { cluster, profiles, tie_break, .. } = self;
        drain::simulate(cluster, profiles, *tie_break, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn simulate_scale_up(
        &self,
        request: wire::SimulateScaleUpRequest,
    ) -> Result<wire::SimulateScaleUpResponse, CliError> {
        scale_up::simulate(&self.cluster, &self.profiles, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn fit(&self, request: wire::FitRequest) -> Result<wire::FitResponse, CliError> {
        fit::fit(&self.cluster, &self.profiles, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn consolidate(
        &self,
        request: wire::ConsolidateRequest,
    ) -> Result<wire::ConsolidateResponse, CliError> {
        let Local { cluster, profiles, tie_break, .. } = self;
        consolidate::plan(cluster, profiles, *tie_break, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn choose_scale_in(
        &self,
        request: wire::ChooseScaleInRequest,
    ) -> Result<wire::ChooseScaleInResponse, CliError> {
        scale_in::choose(&self.cluster, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    pub(super) fn headroom(
        &self,
        request: wire::HeadroomRequest,
    ) -> Result<wire::HeadroomResponse, CliError> {
        let Local { cluster, profiles, tie_break, .. } = self;
        headroom::headroom(cluster, profiles, *tie_break, request, &|| false)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    fn attempt<T>(
        &self,
        pod: &core_v1::Pod,
        options: &PreemptOptions,
        ask: impl Fn(&Cluster, &PreemptRequest<'_>) -> Result<T, EngineError>,
    ) -> Result<T, CliError> {
        let (pod, policy) = self.compile(pod)?;
        let options = convert::preempt_options(Some(options), "options");
        let options = options.map_err(|error| CliError::Request(error.to_string()))?;
        let tie_break = self.tie_break;
        ask(
            &self.cluster,
            &PreemptRequest {
                pod: &pod,
                policy,
                tie_break,
                options,
                cancelled: &|| false,
                now: Some(clock::unix_seconds()),
            },
        )
        .map_err(failed)
    }

    /// Makes a pod what the API server would store.
    fn admit(&self, pod: &mut core_v1::Pod) -> Result<Option<wire::Admission>, CliError> {
        admission::admit(&self.cluster, &self.profiles, Some(pod), true)
            .map_err(|error| CliError::Request(error.to_string()))
    }

    fn compile(&self, pod: &core_v1::Pod) -> Result<(Pod, &Policy), CliError> {
        convert::pod_to_place(&self.cluster, &self.profiles, Some(pod), false)
            .map_err(|error| CliError::Request(error.to_string()))
    }
}

/// Admits the pods of a dump that somebody wrote by hand, also those on nodes, so that they have the priorities and
/// requests that an API server would have given them. Returns notes about pods that name an object that the dump lacks;
/// they stay as they are written.
fn admit_written(cluster: &Cluster, pods: &[core_v1::Pod]) -> Vec<String> {
    let snapshot = cluster.snapshot();
    let context = AdmissionContext { snapshot: &snapshot, position: 0, n_replicas: 1 };
    let (mut deltas, mut notes) = (Vec::new(), Vec::new());
    for pod in pods.iter().filter(|pod| manifest::is_written_by_hand(pod)) {
        let mut admitted = pod.clone();
        match admit_pod(&mut admitted, context) {
            // What every pod gets alike changes nothing for a pod that is on its node, or that is admitted when it is
            // placed.
            Ok(changes) if changes.filled.iter().all(|it| is_usual(&it.source)) => {}
            Ok(_) => deltas.extend(cluster.compile_reported_pod(&admitted).map(Delta::UpsertPod)),
            Err(error) if error.missing.is_some() => {
                notes.push(format!("{}: {error}", manifest::name_of(pod)));
            }
            // What the model accepts was loaded as it is.
            Err(_) => {}
        }
    }
    if !deltas.is_empty() {
        cluster.apply(deltas);
    }
    notes
}

/// A loaded dump: the report, its pods that may be named, and the named nodes, as they were written.
type Loaded = (LoadReport, Vec<Located<core_v1::Pod>>, Vec<Node>);

/// Reads the files completely first, since only then nodes are known as they were written.
fn load_keeping_nodes(
    cluster: &Cluster,
    files: Files<'_>,
    is_asked_for: &(impl Fn(&core_v1::Pod) -> bool + Sync),
    nodes: &[String],
) -> Result<Loaded, FeedError> {
    let mut dump = file::read_all(files.paths, files.unknown_fields)?;
    dump.pods.iter_mut().for_each(|pod| complete(&mut pod.value));
    let is_kept = |pod: &&Located<core_v1::Pod>| {
        manifest::is_written_by_hand(&pod.value) || is_asked_for(&pod.value)
    };
    let asked_for = dump.pods.iter().filter(is_kept).cloned().collect();
    let named = dump.nodes.iter().map(|node| &node.value);
    let named = named.filter(|node| nodes.iter().any(|name| name == manifest::node_name(node)));
    let named = named.cloned().collect();
    Ok((file::load(cluster, dump), asked_for, named))
}

/// Gives a pod of the dump what the cluster needs to hold it, if somebody wrote it.
fn complete(pod: &mut core_v1::Pod) {
    manifest::identify(pod);
    if manifest::is_written_by_hand(pod) {
        manifest::contain(pod);
    }
}

fn failed(error: EngineError) -> CliError {
    CliError::Request(CallError::from(error).to_string())
}

/// Admits a pod, or a claim that is to be created (A-SC-1); other changes stay as they are.
fn admit_change(change: &mut Change, snapshot: &Snapshot) -> Result<(), AdmissionError> {
    match change {
        Change::Pod(pod) => {
            let context = AdmissionContext { snapshot, position: 0, n_replicas: 1 };
            admit_pod(pod, context).map(drop)
        }
        Change::Object(WrittenObject::PersistentVolumeClaim(claim))
            if admission::is_new(snapshot, claim) =>
        {
            admit_claim(claim, snapshot).map(drop)
        }
        Change::Object(_) | Change::Node(_) | Change::NoNode(_) | Change::NoPod(_) => Ok(()),
    }
}

/// Key of an object, as the cluster will have it.
fn key_of(object: &WrittenObject) -> ObjectKey {
    let object = object.as_wire();
    let metadata = object.metadata();
    let name = |field: fn(&ObjectMeta) -> &String| metadata.map_or("", |metadata| field(metadata));
    ObjectKey::new(
        object.kind(),
        name(|metadata| &metadata.namespace),
        name(|metadata| &metadata.name),
    )
}

/// Name of the changed object for messages, such as ``Pod `default/web` ``.
fn name_of(change: &Change) -> String {
    match change {
        Change::Node(node) => object_name("Node", node.metadata.as_ref()),
        Change::Pod(pod) => object_name("Pod", pod.metadata.as_ref()),
        Change::Object(object) => {
            let object = object.as_wire();
            object_name(object.kind().name(), object.metadata())
        }
        Change::NoNode(name) => format!("Node `{name}`"),
        Change::NoPod(key) => format!("Pod `{key}`"),
    }
}
