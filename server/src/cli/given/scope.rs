//! Which pods a command is about: those that are named, or all that wait for a node.

use std::path::PathBuf;

use berth_proto::core_v1::Pod;

use super::{Given, Names, Wanted};
use crate::cli::backend::Backend;
use crate::cli::input::InputArgs;
use crate::cli::what_if::SupposedPods;
use crate::cli::{CliError, pods};
use crate::feed::handed::Group;

/// Pods by name and in files, or all pending pods of the cluster.
pub(in crate::cli) enum Scope<'a> {
    Named(Names<'a>),
    Pending,
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
}
