//! Certificates that change while a server runs.

use std::fs;

use berth_client::Client;
use berth_proto::berth_v1::GetClusterResponse;

use crate::tls::authority::{Authority, Validity};
use crate::tls::world::{Port, World, eventually};

const TAKEN: &str = "berth_tls_reloads_total{outcome=\"success\"}";
const REFUSED: &str = "berth_tls_reloads_total{outcome=\"failure\"}";

async fn ask(client: &Client) -> GetClusterResponse {
    client.get_cluster().await.unwrap()
}

#[tokio::test]
async fn new_connections_get_the_new_certificate() {
    let world = World::open().await;
    let before = world.client(None).await;
    ask(&before).await;
    let first = world.served(Port::Grpc).await;
    let renewed = world.authority.server();
    renewed.write(world.directory.path(), "tls");
    world.server.reload_credentials();
    for port in [Port::Grpc, Port::Http] {
        eventually("the new certificate", || async { world.served(port).await == renewed.der() })
            .await;
    }
    assert_ne!(first, renewed.der());
    // A connection from before continues.
    ask(&before).await;
    ask(&world.client(None).await).await;
    assert_eq!(world.metric(TAKEN, None).await, 1.0);
    assert_eq!(world.metric(REFUSED, None).await, 0.0);
}

/// No signal is needed: the server checks the files every few seconds.
#[tokio::test]
async fn a_change_is_found_without_a_signal() {
    let world = World::open().await;
    let renewed = world.authority.server();
    renewed.write(world.directory.path(), "tls");
    eventually("the new certificate", || async { world.served(Port::Grpc).await == renewed.der() })
        .await;
}

/// Each state of the files is tried once, so failures are counted exactly.
#[tokio::test]
async fn what_does_not_go_together_changes_nothing() {
    let world = World::open().await;
    let first = world.served(Port::Grpc).await;
    let renewed = world.authority.server();
    let path = |name: &str| world.directory.path().join(name);
    // Replaces a file atomically, as a kubelet does, so that no check finds half a file.
    let put = |name: &str, text: &str| {
        fs::write(path("new"), text).unwrap();
        fs::rename(path("new"), path(name)).unwrap();
    };
    let is_refused = |n: f64| {
        let world = &world;
        move || async move { world.metric(REFUSED, None).await == n }
    };
    // Half replaced: the key still belongs to the old certificate.
    put("tls.crt", &renewed.certificate);
    eventually("the pair to be refused", is_refused(1.0)).await;
    assert_eq!(world.served(Port::Grpc).await, first);
    fs::remove_file(path("tls.key")).unwrap();
    eventually("the missing key to be noted", is_refused(2.0)).await;
    put("tls.key", "-----BEGIN");
    eventually("the torn key to be refused", is_refused(3.0)).await;
    assert_eq!(world.served(Port::Http).await, first);
    put("tls.key", &renewed.key);
    eventually("the new pair", || async { world.served(Port::Grpc).await == renewed.der() }).await;
    assert_eq!(world.metric(TAKEN, None).await, 1.0);
    assert_eq!(world.metric(REFUSED, None).await, 3.0);
}

#[tokio::test]
async fn the_authority_of_clients_changes_too() {
    let world = World::with_client_certificates().await;
    let jane = world.authority.reader(Validity::Now);
    assert!(world.get("/metrics", Some(&jane)).await.is_ok());
    let others = Authority::new();
    let joe = others.reader(Validity::Now);
    assert!(world.get("/metrics", Some(&joe)).await.is_err());
    fs::write(world.directory.path().join("ca.crt"), others.pem()).unwrap();
    world.server.reload_credentials();
    eventually("the new authority", || async { world.get("/metrics", Some(&joe)).await.is_ok() })
        .await;
    assert!(world.get("/metrics", Some(&jane)).await.is_err());
    // A handshake without a certificate works as before.
    assert!(world.get("/livez", None).await.is_ok());
}
