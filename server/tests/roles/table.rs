//! Every RPC by every role, as `docs/security.md` has them.

use std::path::Path;

use berth_proto::METHODS;
use berth_server::auth::Role;

use crate::world::{World, call, check_denied, check_unauthenticated, is_let_through};

/// Rows of the page's table: what a name in the first column begins with, and the least role in the second.
fn documented() -> Vec<(String, Role)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("| RPC | least role |").nth(1).expect("the table of RPCs");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &str| -> (String, Role) {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (rpc, role) = (cells.next().unwrap(), cells.next().unwrap());
        let rpc = rpc.strip_prefix('`').and_then(|rpc| rpc.split('`').next());
        let role = role.split([',', ';', ' ']).next().and_then(Role::named);
        match (rpc, role) {
            (Some(rpc), Some(role)) => (rpc.to_owned(), role),
            _ => panic!("a row that cannot be read: {line}"),
        }
    };
    rows.map(row).collect()
}

/// The one row that is about a method: its own, or else that of its service's rest, `Service.*`.
pub(crate) fn role_of(path: &str) -> Role {
    let rows = documented();
    let (service, method) = path.trim_start_matches('/').rsplit_once('/').unwrap();
    let service = service.rsplit('.').next().unwrap();
    let named = |name: &str| {
        let mut rows = rows.iter().filter(|(rpc, _)| rpc == name);
        let role = rows.next().map(|(_, role)| *role);
        assert!(rows.next().is_none(), "two rows for {name}");
        role
    };
    named(&format!("{service}.{method}"))
        .or_else(|| named(&format!("{service}.*")))
        .unwrap_or_else(|| panic!("docs/security.md has no row for {path}"))
}

/// Whether the caller of a role may what takes `needed`.
pub(crate) fn allows(has: Role, needed: Role) -> bool {
    has == needed || has == Role::Admin || needed == Role::Reader
}

#[tokio::test]
async fn every_rpc_takes_its_role() {
    let world = World::start().await;
    for path in METHODS {
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
        // Where the request decides, the message is looked at after the role that every request takes.
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{path}: {status:?}");
        assert!(status.message().starts_with("permission denied: user `nobody` "), "{status:?}");
    }
}

#[tokio::test]
async fn every_rpc_takes_a_credential_that_is_known() {
    let world = World::start().await;
    for path in METHODS {
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

/// Only rows that are about something.
#[test]
fn the_page_names_no_rpc_that_is_not_there() {
    let rows = documented();
    assert!(rows.len() > 10, "{rows:?}");
    for (rpc, _) in rows {
        let (service, method) = rpc.split_once('.').unwrap();
        let is_there = METHODS.iter().any(|path| {
            let (found, name) = path.rsplit_once('/').unwrap();
            found.ends_with(&format!(".{service}")) && (method == "*" || method == name)
        });
        assert!(is_there, "{rpc}");
    }
}
