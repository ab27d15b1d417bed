//! The HTTP routes by every role.

use std::net::SocketAddr;

use berth_server::auth::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::roles::table::allows;
use crate::roles::world::World;

pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

/// Sends a request with an empty body and these headers.
pub(crate) async fn ask(address: SocketAddr, request: &str, headers: &str) -> Reply {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let content_type =
        if request.starts_with("POST") { "Content-Type: application/json\r\n" } else { "" };
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\n{content_type}Content-Length: 0\r\nConnection: close\r\n{headers}\r\n"
    );
    connection.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

const ROUTES: [(&str, Option<Role>); 9] = [
    ("GET /livez", None),
    ("GET /readyz", None),
    ("GET /healthz", None),
    ("GET /metrics", Some(Role::Reader)),
    ("POST /extender/filter", Some(Role::Reader)),
    ("POST /extender/prioritize", Some(Role::Reader)),
    ("POST /extender/preempt", Some(Role::Reader)),
    ("POST /extender/bind", Some(Role::Scheduler)),
    ("GET /nothing/there", Some(Role::Reader)),
];

#[tokio::test]
async fn every_route_takes_its_role() {
    let world = World::start().await;
    let address = world.server.http_address();
    for (route, needed) in ROUTES {
        for has in Role::ALL {
            let headers = format!("Authorization: Bearer token-of-{has}\r\n");
            let reply = ask(address, route, &headers).await;
            if needed.is_none_or(|needed| allows(has, needed)) {
                assert!(![401, 403].contains(&reply.status), "{route} by {has}: {}", reply.status);
                continue;
            }
            assert_eq!(reply.status, 403, "{route} by {has}");
            let expected = format!("permission denied: user `{has}` needs the role `scheduler`\n");
            assert_eq!(reply.body, expected);
        }
        let reply = ask(address, route, "Authorization: Bearer token-of-nobody\r\n").await;
        assert_eq!(reply.status == 403, needed.is_some(), "{route}: {}", reply.status);
    }
}

#[tokio::test]
async fn only_probes_are_for_anybody() {
    let world = World::start().await;
    let address = world.server.http_address();
    for (route, needed) in ROUTES {
        for (headers, expected) in [
            ("", "send a bearer token (`authorization: Bearer TOKEN`)"),
            ("Authorization: Bearer wrong\r\n", "the bearer token is not known"),
            ("Authorization: Basic eA==\r\n", "no other scheme is known here"),
            (
                "Authorization: Bearer token-of-admin\r\nAuthorization: Bearer token-of-admin\r\n",
                "more than one",
            ),
        ] {
            let reply = ask(address, route, headers).await;
            if needed.is_none() {
                assert_ne!(reply.status, 401, "{route}");
                continue;
            }
            assert_eq!(reply.status, 401, "{route} with {headers:?}");
            assert!(reply.head.contains("www-authenticate: bearer"), "{}", reply.head);
            assert!(reply.head.contains("content-type: text/plain"), "{}", reply.head);
            assert!(reply.body.contains(expected), "{route}: {}", reply.body);
        }
    }
}
