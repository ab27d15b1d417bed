//! TLS of the gRPC port: which clients are accepted, which are refused, and the errors of a start with unusable files.

use std::net::SocketAddr;

use berth_client::{Client, Credentials};
use berth_proto::grpcplugin::BestOptionsRequest;
use berth_proto::grpcplugin::expander_client::ExpanderClient;
use berth_server::net::ListenError;
use berth_server::net::TlsFiles;
use berth_server::runtime::{Server, ServerOptions, StartError};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::expander::world::{Identity, World, channel};

#[tokio::test]
async fn only_those_who_trust_the_authority_get_in() {
    let identity = Identity::new();
    let mut world = World::with_tls("", &identity).await;
    world.check(BestOptionsRequest::default(), &[]).await;
    let port = world.server.grpc_address().port();
    assert!(channel(port, Some(&Identity::new())).await.is_err(), "another authority");
    let plain = channel(port, None).await;
    let refused = match plain {
        Ok(channel) => {
            let mut client = ExpanderClient::new(channel);
            client.best_options(BestOptionsRequest::default()).await.is_err()
        }
        Err(_) => true,
    };
    assert!(refused, "plain text");
    // The other services, the commands' client, and the expander's name by reflection.
    let url = format!("https://localhost:{port}");
    let trusting = |name| Credentials::trusting(identity.path(name));
    let client = Client::connect_with(&url, 1, &trusting("ca.crt")).await.unwrap();
    assert_eq!(client.get_cluster().await.unwrap().n_nodes, 0);
    let error = Client::connect(&url, 1).await.unwrap_err().to_string();
    assert!(error.contains("`--ca-file`"), "{error}");
    let error = Client::connect_with(&url, 1, &trusting("tls.key")).await.unwrap_err().to_string();
    assert!(error.contains("tls.key` holds no certificate in PEM"), "{error}");
    assert!(services(port, &identity).await.contains(&"grpcplugin.Expander".to_owned()));
}

async fn services(port: u16, identity: &Identity) -> Vec<String> {
    let channel = channel(port, Some(identity)).await.unwrap();
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    list.service.into_iter().map(|service| service.name).collect()
}

#[tokio::test]
async fn a_certificate_is_no_leave_to_listen_anywhere() {
    let identity = Identity::new();
    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let tls = Some(identity.files());
    let grpc = ServerOptions { grpc_address: anywhere, tls, ..ServerOptions::default() };
    let http = ServerOptions { http_address: anywhere, ..ServerOptions::default() };
    for refused in [grpc.clone(), ServerOptions { tls: None, ..grpc.clone() }, http] {
        let error = Server::start(refused).await.err().unwrap();
        assert!(matches!(error, StartError::Listen(ListenError::Insecure { .. })), "{error}");
    }
    let allowed = ServerOptions { insecure: true, ..grpc };
    let mut world = World::with(allowed, Some(&identity)).await;
    assert!(world.server.grpc_address().ip().is_unspecified());
    world.check(BestOptionsRequest::default(), &[]).await;
}

#[tokio::test]
async fn a_start_names_the_file_that_is_wrong() {
    let (identity, other) = (Identity::new(), Identity::new());
    for (cert_file, key_file, expected) in [
        (identity.path("none"), identity.path("tls.key"), "none`: No such file"),
        (identity.path("tls.crt"), identity.path("tls.crt"), "tls.crt` holds no unencrypted"),
        (identity.path("tls.crt"), other.path("tls.key"), "is not the certificate's"),
    ] {
        let tls = Some(TlsFiles { cert_file, key_file, client_ca_file: None });
        let options = ServerOptions { tls, ..ServerOptions::default() };
        let error = Server::start(options).await.err().unwrap().to_string();
        assert!(error.starts_with("cannot serve with TLS: "), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
