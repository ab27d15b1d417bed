//! Output that cannot be written: the exit status of a command says so, and no command panics.

use std::process::{Command, Stdio};

use crate::served::{Served, berth_after, cluster_file, serve};

/// Runs a command in a shell with redirections; returns its status, and its standard error unless that is redirected.
fn run(redirection: &str, arguments: &str) -> (Option<i32>, String) {
    let script = format!("\"$0\" {arguments} {redirection}");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_berth")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let pods = directory.path().join("pods.yaml");
    std::fs::write(
        &pods,
        "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\nstatus: {phase: Running}\n",
    )
    .unwrap();
    let pods = pods.display();
    for arguments in [
        format!("place --cluster {cluster} {pods}"),
        format!("place --cluster {cluster} -o json {pods}"),
        format!("explain --cluster {cluster} {pods}"),
        format!("preempt --cluster {cluster} {pods}"),
        format!("headroom --cluster {cluster} {pods}"),
        format!("drain --cluster {cluster} n1"),
        format!("lifecycle qos {pods}"),
        format!("lifecycle phase -o yaml {pods}"),
        "--help".to_owned(),
        "serve --help".to_owned(),
        "--version".to_owned(),
    ] {
        let (usual, log) = run(">/dev/null", &arguments);
        assert!(matches!(usual, Some(0)), "{arguments}: {usual:?} {log}");
        let (full, log) = run(">/dev/full", &arguments);
        assert_eq!(full, Some(1), "{arguments}: {log}");
        assert!(log.contains("cannot write the output: No space left on device"), "{log}");
        // A reader that closes its end has read what it wanted.
        let (gone, log) = run("| true", &arguments);
        assert_eq!((gone, &*log), (Some(0), ""), "{arguments}");
        for closed in [">&-", "2>&-", ">&- 2>&-", ">/dev/full 2>/dev/full", "2>/dev/full"] {
            let (status, log) = run(closed, &arguments);
            let expected = if closed.contains(">/dev/full 2") { Some(1) } else { Some(0) };
            assert_eq!(status, expected, "{arguments} {closed}");
            assert!(!log.contains("panicked"), "{arguments} {closed}: {log}");
        }
    }
}

/// The exit status reports an error whose message cannot be written.
#[test]
fn an_error_that_cannot_be_written_is_in_the_status() {
    for (arguments, expected) in [("place --cluster /nowhere x.yaml", 1), ("--bogus", 2)] {
        for redirection in ["2>/dev/full", "2>&-", "2>/dev/null"] {
            let (status, _) = run(redirection, arguments);
            assert_eq!(status, Some(expected), "{arguments} {redirection}");
        }
    }
}

/// Only the log lines are lost. The log cannot show the address on a full disk, so a first server finds a free one and
/// stops.
#[tokio::test]
async fn a_server_whose_log_cannot_be_written_serves() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_file(directory.path());
    let first = Served::start(&mut serve());
    let (grpc, http) = (first.url.trim_start_matches("http://").to_owned(), first.http);
    first.stop();
    let mut child = berth_after("exec 2>/dev/full")
        .args([
            "serve",
            "--grpc-address",
            &grpc,
            "--http-address",
            &http.to_string(),
            "--cluster",
            &cluster,
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    while tokio::net::TcpStream::connect(http).await.is_err() {
        assert!(start.elapsed() < crate::served::PATIENCE, "it does not listen");
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let kill = |name: &str| {
        Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    };
    // Each of these signals is logged.
    kill("-HUP");
    kill("-TERM");
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}
