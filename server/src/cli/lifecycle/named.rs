//! Named: the pods of a question, in files or by name in a cluster, with what the cluster knows beside them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use berth_engine::PodKey;
use berth_proto::berth_v1::GetPodResponse;
use berth_proto::core_v1::Pod;

use super::files::FileArgs;
use super::objects::{self, Objects};
use crate::cli::backend::{Backend, BackendArgs, SourceArgs};
use crate::cli::given::pod_named;
use crate::cli::input::InputArgs;
use crate::cli::lenient::LenientArgs;
use crate::cli::what_if::{SupposedPods, WhatIfArgs};
use crate::cli::{CliError, manifest, pods};
use crate::feed::file::{Located, Location, UnknownFields, WrittenObject};

/// Flags for pods that are named instead of given in files.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct NamedArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    files: FileArgs,
}

impl NamedArgs {
    /// Reads files, `-` for standard input, and pods of the cluster with their nodes, claims and budgets.
    ///
    /// # Errors
    /// A file that cannot be read as a whole, an unknown pod, a cluster that cannot be read.
    pub(super) fn read(
        &self,
        words: &[PathBuf],
        unknown_fields: UnknownFields,
    ) -> Result<Objects, CliError> {
        let (files, keys) = self.sort(words)?;
        let mut objects = self.files.read(&files, unknown_fields)?;
        if !keys.is_empty() {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            let runtime = runtime.map_err(CliError::Threads)?;
            let found = runtime.block_on(self.find(&keys, unknown_fields));
            runtime.shutdown_background();
            add(found?, &mut objects);
        }
        Ok(objects)
    }

    /// Reads the one pod that `word` or `-f` names, and the other objects.
    ///
    /// # Errors
    /// The errors of [`NamedArgs::read`], and a file with any other number of pods, refused ones included.
    pub(super) fn read_pod(
        &self,
        word: Option<&PathBuf>,
        unknown_fields: UnknownFields,
    ) -> Result<(Located<Pod>, Objects), CliError> {
        let words = word.map(std::slice::from_ref).unwrap_or_default();
        objects::one_pod(self.read(words, unknown_fields)?)
    }

    /// Sorts words into files and names of pods; a file wins.
    fn sort(&self, words: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PodKey>), CliError> {
        let (mut files, mut keys) = (Vec::new(), Vec::new());
        for word in words {
            let name = word.to_str().and_then(|text| pod_named(text, self.files.namespace()));
            match name {
                Some((namespace, name)) if word.as_os_str() != "-" && !word.exists() => {
                    if !self.source.is_given() {
                        return Err(CliError::Request(format!(
                            "`{}` is not a file; a pod of a cluster is named with `--server`, `--kube` or `--cluster`",
                            word.display()
                        )));
                    }
                    keys.push(PodKey::new(namespace, name));
                }
                _ => files.push(word.clone()),
            }
        }
        Ok((files, keys))
    }

    async fn find(
        &self,
        keys: &[PodKey],
        unknown_fields: UnknownFields,
    ) -> Result<Vec<GetPodResponse>, CliError> {
        let backend = BackendArgs {
            source: self.source.clone(),
            lenient: LenientArgs::of(unknown_fields),
            ..BackendArgs::default()
        };
        let names: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
        let is_named = |pod: &Pod| names.contains(&manifest::name_of(pod));
        let (what_if, input) = (WhatIfArgs::default(), InputArgs::default());
        let backend = backend.open(&what_if, &input, SupposedPods::Pending, is_named).await?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(find_one(key, &backend).await?);
        }
        backend.tell(&[]);
        backend.close().await;
        Ok(found)
    }
}

/// The pod of this name. A dump also has pods that have ended, which are on no node of its cluster.
async fn find_one(key: &PodKey, backend: &Backend) -> Result<GetPodResponse, CliError> {
    if let Some(found) = backend.pod(key).await? {
        return Ok(found);
    }
    let pod = Some(pods::as_it_is(key, backend).await?);
    Ok(GetPodResponse { pod, ..GetPodResponse::default() })
}

/// Adds pods of a cluster to the objects of files, each node once.
fn add(found: Vec<GetPodResponse>, objects: &mut Objects) {
    let path: Arc<str> = Arc::from("cluster");
    let location = || Location { path: path.clone(), line: 1, document: 0, item: None };
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    for GetPodResponse { pod, node, claims, budgets, .. } in found {
        objects.pods.extend(pod.map(|value| Located { value, location: location() }));
        if let Some(value) = node
            && nodes.insert(manifest::node_name(&value).to_owned())
        {
            objects.nodes.push(Located { value, location: location() });
        }
        let claims = claims.into_iter().map(Box::new);
        objects.others.extend(claims.map(WrittenObject::PersistentVolumeClaim));
        let budgets = budgets.into_iter().map(|value| Located { value, location: location() });
        objects.budgets.extend(budgets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_a_cluster() {
        let words = [PathBuf::from("shop/web-0")];
        let error = NamedArgs::default().sort(&words).unwrap_err().to_string();
        assert!(error.contains("`--server`, `--kube` or `--cluster`"), "{error}");
        let source = SourceArgs { kube: true, ..SourceArgs::default() };
        let files = FileArgs::in_namespace("ops");
        let args = NamedArgs { source, files };
        let words = ["shop/web-0", "pod/db", "-"].map(PathBuf::from);
        let (files, keys) = args.sort(&words).unwrap();
        assert_eq!(files, [PathBuf::from("-")]);
        assert_eq!(keys, [PodKey::new("shop", "web-0"), PodKey::new("ops", "db")]);
    }
}
