//! `berth-fake-apiserver`: an API server for trying Berth without a cluster.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use berth_fake_apiserver::{FakeApiServer, Options, Store, cluster};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// A Kubernetes API server in memory, for trying Berth without a cluster.
///
/// Serves lists, watches, bindings, evictions and leases over plain HTTP until SIGINT or SIGTERM. There are no
/// controllers, and no kubelets without --auto-kubelet. Every client that can reach the server has all rights: keep it
/// on loopback.
#[derive(Debug, Parser)]
#[command(name = "berth-fake-apiserver", version)]
struct Cli {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// File of initial objects: `kubectl get -o json` or `-o yaml`, also gzipped (.gz). May be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    cluster: Vec<PathBuf>,
    /// Number of initial synthetic nodes, in three zones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    nodes: usize,
    /// Number of initial synthetic pending pods.
    #[arg(long, value_name = "M", default_value_t = 0)]
    pods: usize,
    /// `schedulerName` of the synthetic pods.
    #[arg(long, value_name = "NAME", default_value = "default-scheduler")]
    scheduler_name: String,
    /// Write a kubeconfig for this server.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Set bound pods to Running, and remove deleted pods when their grace period is over.
    #[arg(long)]
    auto_kubelet: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = tokio::runtime::Runtime::new()
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(run(cli)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth-fake-apiserver: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let options = Options {
        listen: cli.listen,
        // Grace periods take their real time here; tests shorten them.
        grace_scale: 1.0,
        bookmark_interval: Duration::from_secs(10),
        ..Options::default()
    };
    let store = Store::new(&options);
    for namespace in ["default", "kube-system"] {
        cluster::add_namespace(&store, namespace)?;
    }
    for file in &cli.cluster {
        let name = file.display();
        let n = cluster::load(&store, file).map_err(|error| anyhow!("`{name}` {error}"))?;
        say(&format!("{name}: {n} objects"))?;
    }
    cluster::add_synthetic(&store, cli.nodes, cli.pods, &cli.scheduler_name)?;
    store.set_auto_kubelet(cli.auto_kubelet);
    let server = FakeApiServer::start_with(options, store).await.with_context(|| {
        format!("cannot listen on `{}`; choose another with --listen", cli.listen)
    })?;
    if let Some(file) = &cli.kubeconfig_out {
        std::fs::write(file, server.kubeconfig())
            .with_context(|| format!("cannot write the kubeconfig `{}`", file.display()))?;
        say(&format!("kubeconfig: {}", file.display()))?;
    }
    let (n_nodes, n_pods) = (server.store().n("Node"), server.store().n("Pod"));
    say(&format!("{n_nodes} nodes, {n_pods} pods at {}", server.url()))?;
    stopped().await
}

/// Waits for SIGINT or SIGTERM.
async fn stopped() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot listen for SIGINT")?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot write to standard output")
}
