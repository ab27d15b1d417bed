//! Watches: every event once and in order.

use std::time::Duration;

use berth_fake_apiserver::Options;

use crate::client::{Next, World, event_text};
use crate::objects::{PODS, bind, node, pod, running, with_pods};

const SOON: Duration = Duration::from_millis(300);

#[test]
fn every_event_after_a_version_comes_once_in_order() {
    let world = with_pods(3);
    let mut early = world.watch(&format!("{PODS}?watch=1&resourceVersion=1"));
    world.store().delete("Pod", "lab", "p000").unwrap();
    bind(&world, "p001", "n");
    let mut late = world.watch(&format!("{PODS}?watch=1&resourceVersion=2"));
    let expected =
        ["ADDED p001 2", "ADDED p002 3", "DELETED p000 4", "MODIFIED p001 5"].map(String::from);
    assert_eq!(
        [early.event_text(), early.event_text(), early.event_text(), early.event_text()],
        expected
    );
    assert_eq!([late.event_text(), late.event_text(), late.event_text()], expected[1..]);
    assert_eq!(late.next(SOON), Next::Silence);
}

#[test]
fn leaving_a_selection_is_deleted_and_entering_it_added() {
    let world = with_pods(1);
    let mut pending =
        world.watch(&format!("{PODS}?watch=1&resourceVersion=1&fieldSelector=spec.nodeName%3D"));
    let mut on_node =
        world.watch(&format!("{PODS}?watch=1&resourceVersion=1&fieldSelector=spec.nodeName=n"));
    let mut other = world.watch("/api/v1/namespaces/other/pods?watch=1&resourceVersion=1");
    bind(&world, "p000", "n");
    let left = pending.event();
    assert_eq!(event_text(&left), "DELETED p000 2");
    assert!(left["object"]["spec"]["nodeName"].is_null(), "the old state under the new version");
    assert_eq!(on_node.event_text(), "ADDED p000 2");
    world.store().delete("Pod", "lab", "p000").unwrap();
    assert_eq!(on_node.event_text(), "DELETED p000 3");
    assert_eq!(pending.next(SOON), Next::Silence);
    assert_eq!(other.next(SOON), Next::Silence);
}

#[test]
fn a_streaming_list_ends_with_a_marked_bookmark() {
    let world = with_pods(3);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = world.watch(&format!("{PODS}?{query}&allowWatchBookmarks=true"));
    let began = [watch.event_text(), watch.event_text(), watch.event_text()];
    assert_eq!(began, ["ADDED p000 1", "ADDED p001 2", "ADDED p002 3"].map(String::from));
    let end = watch.event();
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(end["object"]["metadata"]["resourceVersion"], "3");
    assert!(end["object"]["spec"]["containers"].is_null(), "a decoder must not insist on a list");
    world.store().create(pod("q")).unwrap();
    assert_eq!(watch.event_text(), "ADDED q 4");
    let mut unmarked = world.watch(&format!("{PODS}?{query}&timeoutSeconds=1"));
    let (events, end) = unmarked.rest();
    assert_eq!((events.len(), end), (4, Next::End));
    assert_eq!(world.watch(&format!("{PODS}?watch=1&sendInitialEvents=true")).status, 422);
}

#[test]
fn a_server_without_streaming_lists_says_so() {
    let world = World::start_with(Options { streaming_lists: false, ..Options::default() });
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(world.watch(&format!("{PODS}?{query}")).status, 422);
}

#[test]
fn bookmarks_carry_the_version_to_resume_from() {
    let options = Options { bookmark_interval: Duration::from_millis(50), ..Options::default() };
    let world = World::start_with(options);
    world.store().create(pod("a")).unwrap();
    let mut watch =
        world.watch(&format!("{PODS}?watch=1&resourceVersion=1&allowWatchBookmarks=true"));
    // A change of another resource also increments the version.
    world.store().create(node("n")).unwrap();
    let mut last = String::new();
    for _ in 0..5 {
        last = event_text(&watch.event());
    }
    assert_eq!(last, "BOOKMARK  2");
    let mut without = world.watch(&format!("{PODS}?watch=1&resourceVersion=1"));
    assert_eq!(without.next(SOON), Next::Silence);
}

#[test]
fn a_dropped_version_is_an_error_event() {
    let world = World::start_with(Options { history: 10, ..Options::default() });
    for i in 0..20 {
        world.store().create(pod(&format!("p{i}"))).unwrap();
    }
    let mut kept = world.watch(&format!("{PODS}?watch=1&resourceVersion=10"));
    assert_eq!(kept.event_text(), "ADDED p10 11");
    let mut gone = world.watch(&format!("{PODS}?watch=1&resourceVersion=9"));
    assert_eq!(gone.status, 200);
    let (events, end) = gone.rest();
    assert_eq!((events.len(), end), (1, Next::End));
    assert_eq!(events[0]["type"], "ERROR");
    assert_eq!(events[0]["object"]["code"], 410);
    assert_eq!(events[0]["object"]["message"], "too old resource version: 9 (10)");
    world.store().compact();
    let mut compacted = world.watch(&format!("{PODS}?watch=1&resourceVersion=19"));
    assert_eq!(compacted.event()["object"]["reason"], "Expired");
}

#[test]
fn a_timeout_has_no_event_and_a_future_version_is_silent() {
    let world = with_pods(1);
    let mut watch = world.watch(&format!("{PODS}?watch=1&resourceVersion=99&timeoutSeconds=1"));
    bind(&world, "p000", "n");
    assert_eq!(watch.rest(), (vec![], Next::End));
}

#[test]
fn events_share_chunks_and_span_them() {
    let world = World::start_with(Options { chunk_bytes: 100, ..Options::default() });
    for i in 0..10 {
        world.store().create(pod(&format!("p{i}"))).unwrap();
    }
    let mut watch = world.watch(&format!("{PODS}?watch=1&resourceVersion=0"));
    let names: Vec<_> = (0..10).map(|_| watch.event_text()).collect();
    assert_eq!(names[9], "ADDED p9 10");
    assert!(watch.chunks.iter().all(|size| *size <= 100) && watch.chunks.len() > 10);
}

/// Writers and watchers at once: each watcher ends with exactly what the store holds.
#[test]
fn watchers_agree_with_the_store_under_load() {
    let world = World::start();
    // The watches start at a version, because initial objects would come in the order of names.
    world.store().create(node("n")).unwrap();
    let mut watches: Vec<_> =
        (0..4).map(|_| world.watch("/api/v1/pods?watch=1&resourceVersion=1")).collect();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let store = world.store().clone();
            scope.spawn(move || {
                for i in 0..400 {
                    let name = format!("w{writer}-{}", i % 50);
                    if i % 3 == 2 {
                        store.delete("Pod", "lab", &name).ok();
                    } else if store.create(running(&name, "n")).is_err() {
                        store.replace(running(&name, "m")).ok();
                    }
                }
            });
        }
    });
    world.store().create(pod("zz-last")).unwrap();
    let expected: Vec<String> = world.store().list("Pod").iter().map(shown).collect();
    for watch in &mut watches {
        let mut seen = std::collections::BTreeMap::new();
        let mut last_version = 0;
        loop {
            let event = watch.event();
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            assert!(version > last_version, "{version} after {last_version}");
            last_version = version;
            match event["type"].as_str().unwrap() {
                "ADDED" => assert!(seen.insert(name.clone(), shown(object)).is_none()),
                "MODIFIED" => assert!(seen.insert(name.clone(), shown(object)).is_some()),
                "DELETED" => assert!(seen.remove(&name).is_some()),
                other => panic!("{other}"),
            }
            if name == "zz-last" {
                break;
            }
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), expected);
    }
}

fn shown(pod: &serde_json::Value) -> String {
    let metadata = &pod["metadata"];
    format!("{} {} {}", metadata["name"], metadata["resourceVersion"], pod["spec"]["nodeName"])
}

#[test]
fn a_stopped_server_cuts_its_watches_and_can_restart() {
    let world = with_pods(1);
    let mut watch = world.watch(&format!("{PODS}?watch=1&resourceVersion=1"));
    assert_eq!(watch.next(SOON), Next::Silence);
    let world = world.restart();
    assert_eq!(watch.next(Duration::from_secs(5)), Next::Cut);
    let mut again = world.watch(&format!("{PODS}?watch=1&resourceVersion=1"));
    bind(&world, "p000", "n");
    assert_eq!(again.event_text(), "MODIFIED p000 2");
}
