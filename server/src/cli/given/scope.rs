//! Which pods a command is about: those that are named, or all that wait for a node.

use std::path::PathBuf;

use berth_proto::berth_v1::BatchEntry;
use berth_proto::core_v1::Pod;

use super::{Given, Names, Wanted};
use crate::cli::backend::Backend;
use crate::cli::input::InputArgs;
use crate::cli::what_if::SupposedPods;
use crate::cli::{CliError, admission, pods};
use crate::feed::handed::{self, Group, Member};

/// Pods by name and in files, or all pending pods of the cluster.
pub(in crate::cli) enum Scope<'a> {
    Named(Names<'a>),
    Pending,
}

/// Pods as a request lists them.
pub(in crate::cli) struct Listed {
    pub(in crate::cli) entries: Vec<BatchEntry>,
    /// Name of each entry's pod.
    pub(in crate::cli) entry_names: Vec<String>,
    /// The pods of the entries, replicas expanded.
    pub(in crate::cli) members: Vec<Member>,
    /// Number of objects that were refused.
    pub(in crate::cli) n_refused: usize,
    /// Remarks for the reader of the answer, a sentence each.
    pub(in crate::cli) notes: Vec<String>,
}

impl<'a> Scope<'a> {
    /// The pods of the command line, or without any, those that wait.
    pub(in crate::cli) fn named_or_pending(
        pods: &'a [String],
        files: &'a [PathBuf],
        input: &'a InputArgs,
    ) -> Scope<'a> {
        match (pods, files) {
            ([], []) => Scope::Pending,
            _ => Scope::Named(Names::of(pods, files, input)),
        }
    }

    /// Whether pods of `--what-if` without a node are placed first, or, with all pending pods, asked about too.
    pub(in crate::cli) fn supposed(&self) -> SupposedPods {
        match self {
            Scope::Named(_) => SupposedPods::Placed,
            Scope::Pending => SupposedPods::Pending,
        }
    }

    /// Whether the command is about `pod` of the cluster.
    pub(in crate::cli) fn has(&self, pod: &Pod) -> bool {
        match self {
            Scope::Named(names) => names.is_named(pod),
            Scope::Pending => pods::is_pending(pod),
        }
    }

    /// Finds the pods; pending ones are in queue order.
    ///
    /// # Errors
    /// The errors of [`Names::find`].
    pub(in crate::cli) async fn find(
        &self,
        wanted: Wanted,
        backend: &mut Backend,
    ) -> Result<Given, CliError> {
        match self {
            Scope::Named(names) => names.find(wanted, backend).await,
            Scope::Pending => {
                let (pods, of_others) = pods::pending(backend).await?;
                let group = |pod| Group { pods: vec![pod], workload: None };
                let groups = pods.into_iter().map(group).collect();
                Ok(Given { groups, of_others, ..Given::default() })
            }
        }
    }

    /// Finds the pods of a question about several, which changes nothing, and lists them as its request does.
    ///
    /// # Errors
    /// The errors of [`Names::find`].
    pub(in crate::cli) async fn list(
        &self,
        replicas: Option<u32>,
        backend: &mut Backend,
    ) -> Result<Listed, CliError> {
        let Given { groups, of_others, n_refused, notes: of_given } =
            self.find(Wanted { replicas, assume: false }, backend).await?;
        let mut notes = backend.notes();
        notes.extend(of_given);
        notes.extend(pods::not_considered(&of_others));
        let (entries, members) = handed::members(groups, replicas.unwrap_or(1));
        let entry_names = admission::names(&entries);
        Ok(Listed { entries, entry_names, members, n_refused, notes })
    }
}
