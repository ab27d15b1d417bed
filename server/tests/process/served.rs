//! Runs the built binary: starts it, reads its log, sends it signals, waits for its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Time limit of a wait, long because the machine may be slow and loaded.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Arguments that let the system choose both ports.
pub(crate) const FREE_PORTS: [&str; 4] =
    ["--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"];

/// `berth` without the `BERTH_` variables of the tests and their caller.
pub(crate) fn berth() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_berth")))
}

/// `berth serve` on free ports.
pub(crate) fn serve() -> Command {
    let mut command = berth();
    command.arg("serve").args(FREE_PORTS).args(["--worker-threads", "2"]);
    command
}

/// `berth serve` on free ports after some lines of shell, which set limits or traps.
pub(crate) fn serve_after(script: &str) -> Command {
    let mut command = berth_after(script);
    command.arg("serve").args(FREE_PORTS).args(["--worker-threads", "2"]);
    command
}

/// `berth` after some lines of shell.
pub(crate) fn berth_after(script: &str) -> Command {
    let mut command = clean(Command::new("sh"));
    let script = format!("{script}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_berth")]);
    command
}

fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BERTH_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command that ends by itself; returns its exit status and standard error.
pub(crate) fn ended(command: &mut Command) -> (Option<i32>, String) {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = Log::of(&mut child);
    let status = wait(&mut child, &log);
    (status, log.rest())
}

fn wait(child: &mut Child, log: &Log) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > PATIENCE {
            drop(child.kill());
            panic!("it does not end:\n{}", log.text());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Standard error, read continuously, because the process would otherwise wait for a reader.
struct Log {
    text: Arc<Mutex<String>>,
    reading: std::thread::JoinHandle<()>,
}

impl Log {
    fn of(child: &mut Child) -> Log {
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let text = Arc::new(Mutex::new(String::new()));
        let shared = text.clone();
        let reading = std::thread::spawn(move || {
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
            drop(stderr.read(&mut [0]));
        });
        Log { text, reading }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// The whole text, once the process has ended.
    fn rest(self) -> String {
        self.reading.join().unwrap();
        Arc::into_inner(self.text).unwrap().into_inner().unwrap()
    }
}

/// A process that does not outlive its test, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Most processes have ended by now.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A running server that listens.
pub(crate) struct Served {
    child: Process,
    log: Log,
    pub(crate) url: String,
    pub(crate) http: SocketAddr,
}

impl Served {
    /// Waits until it says where it listens.
    pub(crate) fn start(command: &mut Command) -> Served {
        let child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut child = Process(child);
        let log = Log::of(&mut child.0);
        let address = |log: &str, name: &str| {
            let found = log.split(name).nth(1)?.split_whitespace().next()?;
            found.trim_matches('"').parse::<SocketAddr>().ok()
        };
        let start = Instant::now();
        loop {
            let text = log.text();
            if let (Some(grpc), Some(http)) = (address(&text, "grpc="), address(&text, "http=")) {
                return Served { child, log, url: format!("http://{grpc}"), http };
            }
            assert!(child.0.try_wait().unwrap().is_none(), "it ended:\n{}", log.rest());
            assert!(start.elapsed() < PATIENCE, "it does not listen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_none()
    }

    /// Waits for a line that holds `text`.
    pub(crate) fn wait_for(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < PATIENCE, "`{text}` is not in\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        // A process that has ended meanwhile cannot be signalled, and need not be.
        Command::new("kill").args([name, &pid]).stderr(Stdio::null()).status().unwrap();
    }

    /// Exit status and the whole log.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let status = wait(&mut self.child.0, &self.log);
        (status, self.log.rest())
    }

    /// Sends SIGTERM; the server has to drain and end successfully.
    pub(crate) fn stop(self) -> String {
        self.signal("-TERM");
        let (status, log) = self.wait();
        assert_eq!(status, Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Status code and body of a GET.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        get(self.http, path).await
    }

    /// Gets `path` until its body is as wanted.
    pub(crate) async fn eventually(&self, path: &str, wanted: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let (_, body) = self.get(path).await;
            if wanted(&body) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{path} stays\n{body}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Status code and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(address, &request).await
}

/// Sends a whole HTTP request that closes its connection, and returns the response's status code and body.
pub(crate) async fn exchange(address: SocketAddr, request: &str) -> (u16, String) {
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A cluster of one node that takes a hundred pods, in a file.
pub(crate) fn cluster_file(directory: &Path) -> String {
    let path = directory.join("cluster.yaml");
    let text = "kind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 100, memory: 100Gi, pods: 100}}\n";
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}
