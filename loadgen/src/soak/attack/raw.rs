//! Connections that speak HTTP/2 by hand, and badly (RFC 9113). Only for servers without TLS.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The connection preface with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_HEADERS: u8 = 4;

/// Messages to `Place` that announce 4 MiB and never come whole, on streams of one connection after the other.
pub(super) async fn half_messages(address: &str, token: Option<String>, until: Instant) -> usize {
    let mut n_connections = 0;
    while Instant::now() < until {
        let Ok(mut connection) = open(address).await else { return n_connections };
        n_connections += 1;
        let headers = headers("/berth.v1.PlacementService/Place", token.as_deref());
        // A flag, the length, and the beginning of a field that no message has.
        let mut message = vec![0, 0, 0x40, 0, 0, 0xfa, 0xff, 0x01, 0xff, 0xff, 0xff, 0x01];
        message.resize(8 << 10, 7);
        for stream in (1..200).step_by(2) {
            let mut frames = frame(HEADERS, END_HEADERS, stream, &headers);
            frames.extend(frame(DATA, 0, stream, &message));
            if !matches!(timeout_at(until, connection.write_all(&frames)).await, Ok(Ok(()))) {
                break;
            }
        }
        let pause = until.min(Instant::now() + Duration::from_secs(3));
        drain(&mut connection, pause).await;
    }
    n_connections
}

/// Connections that send the preface and never call, as many as there are to be had.
pub(super) async fn idle_connections(address: &str, until: Instant) -> usize {
    const MOST: usize = 600;
    let mut open_ones = Vec::new();
    while open_ones.len() < MOST && Instant::now() < until {
        let Ok(connection) = open(address).await else { break };
        open_ones.push(connection);
    }
    sleep_until(until).await;
    open_ones.len()
}

/// PINGs and empty settings as fast as they go; connections that are cut are opened anew.
pub(super) async fn control_frames(address: &str, until: Instant) -> usize {
    let pings = frame(PING, 0, 0, &[7; 8]).repeat(500);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(500);
    let mut n_connections = 0;
    while Instant::now() < until {
        let Ok(connection) = open(address).await else { return n_connections };
        n_connections += 1;
        let (mut reader, mut writer) = connection.into_split();
        let flooding = async {
            while writer.write_all(&pings).await.is_ok()
                && writer.write_all(&settings).await.is_ok()
            {}
        };
        let reading = async {
            let mut buffer = vec![0; 16 << 10];
            while reader.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        let both = async {
            tokio::select! {
                () = flooding => {}
                () = reading => {}
            }
        };
        drop(timeout_at(until, both).await);
    }
    n_connections
}

async fn open(address: &str) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(PREFACE).await?;
    Ok(connection)
}

/// Reads until the end or the time, so that the server's answers do not block it.
async fn drain(connection: &mut TcpStream, until: Instant) {
    let mut buffer = vec![0; 16 << 10];
    while matches!(timeout_at(until, connection.read(&mut buffer)).await, Ok(Ok(1..))) {}
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    // Every payload here is far shorter than the largest frame.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn headers(path: &str, token: Option<&str>) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "berth"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        header(&mut headers, name, value);
    }
    if let Some(token) = token {
        header(&mut headers, "authorization", &format!("Bearer {token}"));
    }
    headers
}

/// A literal header without indexing (RFC 7541, section 6.2.2). Names and values are shorter than 127 bytes.
fn header(headers: &mut Vec<u8>, name: &str, value: &str) {
    headers.push(0);
    for text in [name, value] {
        headers.push(u8::try_from(text.len().min(126)).unwrap_or(126));
        headers.extend(text.bytes().take(126));
    }
}
