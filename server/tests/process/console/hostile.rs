//! What a cluster says, as a page shows it: names and values that are meant to be run are shown as text.

use berth_testing::browser::Browser;

use crate::served::{Served, serve};

/// Sets a mark if a browser runs it.
const MARKUP: &str = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>";
const QUOTES: &str = "'\" onmouseover=window.hacked=1 x='";
const LINK: &str = "javascript:window.hacked=1";

#[tokio::test]
async fn what_the_cluster_says_is_shown_and_not_run() {
    let Some(browser) = Browser::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.json");
    std::fs::write(&path, cluster()).unwrap();
    let served = Served::start(serve().arg("--cluster").arg(&path));
    served.wait_for("loaded");
    let origin = format!("http://{}/", served.http);
    let hidden: String =
        form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect::<String>().replace('+', "%20");
    let addresses = [
        "".to_owned(),
        "#/nodes?colour=cpu".to_owned(),
        "#/node/n1".to_owned(),
        "#/pod/default/p1".to_owned(),
        "#/pod/default/waits".to_owned(),
        "#/drain?nodes=n1".to_owned(),
        "#/preemption?pod=default/waits".to_owned(),
        "#/decisions".to_owned(),
        "#/policies".to_owned(),
        "#/service".to_owned(),
        format!("#/pod/{hidden}/{hidden}"),
        format!("#/node/{hidden}"),
        format!("#/find?q={hidden}"),
        format!("#/decision/{hidden}"),
        format!("#/{hidden}"),
        "#/pod/constructor/__proto__".to_owned(),
        "#/%E0%A4%A".to_owned(),
    ];
    let mut text = String::new();
    for address in addresses {
        browser.open(&format!("{origin}{address}")).await;
        browser.settle().await;
        let made = "document.querySelectorAll('main img, main script, main iframe, [onerror], [onmouseover]').length";
        assert_eq!(browser.read(made).await, 0, "{address}");
        let leads = "[...document.links].filter((it) => it.protocol === 'javascript:').length";
        assert_eq!(browser.read(leads).await, 0, "{address}");
        assert_eq!(
            browser.read("window.hacked ?? null").await,
            serde_json::Value::Null,
            "{address}"
        );
        // A lookup that finds nothing is told of by the browser, and is no fault of the page.
        let complaints = browser.complaints().await;
        let faults: Vec<_> = complaints.iter().filter(|it| !it.contains("status of 4")).collect();
        assert!(faults.is_empty(), "{address}: {faults:?}");
        text.push_str(browser.read("document.body.innerText").await.as_str().unwrap());
    }
    // It was there to be run.
    assert!(text.contains("<img src=x"), "{text}");
    served.stop();
}

fn cluster() -> String {
    let labels = serde_json::json!({
        "topology.kubernetes.io/zone": MARKUP, "pool": QUOTES, "node.kubernetes.io/instance-type": LINK,
        "constructor": "__proto__", "__proto__": MARKUP,
    });
    let node = serde_json::json!({
        "kind": "Node", "metadata": {"name": "n1", "labels": labels},
        "spec": {"taints": [{"key": "k", "value": MARKUP, "effect": "PreferNoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
    });
    let pod = |name: &str, node: &str| {
        serde_json::json!({
            "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "labels": {"app": MARKUP},
                "annotations": {"note": MARKUP},
            },
            "spec": {
                "nodeName": node, "nodeSelector": if node.is_empty() { labels.clone() } else { serde_json::json!({}) },
                "containers": [{"name": "c", "image": MARKUP, "resources": {"requests": {"cpu": "1"}}}],
            },
        })
    };
    let items = [node, pod("p1", "n1"), pod("waits", "")];
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}
