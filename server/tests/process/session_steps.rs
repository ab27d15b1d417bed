//! `berth session` against a server: opened, changed, worked in by other commands, shown, committed, closed.

use std::fs;
use std::path::Path;

use crate::served::{Served, berth, serve};

const NODE: &str = "kind: Node\nmetadata: {name: late}\nstatus: {allocatable: {cpu: \"4\", memory: 8Gi, pods: \"9\"}}\n";
const POD: &str = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, resources: {requests: {cpu: \"2\"}}}]}\n";
const CLUSTER: &str = "kind: Node\nmetadata: {name: small}\nstatus: {allocatable: {cpu: \"1\", memory: 8Gi, pods: \"9\"}}\n";

/// What a command prints, and whether it ends well.
fn ask(served: &Served, folder: &Path, words: &str) -> (String, bool) {
    let mut command = berth();
    command.current_dir(folder).args(words.split(' ')).args(["--server", &served.url]);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_its_commands() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("cluster.yaml", CLUSTER), ("node.yaml", NODE), ("pod.yaml", POD)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let served = Served::start(serve().arg("--cluster").arg(folder.path().join("cluster.yaml")));
    served.eventually("/readyz", |body| body.contains("ok")).await;
    let ask = |words: &str| ask(&served, folder.path(), words);

    let (opened, _) = ask("session open -o json");
    let opened: serde_json::Value = serde_json::from_str(&opened).unwrap();
    let id = opened["sessionId"].as_str().unwrap();
    let (nothing, is_well) = ask(&format!("session apply {id}"));
    assert!(!is_well && nothing.contains("nothing to apply"), "{nothing}");
    let (applied, _) = ask(&format!("session apply {id} -f node.yaml --without node/small"));
    assert_eq!(applied, "applied: 1 object added or replaced; node `small` gone\n");
    let (placed, _) = ask(&format!("place pod.yaml --session {id} --assume"));
    assert!(placed.contains("1 placed"), "{placed}");
    let (live, _) = ask("place pod.yaml");
    assert!(live.contains("1 pending"), "the cluster itself is as before: {live}");
    let (shown, _) = ask(&format!("session show {id}"));
    assert!(shown.starts_with("1 node, 1 pod on them, 0 pending, 1 assumed"), "{shown}");

    // The node is only in the session, so what was placed on it cannot be committed.
    let (refused, is_well) = ask(&format!("session commit {id}"));
    assert!(!is_well, "{refused}");
    let (closed, is_well) = ask(&format!("session close {id}"));
    assert!(is_well && closed.contains("is closed"), "{closed}");
    let (gone, is_well) = ask(&format!("session show {id}"));
    assert!(!is_well && gone.contains("session"), "{gone}");

    let (opened, _) = ask("session open -o json");
    let opened: serde_json::Value = serde_json::from_str(&opened).unwrap();
    let id = opened["sessionId"].as_str().unwrap();
    let light = POD.replace("\"2\"", "500m");
    fs::write(folder.path().join("pod.yaml"), light).unwrap();
    let (placed, _) = ask(&format!("place pod.yaml --session {id} --assume"));
    assert!(placed.contains("1 placed"), "{placed}");
    let (committed, is_well) = ask(&format!("session commit {id}"));
    assert!(is_well && committed.contains("default/web  small"), "{committed}");
    assert!(committed.contains("1 pod assumed"), "{committed}");
    let (status, _) = ask("status");
    assert!(status.starts_with("1 node, 1 pod on them, 0 pending, 1 assumed"), "{status}");
    served.stop();
}
