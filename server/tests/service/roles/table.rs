//! Every RPC by every role, as the `.proto` files declare them.

use berth_proto::access::METHODS;
use berth_server::auth::Role;

use crate::roles::world::{World, call, check_denied, check_unauthenticated, is_let_through};

/// The least role that an empty request of the method needs.
pub(crate) fn role_of(path: &str) -> Role {
    if path == "/berth.v1.ClusterService/Apply" {
        // Every reader may call it; an empty batch is then treated as a feeder's.
        return Role::Feeder;
    }
    let method = METHODS.iter().find(|method| method.path == path).unwrap();
    Role::named(&format!("{:?}", method.role).to_lowercase()).unwrap()
}

/// Whether a caller with the role `has` may call a method that needs the role `needed`.
pub(crate) fn allows(has: Role, needed: Role) -> bool {
    has == needed || has == Role::Admin || needed == Role::Reader
}

#[tokio::test]
async fn every_rpc_takes_its_role() {
    let world = World::start().await;
    for path in METHODS.iter().map(|method| method.path) {
        let needed = role_of(path);
        for has in Role::ALL {
            let token = format!("Bearer token-of-{has}");
            let status = call(&world.channel, path, Some(&token)).await;
            match allows(has, needed) {
                true => assert!(is_let_through(&status), "{path} by {has}: {status:?}"),
                false => check_denied(&status, has.name(), needed),
            }
        }
        let status = call(&world.channel, path, Some("Bearer token-of-nobody")).await;
        // If the role depends on the request, the message is read only after the role that every request needs is
        // checked.
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{path}: {status:?}");
        assert!(status.message().starts_with("permission denied: user `nobody` "), "{status:?}");
    }
}

#[tokio::test]
async fn every_rpc_takes_a_credential_that_is_known() {
    let world = World::start().await;
    for path in METHODS.iter().map(|method| method.path) {
        let status = call(&world.channel, path, None).await;
        check_unauthenticated(&status, "send a bearer token (`authorization: Bearer TOKEN`)");
        let status = call(&world.channel, path, Some("Bearer token-of-reade")).await;
        check_unauthenticated(&status, "the bearer token is not known");
        assert!(!status.message().contains("token-of"), "{status:?}");
        let status = call(&world.channel, path, Some("Basic cmVhZGVyOng=")).await;
        check_unauthenticated(&status, "must be `Bearer TOKEN`");
    }
}

#[tokio::test]
async fn health_and_reflection_are_for_anybody() {
    let world = World::start().await;
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        for authorization in [None, Some("Bearer wrong"), Some("Bearer token-of-nobody")] {
            let status = call(&world.channel, path, authorization).await;
            assert!(is_let_through(&status), "{path}: {status:?}");
        }
    }
    let status = call(&world.channel, "/berth.v1.Nothing/There", None).await;
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}
