//! Applies suppositions to a fork, in this process or in a server, and checks that they are possible there.

use std::path::Path;

use berth_proto::core_v1::{Node, Pod};

use super::{Change, Gone, WhatIfArgs};
use crate::cli::backend::{Backend, Counts};
use crate::cli::{CliError, manifest, output};
use crate::feed::file::{self, Located, Location};

impl WhatIfArgs {
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
        let manifests = self.read()?;
        let cordoned = self.cordon(&manifests, written)?;
        backend.fork(self.summary(manifests.len())).await?;
        add(backend, manifests, is_asked_for).await?;
        for gone in &self.without {
            remove(backend, gone).await?;
        }
        match backend.apply(cordoned).await?.first() {
            Some((_, reason)) => Err(CliError::Request(format!("`--cordon`: {reason}"))),
            None => Ok(()),
        }
    }

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

    /// Reads every object of the files, in order: nodes first, before the pods on them.
    fn read(&self) -> Result<Vec<Located<Change>>, CliError> {
        let mut manifests = Vec::new();
        for path in &self.what_if {
            manifests.append(&mut read(path)?);
        }
        let rank = |change: &Change| match change {
            Change::Node(_) | Change::NoNode(_) => 0,
            Change::Object(_) => 1,
            Change::Pod(_) | Change::NoPod(_) => 2,
        };
        manifests.sort_by_key(|manifest| rank(&manifest.value));
        Ok(manifests)
    }
}

fn read(path: &Path) -> Result<Vec<Located<Change>>, CliError> {
    let dump = file::read(path)?;
    if !dump.refused.is_empty() {
        let lines: Vec<String> = dump.refused.iter().map(ToString::to_string).collect();
        return Err(CliError::Request(lines.join("\n  ")));
    }
    for (kind, n) in &dump.ignored_kinds {
        output::note(&format!(
            "note: `{}`: {} of kind {kind}: placements do not depend on such",
            path.display(),
            output::count(*n, "object")
        ));
    }
    let admitted = |mut pod: Pod| {
        manifest::admit(&mut pod);
        Change::Pod(Box::new(pod))
    };
    let nodes =
        dump.nodes.into_iter().map(|node| located(node, |node| Change::Node(Box::new(node))));
    let objects = dump.objects.into_iter().map(|object| located(object, Change::Object));
    let pods = dump.pods.into_iter().map(|pod| located(pod, admitted));
    Ok(nodes.chain(objects).chain(pods).collect())
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
    let (changes, locations): (Vec<Change>, Vec<Location>) =
        manifests.into_iter().map(|manifest| (manifest.value, manifest.location)).unzip();
    let refused = backend.apply(changes).await?;
    if refused.is_empty() {
        return check_no_orphan(before, backend.counts().await?);
    }
    let lines = refused.iter().map(|(index, reason)| match locations.get(*index) {
        Some(location) => format!("{location}: {reason}"),
        None => reason.clone(),
    });
    Err(CliError::Request(lines.collect::<Vec<_>>().join("\n  ")))
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
