//! A fake API server, and a Berth that is fed by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_fake_apiserver::{FakeApiServer, Options, Store};
use berth_server::apiserver::KubeOptions;
use berth_server::apiserver::connect;
use berth_server::feed::kube::{KubeFeed, Observer, Pace};
use berth_server::runtime::{Server, ServerOptions};
use serde_json::{Value, json};

use crate::probe::get;

/// Time limit of a wait, longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pace of the feed: fast enough for tests, slow enough for a bookmark every tenth of a second.
pub(crate) fn pace() -> Pace {
    Pace {
        silence: Duration::from_millis(1_500),
        watch: Duration::from_secs(2),
        first_wait: Duration::from_millis(5),
        longest_wait: Duration::from_millis(200),
        absent: Duration::from_millis(300),
        refusal: Duration::from_millis(300),
        settled: Duration::from_millis(100),
    }
}

pub(crate) fn options() -> Options {
    Options { bookmark_interval: Duration::from_millis(100), ..Options::default() }
}

pub(crate) struct World {
    pub(crate) api: FakeApiServer,
    pub(crate) server: Server,
    pub(crate) feed: KubeFeed,
}

impl World {
    pub(crate) async fn start(options: Options, observer: Option<Arc<dyn Observer>>) -> World {
        let api = FakeApiServer::start(options).await.unwrap();
        let (server, feed) = fed_by(&api.kubeconfig(), observer).await;
        World { api, server, feed }
    }

    pub(crate) fn store(&self) -> &Store {
        self.api.store()
    }

    pub(crate) async fn ready(&self) {
        let mut completed = self.server.freshness().completed();
        let waited =
            tokio::time::timeout(PATIENCE, completed.wait_for(|&completed| completed)).await;
        assert!(waited.is_ok(), "not ready:\n{}", self.http("/readyz").await);
    }

    /// Returns the whole response of Berth's HTTP port, with status line and headers.
    pub(crate) async fn http(&self, target: &str) -> String {
        get(self.server.http_address(), target).await
    }
}

/// Starts a Berth that is fed by the API server of a kubeconfig.
pub(crate) async fn fed_by(
    kubeconfig: &str,
    observer: Option<Arc<dyn Observer>>,
) -> (Server, KubeFeed) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig).unwrap();
    let options =
        KubeOptions { kubeconfig: Some(file.path().to_owned()), ..KubeOptions::default() };
    let client = connect(&options).await.unwrap();
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let feed = server.start_kube_feed(pace(), client, observer);
    (server, feed)
}

/// Waits until `holds` succeeds; panics with its error if it never does.
pub(crate) async fn until<E: std::fmt::Display>(mut holds: impl FnMut() -> Result<(), E>) {
    let began = Instant::now();
    loop {
        match holds() {
            Ok(()) => return,
            Err(error) => assert!(began.elapsed() < PATIENCE, "still not so: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": "a"}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    })
}

pub(crate) fn pod(name: &str, node: &str) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": "Pending"},
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"]["phase"] = json!("Running");
    }
    pod
}
