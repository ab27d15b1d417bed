//! [`Instance`]: `berth schedule`, in this process or as a process of its own.

use std::path::Path;

use berth_engine::{Policy, PolicySpec};
use berth_fake_apiserver::FakeApiServer;
use berth_server::apiserver::lease::LeaseOptions;
use berth_server::apiserver::{self, KubeOptions};
use berth_server::feed::kube::{KubeFeed, Pace};
use berth_server::policy::Profiles;
use berth_server::runtime::{Server, ServerOptions};
use berth_server::scheduler::{Scheduler, SchedulerOptions};

use super::SCHEDULER;

/// An instance with its own runtime, which ends with it as a process does.
pub(crate) struct Instance {
    scheduler: Scheduler,
    _feed: KubeFeed,
    _server: Server,
    runtime: tokio::runtime::Runtime,
}

impl Instance {
    pub(crate) fn start(
        api: &FakeApiServer,
        lease: Option<LeaseOptions>,
    ) -> anyhow::Result<Instance> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, api.kubeconfig())?;
        Instance::start_at(&path, lease)
    }

    fn start_at(kubeconfig: &Path, lease: Option<LeaseOptions>) -> anyhow::Result<Instance> {
        let runtime = tokio::runtime::Runtime::new()?;
        let spec =
            PolicySpec { scheduler_name: SCHEDULER.to_owned(), ..Policy::default().spec().clone() };
        let profiles = Profiles::from(vec![Policy::new(spec)?]);
        let options = SchedulerOptions { lease, ..SchedulerOptions::default() };
        let (server, scheduler, feed) = runtime.block_on(async {
            let options_of_server =
                ServerOptions { profiles, awaits_files: true, ..ServerOptions::default() };
            let server = Server::start(options_of_server).await?;
            let kubeconfig = Some(kubeconfig.to_owned());
            let connect = KubeOptions { kubeconfig, ..KubeOptions::default() };
            let client = apiserver::connect(&connect).await?;
            let scheduler = server.start_scheduler(client.clone(), options);
            let feed = server.start_kube_feed(Pace::default(), client, Some(scheduler.observer()));
            anyhow::Ok((server, scheduler, feed))
        })?;
        Ok(Instance { scheduler, _feed: feed, _server: server, runtime })
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.scheduler.is_leading()
    }

    /// Ends as SIGKILL ends a process: its connections close, and nothing is given back.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }

    /// Ends as SIGTERM ends a process.
    pub(crate) fn stop(self) {
        let Instance { scheduler, runtime, .. } = self;
        runtime.block_on(scheduler.stop());
        runtime.shutdown_background();
    }
}

/// Schedules until the process is killed.
pub(crate) fn run(kubeconfig: &str) -> anyhow::Result<()> {
    let _instance = Instance::start_at(Path::new(kubeconfig), None)?;
    loop {
        std::thread::park();
    }
}
