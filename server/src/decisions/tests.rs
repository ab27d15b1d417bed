//! Recorded decisions are listed once each, whatever the size of a page, and each can be had and made again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Cluster, ClusterState, PlaceRequest, TieBreak};
use berth_proto::berth_v1::{DecisionOutcome, ListDecisionsRequest};
use berth_testing::object;

use super::*;
use crate::policy::Profiles;
use crate::service::{CancelOnDrop, Deadline, Header, JournalOptions, Recorder};
use crate::telemetry::Metrics;

/// Number of decisions of [`record`].
const N: usize = 1_500;

/// Records decisions about pods `a0`, `a1`, … in segments of a few kilobytes; every third fits nowhere.
fn record(directory: &Path) {
    let recorder = Arc::new(Recorder::new());
    let cluster = Arc::new(Cluster::observed_by(recorder.clone()));
    let profiles = Profiles::default();
    let options = JournalOptions {
        directory: directory.to_owned(),
        max_bytes: 1 << 18,
        max_age: Duration::from_secs(3_600),
    };
    let counts = Metrics::new().journal().clone();
    let header = Header::of(&profiles);
    let journal = Journal::start(&cluster, recorder.clone(), options, header, counts).unwrap();
    let node = |i| cluster.compile_node(&object::node(&format!("n{i} cpu=4 pods=9999"))).unwrap();
    let nodes = (0..3).map(node).collect();
    cluster.replace(ClusterState { nodes, objects: Vec::new(), pods: Vec::new() });
    for i in 0..N {
        let cpu = if i % 3 == 0 { 8 } else { 0 };
        // Their own labels keep them apart, so that segments fill.
        let text = format!("a{i} cpu={cpu} label:number={i}{}", "x".repeat(40));
        let pod = cluster.compile_kept_pod(&object::pod(&text)).unwrap();
        let (policy, tie_break) = (profiles.get("").unwrap(), TieBreak::Lexicographic);
        drop(cluster.assume(&PlaceRequest { pod: &pod, policy, tie_break, now: None }));
        while recorder.n_waiting_bytes() > 0 {
            std::thread::yield_now();
        }
    }
    journal.close();
}

/// All decisions that are searched for, page by page.
fn all(directory: &Path, request: &ListDecisionsRequest) -> Vec<String> {
    let segments = directory::segments(directory).unwrap();
    let caller = CancelOnDrop::new(Deadline(None));
    let (mut names, mut request) = (Vec::new(), request.clone());
    loop {
        let search = Search::of(request.clone()).unwrap();
        let page = search.run(&segments, &caller.token()).unwrap();
        assert!(page.decisions.len() <= request.page_size as usize);
        names.extend(page.decisions.into_iter().map(|it| it.pod.unwrap().name));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return names;
        }
    }
}

#[test]
fn each_is_listed_once_and_the_newest_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    record(path);
    assert!(directory::segments(path).unwrap().len() > 1, "of one segment");
    let names = |which: fn(usize) -> bool| -> Vec<String> {
        (0..N).rev().filter(|i| which(*i)).map(|i| format!("a{i}")).collect()
    };
    for page_size in [7, 100, 1_000] {
        let request = ListDecisionsRequest { page_size, ..ListDecisionsRequest::default() };
        assert_eq!(all(path, &request), names(|_| true), "pages of {page_size}");
    }
    let request = ListDecisionsRequest { page_size: 9, ..ListDecisionsRequest::default() };
    let outcome = DecisionOutcome::Unschedulable.into();
    let refused = ListDecisionsRequest { outcome, ..request.clone() };
    assert_eq!(all(path, &refused), names(|i| i % 3 == 0));
    let named = ListDecisionsRequest { pod_name: "a14".to_owned(), ..request.clone() };
    assert_eq!(all(path, &named).len(), 1 + 10 + 100);
    let elsewhere = ListDecisionsRequest { namespace: "shop".to_owned(), ..request.clone() };
    assert_eq!(all(path, &elsewhere), Vec::<String>::new());
    let from = berth_proto::MicroTime::try_from_unix_microseconds(u64::MAX >> 12);
    let later = ListDecisionsRequest { from, ..request };
    assert_eq!(all(path, &later), Vec::<String>::new());
}

#[test]
fn each_comes_out_the_same_again_and_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    record(path);
    let segments = directory::segments(path).unwrap();
    let caller = CancelOnDrop::new(Deadline(None));
    let request = ListDecisionsRequest { page_size: 1_000, ..ListDecisionsRequest::default() };
    let page = Search::of(request).unwrap().run(&segments, &caller.token()).unwrap();
    for listed in page.decisions.iter().step_by(211) {
        let id = DecisionId::read("id", &listed.id).unwrap();
        let found = Found::of(path, id, &caller.token()).unwrap();
        let whole = wire::whole(&found).unwrap();
        assert_eq!(whole.recorded.as_ref(), Some(listed));
        let metadata = whole.pod_object.unwrap().metadata.unwrap();
        assert_eq!(Some(metadata.name), listed.pod.as_ref().map(|pod| pod.name.clone()));
        let again = replay::again(path, id, &["n1".to_owned()], &caller.token()).unwrap();
        assert!(again.same, "{again:?}");
        assert_eq!(again.result, listed.result);
        let explanation = again.explanation.unwrap();
        assert_eq!(explanation.nodes.len(), 1);
        assert!(!explanation.nodes[0].checks.is_empty());
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    record(path);
    let caller = CancelOnDrop::new(Deadline(None));
    let begun = directory::begun(&directory::segments(path).unwrap()[0]).unwrap();
    for (segment, attempt, index) in [(begun, u64::MAX, 0), (begun, 0, 1), (begun - 1, 0, 0)] {
        let id = DecisionId { segment, attempt, index };
        let error = Found::of(path, id, &caller.token()).err().unwrap();
        assert_eq!(error, CallError::NoSuchDecision { id: id.to_string() });
    }
    let id = DecisionId::before(begun);
    drop(caller);
    let caller = CancelOnDrop::new(Deadline(Some(crate::clock::now())));
    assert_eq!(Found::of(path, id, &caller.token()).err(), Some(CallError::DeadlineExceeded));
}

#[test]
fn a_damaged_segment_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    record(path);
    let segment = &directory::segments(path).unwrap()[0];
    let mut bytes = std::fs::read(segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let caller = CancelOnDrop::new(Deadline(None));
    let id =
        DecisionId { attempt: u64::MAX, ..DecisionId::before(directory::begun(segment).unwrap()) };
    let error = Found::of(path, id, &caller.token()).err().unwrap();
    assert!(matches!(error, CallError::JournalDamaged { .. }), "{error}");
}
