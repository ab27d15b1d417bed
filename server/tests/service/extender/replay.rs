//! Replays every recording: a model of the scheduler is checked against the scheduler's recorded behaviour, then the
//! model reads Berth's answer to the recorded request.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::{Policy, Standing, SurveyRequest};
use berth_proto::core_v1;
use serde_json::Value;

use super::client::post;
use super::recording::{Recording, nodes, recordings, running_pods};
use super::scheduler::{Call, Taken, Trouble, requested_nodes, take};
use super::world;

/// Scores that kube-scheduler gives each of the six nodes while they are empty.
const TOTAL: i64 = 473;

fn call<'a>(
    recording: &'a Recording,
    url: &'a str,
    request: &'a Value,
    runs_on: &'a dyn Fn(&str, &str) -> bool,
) -> Call<'a> {
    assert_eq!(recording.config()["httpTimeout"], "1s");
    Call {
        verb: &recording.verb,
        url,
        is_capable: recording.is_capable,
        is_ignorable: recording.is_ignorable(),
        timeout_s: 1.0,
        request,
        runs_on,
    }
}

/// Pods by node, as far as the request shows them.
fn proposed(request: &Value) -> BTreeSet<(String, String)> {
    let mut pods = BTreeSet::new();
    for (map, path) in [("NodeNameToMetaVictims", "/UID"), ("NodeNameToVictims", "/metadata/uid")] {
        for (node, victims) in request[map].as_object().into_iter().flatten() {
            for pod in victims["Pods"].as_array().unwrap() {
                pods.insert((
                    node.clone(),
                    pod.pointer(path).unwrap().as_str().unwrap().to_owned(),
                ));
            }
        }
    }
    pods
}

/// Checks the model of the scheduler against the recorded behaviour of the scheduler.
#[test]
fn recorded_answers_are_taken_as_the_scheduler_took_them() {
    let Some(recordings) = recordings() else { return };
    let mut n_errors = 0;
    for recording in &recordings {
        let (request, url) = (recording.request_json(), recording.url());
        let proposed = proposed(&request);
        // In these two recordings the extender named pods that the scheduler knew but had not proposed.
        let names_others = recording.scenario.starts_with("preempt-other-victim")
            || recording.scenario.starts_with("preempt-names-higher");
        let runs_on = |node: &str, uid: &str| {
            names_others || proposed.contains(&(node.to_owned(), uid.to_owned()))
        };
        let call = call(recording, &url, &request, &runs_on);
        let taken = take(&call, &recording.reply(), recording.answered_after_s());
        let name = &recording.name;
        println!("{name} ({}): {taken:?}", recording.is_capable);
        assert_eq!(
            recording.seen_afterwards["scheduler_alive"] == false,
            taken == Err(Trouble::Crash),
            "{name}"
        );
        match taken {
            Err(Trouble::Crash) => {}
            Err(Trouble::Error(text)) => {
                n_errors += 1;
                check_error(recording, &text);
            }
            Ok(taken) => check_taken(recording, &recordings, &taken),
        }
    }
    assert!(n_errors > 40, "{n_errors}");
}

/// An error appears in the pod's event, unless it is an error of prioritize or of an ignorable extender.
fn check_error(recording: &Recording, text: &str) {
    let Recording { name, verb, .. } = recording;
    if verb == "prioritize" {
        return check_totals(recording, &BTreeMap::new());
    }
    if recording.is_ignorable() {
        // 128: the second binder failed, because the first had bound the pod.
        assert!(recording.node().is_some(), "{name}");
        return;
    }
    let events = recording.events();
    assert!(events.iter().any(|(_, message)| message.contains(text)), "{name}: {text}: {events:?}");
}

fn check_taken(recording: &Recording, all: &[Recording], taken: &Taken) {
    let Recording { name, is_capable, .. } = recording;
    match taken {
        Taken::Redirected => {
            let followed = |other: &&Recording| {
                other.scenario == recording.scenario && other.url() != recording.url()
            };
            assert!(all.iter().any(|other| followed(&other)), "{name}");
        }
        Taken::Kept { names, failed, unresolvable } => {
            match recording.node() {
                Some(node) => assert!(names.iter().any(|name| name == node), "{name}: {names:?}"),
                None => check_message(recording, names, failed, unresolvable),
            }
            let totals = recording.seen_afterwards["final_score_per_node_in_scheduler"].as_object();
            if let Some(totals) = totals.filter(|_| recording.scenario != "two-extenders") {
                let names: BTreeSet<&String> = names.iter().collect();
                assert_eq!(totals.keys().collect::<BTreeSet<_>>(), names, "{name}");
            }
        }
        Taken::Scores(scores) => {
            let mut scores = scores.clone();
            scores.values_mut().for_each(|score| *score = score.wrapping_mul(weight(recording)));
            let is_other = |other: &&Recording| {
                recording.scenario == "two-extenders"
                    && (other.is_capable, &other.scenario, &other.verb)
                        == (*is_capable, &recording.scenario, &recording.verb)
                    && other.name != recording.name
            };
            for other in all.iter().filter(is_other) {
                for entry in other.reply().json().as_array().unwrap() {
                    let host = entry["Host"].as_str().unwrap().to_owned();
                    *scores.entry(host).or_default() +=
                        entry["Score"].as_i64().unwrap() * weight(other);
                }
            }
            check_totals(recording, &scores);
        }
        Taken::Candidates(left) => match recording.node() {
            Some(node) => assert!(left.contains_key(node), "{name}"),
            None => {
                assert!(left.is_empty(), "{name}");
                let events = recording.events();
                let text = "no candidate node for preemption";
                assert!(events.iter().any(|(_, message)| message.ends_with(text)), "{events:?}");
            }
        },
        Taken::Bound => {
            // The scheduler believes the response, whether or not the pod is bound.
            assert!(recording.events().iter().any(|(reason, _)| reason == "Scheduled"), "{name}");
        }
    }
}

fn weight(recording: &Recording) -> i64 {
    10 * recording.config()["weight"].as_i64().unwrap()
}

/// The scheduler's totals are the sums of its own scores and those of the extender (S-EXT-12).
fn check_totals(recording: &Recording, added: &BTreeMap<String, i64>) {
    let totals = &recording.seen_afterwards["final_score_per_node_in_scheduler"];
    let totals = totals.as_object().unwrap();
    assert!(totals.len() > 1, "{}", recording.name);
    for (host, total) in totals {
        let expected = TOTAL.wrapping_add(added.get(host).copied().unwrap_or_default());
        assert_eq!(total.as_i64().unwrap(), expected, "{}: {host}", recording.name);
    }
}

/// The reasons are counted, with a node's unresolvable reason first, and so are preemption's (S-EXT-10).
fn check_message(
    recording: &Recording,
    names: &[String],
    failed: &BTreeMap<String, String>,
    unresolvable: &BTreeMap<String, String>,
) {
    let name = &recording.name;
    assert!(names.is_empty(), "{name}");
    let reasons = failed.iter().filter(|(node, _)| !unresolvable.contains_key(*node));
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for (_, reason) in reasons.clone().chain(unresolvable) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<String> =
        counts.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    counts.sort();
    let mut expected = "0/6 nodes are available:".to_owned();
    if !counts.is_empty() {
        expected += &format!(" {}.", counts.join(", "));
    }
    let message = &recording.events()[0].1;
    assert!(message.starts_with(&expected), "{name}: {message} instead of {expected}");
    if !recording.name.starts_with("75") {
        let n = reasons.count();
        for (n, text) in [
            (n, "No preemption victims found for incoming pod"),
            (6 - n, "Preemption is not helpful for scheduling"),
        ] {
            assert_eq!(message.contains(&format!("{n} {text}")), n > 0, "{name}: {message}");
        }
    }
}

/// Sends Berth every request that the recording extender got.
#[tokio::test]
async fn recorded_requests_are_answered_so_that_the_scheduler_takes_it() {
    let Some(recordings) = recordings() else { return };
    let nodes: Vec<Value> = nodes(&recordings).into_values().collect();
    let server = world::start().await;
    let mut n_answered = 0;
    for recording in recordings.iter().filter(|recording| recording.verb != "bind") {
        let request = recording.request_json();
        let running = running_pods(recording);
        world::replace_cluster(&server, &nodes, &running);
        let sent = recording.request().as_bytes();
        let reply = post(server.http_address(), &recording.verb, sent).await;
        let url = recording.url();
        let runs_on = |node: &str, uid: &str| {
            running.iter().any(|p| p["spec"]["nodeName"] == node && p["metadata"]["uid"] == uid)
        };
        let call = call(recording, &url, &request, &runs_on);
        let taken = take(&call, &reply, 0.0)
            .unwrap_or_else(|trouble| panic!("{}: {trouble:?}: {}", recording.name, reply.text()));
        check_answer(recording, &request, &taken, reply.text());
        n_answered += 1;
    }
    assert!(n_answered > 130, "{n_answered}");
}

fn check_answer(recording: &Recording, request: &Value, taken: &Taken, answer: &str) {
    let name = &recording.name;
    let requested = requested_nodes(request);
    match taken {
        Taken::Kept { names, failed, unresolvable } => {
            let kept: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            assert_eq!(kept.len(), names.len(), "{name}: {names:?}");
            if recording.scenario == "managed-ignored-over-capacity" {
                // Berth's filters do not ignore the resource that this scheduler ignores, and no node has enough of it.
                let text = "Insufficient example.com/slot".to_owned();
                let short =
                    requested.iter().map(|node| ((*node).to_owned(), text.clone())).collect();
                assert_eq!((kept.len(), failed.len(), unresolvable), (0, 0, &short), "{name}");
                return;
            }
            assert_eq!(*unresolvable, BTreeMap::new(), "{name}");
            assert_eq!((kept, failed), (requested, &BTreeMap::new()), "{name}");
            check_form(recording, answer);
        }
        Taken::Scores(scores) => {
            let expected = requested.iter().map(|host| ((*host).to_owned(), 10)).collect();
            assert_eq!(*scores, expected, "{name}: six nodes that are alike");
        }
        Taken::Candidates(left) => {
            // Every victim is known, and the pod fits without it.
            let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (node, uid) in proposed(request) {
                expected.entry(node).or_default().push(uid);
            }
            assert_eq!(*left, expected, "{name}");
            let candidates = ["NodeNameToMetaVictims", "NodeNameToVictims"];
            let candidates = candidates.iter().find_map(|map| request[*map].as_object()).unwrap();
            let answer: Value = serde_json::from_str(answer).unwrap();
            for (node, victims) in answer["NodeNameToMetaVictims"].as_object().unwrap() {
                let violations = "NumPDBViolations";
                assert_eq!(victims[violations], candidates[node][violations], "{name}");
            }
        }
        Taken::Bound | Taken::Redirected => panic!("{name}: {taken:?}"),
    }
}

/// The response has the form of the request, and has whole nodes as they were sent.
fn check_form(recording: &Recording, answer: &str) {
    let parsed: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(parsed["NodeNames"].is_null(), !recording.is_capable, "{}", recording.name);
    assert_eq!(parsed["Nodes"].is_null(), recording.is_capable, "{}", recording.name);
    if !recording.is_capable {
        #[derive(serde::Deserialize)]
        struct Request<'a> {
            #[serde(borrow, rename = "Nodes")]
            nodes: Nodes<'a>,
        }
        #[derive(serde::Deserialize)]
        struct Nodes<'a> {
            #[serde(borrow)]
            items: Vec<&'a serde_json::value::RawValue>,
        }
        let request: Request<'_> = serde_json::from_str(recording.request()).unwrap();
        for item in request.nodes.items {
            assert!(answer.contains(item.get()), "{}", recording.name);
        }
    }
}

/// Berth's totals equal the scheduler's where those are recorded without an extender's scores: with equal nodes, and
/// with one loaded node.
#[tokio::test]
async fn totals_are_the_schedulers() {
    let Some(recordings) = recordings() else { return };
    let nodes: Vec<Value> = nodes(&recordings).into_values().collect();
    let server = world::start().await;
    let policy = Policy::default();
    let mut n_checked = 0;
    for recording in recordings.iter().filter(|r| r.is_capable && r.verb == "filter") {
        let totals = &recording.seen_afterwards["final_score_per_node_in_scheduler"];
        let (Some(totals), false) = (totals.as_object(), recording.scenario == "two-extenders")
        else {
            continue;
        };
        // A bare node scores like one without capacity (S-EXT-9), and the totals of 01 contain its extender's scores.
        if recording.scenario == "filter-other-form" || recording.scenario == "happy" {
            continue;
        }
        world::replace_cluster(&server, &nodes, &running_pods(recording));
        let pod: core_v1::Pod =
            serde_json::from_value(recording.request_json()["Pod"].clone()).unwrap();
        let pod = server.cluster().compile_pod(&pod).unwrap();
        let request = SurveyRequest { pod: &pod, policy: &policy, with_totals: true };
        let names: Vec<&str> = totals.keys().map(String::as_str).collect();
        let survey = server.cluster().survey(&request, names.iter().copied()).unwrap();
        for (name, standing) in names.iter().zip(&survey.standings) {
            let expected = Standing::Feasible { total: totals[*name].as_i64().unwrap() as i32 };
            if recording.scenario != "managed-ignored-over-capacity" {
                assert_eq!(*standing, expected, "{}: {name}", recording.name);
                n_checked += 1;
            }
        }
    }
    assert!(n_checked > 50, "{n_checked}");
}
