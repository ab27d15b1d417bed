//! Renewal: a token that is replaced on disk is used by the next request, of reads and of writes.

use std::path::Path;
use std::time::Duration;

use berth_fake_apiserver::FakeApiServer;
use berth_server::apiserver::{Connection, KubeOptions};
use berth_server::feed::kube::Pace;
use berth_server::runtime::{Server, ServerOptions};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use super::world::{node, options, until};
use crate::probe::readiness;

/// A kubeconfig for `api` whose user has the token of `directory/token`.
fn kubeconfig(api: &FakeApiServer, directory: &Path) -> KubeOptions {
    let server = format!("http://{}", api.address());
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{tokenFile: token}}}}]\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n"
    );
    let path = directory.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    KubeOptions { kubeconfig: Some(path), ..KubeOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_used_before_the_backoff_ends() {
    let api = FakeApiServer::start(options()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "first").unwrap();
    api.faults().require_token("first");
    api.store().create(node("n")).unwrap();
    let connection = Connection::open(&kubeconfig(&api, directory.path())).await.unwrap();
    let client = connection.client();
    let server = Server::start(ServerOptions::default()).await.unwrap();
    // After some failures the feed waits for minutes, unless something wakes it.
    let pace = Pace {
        first_wait: Duration::from_millis(20),
        longest_wait: Duration::from_secs(600),
        refusal: Duration::from_secs(1),
        ..Pace::default()
    };
    let mut feed = server.start_kube_feed(pace, client.clone(), None);
    feed.retry_after(connection.renewals());
    server.follow_files(connection);
    readiness(&server, true).await;
    api.faults().require_token("second");
    api.faults().cut_now();
    let refused = readiness(&server, false).await;
    let cause = "the API server does not know these credentials (401: Unauthorized); renew them";
    assert!(refused.contains(cause), "{refused}");
    let nodes: Api<Node> = Api::all(client);
    assert!(nodes.get("n").await.is_err());
    // A kubelet replaces a token by renaming a new file to the name of the old one.
    let fresh = directory.path().join("fresh");
    std::fs::write(&fresh, "second\n").unwrap();
    std::fs::rename(&fresh, &token).unwrap();
    readiness(&server, true).await;
    nodes.get("n").await.expect("the new token is used for other requests, too");
    api.store().create(node("late")).unwrap();
    let cluster = server.cluster();
    until(|| cluster.snapshot().node_named("late").map(drop).ok_or("no node")).await;
}
