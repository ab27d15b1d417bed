//! Workloads of files: expanded into pods, with the objects that exist beside the pods supposed in the cluster.

use berth_engine::workload::{DaemonNode, ExpandOptions, Expansion, Workload};

use super::CliError;
use super::backend::Backend;
use super::what_if::Change;
use crate::feed::file::{Located, Refused, WrittenObject};
use crate::feed::handed::{self, Expanded};

/// Expands workloads in order; `replicas` is the number of pods of each, instead of its own. A workload that the API
/// server would refuse is refused alone.
///
/// The pods' controllers and claims, and the `claims` of other pods, are supposed on the fork of `backend`, which is made
/// if there is none. Claims that the cluster has stay as they are.
///
/// # Errors
/// A server that cannot be reached, or that does not accept the objects.
pub(super) async fn expand(
    workloads: Vec<Located<Workload>>,
    claims: Vec<WrittenObject>,
    replicas: Option<u32>,
    backend: &mut Backend,
) -> Result<Vec<Result<Expansion, Refused>>, CliError> {
    let is_daemon = |workload: &Located<Workload>| matches!(workload.value, Workload::DaemonSet(_));
    let nodes: Vec<DaemonNode> =
        if workloads.iter().any(is_daemon) { backend.daemon_nodes().await? } else { Vec::new() };
    let options = ExpandOptions { replicas, nodes: &nodes };
    let mut expanded = handed::expand(workloads, &options);
    expanded.claims.extend(claims);
    let Expanded { expansions, controllers, claims } = expanded;
    suppose(controllers, claims, backend).await?;
    Ok(expansions)
}

/// Supposes the controllers, and the claims that do not exist.
async fn suppose(
    controllers: Vec<WrittenObject>,
    claims: Vec<WrittenObject>,
    backend: &mut Backend,
) -> Result<(), CliError> {
    if controllers.is_empty() && claims.is_empty() {
        return Ok(());
    }
    backend.fork_if_live().await?;
    let controllers = controllers.into_iter().map(Change::Object).collect();
    let mut refused = backend.apply(controllers).await?;
    if !claims.is_empty() {
        let claims = claims.into_iter().map(Change::Object).collect();
        refused.append(&mut backend.apply_missing(claims).await?);
    }
    if refused.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = refused.into_iter().map(|(_, reason)| reason).collect();
    Err(CliError::Request(reasons.join("\n  ")))
}
