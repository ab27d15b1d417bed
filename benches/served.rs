//! Servers in this process with the baseline cluster, and loads on them, for benches over gRPC.

use std::error::Error;
use std::sync::Arc;

use berth_client::Client;
use berth_engine::ClusterState;
use berth_loadgen::load::{LoadSpec, run};
use berth_loadgen::report::LoadReport;
use berth_proto::core_v1::Pod;
use berth_server::runtime::{Server, ServerOptions};

use crate::{N_NODES, Workload, existing, incoming, node, objects};

/// Number of different pods of a load.
const N_PODS: usize = 64;

/// Why a bench cannot go on.
pub type Failure = Box<dyn Error>;

/// Starts a server with the baseline cluster.
///
/// # Errors
/// Those of [`Server::start`].
pub async fn start(options: ServerOptions) -> Result<Server, Failure> {
    start_of(options, N_NODES).await
}

/// Starts a server with a cluster like the baseline's, of so many nodes with 30 pods each.
///
/// # Errors
/// Those of [`Server::start`].
pub async fn start_of(options: ServerOptions, n_nodes: usize) -> Result<Server, Failure> {
    let server = Server::start(options).await?;
    let cluster = server.cluster();
    let nodes = (0..n_nodes).map(|i| cluster.compile_node(&node(i, Workload::Basic)));
    let pods = (0..30 * n_nodes)
        .map(|j| cluster.compile_pod(&existing(j, n_nodes, Workload::Basic)))
        .collect::<Result<_, _>>()?;
    cluster.replace(ClusterState {
        nodes: nodes.collect::<Result<_, _>>()?,
        objects: objects(cluster, Workload::Basic),
        pods,
    });
    server.freshness().note_applied();
    Ok(server)
}

/// Runs a load with pods of the baseline.
///
/// # Errors
/// Those of [`run`]. A failed call is an error too, because a call that is not carried out would count as fast.
pub async fn load(client: &Client, spec: LoadSpec) -> Result<LoadReport, Failure> {
    let pods: Arc<[Pod]> = (0..N_PODS).map(|k| incoming(k, Workload::Basic)).collect();
    let report = run(client, pods, &spec, Arc::new(|_| ())).await?;
    match report.errors.iter().next() {
        None => Ok(report),
        Some((code, count)) => {
            Err(format!("{} pods failed with {code}: {}", count.n_pods, count.example).into())
        }
    }
}

/// Says how a figure of the baseline cluster compares with its budget.
pub fn say(bench: &str, what: &str, figure: &str, budget: &str, is_met: bool) {
    say_at(bench, N_NODES, what, figure, (budget, is_met));
}

/// Says how a figure of a cluster with so many nodes compares with its budget, and whether that is met.
pub fn say_at(
    bench: &str,
    n_nodes: usize,
    what: &str,
    figure: &str,
    (budget, is_met): (&str, bool),
) {
    let met = if is_met { "met" } else { "not met" };
    eprintln!("{bench}/{n_nodes}-nodes {what}: {figure}; budget {budget}, {met}");
}

/// The upper median; 0 of nothing.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
