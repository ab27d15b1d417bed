//! The program: its output, its server and its errors.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_berth-fake-apiserver");

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn it_serves_the_given_objects() {
    let kubeconfig =
        std::env::temp_dir().join(format!("berth-fake-{}.kubeconfig", std::process::id()));
    let mut child = Command::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0", "--nodes", "2", "--pods", "3", "--kubeconfig-out"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _running = Running(child);
    let line = lines.map(Result::unwrap).find(|line| line.contains("http://")).unwrap();
    let (counts, address) = line.split_once(" at http://").unwrap();
    assert_eq!(counts, "2 nodes, 3 pods");
    let written = std::fs::read_to_string(&kubeconfig).unwrap();
    std::fs::remove_file(&kubeconfig).unwrap();
    assert!(written.contains(&format!("server: http://{address}\n")), "{written}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /api/v1/pods HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("pod-000002"), "{answer}");
}

#[test]
fn an_error_is_one_line() {
    for (args, expected) in [
        (["--cluster", "/none.json"], "`/none.json` cannot be read: No such file"),
        (
            ["--listen", "192.0.2.1:1"],
            "cannot listen on `192.0.2.1:1`; choose another with --listen",
        ),
    ] {
        let output = Command::new(PROGRAM).args(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(text.starts_with("berth-fake-apiserver: ") && text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
