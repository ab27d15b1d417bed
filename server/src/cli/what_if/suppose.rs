//! Applies suppositions to a fork, in this process or in a server, and checks that they are possible there.

use std::path::Path;

use berth_engine::workload::{Expansion, Workload};
use berth_proto::berth_v1::{BatchEntry, PlaceResult, decision::Outcome, place_result};
use berth_proto::core_v1::{Node, Pod};

use super::{Change, Gone, SupposedPods, Suppositions, WhatIfArgs};
use crate::cli::backend::{Backend, Counts};
use crate::cli::workloads;
use crate::cli::{CliError, lenient, manifest, output};
use crate::feed::file::{Dump, Located, Location, UnknownFields, WrittenObject};
use crate::feed::handed::{self, Owners, ignored_note, workload_name};

/// The objects of the files.
#[derive(Default)]
struct Manifests {
    /// Nodes first, then other objects, then the pods on the nodes.
    changes: Vec<Located<Change>>,
    /// Workloads whose pods are to be made.
    workloads: Vec<Located<Workload>>,
}

impl Suppositions<'_> {
    /// Applies all suppositions to a fork, which `backend` uses from now on.
    ///
    /// `written` are nodes of the cluster as they were written: at least those of [`WhatIfArgs::cordoned`] that it has.
    /// Pods of the manifests for which `is_asked_for` holds can be named on the command line.
    ///
    /// # Errors
    /// A file that cannot be read, a refused object in it, a pod on a missing node, something gone or cordoned that was
    /// never there. With only a part of the suppositions the answer would be wrong, so there is none.
    pub(in crate::cli) async fn suppose(
        &self,
        backend: &mut Backend,
        written: &[Node],
        is_asked_for: impl Fn(&Pod) -> bool,
    ) -> Result<(), CliError> {
        let Manifests { changes, workloads } = self.read(backend.unknown_fields())?;
        let claims = claims_of(&changes);
        let cordoned = self.args.cordon(&changes, written)?;
        backend.fork(self.args.summary(changes.len() + workloads.len())).await?;
        add(backend, changes, &is_asked_for).await?;
        for gone in &self.args.without {
            remove(backend, gone).await?;
        }
        if let Some((_, reason)) = backend.apply(cordoned).await?.first() {
            return Err(CliError::Request(format!("`--cordon`: {reason}")));
        }
        for expansion in workloads::expand(workloads, claims, None, backend).await? {
            let expansion = expansion.map_err(|refused| CliError::Request(refused.to_string()))?;
            for note in &expansion.notes {
                output::note(&format!("note: {note}"));
            }
            self.add_pods(expansion, backend, &is_asked_for).await?;
        }
        Ok(())
    }

    /// Adds the pods of a workload, and says what became of them.
    async fn add_pods(
        &self,
        mut expansion: Expansion,
        backend: &mut Backend,
        is_asked_for: impl Fn(&Pod) -> bool,
    ) -> Result<(), CliError> {
        let n_pods = output::count(expansion.pods.len(), "pod");
        let name = workload_name(&expansion);
        let mut pods = std::mem::take(&mut expansion.pods);
        if self.pods == SupposedPods::Placed {
            let n_placed = place(&mut pods, backend).await?;
            backend.add_to_what_if(&format!("{n_pods} of {name}, {n_placed} of them placed"));
        } else {
            backend.add_to_what_if(&format!("{n_pods} of {name}, pending"));
        }
        backend.know(pods.iter(), is_asked_for);
        let is_pending = |pod: &Pod| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_empty());
        let pending = pods.into_iter().filter(is_pending);
        let pending = pending.map(|pod| Change::Pod(Box::new(pod))).collect();
        match backend.apply(pending).await?.first() {
            Some((_, reason)) => Err(CliError::Request(reason.clone())),
            None => Ok(()),
        }
    }

    /// Reads every object of the files, in order.
    fn read(&self, unknown_fields: UnknownFields) -> Result<Manifests, CliError> {
        let mut manifests = Manifests::default();
        for path in &self.args.what_if {
            for dump in self.input.read(path, unknown_fields)? {
                read(dump, path, &mut manifests)?;
            }
        }
        let rank = |change: &Change| match change {
            Change::Node(_) | Change::NoNode(_) => 0,
            Change::Object(_) => 1,
            Change::Pod(_) | Change::NoPod(_) => 2,
        };
        let pods = manifests.changes.iter().filter_map(|manifest| match &manifest.value {
            Change::Pod(pod) => Some(&**pod),
            Change::Node(_) | Change::Object(_) | Change::NoNode(_) | Change::NoPod(_) => None,
        });
        let owners = Owners::of(pods, manifests.workloads.iter().map(|manifest| &manifest.value));
        let (owning, expanded) =
            manifests.workloads.into_iter().partition(|workload| owners.has(&workload.value));
        manifests.workloads = expanded;
        // An owner is an object all the same.
        let owning: Vec<Located<Workload>> = owning;
        manifests.changes.extend(owning.into_iter().filter_map(as_object));
        manifests.changes.sort_by_key(|manifest| rank(&manifest.value));
        Ok(manifests)
    }
}

/// Claims of the generic ephemeral volumes of pods that no API server has stored (these have no uid).
fn claims_of(changes: &[Located<Change>]) -> Vec<WrittenObject> {
    let written = changes.iter().filter_map(|manifest| match &manifest.value {
        Change::Pod(pod) => Some(&**pod),
        Change::Node(_) | Change::Object(_) | Change::NoNode(_) | Change::NoPod(_) => None,
    });
    let is_stored = |pod: &Pod| pod.metadata.as_ref().is_some_and(|it| !it.uid.is_empty());
    written.filter(|pod| !is_stored(pod)).flat_map(|pod| handed::claims_of(pod.clone())).collect()
}

/// Places pods in the fork; a pod that got a node is on it afterwards. Returns how many those are.
async fn place(pods: &mut [Pod], backend: &Backend) -> Result<usize, CliError> {
    let entries = pods.iter().map(|pod| BatchEntry { pod: Some(pod.into()), replicas: 1 });
    let results = backend.place(entries.collect(), true, None).await?.results;
    let mut n_placed = 0;
    for (pod, PlaceResult { result }) in pods.iter_mut().zip(results) {
        match result {
            Some(place_result::Result::Decision(decision)) => {
                if let Some(Outcome::Placement(placement)) = decision.outcome {
                    pod.spec.get_or_insert_default().node_name = placement.node_name;
                    n_placed += 1;
                }
            }
            Some(place_result::Result::Error(error)) => {
                let name = manifest::name_of(pod);
                let reason = format!("`--what-if`: pod `{name}`: {}", error.message);
                return Err(CliError::Request(reason));
            }
            None => {
                return Err(CliError::Request("the answer holds no decision".to_owned()));
            }
        }
    }
    Ok(n_placed)
}

impl WhatIfArgs {
    /// The nodes to cordon, from the manifests or else from the cluster.
    fn cordon(
        &self,
        manifests: &[Located<Change>],
        written: &[Node],
    ) -> Result<Vec<Change>, CliError> {
        let supposed = manifests.iter().rev().filter_map(|manifest| match &manifest.value {
            Change::Node(node) => Some(&**node),
            Change::Pod(_) | Change::Object(_) | Change::NoNode(_) | Change::NoPod(_) => None,
        });
        let known: Vec<&Node> = supposed.chain(written).collect();
        let is_gone = |name: &str| self.without.contains(&Gone::Node(name.to_owned()));
        let cordon = |name: &String| {
            let is_named = |node: &&&Node| manifest::node_name(node) == name && !is_gone(name);
            let mut node = known.iter().find(is_named).copied().cloned().ok_or_else(|| {
                CliError::Request(format!("`--cordon`: the cluster has no node `{name}`"))
            })?;
            node.spec.get_or_insert_default().unschedulable = true;
            Ok(Change::Node(Box::new(node)))
        };
        self.cordon.iter().map(cordon).collect()
    }
}

/// Sorts the objects of a file. A workload that an API server has stored (it has a uid) stays an object: its pods, if
/// any, are those of the cluster or of the file.
fn read(dump: Dump, path: &Path, manifests: &mut Manifests) -> Result<(), CliError> {
    if !dump.refused.is_empty() || !dump.misspelt_kinds.is_empty() {
        let refused = dump.refused.iter().map(ToString::to_string);
        let lines: Vec<String> = refused.chain(dump.misspelt_kinds.lines()).collect();
        return Err(CliError::Request(lines.join("\n  ")));
    }
    lenient::warn(&dump.warnings);
    let mut ignored = dump.ignored_kinds;
    for workload in dump.workloads {
        if is_stored(&workload.value) {
            *ignored.entry(format!("{} (stored)", workload.value.kind())).or_default() += 1;
        } else {
            manifests.workloads.push(workload);
        }
    }
    for (kind, n) in &ignored {
        let note = ignored_note(&format!("`{}`", path.display()), kind, *n);
        output::note(&format!("note: {note}"));
    }
    let admitted = |mut pod: Pod| {
        manifest::contain(&mut pod);
        Change::Pod(Box::new(pod))
    };
    let nodes =
        dump.nodes.into_iter().map(|node| located(node, |node| Change::Node(Box::new(node))));
    manifests.changes.extend(nodes);
    for Located { value, location } in dump.objects {
        let value = match value.into_workload() {
            Ok(workload) if !is_stored(&workload) => {
                manifests.workloads.push(Located { value: workload, location });
                continue;
            }
            Ok(workload) => {
                manifests.changes.extend(as_object(Located { value: workload, location }));
                continue;
            }
            Err(other) => other,
        };
        manifests.changes.push(Located { value: Change::Object(value), location });
    }
    manifests.changes.extend(dump.pods.into_iter().map(|pod| located(pod, admitted)));
    Ok(())
}

/// Whether an API server has stored the object.
fn is_stored(workload: &Workload) -> bool {
    workload.metadata().is_some_and(|metadata| !metadata.uid.is_empty())
}

/// The workload as an object of the cluster, if placement reads its kind.
fn as_object(workload: Located<Workload>) -> Option<Located<Change>> {
    let Located { value, location } = workload;
    let object = WrittenObject::from_workload(value)?;
    Some(Located { value: Change::Object(object), location })
}

fn located<T>(object: Located<T>, change: impl Fn(T) -> Change) -> Located<Change> {
    Located { value: change(object.value), location: object.location }
}
/// Applies all manifests or none.
async fn add(
    backend: &mut Backend,
    manifests: Vec<Located<Change>>,
    is_asked_for: impl Fn(&Pod) -> bool,
) -> Result<(), CliError> {
    let before = backend.counts().await?;
    let pods = manifests.iter().filter_map(|manifest| match &manifest.value {
        Change::Pod(pod) => Some(&**pod),
        Change::Node(_) | Change::Object(_) | Change::NoNode(_) | Change::NoPod(_) => None,
    });
    backend.know(pods, is_asked_for);
    // Pods are admitted by the classes and limit ranges that the files suppose.
    let (pods, others) = manifests.into_iter().partition(|it| matches!(it.value, Change::Pod(_)));
    apply(backend, others).await?;
    apply(backend, pods).await?;
    check_no_orphan(before, backend.counts().await?)
}

async fn apply(backend: &mut Backend, manifests: Vec<Located<Change>>) -> Result<(), CliError> {
    let (changes, locations): (Vec<Change>, Vec<Location>) =
        manifests.into_iter().map(|manifest| (manifest.value, manifest.location)).unzip();
    let refused = backend.apply(changes).await?;
    let lines: Vec<String> = refused
        .iter()
        .map(|(index, reason)| match locations.get(*index) {
            Some(location) => format!("{location}: {reason}"),
            None => reason.clone(),
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(CliError::Request(lines.join("\n  "))) }
}

/// Checks that no pod is on a missing node, where it would take no room: probably a misspelt name.
fn check_no_orphan(before: Counts, after: Counts) -> Result<(), CliError> {
    match after.n_orphaned_pods.saturating_sub(before.n_orphaned_pods) {
        0 => Ok(()),
        n => Err(CliError::Request(format!(
            "`--what-if` puts {} on a node that the cluster does not have",
            output::count(n, "pod")
        ))),
    }
}

async fn remove(backend: &mut Backend, gone: &Gone) -> Result<(), CliError> {
    let before = backend.counts().await?;
    let change = match gone {
        Gone::Node(name) => Change::NoNode(name.clone()),
        Gone::Pod(key) => {
            backend.forget(key);
            Change::NoPod(key.clone())
        }
    };
    backend.apply(vec![change]).await?;
    let after = backend.counts().await?;
    let was_there = match gone {
        Gone::Node(_) => after.n_nodes < before.n_nodes,
        Gone::Pod(_) => after.n_all_pods < before.n_all_pods,
    };
    if was_there {
        Ok(())
    } else {
        Err(CliError::Request(format!("`--without`: the cluster has no {}", gone.text())))
    }
}
