//! Pages, versions and selections.

use serde_json::Value;

use crate::client::{Response, World};
use crate::objects::{PODS, bind, pod, with_pods};

fn names(answer: &Response) -> Vec<String> {
    let items = answer.json["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn version(answer: &Response) -> &str {
    answer.json["metadata"]["resourceVersion"].as_str().unwrap()
}

fn token(answer: &Response) -> Option<&str> {
    answer.json["metadata"]["continue"].as_str()
}

#[test]
fn all_pages_have_the_version_of_the_first_page() {
    let world = with_pods(25);
    let first = world.get(&format!("{PODS}?limit=10"));
    assert_eq!(first.json["metadata"]["remainingItemCount"], 15);
    // Between the pages, one object is deleted, one is created and one changes.
    world.store().delete("Pod", "lab", "p015").unwrap();
    world.store().create(pod("p012a")).unwrap();
    bind(&world, "p020", "n");
    let mut seen = names(&first);
    let mut page = first;
    while let Some(next) = token(&page) {
        let next = world.get(&format!("{PODS}?limit=10&continue={next}"));
        assert_eq!(version(&next), "25");
        let unbound = |item: &Value| item["spec"]["nodeName"].is_null();
        assert!(next.json["items"].as_array().unwrap().iter().all(unbound));
        seen.extend(names(&next));
        page = next;
    }
    let expected: Vec<_> = (0..25).map(|i| format!("p{i:03}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(names(&world.get(PODS)).len(), 25, "one gone, one come");
}

#[test]
fn an_expired_token_has_a_token_for_the_rest() {
    let world = with_pods(5);
    let first = world.get(&format!("{PODS}?limit=2"));
    let old = token(&first).unwrap().to_owned();
    world.store().create(pod("p999")).unwrap();
    world.store().compact();
    let gone = world.get(&format!("{PODS}?limit=2&continue={old}"));
    assert_eq!((gone.status, &gone.json["reason"]), (410, &"Expired".into()));
    let fresh = token(&gone).unwrap();
    let rest = world.get(&format!("{PODS}?continue={fresh}"));
    assert_eq!(names(&rest), ["p002", "p003", "p004", "p999"]);
    assert_eq!(version(&rest), "6");
    let exact = world.get(&format!("{PODS}?resourceVersion=5&resourceVersionMatch=Exact"));
    assert_eq!(exact.status, 410);
    assert_eq!(world.get(&format!("{PODS}?resourceVersion=5")).status, 200, "not older than");
}

#[test]
fn exact_versions_return_past_states() {
    let world = with_pods(3);
    world.store().delete("Pod", "lab", "p001").unwrap();
    bind(&world, "p000", "n");
    for (at, expected) in
        [(1, &["p000"][..]), (3, &["p000", "p001", "p002"]), (4, &["p000", "p002"])]
    {
        let list = world.get(&format!("{PODS}?resourceVersion={at}&resourceVersionMatch=Exact"));
        assert_eq!(names(&list), expected, "{at}");
        assert_eq!(version(&list), at.to_string());
        assert!(list.json["items"][0]["spec"]["nodeName"].is_null());
    }
}

#[test]
fn selections_namespaces_and_limits() {
    let world = with_pods(4);
    let mut elsewhere = pod("p000");
    elsewhere["metadata"]["namespace"] = "lab-2".into();
    world.store().create(elsewhere).unwrap();
    bind(&world, "p002", "n");
    let all = world.get("/api/v1/pods");
    assert_eq!(names(&all).len(), 5);
    assert_eq!(all.json["kind"], "PodList");
    assert!(all.json["items"][0]["kind"].is_null(), "items leave out what the list says");
    for (query, expected) in [
        ("fieldSelector=spec.nodeName%3D", &["p000", "p001", "p003"][..]),
        ("fieldSelector=spec.nodeName=n", &["p002"]),
        ("labelSelector=app%20in%20(p000,p003)", &["p000", "p003"]),
        ("fieldSelector=metadata.name=p001", &["p001"]),
    ] {
        assert_eq!(names(&world.get(&format!("{PODS}?{query}"))), expected, "{query}");
    }
    let page = world.get(&format!("{PODS}?limit=1&labelSelector=app%21%3Dp000"));
    assert_eq!(names(&page), ["p001"]);
    assert!(page.json["metadata"]["remainingItemCount"].is_null(), "unknown under a selector");
    let whole = world.get(&format!("{PODS}?limit=1&resourceVersion=0"));
    assert_eq!(names(&whole).len(), 4, "an answer from the cache is whole");
}

#[test]
fn invalid_list_requests_are_refused() {
    let world = World::start();
    for (query, status) in [
        ("resourceVersion=abc", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("resourceVersion=99&resourceVersionMatch=NotOlderThan", 504),
        ("resourceVersion=99&resourceVersionMatch=Exact", 504),
        ("continue=bm90LWEtdG9rZW4", 400),
        ("limit=x", 400),
        ("fieldSelector=spec.hostname%3Dx", 400),
        ("labelSelector=a%20in%20x", 400),
    ] {
        assert_eq!(world.get(&format!("{PODS}?{query}")).status, status, "{query}");
    }
    let future = world.get(&format!("{PODS}?resourceVersion=99"));
    assert_eq!(future.header("retry-after"), Some("1"));
    assert_eq!(future.json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}
