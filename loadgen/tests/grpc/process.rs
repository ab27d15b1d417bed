//! The program as a process: signals, exit codes, standard output and standard error.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::fake_server::{FakeServer, Faults};

/// Runs the program with `flags`, and sends it SIGINT `n_signals` times after its first placement request.
async fn interrupted(server: &FakeServer, url: &str, flags: &[&str], n_signals: usize) -> Output {
    interrupted_with_stderr(Stdio::piped(), server, url, flags, n_signals).await
}

/// Runs and interrupts the program as [`interrupted`] does, with its standard error redirected to `stderr`.
async fn interrupted_with_stderr(
    stderr: Stdio,
    server: &FakeServer,
    url: &str,
    flags: &[&str],
    n_signals: usize,
) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_berth-loadgen"))
        .args(["run", "--server", url, "--feed", "synthetic", "--nodes", "10", "--mix", "web=1"])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap();
    while server.state().n_place_calls == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..n_signals {
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_run_with_its_report_and_its_pods_released() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let flags = ["--duration", "600", "--assume", "--release", "--concurrency", "2"];
    let output = interrupted(&server, &url, &flags, 1).await;
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let heading = stdout.lines().next().unwrap();
    assert!(heading.contains(", 1 connection, ") && heading.ends_with(", interrupted"), "{stdout}");
    assert!(stderr.starts_with("berth-loadgen: waiting for the requests in flight"), "{stderr}");
    let counts = stdout.lines().skip_while(|line| !line.contains("decisions/s")).nth(1).unwrap();
    let counts: Vec<&str> = counts.split_whitespace().collect();
    let (placed, released) = (counts[1], counts[5]);
    assert!(placed != "0" && placed == released, "{stdout}");
    let is_placed = |name: &&String| name.starts_with("web-");
    assert_eq!(server.state().pods.keys().find(is_placed), None);
}

/// An output to which no byte can be written.
fn full() -> Stdio {
    std::fs::File::options().write(true).open("/dev/full").unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_works_although_standard_error_is_full() {
    let (server, url) = FakeServer::start(Faults::default()).await;
    let flags = ["--duration", "20", "--concurrency", "1"];
    let output = interrupted_with_stderr(full(), &server, &url, &flags, 1).await;
    assert_eq!(output.status.code(), Some(130));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.lines().next().unwrap().ends_with(", interrupted"), "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overload_is_reported_although_standard_error_is_full() {
    let (_server, url) = FakeServer::start(Faults::default()).await;
    let feed = ["--feed", "synthetic", "--nodes", "10", "--pods-per-node", "2", "--zones", "2"];
    let load = ["--rate", "10", "--pods", "2", "--duration", "0.5", "--half-duration", "0.3"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-loadgen"));
    command.args(["overload", "--server", &url, "--assume-pods", "20"]).args(feed).args(load);
    let run = move || command.stderr(full()).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_does_not_wait() {
    let stalls = Some((0, Duration::from_secs(60)));
    let (server, url) = FakeServer::start(Faults { stalls, ..Faults::default() }).await;
    let output = interrupted(&server, &url, &["--concurrency", "1", "--timeout", "60"], 2).await;
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty(), "there was no time for a report");
}

#[test]
fn errors_start_with_the_programs_name_and_have_an_exit_code() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    for (flags, code, message) in [
        (vec!["--bogus"], 2, "unexpected argument '--bogus' found"),
        (vec!["--connections", "0"], 2, "invalid value '0' for '--connections"),
        (vec!["--concurrency", "0"], 2, "`--concurrency`: must be between 1 and 100,000"),
        (vec![], 1, "server `http://127.0.0.1:"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth-loadgen"));
        let output = command.args(["run", "--server", &url]).args(&flags).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with(&format!("berth-loadgen: {message}")), "{flags:?}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{flags:?}");
    }
}
