//! An HTTP server that responds to requests for pods with given responses, in order, byte for byte as recorded.
//!
//! Lists of all other kinds are empty. After the last response, requests for pods are kept waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// An HTTP response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Chunks of the chunked transfer coding.
    pub(crate) chunks: Vec<String>,
    pub(crate) ending: Ending,
}

/// End of a response.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With the closing chunk.
    Proper,
    /// The connection is closed without the closing chunk.
    Cut,
    /// The response stays open.
    Open,
}

impl Response {
    /// A stream of these lines that stays open.
    pub(crate) fn lines(lines: &[&str]) -> Response {
        Response {
            status: 200,
            headers: Vec::new(),
            chunks: lines.iter().map(|line| format!("{line}\n")).collect(),
            ending: Ending::Open,
        }
    }
}

pub(crate) struct Replay {
    address: std::net::SocketAddr,
    script: Arc<Mutex<Script>>,
    listening: JoinHandle<()>,
}

struct Script {
    answers: VecDeque<Response>,
    /// Targets of the requests for pods.
    targets: Vec<String>,
}

impl Replay {
    pub(crate) async fn start(answers: Vec<Response>) -> Replay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script { answers: answers.into(), targets: Vec::new() }));
        let shared = script.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Replay { address, script, listening }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: r\n\
             clusters: [{{name: r, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: r, user: {{}}}}]\ncontexts: [{{name: r, context: {{cluster: r, user: r}}}}]\n",
            self.address
        )
    }

    /// Returns the targets of all requests for pods so far, in order.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.script.lock().unwrap().targets.clone()
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    while let Some(target) = read_request(&mut stream).await {
        let answer = match target.starts_with("/api/v1/pods?") {
            true => {
                let mut script = script.lock().unwrap();
                script.targets.push(target);
                script.answers.pop_front()
            }
            false => Some(empty()),
        };
        let Some(answer) = answer else { return std::future::pending().await };
        match write_answer(&mut stream, &answer).await {
            Some(Ending::Proper) => {}
            Some(Ending::Open) => return std::future::pending().await,
            Some(Ending::Cut) | None => return,
        }
    }
}

fn empty() -> Response {
    Response::lines(&[
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    ])
}

/// The target of the next request, which has no body.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    Some(head.split(' ').nth(1).unwrap().to_owned())
}

async fn write_answer(stream: &mut TcpStream, answer: &Response) -> Option<Ending> {
    let mut head = format!("HTTP/1.1 {} Recorded\r\nTransfer-Encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    for chunk in answer.chunks.iter().filter(|chunk| !chunk.is_empty()) {
        let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        stream.write_all(chunk.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
    if answer.ending == Ending::Proper {
        stream.write_all(b"0\r\n\r\n").await.ok()?;
    }
    Some(answer.ending)
}
