//! Log lines of the binary in JSON: each is an object, whatever happens.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};

use berth_server::telemetry::{LogFormat, start_logging};
use serde_json::{Value, json};

use crate::served::{self, FREE_PORTS, exchange};

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PANIC: &str = "log::a_panic_is_one_line";

/// `berth serve` with these arguments, its log lines in JSON.
fn berth(args: &[&str]) -> Child {
    served::berth()
        .args(["serve", "--log-format", "json"])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sends `body` to the extender's verb `filter`; `headers` are lines that end in CRLF.
async fn post_filter(http: SocketAddr, headers: &str, body: &Value) {
    let body = body.to_string();
    let head = "POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let request = format!("{head}{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    exchange(http, &request).await;
}

/// Parses a line, which has to be an object with the members that every line has.
fn object(line: &str) -> Value {
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    for key in ["time", "level", "target", "message"] {
        assert!(value[key].is_string(), "no `{key}`: {line}");
    }
    value
}

fn next(log: &mut BufReader<ChildStderr>) -> Value {
    let mut line = String::new();
    assert!(log.read_line(&mut line).unwrap() > 0, "the log ended");
    object(&line)
}

/// Returns the next line of a `filter` call; on a busy machine the server may log other lines before it.
fn next_of_filter(log: &mut BufReader<ChildStderr>) -> Value {
    loop {
        let line = next(log);
        if line["verb"] == "filter" {
            return line;
        }
    }
}

#[tokio::test]
async fn every_line_is_an_object_and_those_of_a_call_name_its_trace() {
    let mut child = berth(&FREE_PORTS);
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let listening = next(&mut log);
    assert_eq!((&listening["level"], &listening["message"]), (&"INFO".into(), &"listening".into()));
    let http: SocketAddr = listening["http"].as_str().unwrap().parse().unwrap();
    let parent = format!("Traceparent: 00-{TRACE_ID}-00f067aa0ba902b7-01\r\n");
    post_filter(http, &parent, &json!({"line\nbreak": "\u{1b}[31m"})).await;
    let failed = next_of_filter(&mut log);
    assert_eq!(failed["level"], "WARN");
    assert_eq!(failed["trace_id"], TRACE_ID);
    let span_id = failed["span_id"].as_str().unwrap();
    assert!(span_id.len() == 16 && span_id.chars().all(|c| c.is_ascii_hexdigit()), "{failed}");
    post_filter(http, "", &json!({})).await;
    assert_eq!(next_of_filter(&mut log)["trace_id"], Value::Null);

    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(rest.lines().map(object).any(|line| line["message"] == "drained"), "{rest}");
}

#[test]
fn why_the_program_ends_is_an_object_too() {
    let missing = [&FREE_PORTS[..], &["--cluster", "/nonexistent/cluster.json"]].concat();
    let output = berth(&missing).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = text.lines().map(object).collect();
    let last = &lines[lines.len() - 1];
    assert_eq!(last["level"], "ERROR");
    let message = last["message"].as_str().unwrap();
    assert!(message.starts_with("cannot read `/nonexistent/cluster.json`"), "{message}");
}

/// Panics on a thread and logs on; [`a_panic_is_one_line`] runs it in a process of its own.
fn panic_and_go_on() {
    start_logging(LogFormat::Json);
    let thread = std::thread::spawn(|| panic!("on\npurpose, {}", 7));
    assert!(thread.join().is_err());
    tracing::info!("and goes on");
}

#[test]
fn a_panic_is_one_line() {
    if std::env::var_os("BERTH_TEST_PANICS").is_some() {
        return panic_and_go_on();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", PANIC, "--nocapture"])
        .env("BERTH_TEST_PANICS", "1")
        .env_remove("BERTH_LOG")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = text.lines().map(object).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["level"], "ERROR");
    assert_eq!(lines[0]["message"], "a thread panicked: on\\npurpose, 7");
    assert!(lines[0]["location"].as_str().unwrap().contains("process/log.rs:"), "{text}");
    assert_eq!(lines[1]["message"], "and goes on");
}
