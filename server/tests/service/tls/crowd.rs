//! More connections than allowed: those beyond the limit take the slots of idle ones, and the others continue.

use berth_client::{Client, Credentials};
use berth_server::runtime::{Server, ServerOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::tls::world::{World, closed, eventually, patiently};

const MAX: usize = 4;

fn bounded() -> ServerOptions {
    let mut options = ServerOptions::default();
    options.limits.load.max_connections = MAX;
    options
}

#[tokio::test]
async fn grpc_connections_are_bounded() {
    let server = Server::start(bounded()).await.unwrap();
    let url = server.grpc_address().to_string();
    let mut clients = Vec::new();
    for _ in 0..MAX {
        let client = Client::connect(&url, 1).await.unwrap();
        client.get_cluster().await.unwrap();
        clients.push(client);
    }
    for _ in 0..3 {
        let client = Client::connect(&url, 1).await.unwrap();
        client.get_cluster().await.unwrap();
        clients.push(client);
    }
    // Those whose slots were taken connect again.
    for client in &clients {
        eventually("a client to be served", || async { client.get_cluster().await.is_ok() }).await;
    }
}

#[tokio::test]
async fn http_connections_are_bounded() {
    let server = Server::start(bounded()).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..MAX {
        let mut stream = TcpStream::connect(server.http_address()).await.unwrap();
        assert!(is_live(&mut stream).await);
        open.push(stream);
    }
    // The one that has been idle for longest makes room.
    let mut beyond = TcpStream::connect(server.http_address()).await.unwrap();
    assert!(is_live(&mut beyond).await);
    assert_eq!(closed(&mut open[0]).await, b"");
    // Each port counts its own connections.
    let client = Client::connect(&server.grpc_address().to_string(), 1).await.unwrap();
    client.get_cluster().await.unwrap();
    for stream in &mut open[1..] {
        assert!(is_live(stream).await);
    }
}

/// Whether a probe over this connection is answered; the connection stays open.
async fn is_live(stream: &mut TcpStream) -> bool {
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if stream.write_all(request).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    // The body is `ok`, so the response ends there whatever its headers say.
    while !answer.ends_with(b"\r\n\r\nok\n") && !answer.ends_with(b"\r\n\r\nok") {
        match patiently("an answer", stream.read_u8()).await {
            Ok(byte) => answer.push(byte),
            Err(_) => return false,
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

/// Peers that never finish their handshake occupy connections, but keep nobody else out.
#[tokio::test]
async fn slow_handshakes_hold_nobody_up() {
    let world = World::open().await;
    let mut slow = Vec::new();
    for _ in 0..64 {
        slow.push(TcpStream::connect(world.server.grpc_address()).await.unwrap());
    }
    world.client(None).await.get_cluster().await.unwrap();
    let url = format!("https://localhost:{}", world.server.grpc_address().port());
    let credentials = Credentials::trusting(world.directory.path().join("ca.crt"));
    let client = Client::connect_with(&url, 8, &credentials).await.unwrap();
    client.get_cluster().await.unwrap();
}
