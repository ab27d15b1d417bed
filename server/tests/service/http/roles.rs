//! Roles and audit lines of calls over HTTP: those of their RPCs.

use berth_server::audit::{AuditOptions, AuditTarget};
use berth_server::auth::Role;
use berth_server::runtime::ServerOptions;
use serde_json::{Value, json};

use crate::http::world::{JSON, Reply, ask, fill};
use crate::roles::table::allows;
use crate::roles::world::World;

async fn by(world: &World, user: &str, path: &str, body: &str) -> Reply {
    let headers = format!("Content-Type: {JSON}\r\nAuthorization: Bearer token-of-{user}\r\n");
    ask(world.server.http_address(), &format!("POST {path}"), &headers, body.as_bytes()).await
}

fn pod(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name},
           "spec": {"containers": [{"name": "c"}]}})
    .to_string()
}

#[tokio::test]
async fn every_call_takes_the_role_of_its_rpc() {
    let world = World::start().await;
    fill(&world.server);
    for (path, needed) in [
        ("/v1/place", Role::Reader),
        ("/v1/place?mode=assume", Role::Scheduler),
        ("/v1/preempt?nominate=true", Role::Scheduler),
        ("/v1/explain", Role::Reader),
        ("/v1/headroom", Role::Reader),
        ("/v1/lifecycle/QoSClass", Role::Reader),
    ] {
        for has in Role::ALL {
            let reply =
                by(&world, &has.to_string(), path, &pod(&format!("{has}-{}", path.len()))).await;
            if allows(has, needed) {
                assert_eq!(reply.status, 200, "{path} by {has}: {}", reply.body);
                continue;
            }
            let (code, _, message) = reply.error();
            assert_eq!((reply.status, &*code), (403, "PERMISSION_DENIED"), "{path} by {has}");
            assert_eq!(
                message,
                format!("permission denied: user `{has}` needs the role `{needed}`")
            );
            let error = &reply.json()["error"];
            assert_eq!(
                (&error["reason"], &error["metadata"]["role"]),
                (&json!("ROLE_MISSING"), &json!(needed.to_string()))
            );
        }
        assert_eq!(by(&world, "nobody", path, &pod("p")).await.status, 403);
        let reply = by(&world, "mallory", path, &pod("p")).await;
        assert_eq!((reply.status, &*reply.error().0), (401, "UNAUTHENTICATED"), "{path}");
        assert!(reply.head.contains("www-authenticate: bearer"), "{}", reply.head);
    }
    let address = world.server.http_address();
    // A credential comes first: without one, nothing is said of the body.
    let reply = ask(address, "POST /v1/place?mod=x", "Content-Type: image/png\r\n", b"{").await;
    assert_eq!(reply.status, 401);
    assert_eq!(ask(address, "POST /v1/nothing", "", b"").await.status, 401);
    assert_eq!(ask(address, "GET /openapi.json", "", b"").await.status, 200);
}

#[tokio::test]
async fn assumptions_and_the_ledger_take_the_roles_of_their_rpcs() {
    let world = World::start().await;
    fill(&world.server);
    let acquire = r#"{"namespace": "d", "name": "p", "uid": "u", "actor": "a"}"#;
    for (path, body, needed) in [
        ("/v1/assumed/list", "{}", Role::Reader),
        ("/v1/assumed/confirm", "{}", Role::Scheduler),
        ("/v1/assumed/extend", "{}", Role::Scheduler),
        ("/v1/assumed/release", "{}", Role::Scheduler),
        ("/v1/ledger/get-identity", acquire, Role::Reader),
        ("/v1/ledger/acquire-identity", acquire, Role::Lifecycle),
        ("/v1/ledger/record-identity-event", "{}", Role::Lifecycle),
        ("/v1/ledger/attach-volume", "{}", Role::Lifecycle),
        ("/v1/ledger/detach-volume", "{}", Role::Lifecycle),
        ("/v1/ledger/break-attachment", "{}", Role::Admin),
        ("/v1/ledger/advance-fence", "{}", Role::Lifecycle),
        ("/v1/ledger/list-records", "{}", Role::Reader),
    ] {
        for has in Role::ALL {
            let reply = by(&world, &has.to_string(), path, body).await;
            let is_denied = reply.status == 403;
            assert_eq!(is_denied, !allows(has, needed), "{path} by {has}: {}", reply.body);
        }
    }
}

#[tokio::test]
async fn changes_leave_an_audit_line() {
    let world = World::with(|options, directory| {
        let target = Some(AuditTarget::File(directory.path().join("audit.log")));
        ServerOptions { audit: AuditOptions { target, ..AuditOptions::default() }, ..options }
    })
    .await;
    fill(&world.server);
    assert_eq!(by(&world, "scheduler", "/v1/place", &pod("a")).await.status, 200);
    assert_eq!(by(&world, "scheduler", "/v1/place?mode=assume", &pod("b")).await.status, 200);
    assert_eq!(by(&world, "reader", "/v1/place?mode=assume", &pod("c")).await.status, 403);
    let two = format!("{}{}", pod("d"), pod("e"));
    assert_eq!(by(&world, "scheduler", "/v1/place?mode=assume", &two).await.status, 200);
    let acquire = r#"{"namespace": "d", "name": "p", "uid": "u", "actor": "a"}"#;
    assert_eq!(by(&world, "lifecycle", "/v1/ledger/acquire-identity", acquire).await.status, 200);
    let listed = by(&world, "scheduler", "/v1/assumed/list", r#"{"pageSize": 1}"#).await.json();
    let assumed = &listed["pods"][0];
    let release = json!({"pod": assumed["pod"], "token": assumed["assumption"]["token"]});
    let reply = by(&world, "scheduler", "/v1/assumed/release", &release.to_string()).await;
    assert_eq!(reply.json()["released"], true, "{}", reply.body);
    let World { server, channel, directory } = world;
    drop(channel);
    server.shutdown().await;
    let text = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let lines: Vec<[String; 3]> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
            ["user", "method", "code"].map(|key| line[key].as_str().unwrap().to_owned())
        })
        .collect();
    let place = "/berth.v1.PlacementService/Place";
    let expected = [
        ["scheduler", place, "OK"],
        ["reader", place, "PERMISSION_DENIED"],
        ["scheduler", "/berth.v1.PlacementService/PlaceBatch", "OK"],
        ["lifecycle", "/berth.v1.LifecycleService/AcquireIdentity", "OK"],
        ["scheduler", "/berth.v1.PlacementService/Release", "OK"],
    ];
    assert_eq!(lines, expected.map(|line| line.map(str::to_owned)));
}
