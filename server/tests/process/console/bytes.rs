//! What the console loads: at most 600 KB at 5,000 nodes, whatever is looked at, and nothing from elsewhere.

use berth_testing::browser::Browser;
use berth_testing::object;

use crate::served::{Served, serve};

/// Number of bytes that the page may load.
const BUDGET: u64 = 600_000;
const N_NODES: usize = 5_000;

#[tokio::test]
async fn all_views_of_a_large_cluster_load_little() {
    let Some(browser) = Browser::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.json");
    let node = |i: usize| {
        let text = format!(
            "ip-10-{}-{}-{}.eu-central-1.compute.internal cpu={} memory={}Gi pods=110 \
             label:topology.kubernetes.io/zone=eu-central-1{} label:node.kubernetes.io/instance-type=m{}.large",
            i / 250 / 250,
            i / 250 % 250,
            i % 250,
            4 << (i % 5),
            16 << (i % 5),
            ["a", "b", "c"][i % 3],
            i % 7,
        );
        let mut node = serde_json::to_value(object::node(&text)).unwrap();
        node["kind"] = "Node".into();
        node
    };
    let nodes: Vec<_> = (0..N_NODES).map(node).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": nodes});
    std::fs::write(&path, list.to_string()).unwrap();
    let served = Served::start(serve().arg("--cluster").arg(&path));
    served.wait_for("loaded");
    let origin = format!("http://{}/", served.http);

    browser.open(&origin).await;
    browser.settle().await;
    for view in
        ["nodes", "what-if", "drain", "preemption", "decisions", "policies", "service", "nodes"]
    {
        browser.read(&format!("void (location.hash = '#/{view}')")).await;
        browser
            .wait_for(&format!("document.querySelector('nav a[aria-current]').hash === '#/{view}'"))
            .await;
        browser.settle().await;
    }
    let loaded = browser.read(LOADED).await;
    let loaded: Vec<(String, u64)> = serde_json::from_value(loaded).unwrap();
    let elsewhere: Vec<_> = loaded.iter().filter(|(name, _)| !name.starts_with(&origin)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(loaded.iter().any(|(name, _)| name.ends_with("/console/nodes")), "{loaded:?}");
    // What is asked again and again while a view is open is not a part of loading it.
    let is_repeated = |name: &str| name.ends_with("/metrics") || name.ends_with("/readyz");
    let once = loaded.iter().filter(|(name, _)| !is_repeated(name));
    let all: u64 = once.map(|(_, bytes)| bytes).sum();
    assert!(all < BUDGET, "{all} bytes: {loaded:?}");
    served.stop();
}

const LOADED: &str = "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))\
    .map((it) => [it.name, it.transferSize])";
