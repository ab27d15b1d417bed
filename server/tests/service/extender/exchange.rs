//! Exchanges written for Berth, in `tests/data/extender`: a cluster, and calls that each have one right answer.

use serde::Deserialize;
use serde_json::Value;

use super::client::post;
use super::world;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    /// A description of the case.
    what: String,
    nodes: Vec<Value>,
    #[serde(default)]
    pods: Vec<Value>,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    verb: String,
    request: Value,
    #[serde(default = "ok")]
    status: u16,
    answer: Value,
}

fn ok() -> u16 {
    200
}

#[tokio::test]
async fn exchanges_are_answered_to_the_letter() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/extender");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 6);
    let server = world::start().await;
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let exchange: Exchange =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        world::replace_cluster(&server, &exchange.nodes, &exchange.pods);
        for (i, call) in exchange.calls.iter().enumerate() {
            let body = serde_json::to_vec(&call.request).unwrap();
            let reply = post(server.http_address(), &call.verb, &body).await;
            let place = format!("{}, {}, call {i}", path.display(), exchange.what);
            assert_eq!((reply.status, reply.json()), (call.status, call.answer.clone()), "{place}");
        }
    }
}
