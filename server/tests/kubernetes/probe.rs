//! Requests to Berth's HTTP port, and waits for an answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use berth_server::runtime::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Time limit of a wait, longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the whole response, with status line and headers.
pub(crate) async fn get(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Waits until the answer to `target` satisfies `holds`; returns the answer. Panics with it if it never does.
pub(crate) async fn answer_when(
    address: SocketAddr,
    target: &str,
    holds: impl Fn(&str) -> bool,
) -> String {
    let began = Instant::now();
    loop {
        let answer = get(address, target).await;
        if holds(&answer) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "still not so: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the server is ready, or not; returns the answer of its probe.
pub(crate) async fn readiness(server: &Server, is_ready: bool) -> String {
    let status = if is_ready { "HTTP/1.1 200 " } else { "HTTP/1.1 503 " };
    answer_when(server.http_address(), "/readyz", |answer| answer.starts_with(status)).await
}
