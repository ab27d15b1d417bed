//! Limits of the time for which a peer may keep a connection that it does not use properly. Each test takes the seconds
//! of the server's limit.

use std::time::Duration;

use berth_server::runtime::{Server, ServerOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
use tokio::net::TcpStream;

use crate::tls::world::{Port, World, closed, get, patiently};

async fn plain(server: &Server, port: Port) -> TcpStream {
    let address = match port {
        Port::Grpc => server.grpc_address(),
        Port::Http => server.http_address(),
    };
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_given_up() {
    let world = World::open().await;
    let mut streams = Vec::new();
    for port in [Port::Grpc, Port::Http] {
        let mut stream = TcpStream::connect(("127.0.0.1", world.port(port))).await.unwrap();
        // The beginning of a handshake record of 512 bytes.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        streams.push(stream);
    }
    // Others are answered in the meantime.
    assert!(world.get("/livez", None).await.is_ok());
    for mut stream in streams {
        closed(&mut stream).await;
    }
}

#[tokio::test]
async fn a_grpc_peer_has_to_begin() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let mut silent = plain(&server, Port::Grpc).await;
    let mut half = plain(&server, Port::Grpc).await;
    half.write_all(b"PRI * HTTP/2").await.unwrap();
    closed(&mut silent).await;
    closed(&mut half).await;
}

#[tokio::test]
async fn a_grpc_peer_has_to_begin_inside_tls_too() {
    let world = World::open().await;
    let mut silent = world.secure(Port::Grpc, None).await.unwrap();
    closed(&mut silent).await;
    assert_eq!(world.client(None).await.get_cluster().await.unwrap().n_nodes, 0);
}

/// A head that arrives a byte at a time is given up.
#[tokio::test]
async fn a_head_has_to_come_to_its_end() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let mut silent = plain(&server, Port::Http).await;
    let (mut reading, mut writing) = split(plain(&server, Port::Http).await);
    let dripping = tokio::spawn(async move {
        let mut head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
        while writing.write_all(&head).await.is_ok() {
            head = b"x".to_vec();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let mut other = plain(&server, Port::Http).await;
    assert!(get(&mut other, "/livez").await.unwrap().starts_with("HTTP/1.1 200 "));
    let answer = closed(&mut reading).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    patiently("the writer to notice", dripping).await.unwrap();
    closed(&mut silent).await;
}

/// The pause between two requests may be longer than the time for a head, and the second request is answered.
#[tokio::test]
async fn a_connection_may_pause_between_requests() {
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let mut stream = plain(&server, Port::Http).await;
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut buffer = [0; 4_096];
    for pause in [Some(Duration::from_secs(12)), None] {
        stream.write_all(request).await.unwrap();
        let mut first = [0; 15];
        patiently("an answer", stream.read_exact(&mut first)).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        let Some(pause) = pause else { break };
        // The rest of the answer, and then nothing: the connection stays open for longer than a head may take.
        let rest = async { while stream.read(&mut buffer).await.unwrap() > 0 {} };
        assert!(tokio::time::timeout(pause, rest).await.is_err(), "closed while idle");
    }
}

/// A peer that requests much and reads nothing loses its connection; others do not notice.
#[tokio::test]
async fn a_peer_that_does_not_read_is_dropped() {
    let mut options = ServerOptions::default();
    options.limits.load.slow_reader_timeout = Duration::from_millis(300);
    let server = Server::start(options).await.unwrap();
    let mut greedy = plain(&server, Port::Http).await;
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Requests in a row, whose answers fill the buffers of both ends, until the connection is closed.
    patiently("the server to give up", async {
        while greedy.write_all(request).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut other = plain(&server, Port::Http).await;
    assert!(get(&mut other, "/livez").await.unwrap().starts_with("HTTP/1.1 200 "));
}
