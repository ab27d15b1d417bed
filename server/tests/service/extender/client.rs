//! An HTTP client like kube-scheduler's: POST with `Content-Length`, and nothing else.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The text of `Error`, which must be the only member.
    pub(crate) fn error(&self) -> String {
        let Value::Object(members) = self.json() else { panic!("{}", self.text()) };
        assert_eq!(members.keys().collect::<Vec<_>>(), ["Error"], "{}", self.text());
        members["Error"].as_str().unwrap().to_owned()
    }
}

/// Sends a body to a verb of the extender.
pub(crate) async fn post(address: SocketAddr, verb: &str, body: &[u8]) -> Reply {
    let head = format!(
        "POST /extender/{verb} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Go-http-client/1.1\r\n\
         Content-Length: {}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body).await.unwrap();
    read(connection).await.expect("an answer")
}

/// Sends bytes unchanged and returns the response; `None` if there is none.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(bytes).await.unwrap();
    read(connection).await
}

/// Reads until the server closes the connection.
pub(crate) async fn read(mut connection: TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.ok()?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let status = std::str::from_utf8(&bytes[..end]).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { status, body: bytes[end + 4..].to_vec() })
}
