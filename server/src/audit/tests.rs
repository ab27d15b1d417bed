use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use tonic::Code;

use super::*;
use crate::auth::{Caller, Roles};

/// Time limit that suffices for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(path: &Path, max_waiting: usize) -> Audit {
    let target = Some(AuditTarget::File(path.to_owned()));
    Audit::start(&AuditOptions { target, max_waiting }, true).unwrap()
}

/// Makes a call that changes something, from its beginning to its end.
fn call(audit: &Audit, id: &str) -> Result<(), ChangeError> {
    let changes = audit.changes().unwrap();
    changes.begin()?;
    audit.record(&changes, || line(id));
    Ok(())
}

fn line(id: &str) -> Line {
    let caller = Arc::new(Caller::unauthenticated(Roles::ALL));
    let elapsed = Duration::from_micros(1_234);
    Line { request_id: Some(id.into()), ..Line::new(caller, "/a/B", Code::Ok as i32, elapsed) }
}

/// The ids of the lines in a file, each of which must be whole.
fn ids(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let id = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["requestId"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_line_has_caller_method_and_outcome() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let audit = start(&path, 8);
    call(&audit, "a\n\"b\"\u{1b}").unwrap();
    audit.close(PATIENCE).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with("}\n") && text.trim_end().lines().count() == 1, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let mut line: Value = serde_json::from_str(&text).unwrap();
    let time = line["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    let expected = serde_json::json!({
        "time": null, "user": "anonymous", "means": "nothing", "method": "/a/B", "code": "OK",
        "roles": ["reader", "scheduler", "feeder", "lifecycle", "replica", "admin"],
        "elapsedMs": 1.234, "requestId": "a\n\"b\"\u{1b}",
    });
    assert_eq!(line, expected);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // After the end, a further call does not wait.
    call(&audit, "late").unwrap();
}

#[tokio::test]
async fn only_begun_and_denied_changes_have_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let audit = start(&path, 8);
    audit.record(&audit.changes().unwrap(), || line("reads"));
    let denied = audit.changes().unwrap();
    denied.note_denied();
    audit.record(&denied, || line("denied"));
    let stream = audit.changes().unwrap();
    for _ in 0..3 {
        stream.begin().unwrap();
    }
    // A change that has begun stays reported.
    stream.note_denied();
    audit.record(&stream, || line("stream"));
    assert_eq!(stream.begin(), Err(ChangeError::CallEnded));
    audit.record(&stream, || line("twice"));
    audit.close(PATIENCE).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ids(&text), ["denied", "stream"]);
    assert!(text.lines().last().unwrap().contains("\"changes\":3"), "{text}");
}

/// Records go into a pipe that nobody reads: once it is full, no call that changes something is admitted; and once it
/// is read, the lines of all admitted calls are there.
#[tokio::test]
async fn a_full_queue_keeps_calls_out_and_loses_none() {
    const MAX_WAITING: usize = 16;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for reading and writing, the pipe waits for no other end.
    let mut pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let audit = start(&path, MAX_WAITING);
    let long = "x".repeat(16 << 10);
    let mut n_let_through = 0;
    let refused = loop {
        match call(&audit, &format!("{n_let_through}-{long}")) {
            Ok(()) => n_let_through += 1,
            Err(error) => break error,
        }
        // The pipe holds 64 KiB, and slots of lines beyond that are not released.
        assert!(n_let_through <= MAX_WAITING + 4, "nothing is ever refused");
    };
    assert!(matches!(refused, ChangeError::QueueFull { .. }), "{refused:?}");
    assert!(audit.fault().is_none());
    // The line of a call that changed nothing is dropped then: only the slots of lines in the pipe can be free.
    let denied = audit.changes().unwrap();
    denied.note_denied();
    audit.record(&denied, || line("denied"));

    let reading = std::thread::spawn(move || {
        let (mut text, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
        while text.iter().filter(|byte| **byte == b'\n').count() < n_let_through {
            let n = pipe.read(&mut bytes).unwrap();
            text.extend_from_slice(&bytes[..n]);
        }
        String::from_utf8(text).unwrap()
    });
    let text = tokio::task::spawn_blocking(move || reading.join().unwrap()).await.unwrap();
    let expected: Vec<_> = (0..n_let_through).map(|n| format!("{n}-{long}")).collect();
    assert_eq!(ids(&text), expected);
    eventually("there is room again", || audit.queue.as_ref().unwrap().n_taken() == 0);
    assert!(call(&audit, "again").is_ok());
}

/// The file is on a full disk, until it is replaced by one that can be written.
#[tokio::test]
async fn changes_are_refused_while_the_file_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let (path, room) = (directory.path().join("audit.log"), directory.path().join("room"));
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let audit = start(&path, 8);
    call(&audit, "first").unwrap();
    eventually("the fault is noticed", || audit.fault().is_some());
    let fault = audit.fault().unwrap();
    assert!(fault.starts_with("the audit log cannot be written: No space left"), "{fault}");
    assert_eq!(call(&audit, "refused"), Err(ChangeError::LogUnwritable));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&room, &path).unwrap();
    eventually("it is written again", || audit.fault().is_none());
    call(&audit, "second").unwrap();
    audit.close(PATIENCE).await;
    assert_eq!(ids(&std::fs::read_to_string(&room).unwrap()), ["first", "second"]);
}

#[tokio::test]
async fn reopening_leaves_a_renamed_file_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (path, old) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
    let audit = start(&path, 8);
    call(&audit, "old").unwrap();
    std::fs::rename(&path, &old).unwrap();
    call(&audit, "old too").unwrap();
    audit.reopen();
    call(&audit, "new").unwrap();
    audit.close(PATIENCE).await;
    let read = |path: &Path| ids(&std::fs::read_to_string(path).unwrap());
    assert_eq!(
        (read(&old), read(&path)),
        (vec!["old".to_owned(), "old too".to_owned()], vec!["new".to_owned()])
    );
}

#[test]
fn lines_are_wanted_where_they_have_a_place_or_callers_are_known() {
    let options = AuditOptions::default();
    assert!(Audit::start(&options, true).unwrap().changes().is_none());
    assert!(Audit::start(&options, false).unwrap().changes().is_some());
    let target = Some(AuditTarget::File("/nonexistent/audit.log".into()));
    let Err(error) = Audit::start(&AuditOptions { target, ..options }, false) else {
        panic!("it was opened");
    };
    let text = error.to_string();
    assert!(text.starts_with("cannot write the audit log `/nonexistent/audit.log`: No such file"));
    assert!(text.contains("--audit-log"), "{text}");
}
