//! The extender shares its lane with decisions over gRPC; a refused call gets status 429 before its body is read.

use berth_server::runtime::LoadLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::overload::world::{World, batch, unlimited};

/// Status line and headers of the answer to a call whose body never comes.
async fn ask(world: &World, verb: &str) -> String {
    let mut stream = TcpStream::connect(world.server.http_address()).await.unwrap();
    let head = format!(
        "POST /extender/{verb} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).await.unwrap();
        assert!(n > 0, "it ended: {}", String::from_utf8_lossy(&answer));
        answer.extend(&bytes[..n]);
    }
    String::from_utf8_lossy(&answer).to_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_is_refused_before_its_body_comes() {
    let limits = LoadLimits { max_concurrent_calls: 1, ..unlimited() };
    let world = World::start(limits).await;
    world.until_idle().await;
    let holder = world.hold();
    let mut client = world.placement.clone();
    let held = tokio::spawn(async move { client.place_batch(batch("held")).await });
    world.until("berth_admission_in_flight{lane=\"decision\"}", |n| n == 1.0).await;
    let response = ask(&world, "filter").await;
    assert!(response.starts_with("http/1.1 429 "), "{response}");
    let retry_after =
        response.split("\r\nretry-after: ").nth(1).and_then(|rest| rest.lines().next());
    assert!(retry_after.is_some_and(|s| s.parse::<u32>().unwrap() >= 1), "{response}");
    holder.release();
    held.await.unwrap().unwrap();
}
