//! `berth serve` as a process: its messages at the start, its end, and its exit status.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::served::{self, FREE_PORTS, get};

/// `berth serve` with these arguments.
fn berth(args: &[&str]) -> Command {
    let mut command = served::berth();
    command.arg("serve").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    http: SocketAddr,
}

impl Running {
    fn start(args: &[&str]) -> Running {
        let mut child = berth(&FREE_PORTS).args(args).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let http =
            line.split("http=").nth(1).unwrap_or_else(|| panic!("{line}")).trim().parse().unwrap();
        Running { child, log, http }
    }

    fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// The next line of the log that holds `text`.
    fn skip_to(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended before `{text}`");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Exit status and the rest of the log.
    fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (status.code(), rest)
    }
}

fn small_cluster(directory: &Path) -> String {
    let path = directory.join("cluster.yaml");
    let text = "kind: List\nitems:\n- kind: Node\n  metadata: {name: n1}\n  status: {allocatable: {cpu: 4, pods: 10}}\n\
                - kind: Node\n  metadata: {name: n2}\n  status: {allocatable: {cpu: lots}}\n";
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn it_loads_serves_and_drains_on_either_signal() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = small_cluster(directory.path());
    for signal in ["-TERM", "-INT"] {
        let mut running = Running::start(&["--cluster", &cluster, "--worker-threads", "1"]);
        let mut loaded = String::new();
        running.log.read_line(&mut loaded).unwrap();
        assert!(loaded.contains("loaded 1 nodes, 0 pods on them"), "{loaded}");
        let mut refused = String::new();
        running.log.read_line(&mut refused).unwrap();
        let expected = format!(
            "refused {cluster}:6 (document 0, item 1): Node `n2`: `status.allocatable[cpu]`: "
        );
        assert!(refused.contains(&expected), "{refused}");
        assert_eq!(get(running.http, "/readyz").await.0, 200);
        running.signal(signal);
        let (status, log) = running.wait();
        assert_eq!(status, Some(0), "{log}");
        assert!(log.contains("drained"), "{log}");
    }
}

#[tokio::test]
async fn hangup_reads_the_files_again() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = small_cluster(directory.path());
    let mut running = Running::start(&["--cluster", &cluster]);
    running.skip_to("refused ");
    let text = "kind: List\nitems:\n- kind: Node\n  metadata: {name: \"n\\nINFO forged\"}\n- kind: Node\n  metadata: {name: n3}\n";
    std::fs::write(&cluster, text).unwrap();
    running.signal("-HUP");
    assert!(running.skip_to("loaded ").contains("loaded 1 nodes"));
    let refused = running.skip_to("refused ");
    assert!(refused.contains("Node `n\\nINFO forged`"), "one line: {refused}");
    assert_eq!(get(running.http, "/readyz").await.0, 200);
    std::fs::remove_file(&cluster).unwrap();
    // A hangup that follows immediately would count as the same one.
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    running.signal("-HUP");
    let line = running.skip_to("ERROR");
    assert!(line.contains("the cluster stays as it was: cannot read"), "{line}");
    assert_eq!(get(running.http, "/readyz").await.0, 200);
    running.signal("-TERM");
    running.signal("-TERM");
    let (status, log) = running.wait();
    assert_eq!(status, Some(0), "two signals at once are one: {log}");
    assert!(log.contains("drained"), "{log}");
}

#[test]
fn a_signal_during_the_load_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nobody writes to the pipe, so the load never ends.
    let running = Running::start(&["--cluster", &pipe.display().to_string()]);
    running.signal("-TERM");
    let (status, log) = running.wait();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("stopped while the cluster was being loaded"), "{log}");
}

#[test]
fn log_lines_can_be_json() {
    let mut child = berth(&FREE_PORTS).args(["--log-format", "json"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&value["level"], &value["message"]), (&"INFO".into(), &"listening".into()));
    assert!(value["grpc"].as_str().unwrap().starts_with("127.0.0.1:"));
}

fn run(args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = berth(args).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    (status.code(), text.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn an_error_is_one_line_and_a_status() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    assert_eq!(
        run(&["--grpc-address", &taken, "--http-address", "127.0.0.1:0"]),
        (
            Some(1),
            format!("berth: cannot listen for gRPC on `{taken}`: the address is already in use")
        )
    );
    let open = run(&["--http-address", "127.0.0.1:0", "--grpc-address", "0.0.0.0:0"]);
    assert_eq!(open.0, Some(1));
    assert!(open.1.contains("gRPC on `0.0.0.0:0`: anybody who reaches it"), "{open:?}");

    let missing = [&FREE_PORTS[..], &["--cluster", "/nonexistent/cluster.json"]].concat();
    assert_eq!(
        run(&missing),
        (Some(1), "berth: cannot read `/nonexistent/cluster.json`: No such file or directory (os error 2)".into())
    );
    let config = run(&["--config", "/nonexistent/berth.yaml"]);
    assert_eq!(config.0, Some(1));
    assert!(config.1.contains("/nonexistent/berth.yaml"), "{config:?}");
    assert_eq!(run(&["--no-such-flag"]).0, Some(2));
    assert_eq!(run(&["--worker-threads", "0"]).0, Some(2));
}
