//! Command scripts: `cli/*.txt` hold commands and their expected output. `BERTH_UPDATE=1` writes the actual output.
//!
//! A line `$ [NAME=VALUE] berth ARGUMENTS [< FILE]` is a command, run in `data/`; the lines up to the next blank,
//! comment or command are its output: standard output, then standard error marked with `! `, then `[status N]` when it
//! is not 0.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_engine::KubernetesVersion;
use berth_proto::berth_v1::SessionServiceOpenRequest;
use berth_server::feed::file::{self, UnknownFields};
use berth_server::policy::Profiles;
use berth_server::runtime::{Limits, Server, ServerOptions, SessionLimits};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Runs one command line and returns its output in the form of the scripts.
fn run(line: &str) -> String {
    let (line, input) = match line.split_once(" < ") {
        Some((line, file)) => (line, Some(file.trim())),
        None => (line, None),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command.current_dir(tests().join("data")).env_clear().stdin(Stdio::null());
    if let Some(file) = input {
        command.stdin(fs::File::open(tests().join("data").join(file)).expect("the input file"));
    }
    let mut words = line.split_whitespace();
    for word in words.by_ref() {
        match word.split_once('=') {
            Some((name, value)) => command.env(name, value),
            None => break,
        };
    }
    let output = command.args(words).output().expect("the command runs");
    let mut text = String::from_utf8(output.stdout).expect("UTF-8");
    for line in String::from_utf8(output.stderr).expect("UTF-8").lines() {
        text += format!("! {line}").trim_end();
        text += "\n";
    }
    match output.status.code() {
        Some(0) => {}
        code => {
            text += &format!(
                "[status {}]\n",
                code.map_or_else(|| "signal".to_owned(), |code| code.to_string())
            )
        }
    }
    text
}

fn check(name: &str) {
    let path = tests().join("process/cli").join(name);
    let script = fs::read_to_string(&path).expect("the script");
    let mut expected = String::new();
    let mut in_output = false;
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            // Tables separate sections by blank lines, so a command's output ends at the next command or comment.
            expected.truncate(expected.trim_end().len());
            expected += if expected.is_empty() { "" } else { "\n\n" };
            if expected.ends_with("\n\n") && last_line(&expected).starts_with('#') {
                expected.truncate(expected.len() - 1);
            }
            expected += &format!("{line}\n{}", run(command));
            in_output = true;
        } else if line.starts_with('#') {
            expected.truncate(expected.trim_end().len());
            expected += if expected.is_empty() { "" } else { "\n\n" };
            expected += &format!("{line}\n");
            in_output = false;
        } else if !in_output {
            expected += &format!("{line}\n");
        }
    }
    expected.truncate(expected.trim_end().len());
    expected += "\n";
    if std::env::var_os("BERTH_UPDATE").is_some() {
        fs::write(&path, &expected).expect("the script can be written");
    } else if script != expected {
        let changed =
            script.lines().zip(expected.lines()).position(|(old, new)| old != new).unwrap_or(0);
        panic!("{name} differs from line {} on; the commands print:\n{expected}", changed + 1);
    }
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or("")
}

#[test]
fn place() {
    check("place.txt");
}

#[test]
fn explain() {
    check("explain.txt");
}

#[test]
fn preempt() {
    check("preempt.txt");
}

#[test]
fn headroom() {
    check("headroom.txt");
}

#[test]
fn consolidate() {
    check("consolidate.txt");
}

#[test]
fn scale_up() {
    check("scale-up.txt");
}

#[test]
fn fit() {
    check("fit.txt");
}

#[test]
fn scale_in() {
    check("scale-in.txt");
}

#[test]
fn drain() {
    check("drain.txt");
}

#[test]
fn what_if() {
    check("what-if.txt");
}

#[test]
fn workloads() {
    check("workloads.txt");
}

#[test]
fn errors() {
    check("errors.txt");
}

#[test]
fn config() {
    check("config.txt");
}

#[test]
fn conformance() {
    check("conformance.txt");
}

#[test]
fn lifecycle() {
    check("lifecycle.txt");
}

#[test]
fn strict() {
    check("strict.txt");
}

#[test]
fn rule() {
    check("rule.txt");
}

/// A server with the objects of this dump, and its URL.
async fn serve(dump: &str, options: ServerOptions) -> (Server, String) {
    let server = Server::start(options).await.expect("free ports");
    server.load(
        file::read(&tests().join("data").join(dump), UnknownFields::Refuse).expect("the dump"),
    );
    let url = format!("http://{}", server.grpc_address());
    (server, url)
}

/// A server with the same dump and the same rule for ties gives the same text as the engine in process.
async fn check_alike(dump: &str, url: &str, command: &str) -> String {
    let command = format!("berth {command} --tie-break lexicographic");
    let local = command.replace("TARGET", &format!("--cluster {dump}"));
    let remote = command.replace("TARGET", &format!("--server {url}"));
    let (local, remote) =
        tokio::task::spawn_blocking(move || (run(&local), run(&remote))).await.expect("both run");
    assert_eq!(local, remote, "{command}");
    local
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_answers_as_a_file_does() {
    let (server, url) = serve("cluster.yaml", ServerOptions::default()).await;
    for command in [
        "place TARGET pods.yaml",
        "place TARGET --replicas 4 web.yaml",
        "explain TARGET web.yaml",
        "place TARGET web.yaml web.yaml",
        "place TARGET bad-pods.yaml",
        "place TARGET --gang --replicas 3 web.yaml",
        "place TARGET --gang --min 2 pods.yaml",
        "place TARGET --gang --min 100 --replicas 2 web.yaml",
        "preempt TARGET web.yaml",
        "headroom TARGET web.yaml --limit 5",
        "headroom TARGET -f web.yaml --node a1 --node b2",
    ] {
        check_alike("cluster.yaml", &url, command).await;
    }
    let text = check_alike("cluster.yaml", &url, "drain TARGET a1 a2 --force").await;
    assert!(text.contains("2 of 2 nodes can go, each for itself"), "{text}");
    // A dry run leaves nothing behind, `--assume` does, and assuming twice is refused.
    assert_eq!(server.cluster().snapshot().n_assumed(), 0);
    let assume = format!("berth place --server {url} --assume web.yaml");
    let (first, second) =
        tokio::task::spawn_blocking(move || (run(&assume), run(&assume))).await.unwrap();
    assert!(first.ends_with("1 pod: 1 placed, 0 pending\n"), "{first}");
    assert!(second.contains("is on node") && second.ends_with("[status 1]\n"), "{second}");
    assert_eq!(server.cluster().snapshot().n_assumed(), 1);
    // The other port answers too, but does not speak gRPC.
    let wrong = format!("berth place --server http://{} web.yaml", server.http_address());
    let text = tokio::task::spawn_blocking(move || run(&wrong)).await.unwrap();
    assert!(text.contains("either nothing speaks gRPC there"), "{text}");
    let named = format!("berth place --server {url} shop/low");
    let text = tokio::task::spawn_blocking(move || run(&named)).await.unwrap();
    assert!(text.contains("\nshop/low  a1 "), "{text}");
    server.shutdown().await;
}

/// Priority counts across profiles, on a server as in the command itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_several_profiles_are_decided_alike() {
    let configuration = "most-allocated.yaml";
    let profiles =
        Profiles::load(&tests().join("data").join(configuration), KubernetesVersion::default())
            .expect("profiles");
    let options = ServerOptions { profiles, ..ServerOptions::default() };
    let (server, url) = serve("one-node.yaml", options).await;
    let dump = format!("one-node.yaml --scheduler-config {configuration}");
    for pods in ["two-schedulers.yaml", "two-schedulers.yaml web.yaml", "bad-pods.yaml"] {
        let command = format!("place TARGET {pods}");
        check_alike(&dump, &url, &command).await;
    }
    assert_eq!(server.cluster().snapshot().n_assumed(), 0);
    server.shutdown().await;
}

/// Assumptions of `what-if` are made in a session of the server, and end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_supposes_in_a_session() {
    let (server, url) = serve("busy.yaml", ServerOptions::default()).await;
    let before = server.cluster().snapshot().generation();
    let mut texts = Vec::new();
    for command in [
        "preempt TARGET high.yaml --candidates --victims report",
        "preempt TARGET pinned.yaml --refuse-pdb-violations",
        "preempt TARGET high.yaml --victims prefer --sample 3",
        "explain TARGET high.yaml",
        "place TARGET high.yaml --what-if more.yaml",
        "place TARGET gang.yaml --replicas 3 --without node/n1 --without pod/shop/batch-1",
        "place TARGET --gang --preempt --replicas 4 gang.yaml",
        "preempt TARGET pinned.yaml --what-if more.yaml --without pod/shop/db",
        "explain TARGET never.yaml --without node/small",
        "headroom TARGET high.yaml --without pod/shop/web-2",
        "place TARGET high.yaml --without node/n7",
        "place TARGET high.yaml --without pod/shop/web-9",
        "place TARGET high.yaml --what-if bad-what-if.yaml",
        "place TARGET high.yaml --what-if unusable-what-if.yaml",
        "place TARGET high.yaml --what-if lost.yaml",
    ] {
        texts.push(check_alike("busy.yaml", &url, command).await);
    }
    assert!(texts[4].starts_with("what if: 4 objects added or replaced\n\n"), "{}", texts[4]);
    let snapshot = server.cluster().snapshot();
    assert_eq!((snapshot.generation(), snapshot.n_nodes()), (before, 4));
    server.shutdown().await;
}

/// Workloads and what belongs to them are supposed in a session too, where the cluster does not have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_expands_workloads_alike() {
    let (server, url) = serve("fleet.yaml", ServerOptions::default()).await;
    let before = server.cluster().snapshot().generation();
    for command in [
        "place TARGET -f workloads/deployment.yaml",
        "place TARGET -f workloads/deployment.yaml --replicas 40",
        "place TARGET -f workloads/daemon-set.yaml -f workloads/jobs.yaml",
        "place TARGET -f workloads/others.yaml -n shop",
        "place TARGET -f workloads/bad.yaml",
        "place TARGET -f workloads/app -R",
        "explain TARGET -f workloads/daemon-set.yaml --node c1",
        "headroom TARGET -f workloads/deployment.yaml --what-if workloads/daemon-set.yaml",
        "drain TARGET -f workloads/node.yaml --force --what-if workloads/deployment.yaml",
    ] {
        check_alike("fleet.yaml", &url, command).await;
    }
    let assume = format!("berth place --server {url} --assume -f workloads/deployment.yaml");
    let text = tokio::task::spawn_blocking(move || run(&assume)).await.unwrap();
    assert!(text.contains("`--assume` takes pods, not a Deployment"), "{text}");
    let snapshot = server.cluster().snapshot();
    assert_eq!((snapshot.generation(), snapshot.n_assumed()), (before, 0));
    server.shutdown().await;

    let (server, url) = serve("workloads/storage.yaml", ServerOptions::default()).await;
    for command in [
        "place TARGET -f workloads/stateful-set.yaml",
        "place TARGET -f workloads/stateful-set.yaml --what-if workloads/claims.yaml",
        "place TARGET -f workloads/claims.yaml -f workloads/stateful-set.yaml",
    ] {
        let text = check_alike("workloads/storage.yaml", &url, command).await;
        assert!(text.contains("2 placed"), "{text}");
    }
    server.shutdown().await;
}

/// Every command closes its session, whatever its outcome: with room for one session only, the next command gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_sessions_are_reported() {
    let sessions = SessionLimits { max_sessions: 1, max_changes: 2, ..SessionLimits::default() };
    let limits = Limits { sessions, ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let (server, url) = serve("busy.yaml", options).await;
    let ask = |arguments: &str| {
        let command = format!("berth place --server {url} high.yaml {arguments}");
        tokio::task::spawn_blocking(move || run(&command))
    };
    for _ in 0..2 {
        let text = ask("--without pod/shop/batch-2").await.unwrap();
        assert!(text.ends_with("1 pod: 1 placed, 0 pending\n"), "{text}");
        let text = ask("--without node/n7").await.unwrap();
        assert!(text.contains("the cluster has no node `n7`"), "{text}");
        let text = ask("--what-if more.yaml").await.unwrap();
        let expected = format!("! berth: `{url}`: ResourceExhausted: ");
        assert!(text.starts_with(&expected) && text.ends_with("[status 1]\n"), "{text}");
    }
    let client = berth_client::Client::connect(&url, 1).await.unwrap();
    client.session().open(SessionServiceOpenRequest {}).await.expect("room for one");
    let text = ask("--without pod/shop/batch-2").await.unwrap();
    assert!(text.starts_with(&format!("! berth: `{url}`: ResourceExhausted: ")), "{text}");
    server.shutdown().await;
}

/// `--help` says what is evaluated and what the status means.
#[test]
fn help_lists_plugins_and_exit_status() {
    for command in ["place", "explain", "preempt", "headroom"] {
        let text = run(&format!("berth {command} --help-all"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "Evaluated plugins: SchedulingGates, ",
            "PodTopologySpread, InterPodAffinity",
            "Exit status: 0 ",
        ] {
            assert!(words.contains(expected), "{expected}\nis not in\n{text}");
        }
    }
    for command in [
        "demo",
        "conformance",
        "lifecycle explain",
        "lifecycle phase",
        "lifecycle conditions",
        "lifecycle qos",
        "lifecycle delete",
        "lifecycle budget",
        "lifecycle gc",
        "lifecycle evict-order",
        "lifecycle decide",
    ] {
        assert!(
            run(&format!("berth {command} --help-all")).contains("Exit status: 0 "),
            "{command}"
        );
    }
}

#[test]
fn the_demo_prints_its_steps() {
    let text = run("berth demo --exit --nodes 60 --pods 1200 --seed 3");
    let placed =
        text.lines().find_map(|line| line.strip_prefix("placed ")).expect("a line of totals");
    let numbers: Vec<u64> = placed
        .split(|c: char| !c.is_ascii_digit() && c != ',')
        .filter_map(|number| number.replace(',', "").parse().ok())
        .collect();
    let [n_placed, n_pods, rest @ ..] = &numbers[..] else { panic!("two numbers in `{placed}`") };
    assert_eq!((*n_pods, n_placed + rest.iter().sum::<u64>()), (1_200, 1_200), "{text}");
    for expected in [
        "berth serves gRPC on http://127.0.0.1:",
        "fed 60 nodes with ",
        "one call a pod, 4 callers",
        "streams, 100 pods",
        "for example:\n",
        "-more ",
        "ONE DECISION AT A TIME",
        "60 nodes and 600 pods of the mixed workload",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
    let placed = placed.split(" of ").next().unwrap_or_default();
    assert!(text.contains(&format!("on 60 nodes, {placed} of them placed by Berth")), "{text}");
    assert!(!text.contains("[status"), "{text}");
}

/// Claims for GPUs are placed, and one that fits nowhere is explained down to selector and holder.
#[test]
fn the_demo_has_gpus() {
    let text = run("berth demo --exit --gpus --nodes 40");
    for expected in [
        "fed 40 nodes with 320 GPUs, of which claims hold 160 in ",
        " of 40 pods, ",
        "ns-0/incoming-40 is pending: 0/40 nodes are available: 40 cannot allocate all claims.",
        "devices claim incoming-40, request gpu: 6 of class gpu: ",
        "8 of the class, none selected by `device.attributes[",
        "constraint claim incoming-40: matchAttribute gpu.example.com/numa of 6 devices: at most ",
        "KUBE-SCHEDULER (RECORDED)",
        "4 devices, selector, matchAttribute",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

/// Of several servers the one that decides is killed, and nothing that was acknowledged is lost.
#[test]
fn the_demo_has_replicas() {
    if Command::new("etcd").arg("--version").output().is_err() {
        return berth_testing::recorded::skip(
            "the demo with replicas: there is no etcd on the path",
        );
    }
    let text = run("berth demo --exit --replicas 2 --nodes 20 --pods 100");
    for expected in [
        "REPLICA  GRPC",
        ", which committed, was killed (SIGKILL) after 50 pods: ",
        " of 100 pods through all replicas in ",
        "each replica that is left has every reservation that was acknowledged, and no other",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}

/// SIGTERM drains at any time: after the last step of the demo this is the normal end, before it an early one.
#[test]
fn the_demo_ends_at_a_signal() {
    for (arguments, wait_for, expected) in [
        (["--nodes", "20", "--pods", "50"], "serving until", Some(0)),
        (["--nodes", "2000", "--pods", "1000000"], "berth serves gRPC", Some(1)),
    ] {
        let mut demo = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["demo", "--grpc-address", "127.0.0.1:0", "--http-address", "localhost:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the demo starts");
        let output = BufReader::new(demo.stdout.take().expect("its output"));
        let mut lines = output.lines().map(|line| line.expect("UTF-8"));
        assert!(lines.any(|line| line.contains(wait_for)), "{wait_for} is not printed");
        let pid = demo.id().to_string();
        let kill = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status();
        assert!(kill.expect("a shell").success());
        lines.for_each(drop);
        assert_eq!(demo.wait().expect("it ends").code(), expected, "{arguments:?}");
    }
}
