//! Callers that are identified by their certificates.

use berth_proto::access::METHODS;
use berth_server::auth::AuthOptions;
use berth_server::auth::{Role, RoleBinding};
use berth_server::runtime::{Server, ServerOptions};
use tonic::Code;
use tonic::transport::Channel;

use crate::roles::authority::{Authority, Client};
use crate::roles::table::{allows, role_of};
use crate::roles::world::{
    TOKENS, call, check_denied, check_unauthenticated, is_let_through, try_call,
};

/// Starts a server that identifies callers by certificates and, if `auth` has a token file, also by tokens.
async fn start(authority: &Authority, auth: AuthOptions) -> Server {
    let tls = Some(authority.files());
    Server::start(ServerOptions { tls, auth, ..ServerOptions::default() }).await.unwrap()
}

async fn channel(authority: &Authority, server: &Server, client: Option<&Client>) -> Channel {
    authority.connect(server.grpc_address().port(), client).await.unwrap()
}

#[tokio::test]
async fn every_rpc_takes_the_role_of_the_organization() {
    let authority = Authority::new();
    let server = start(&authority, AuthOptions::default()).await;
    for has in Role::ALL {
        let client = authority.client(&format!("cn-{has}"), &[&format!("berth:{has}")]);
        let channel = channel(&authority, &server, Some(&client)).await;
        for path in METHODS.iter().map(|method| method.path) {
            let (status, needed) = (call(&channel, path, None).await, role_of(path));
            match allows(has, needed) {
                true => assert!(is_let_through(&status), "{path} by {has}: {status:?}"),
                false => check_denied(&status, &format!("cn-{has}"), needed),
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_that_names_nobody_who_may_anything_is_refused() {
    let authority = Authority::new();
    let server = start(&authority, AuthOptions::default()).await;
    let no_certificate = channel(&authority, &server, None).await;
    let no_name = authority.client("", &["berth:admin"]);
    let no_name = channel(&authority, &server, Some(&no_name)).await;
    let no_role = authority.client("stranger", &["people"]);
    let no_role = channel(&authority, &server, Some(&no_role)).await;
    for path in METHODS.iter().map(|method| method.path) {
        check_unauthenticated(&call(&no_certificate, path, None).await, "a client certificate");
        check_unauthenticated(&call(&no_name, path, None).await, "has no common name (CN)");
        let status = call(&no_role, path, None).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{path}: {status:?}");
        assert!(status.message().starts_with("permission denied: user `stranger` "), "{status:?}");
    }
    for channel in [&no_certificate, &no_name, &no_role] {
        let status = call(channel, "/grpc.health.v1.Health/Check", None).await;
        assert_eq!(status.code(), Code::Ok);
    }
}

#[tokio::test]
async fn no_connection_is_made_with_a_certificate_that_proves_nothing() {
    let authority = Authority::new();
    let server = start(&authority, AuthOptions::default()).await;
    let expired = authority.expired("admin", &["berth:admin"]);
    let of_another = Authority::new().client("admin", &["berth:admin"]);
    for client in [expired, of_another] {
        // With TLS 1.3 the client is connected before the server has checked the certificate.
        let refused = match authority.connect(server.grpc_address().port(), Some(&client)).await {
            Err(_) => true,
            Ok(channel) => try_call(&channel, "/grpc.health.v1.Health/Check", None).await.is_err(),
        };
        assert!(refused);
    }
}

#[tokio::test]
async fn a_wrong_token_is_not_made_good_by_a_certificate() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("tokens.csv");
    std::fs::write(&token_file, TOKENS).unwrap();
    let binding = |role, user: &str, group: &str| RoleBinding {
        role,
        users: vec![user.to_owned()],
        groups: vec![group.to_owned()],
    };
    let role_bindings =
        vec![binding(Role::Feeder, "cn", "none"), binding(Role::Lifecycle, "-", "o")];
    let auth = AuthOptions { token_file: Some(token_file), role_bindings };
    let server = start(&authority, auth).await;
    let channel = channel(&authority, &server, Some(&authority.client("cn", &["o"]))).await;
    let sync = "/berth.v1.ClusterService/Sync";
    let acquire = "/berth.v1.LifecycleService/AcquireIdentity";
    // Both bindings apply to the same caller.
    for path in [sync, acquire] {
        assert!(is_let_through(&call(&channel, path, None).await), "{path}");
    }
    let status = call(&channel, sync, Some("Bearer wrong")).await;
    check_unauthenticated(&status, "the bearer token is not known");
    // A caller that sends a token is identified by it.
    let status = call(&channel, sync, Some("Bearer token-of-reader")).await;
    check_denied(&status, "reader", Role::Feeder);
    assert!(is_let_through(&call(&channel, sync, Some("Bearer token-of-feeder")).await));
}
