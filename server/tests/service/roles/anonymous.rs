//! Callers without credentials: readers if the operator binds them to that role, refused otherwise.

use std::net::SocketAddr;

use berth_proto::access::METHODS;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ListNodesRequest, PlaceMode, PlaceRequest, SessionServiceCloseRequest,
    SessionServiceOpenRequest,
};
use berth_server::audit::{AuditOptions, AuditTarget};
use berth_server::auth::AuthOptions;
use berth_server::auth::{Role, RoleBinding};
use berth_server::net::TlsFiles;
use berth_server::runtime::{Server, ServerOptions};
use serde_json::Value;
use tonic::Code;
use tonic::transport::Channel;

use crate::roles::authority::Authority;
use crate::roles::http::ask;
use crate::roles::table::role_of;
use crate::roles::world::{
    World, by, call, check_denied, check_unauthenticated, is_let_through, node, pod, try_call,
};

const ANONYMOUS: &str = "system:anonymous";

/// The role binding that lets callers without credentials read.
fn bound() -> Vec<RoleBinding> {
    vec![RoleBinding { role: Role::Reader, users: vec![ANONYMOUS.to_owned()], groups: Vec::new() }]
}

async fn with_tokens() -> World {
    World::with(|options, directory| {
        let target = Some(AuditTarget::File(directory.path().join("audit.log")));
        let audit = AuditOptions { target, ..AuditOptions::default() };
        let auth = AuthOptions { role_bindings: bound(), ..options.auth };
        ServerOptions { auth, audit, ..options }
    })
    .await
}

/// Checks that a caller without credentials can call every method that only reads, and no other.
async fn check_reads_only(channel: &Channel) {
    for path in METHODS.iter().map(|method| method.path) {
        let (status, needed) = (call(channel, path, None).await, role_of(path));
        match needed {
            Role::Reader => assert!(is_let_through(&status), "{path}: {status:?}"),
            _ => check_denied(&status, ANONYMOUS, needed),
        }
    }
}

#[tokio::test]
async fn callers_without_credentials_can_only_read() {
    let world = with_tokens().await;
    check_reads_only(&world.channel).await;
    for path in METHODS.iter().map(|method| method.path) {
        let status = call(&world.channel, path, Some("Bearer token-of-reade")).await;
        check_unauthenticated(&status, "the bearer token is not known");
        let status = call(&world.channel, path, Some("Basic cmVhZGVyOng=")).await;
        check_unauthenticated(&status, "must be `Bearer TOKEN`");
        // A known user has no rights of anonymous callers.
        let status = call(&world.channel, path, Some("Bearer token-of-nobody")).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{path}: {status:?}");
        assert!(status.message().starts_with("permission denied: user `nobody` "), "{status:?}");
    }
}

#[tokio::test]
async fn requests_that_need_another_role_are_refused() {
    let world = with_tokens().await;
    world.feed([Change::UpsertNode(node("n0"))]).await;
    for (mode, is_allowed) in [(PlaceMode::DryRun, true), (PlaceMode::Assume, false)] {
        let pod = Some(pod("p").into());
        let request = PlaceRequest { pod, mode: mode as i32, ..PlaceRequest::default() };
        match world.placement().place(request).await {
            Ok(_) => assert!(is_allowed),
            Err(status) => {
                check_denied(&status, ANONYMOUS, Role::Scheduler);
                assert!(!is_allowed);
            }
        }
    }
    // A session of an anonymous caller is shared by all anonymous callers, and by nobody else.
    let opened = world.session().open(SessionServiceOpenRequest {}).await.unwrap().into_inner();
    let session_id = opened.session_id;
    let listed = ListNodesRequest { session_id: session_id.clone(), ..ListNodesRequest::default() };
    assert!(world.cluster().list_nodes(listed.clone()).await.is_ok());
    let status = world.cluster().list_nodes(by("jane", listed)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let close = SessionServiceCloseRequest { session_id };
    assert!(world.session().close(close).await.is_ok());
}

#[tokio::test]
async fn the_audit_line_names_the_anonymous_user() {
    let world = with_tokens().await;
    let apply = "/berth.v1.ClusterService/Apply";
    check_denied(&call(&world.channel, apply, None).await, ANONYMOUS, Role::Feeder);
    check_unauthenticated(&call(&world.channel, apply, Some("Bearer x")).await, "is not known");
    let World { server, channel, directory } = world;
    // The last calls end with their connection.
    drop(channel);
    server.shutdown().await;
    let text = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [line] = &lines[..] else { panic!("{text}") };
    assert_eq!(line["user"], ANONYMOUS);
    assert_eq!(line["groups"], Value::from(["system:unauthenticated"].as_slice()));
    assert_eq!(line["roles"], Value::from(["reader"].as_slice()));
    assert_eq!(line["means"], "nothing");
    assert_eq!((&line["method"], &line["code"]), (&apply.into(), &"PERMISSION_DENIED".into()));
}

#[tokio::test]
async fn http_routes_treat_anonymous_callers_like_methods_do() {
    let world = with_tokens().await;
    let address = world.server.http_address();
    let wrong = "Authorization: Bearer wrong\r\n";
    for (route, headers, expected) in [
        ("GET /metrics", "", 200),
        ("GET /metrics", wrong, 401),
        ("POST /extender/bind", "", 403),
        ("POST /extender/bind", wrong, 401),
    ] {
        let reply = ask(address, route, headers).await;
        assert_eq!(reply.status, expected, "{route} with {headers:?}: {}", reply.body);
    }
    let metrics = ask(address, "GET /metrics", "").await.body;
    let counted = "berth_authentications_total{means=\"nothing\",outcome=\"success\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_certificate_may_be_left_out_and_a_bad_one_not_shown() {
    let authority = Authority::new();
    let auth = AuthOptions { role_bindings: bound(), ..AuthOptions::default() };
    let tls = Some(authority.files());
    let options = ServerOptions { tls, auth, ..ServerOptions::default() };
    let server = Server::start(options).await.unwrap();
    let port = server.grpc_address().port();
    check_reads_only(&authority.connect(port, None).await.unwrap()).await;
    let sync = "/berth.v1.ClusterService/Sync";
    let feeder = authority.client("feeder", &["berth:feeder"]);
    let feeder = authority.connect(port, Some(&feeder)).await.unwrap();
    assert!(is_let_through(&call(&feeder, sync, None).await));
    let list = "/berth.v1.ClusterService/ListNodes";
    let no_name = authority.client("", &["berth:admin"]);
    let no_name = authority.connect(port, Some(&no_name)).await.unwrap();
    check_unauthenticated(&call(&no_name, list, None).await, "has no common name (CN)");
    for client in [authority.expired("a", &["berth:admin"]), Authority::new().client("a", &[])] {
        let refused = match authority.connect(port, Some(&client)).await {
            Err(_) => true,
            Ok(channel) => try_call(&channel, list, None).await.is_err(),
        };
        assert!(refused);
    }
}

/// cluster-autoscaler needs a server that listens beyond loopback with TLS, without tokens, a client CA or `insecure`.
#[tokio::test]
async fn the_binding_alone_is_enough_to_listen_beyond_loopback() {
    let authority = Authority::new();
    let tls = Some(TlsFiles { client_ca_file: None, ..authority.files() });
    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let options = ServerOptions {
        grpc_address: anywhere,
        http_address: anywhere,
        tls,
        ..ServerOptions::default()
    };
    let refused = Server::start(options.clone()).await.err().unwrap().to_string();
    assert!(refused.contains("`system:anonymous`"), "{refused}");
    let auth = AuthOptions { role_bindings: bound(), ..AuthOptions::default() };
    let plain = ServerOptions { tls: None, auth: auth.clone(), ..options.clone() };
    let refused = Server::start(plain).await.err().unwrap().to_string();
    assert!(refused.contains("`--tls-cert-file`"), "{refused}");
    let server = Server::start(ServerOptions { auth, ..options }).await.unwrap();
    let channel = authority.connect(server.grpc_address().port(), None).await.unwrap();
    check_reads_only(&channel).await;
    let best_options = "/grpcplugin.Expander/BestOptions";
    let status = call(&channel, best_options, None).await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    let status = call(&channel, best_options, Some("Bearer token-of-admin")).await;
    check_unauthenticated(&status, "knows nobody by a bearer token: send none");
}

/// A configuration file cannot bind another role, and options that are built in code give no more than reading.
#[tokio::test]
async fn anonymous_callers_can_only_read_whatever_their_role() {
    let groups = vec!["system:unauthenticated".to_owned()];
    let role_bindings = vec![RoleBinding { role: Role::Admin, users: Vec::new(), groups }];
    let world = World::with(|options, _| {
        let auth = AuthOptions { role_bindings, ..options.auth };
        ServerOptions { auth, ..options }
    })
    .await;
    check_reads_only(&world.channel).await;
}
