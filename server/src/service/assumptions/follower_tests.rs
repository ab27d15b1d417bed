//! Assumptions that two servers share: what one has written the other has, and a term that is over writes nothing.

use std::time::{Duration, Instant};

use berth_engine::PodKey;

use super::replicas_fixture::{Replica, Terms, pods_at};
use super::*;
use crate::ledger::Ledger as _;
use crate::service::CallError;
use crate::service::response_cache::{Claim, in_scope_of};

#[tokio::test]
async fn what_one_server_assumes_another_one_has_until_it_ends() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    let first = one.place("p0").await.unwrap();
    other.begin();
    assert_eq!(other.assumed(), one.assumed());
    one.place("p1").await.unwrap();
    other.follow();
    assert_eq!((other.assumed(), other.assumed().len()), (one.assumed(), 2));
    one.release("p0", first).await;
    other.follow();
    assert_eq!((other.assumed(), other.assumed().len()), (one.assumed(), 1));
    // What it lacks after a pause it has after a new beginning, and the other way round.
    one.place("p2").await.unwrap();
    let (_, token, _) = one.assumed().remove(0);
    one.release("p1", token).await;
    other.begin();
    assert_eq!((other.assumed(), other.assumed()[0].0.as_str()), (one.assumed(), "p2"));
}

#[tokio::test]
async fn a_pod_that_a_feed_has_reported_elsewhere_stays_until_this_one_has() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 7);
    other.reached = pods_at(5);
    let token = one.place("p0").await.unwrap();
    other.begin();
    let behind = other.follower.behind(&other.reached).unwrap();
    assert!(behind.to_string().contains("version 5"), "{behind}");
    one.release("p0", token).await;
    other.follow();
    // The other replica's feed is behind: the released pod still has its room there, and no list has the pod.
    let n_on_nodes = |replica: &Replica| replica.state.cluster.snapshot().n_pods();
    assert_eq!((one.assumed(), n_on_nodes(&one)), (Vec::new(), 0));
    assert_eq!((other.assumed(), n_on_nodes(&other)), (Vec::new(), 1));
    other.follower.end_lingering(&pods_at(6));
    assert_eq!(n_on_nodes(&other), 1);
    // Reserved anew, it does not wait.
    let again = one.place("p0").await.unwrap();
    other.follow();
    assert_eq!(other.assumed()[0].1, again);
    one.release("p0", again).await;
    other.follow();
    other.follower.end_lingering(&pods_at(7));
    assert_eq!((other.assumed(), n_on_nodes(&other)), (Vec::new(), 0));
    assert_eq!(other.follower.behind(&pods_at(7)), None);
}

#[tokio::test]
async fn a_term_that_is_over_assumes_nothing_and_keeps_what_it_has_written() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    let written = one.place("p0").await.unwrap();
    other.take_over(2, 0);
    // The one does not know yet that its term is over.
    let refused = one.place("p1").await.unwrap_err();
    assert_eq!(refused, CallError::NotGranted(GrantError::OtherTerm));
    let taken = other.place("p1").await.unwrap();
    assert!(taken > written);
    // Nor does it say that there is no such pod.
    let elsewhere = other.place("p9").await.unwrap();
    let named = Named { key: PodKey::new("default", "p9"), uid: String::new(), token: elsewhere };
    let (released, settled) = one.state.assumptions.release(&named).unwrap();
    let refused = settled.await;
    assert_eq!((released, refused), (false, Err(CallError::NotGranted(GrantError::OtherTerm))));
    other.release("p9", elsewhere).await;
    one.follower.hand_over();
    assert_eq!(one.place("p2").await, Err(CallError::NotCommitter { committer: None }));
    one.begin();
    assert_eq!((one.assumed(), one.assumed().len()), (other.assumed(), 2));
    // It takes over what both have written, and its tokens are above all of them.
    one.take_over(3, 0);
    assert!(one.place("p2").await.unwrap() > taken);
    one.release("p1", taken).await;
    let late = other.place("p3").await.unwrap_err();
    assert_eq!(late, CallError::NotGranted(GrantError::OtherTerm));
}

#[tokio::test]
async fn a_token_that_was_never_written_is_only_the_next_ones() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    // An hour ahead.
    one.unix_micros += 3_600_000_000;
    one.take_over(1, 0);
    one.place("p0").await.unwrap();
    let written = one.held("p0");
    other.take_over(2, 0);
    for pod in ["p1", "p2"] {
        one.place(pod).await.unwrap_err();
    }
    let unwritten = ["p1", "p2"].map(|pod| one.held(pod).2);
    assert_eq!(one.assumed().len(), 1, "what is not written is not listed");
    // The tokens are given again, one to another pod and one to the same.
    let given = [other.place("p9").await.unwrap(), other.place("p2").await.unwrap()];
    assert_eq!(given, unwritten);
    one.follower.hand_over();
    one.begin();
    assert_eq!((one.assumed(), one.assumed().len()), (other.assumed(), 3));
    assert_eq!(one.held("p0"), written, "it was not taken out");
    assert_eq!(one.state.cluster.snapshot().n_assumed(), 3);
}

#[tokio::test]
async fn only_who_commits_ends_what_is_over_and_its_time_begins_anew() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    one.place("p0").await.unwrap();
    other.begin();
    let late = Instant::now() + Duration::from_secs(61);
    assert!(!other.state.assumptions.is_any_due(late));
    assert_eq!((other.state.assumptions.expire(late), other.assumed().len()), (0, 1));
    other.take_over(2, 0);
    assert_eq!(other.state.assumptions.expire(Instant::now() + Duration::from_secs(59)), 0);
    assert_eq!(other.state.assumptions.expire(Instant::now() + Duration::from_secs(61)), 1);
    let until = Instant::now() + Duration::from_secs(60);
    while !other.assumed().is_empty() {
        assert!(Instant::now() < until, "its end is written in vain");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    one.follower.hand_over();
    one.begin();
    assert_eq!(one.assumed(), []);
}

#[tokio::test]
async fn a_named_request_is_carried_out_once_whoever_decides() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    for (id, pod) in [("answered", "p0"), ("lost", "p1"), ("given back", "p2")] {
        let request = one.first_claim(id).await;
        in_scope_of(request.clone(), one.place(pod)).await.unwrap();
        if id == "answered" {
            one.state.assumptions.answer(&request, b"yes").await.unwrap();
            request.remember(b"yes");
        }
        if id == "given back" {
            let (_, stamp, token) = one.held("p2");
            let pods = [(PodKey::new("default", "p2"), token, stamp)];
            one.state.assumptions.give_back(&pods, Some(&request));
            one.state.assumptions.settled().await.unwrap();
        }
    }
    let n_requests = |ledger: &Terms| ledger.list(Key::REQUESTS).unwrap().len();
    assert_eq!((one.assumed().len(), n_requests(&ledger)), (2, 2));
    other.take_over(2, 0);
    // What is lost ends before a retry begins.
    let retry = other.first_claim("lost").await;
    assert_eq!(other.assumed().iter().map(|it| &*it.0).collect::<Vec<_>>(), ["p0"]);
    assert!(matches!(other.claim("answered").await, Claim::Again(answer) if answer == "yes"));
    other.first_claim("given back").await;
    assert_eq!(n_requests(&ledger), 1);
    in_scope_of(retry.clone(), other.place("p1")).await.unwrap();
    other.state.assumptions.answer(&retry, b"again").await.unwrap();
    // The first one, which decides once more, does not repeat what it knew.
    one.follower.hand_over();
    one.take_over(3, 0);
    assert!(matches!(one.claim("lost").await, Claim::Again(answer) if answer == "again"));
    assert_eq!(one.assumed(), other.assumed());
    // One whose term is over keeps no response.
    let late = other.first_claim("late").await;
    let refused = other.state.assumptions.answer(&late, b"late").await;
    assert_eq!(refused, Err(CallError::NotGranted(GrantError::OtherTerm)));
}

#[tokio::test]
async fn a_server_that_decides_once_more_undoes_before_it_repeats() {
    let ledger = Terms::new();
    let (mut one, mut other) = (Replica::new(&ledger), Replica::new(&ledger));
    one.take_over(1, 0);
    let request = one.first_claim("lost").await;
    in_scope_of(request.clone(), one.place("p0")).await.unwrap();
    one.state.assumptions.answer(&request, b"first").await.unwrap();
    request.remember(b"first");
    // Elsewhere the name was forgotten, and its second caller got no response.
    let again = other.first_claim("lost").await;
    other.take_over(2, 0);
    other.release("p0", one.held("p0").2).await;
    in_scope_of(again, other.place("p1")).await.unwrap();
    assert_eq!(ledger.list(Key::REQUESTS).unwrap().len(), 1);
    one.follower.hand_over();
    one.take_over(3, 0);
    let retry = one.first_claim("lost").await;
    assert_eq!(one.assumed(), []);
    drop((request, retry));
}
