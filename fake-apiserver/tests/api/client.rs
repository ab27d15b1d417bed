//! A server with a low-level client: one connection a request, and every chunk visible.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use berth_fake_apiserver::{FakeApiServer, Options, Store};
use serde_json::Value;

pub(crate) struct World {
    // Dropped before the runtime on which it runs.
    pub(crate) server: FakeApiServer,
    runtime: tokio::runtime::Runtime,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) json: Value,
}

/// Next part of a stream.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Line(String),
    /// The end with the closing chunk.
    End,
    /// The end without the closing chunk; an incomplete line is dropped.
    Cut,
    /// Nothing before the timeout.
    Silence,
}

pub(crate) struct Stream {
    pub(crate) status: u16,
    reader: BufReader<TcpStream>,
    buffer: Vec<u8>,
    /// Sizes of the received chunks.
    pub(crate) chunks: Vec<usize>,
}

impl World {
    pub(crate) fn start() -> World {
        World::start_with(Options::default())
    }

    pub(crate) fn start_with(options: Options) -> World {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(FakeApiServer::start(options)).unwrap();
        World { server, runtime }
    }

    /// Restarts the server at its address, with its store.
    pub(crate) fn restart(self) -> World {
        let World { server, runtime } = self;
        let (listen, store) = (server.address(), server.store().clone());
        drop(server);
        let options = Options { listen, ..Options::default() };
        // The old listener's task ends asynchronously.
        for _ in 0..100 {
            match runtime.block_on(FakeApiServer::start_with(options.clone(), store.clone())) {
                Ok(server) => return World { server, runtime },
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("the address stays taken")
    }

    pub(crate) fn store(&self) -> &Store {
        self.server.store()
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.request("GET", target, "", "").unwrap()
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Response {
        self.request("POST", target, "application/json", body).unwrap()
    }

    pub(crate) fn put(&self, target: &str, body: &str) -> Response {
        self.request("PUT", target, "application/json", body).unwrap()
    }

    pub(crate) fn delete(&self, target: &str, body: &str) -> Response {
        self.request("DELETE", target, "application/json", body).unwrap()
    }

    /// Sends a patch of the form `how`: `merge`, `strategic-merge` or `json`.
    pub(crate) fn patch(&self, how: &str, target: &str, body: &str) -> Response {
        let media_type = match how {
            "json" => "application/json-patch+json".to_owned(),
            how => format!("application/{how}-patch+json"),
        };
        self.request("PATCH", target, &media_type, body).unwrap()
    }

    /// Sends a request; an error if the connection ends before the response.
    pub(crate) fn request(
        &self,
        method: &str,
        target: &str,
        media_type: &str,
        body: &str,
    ) -> std::io::Result<Response> {
        let headers = [("Accept", "application/json"), ("Content-Type", media_type)];
        self.send(method, target, &headers, body)
    }

    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Response> {
        let mut stream = TcpStream::connect(self.server.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n");
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(head.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader)?;
        let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let mut body = Vec::new();
        if is_chunked {
            while let Some(chunk) = read_chunk(&mut reader)? {
                body.extend(chunk);
            }
        } else {
            reader.read_to_end(&mut body)?;
        }
        let body = String::from_utf8(body).unwrap();
        let json = serde_json::from_str(&body).unwrap_or_default();
        Ok(Response { status, headers, body, json })
    }

    /// Starts a watch.
    pub(crate) fn watch(&self, target: &str) -> Stream {
        let mut stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: fake\r\nAccept: application/json\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader).unwrap();
        Stream { status, reader, buffer: Vec::new(), chunks: Vec::new() }
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Stream {
    /// Waits up to `timeout` for the next line or the end of the stream.
    pub(crate) fn next(&mut self, timeout: Duration) -> Next {
        self.reader.get_ref().set_read_timeout(Some(timeout)).unwrap();
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Next::Line(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            match read_chunk(&mut self.reader) {
                Ok(Some(chunk)) => {
                    self.chunks.push(chunk.len());
                    self.buffer.extend(chunk);
                }
                Ok(None) => return Next::End,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Next::Silence;
                }
                Err(_) => return Next::Cut,
            }
        }
    }

    /// The next event.
    pub(crate) fn event(&mut self) -> Value {
        match self.next(Duration::from_secs(20)) {
            Next::Line(line) => serde_json::from_str(&line).unwrap(),
            other => panic!("{other:?} instead of an event"),
        }
    }

    /// The next event that is not a bookmark, as `TYPE name version`.
    pub(crate) fn event_text(&mut self) -> String {
        loop {
            let event = self.event();
            if event["type"] != "BOOKMARK" {
                return event_text(&event);
            }
        }
    }

    /// All events up to the end of the stream, and that end.
    pub(crate) fn rest(&mut self) -> (Vec<Value>, Next) {
        let mut events = Vec::new();
        loop {
            match self.next(Duration::from_secs(20)) {
                Next::Line(line) => events.push(serde_json::from_str(&line).unwrap()),
                end => return (events, end),
            }
        }
    }
}

/// The event as `TYPE name version`.
pub(crate) fn event_text(event: &Value) -> String {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {}",
        text(&event["type"]),
        text(&metadata["name"]),
        text(&metadata["resourceVersion"])
    )
}

fn read_head(reader: &mut BufReader<TcpStream>) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let status = read_line(reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap();
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else { return Ok((status, headers)) };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
}

/// Reads a chunk; `None` is the closing chunk.
fn read_chunk(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let size = read_line(reader)?;
    let size = usize::from_str_radix(&size, 16).map_err(|_| ErrorKind::InvalidData)?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

fn read_line(reader: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}
