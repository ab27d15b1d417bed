//! Compatibility with `kube`, the client library that Berth uses.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use berth_fake_apiserver::{FakeApiServer, Options};

use crate::objects::{node, pod};

#[tokio::test]
async fn kube_reads_writes_and_understands_refusals() {
    let server = FakeApiServer::start(Options::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    server.store().create(node("n")).unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(listed.items[0].metadata.name.as_deref(), Some("n"));

    let pods: Api<Pod> = Api::namespaced(client.clone(), "lab");
    let typed: Pod = serde_json::from_value(pod("p")).unwrap();
    let created = pods.create(&PostParams::default(), &typed).await.unwrap();
    assert_eq!(created.metadata.resource_version.as_deref(), Some("2"));
    let again = pods.create(&PostParams::default(), &typed).await.unwrap_err();
    let kube::Error::Api(status) = again else { panic!("{again}") };
    assert!(status.is_already_exists());
    let patch = json!({"status": {"nominatedNodeName": "n"}});
    let patched =
        pods.patch_status("p", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    assert_eq!(patched.status.unwrap().nominated_node_name.as_deref(), Some("n"));
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());

    let leases: Api<Lease> = Api::namespaced(client, "lab");
    assert!(leases.get_opt("l").await.unwrap().is_none());
}
