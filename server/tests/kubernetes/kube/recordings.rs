//! Recorded answers of a real API server: the feed handles them as the notes of the corpus say.

use std::time::{Duration, Instant};

use berth_engine::Cluster;
use berth_server::feed::kube::{Decoder, Event, KubeFeed, Resource};
use berth_server::runtime::Server;
use serde_json::{Value, json};

use crate::kube::compare::holds;
use crate::kube::recording::{Recording, load};
use crate::kube::replay::{Ending, Replay, Response};
use crate::kube::world::{fed_by, until};

struct Fed {
    replay: Replay,
    server: Server,
    _feed: KubeFeed,
}

impl Fed {
    async fn with(answers: Vec<Response>) -> Fed {
        let replay = Replay::start(answers).await;
        let (server, feed) = fed_by(&replay.kubeconfig(), None).await;
        Fed { replay, server, _feed: feed }
    }

    /// Waits for `n` requests for pods, and returns their targets.
    async fn targets(&self, n: usize) -> Vec<String> {
        until(|| match self.replay.targets().len() {
            n_targets if n_targets >= n => Ok(()),
            _ => Err(format!("{:#?}", self.replay.targets())),
        })
        .await;
        self.replay.targets()
    }

    async fn holds(&self, pods: &[Value]) {
        until(|| holds(self.server.cluster(), pods)).await;
    }

    fn is_ready(&self) -> bool {
        self.server.freshness().is_complete()
    }
}

/// The refusal of a streaming list by a server that has none.
fn no_streaming_lists() -> Response {
    Response {
        status: 422,
        headers: Vec::new(),
        chunks: vec!["{}".to_owned()],
        ending: Ending::Proper,
    }
}

fn list(version: u64, items: &[Value]) -> Response {
    let page = json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string()}, "items": items});
    Response { chunks: vec![page.to_string()], status: 200, ..no_streaming_lists() }
}

/// Returns the items of a list with their kind and `apiVersion`.
fn items(text: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(text).unwrap();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| typed(item.clone())).collect()
}

fn typed(mut pod: Value) -> Value {
    pod["kind"] = json!("Pod");
    pod["apiVersion"] = json!("v1");
    pod
}

/// Returns the pods that exist after these events.
fn after(events: &[Value]) -> Vec<Value> {
    let mut pods: Vec<Value> = Vec::new();
    for event in events {
        let object = &event["object"];
        match event["type"].as_str().unwrap() {
            "BOOKMARK" | "ERROR" => {}
            kind => {
                pods.retain(|pod| pod["metadata"]["uid"] != object["metadata"]["uid"]);
                if kind != "DELETED" {
                    pods.push(typed(object.clone()));
                }
            }
        }
    }
    pods
}

/// The last version of a stream, from which a watch resumes.
fn last_version(events: &[Value]) -> &str {
    let version =
        |event: &'_ Value| event["object"]["metadata"]["resourceVersion"].as_str().is_some();
    let last = events.iter().rfind(|event| version(event)).unwrap();
    last["object"]["metadata"]["resourceVersion"].as_str().unwrap()
}

fn assert_watches_from(target: &str, version: &str) {
    assert!(target.contains("watch=1&allowWatchBookmarks=true"), "{target}");
    assert!(target.contains(&format!("&resourceVersion={version}&")), "{target}");
    assert!(!target.contains("sendInitialEvents"), "{target}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_pages_are_followed_to_the_last() {
    let Some(recording) = load("01-paged-list") else { return };
    let answers =
        vec![no_streaming_lists(), recording.answer(0), recording.answer(1), recording.answer(2)];
    let fed = Fed::with(answers).await;
    let targets = fed.targets(5).await;
    assert!(
        targets[0].contains("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        "{targets:#?}"
    );
    assert!(targets[1].ends_with("/pods?limit=500"), "{targets:#?}");
    for page in [1, 2] {
        let token = recording.target(page).split("continue=").nth(1).unwrap();
        assert!(targets[page + 1].ends_with(&format!("&continue={token}")), "{targets:#?}");
    }
    let pods: Vec<Value> = (0..3).flat_map(|page| items(&recording.text(page))).collect();
    assert!(pods.len() > 20);
    fed.holds(&pods).await;
    let first: Value = serde_json::from_str(&recording.text(0)).unwrap();
    assert_watches_from(&targets[4], first["metadata"]["resourceVersion"].as_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_refused_lists_are_requested_otherwise_or_again() {
    let Some(recording) = load("02-list-resource-versions") else { return };
    let status = |index: usize| recording.answer(index).status;
    let index_of =
        |wanted: u16| (0..recording.exchanges.len()).find(|&i| status(i) == wanted).unwrap();
    // 504 has the delay before a retry; 422 and 400 mean that streaming lists are not supported.
    let answers = vec![
        recording.answer(index_of(504)),
        recording.answer(index_of(422)),
        recording.answer(index_of(504)),
        recording.answer(index_of(400)),
        recording.answer(0),
    ];
    let began = Instant::now();
    let fed = Fed::with(answers).await;
    let targets = fed.targets(6).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "`Retry-After: 1` was honoured twice");
    assert!(
        targets[2].ends_with("?limit=500") && targets[3].contains("sendInitialEvents"),
        "{targets:#?}"
    );
    let empty: Value = serde_json::from_str(&recording.text(0)).unwrap();
    assert_watches_from(&targets[5], empty["metadata"]["resourceVersion"].as_str().unwrap());
    until(|| if fed.is_ready() { Ok(()) } else { Err("not ready") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_every_kind_of_event_is_taken() {
    let Some(recording) = load("03-watch-traffic") else { return };
    let events = recording.events(0);
    let fed = Fed::with(vec![no_streaming_lists(), list(257, &[]), recording.answer(0)]).await;
    let targets = fed.targets(4).await;
    assert_watches_from(&targets[2], "257");
    assert_watches_from(&targets[3], last_version(&events));
    fed.holds(&after(&events)).await;
    assert!(after(&events).is_empty(), "the pod of this recording is deleted at its end");
    // If the stream is cut short, the pod is as it was at that moment: pending, bound, or being deleted.
    for n in 1..events.len() {
        let lines: Vec<String> = events[..n].iter().map(Value::to_string).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let fed =
            Fed::with(vec![no_streaming_lists(), list(257, &[]), Response::lines(&lines)]).await;
        fed.holds(&after(&events[..n])).await;
    }
}

#[test]
fn r04_streams_of_selections_are_streams_like_any_other() {
    let Some(recording) = load("04-watch-field-selectors") else { return };
    let cluster = Cluster::new();
    let mut n_events = 0;
    for index in 0..recording.exchanges.len() {
        if recording.exchanges[index]["response"]["chunks"].is_null() {
            continue;
        }
        let mut decoder = Decoder::new(&cluster, Resource::Pods, true);
        for chunk in recording.answer(index).chunks {
            decoder.push(chunk.as_bytes());
            for event in decoder.by_ref() {
                n_events += 1;
                match event.unwrap() {
                    Event::Object(object) => assert!(object.delta.is_ok() && object.pod.is_some()),
                    other => assert!(matches!(other, Event::Bookmark { .. }), "{other:?}"),
                }
            }
        }
    }
    assert!(n_events > 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_a_streamed_list_ends_with_its_bookmark_and_goes_on_as_a_watch() {
    let Some(recording) = load("05-streaming-list") else { return };
    let events = recording.events(0);
    let fed = Fed::with(vec![recording.answer(0)]).await;
    fed.holds(&after(&events)).await;
    let targets = fed.targets(2).await;
    assert_watches_from(&targets[1], last_version(&events));
    // The other kinds are listed at the same time, and their lists may arrive later.
    until(|| if fed.is_ready() { Ok(()) } else { Err("a kind is not listed".to_owned()) }).await;
    let index_of = |note: &str| {
        let noted =
            |exchange: &Value| exchange["note"].as_str().is_some_and(|text| text.contains(note));
        recording.exchanges.iter().position(noted).unwrap()
    };
    // Without objects there is only the bookmark.
    let fed = Fed::with(vec![recording.answer(index_of("only the bookmark"))]).await;
    fed.holds(&[]).await;
    until(|| if fed.is_ready() { Ok(()) } else { Err("not ready") }).await;
    // Without an end marker no list is known to be complete, so everything is listed again.
    for note in ["no end marker", "without an end marker"] {
        let index = index_of(note);
        let fed = Fed::with(vec![recording.answer(index), recording.answer(0)]).await;
        let targets = fed.targets(2).await;
        assert!(targets[1].contains("sendInitialEvents"), "{targets:#?}");
        fed.holds(&after(&events)).await;
    }
    // Chunk boundaries have no effect: the same list in one piece, and byte by byte.
    let text = recording.text(0);
    for chunks in [vec![text.clone()], text.chars().map(String::from).collect()] {
        let fed = Fed::with(vec![Response { chunks, ..recording.answer(0) }]).await;
        fed.holds(&after(&events)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_a_list_or_a_version_that_is_gone_is_begun_anew() {
    let Some(recording) = load("06-gone") else { return };
    let gone_page = (0..recording.exchanges.len())
        .find(|&i| {
            recording.answer(i).status == 410
                && recording.target(i).contains("/pods?limit=10&continue")
        })
        .unwrap();
    let pages: Vec<Response> = vec![recording.answer(0), recording.answer(gone_page)];
    let all = list(700, &items(&recording.text(0))[..3]);
    let mut answers = vec![no_streaming_lists()];
    answers.extend(pages);
    answers.extend([no_streaming_lists(), all]);
    let fed = Fed::with(answers).await;
    let targets = fed.targets(6).await;
    assert!(targets[2].contains("continue=") && !targets[4].contains("continue="), "{targets:#?}");
    assert_watches_from(&targets[5], "700");
    fed.holds(&items(&recording.text(0))[..3]).await;

    // In a stream: an ERROR event under status 200.
    let errors: Vec<usize> = (0..recording.exchanges.len())
        .filter(|&i| {
            recording.answer(i).status == 200
                && recording.text(i).starts_with("{\"type\":\"ERROR\"")
        })
        .collect();
    assert!(errors.len() >= 3);
    for error in errors {
        let answers = vec![
            no_streaming_lists(),
            list(588, &items(&recording.text(0))[..5]),
            recording.answer(error),
            no_streaming_lists(),
            list(701, &items(&recording.text(0))[2..4]),
        ];
        let fed = Fed::with(answers).await;
        let targets = fed.targets(6).await;
        assert_watches_from(&targets[2], "588");
        assert_watches_from(&targets[5], "701");
        fed.holds(&items(&recording.text(0))[2..4]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_a_watch_that_times_out_is_resumed_where_it_was() {
    let Some(recording) = load("07-watch-timeout") else { return };
    let answers =
        vec![no_streaming_lists(), list(302, &[]), recording.answer(0), recording.answer(1)];
    let fed = Fed::with(answers).await;
    let targets = fed.targets(5).await;
    for target in &targets[2..5] {
        assert_watches_from(target, "302");
    }
    assert!(fed.is_ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_a_server_that_stops_is_waited_for_and_listed_again() {
    let Some(recording) = load("19-server-stop") else { return };
    let answers = vec![
        no_streaming_lists(),
        list(597, &[]),
        recording.answer(0),
        recording.answer(3),
        no_streaming_lists(),
        list(900, &items(&recording.text(2))),
    ];
    assert_eq!(recording.answer(0).ending, Ending::Cut);
    let fed = Fed::with(answers).await;
    let targets = fed.targets(7).await;
    assert_watches_from(&targets[2], "597");
    assert!(
        targets[3].contains("&resourceVersion="),
        "resumed before it is listed again: {targets:#?}"
    );
    assert!(targets[4].contains("sendInitialEvents"), "{targets:#?}");
    assert_watches_from(&targets[6], "900");
    fed.holds(&items(&recording.text(2))).await;
    // The watch of nodes was open at the same time: it has events and no end.
    assert_eq!(nodes_of(&recording), 5);
}

/// The number of nodes in the watch of nodes before it is cut.
fn nodes_of(recording: &Recording) -> usize {
    let cluster = Cluster::new();
    let mut decoder = Decoder::new(&cluster, Resource::Nodes, false);
    recording.answer(1).chunks.iter().for_each(|chunk| decoder.push(chunk.as_bytes()));
    let deltas: Vec<_> = decoder
        .map(|event| match event.unwrap() {
            Event::Object(object) => object.delta.unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cluster.apply(deltas).rejected, []);
    cluster.snapshot().n_nodes()
}
