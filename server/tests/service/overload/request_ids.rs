//! Request ids: a request that is sent twice is carried out once.

use berth_proto::berth_v1::{
    GetClusterRequest, PlaceBatchResponse, PlaceMode, PlaceRequest, PlaceStreamRequest,
    place_result,
};
use tonic::{Code, Request, Response};
use tonic_types::StatusExt as _;

use crate::overload::world::{World, batch, pod, unlimited};

const ID: &str = "berth-request-id";

fn named<T>(message: T, id: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(ID, id.parse().unwrap());
    request
}

fn is_replayed<T>(response: &Response<T>) -> bool {
    response.metadata().get("berth-replayed").is_some_and(|value| value == "true")
}

fn place(name: &str, mode: PlaceMode) -> PlaceRequest {
    PlaceRequest { pod: Some(pod(name).into()), mode: mode as i32, ..PlaceRequest::default() }
}

#[tokio::test]
async fn the_same_request_is_given_the_same_answer() {
    let mut world = World::start(unlimited()).await;
    let request = || named(place("p", PlaceMode::Assume), "a");
    let first = world.placement.place(request()).await.unwrap();
    let again = world.placement.place(request()).await.unwrap();
    assert_eq!((is_replayed(&first), is_replayed(&again)), (false, true));
    assert_eq!(first.into_inner(), again.into_inner());
    assert_eq!(world.n_assumed().await, 1);
    assert_eq!(world.metric("berth_replayed_answers_total").await, 1.0);
    // Without a request id, or with another one, it is a separate request.
    let other = world.placement.place(named(place("p", PlaceMode::Assume), "b")).await;
    assert_eq!(other.unwrap_err().code(), Code::AlreadyExists);
    // Another method has request ids of its own.
    let other = world.placement.place_batch(named(batch("q"), "a")).await.unwrap();
    assert!(!is_replayed(&other));
}

#[tokio::test]
async fn another_request_with_the_same_id_is_refused() {
    let mut world = World::start(unlimited()).await;
    world.placement.place(named(place("p", PlaceMode::Assume), "a")).await.unwrap();
    let status = world.placement.place(named(place("q", PlaceMode::Assume), "a")).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().starts_with("the request id `a` was used for another request"));
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "REQUEST_ID_REUSED");
    assert_eq!(world.n_assumed().await, 1);
}

/// A refusal has changed nothing, so it is not remembered: the request id can be used for another try.
#[tokio::test]
async fn an_error_is_not_remembered() {
    let mut world = World::start(unlimited()).await;
    let malformed = || named(PlaceRequest { pod: None, ..place("p", PlaceMode::Assume) }, "a");
    for _ in 0..2 {
        let status = world.placement.place(malformed()).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.metadata().get("berth-replayed").is_none());
    }
    world.placement.place(named(place("p", PlaceMode::Assume), "a")).await.unwrap();
}

/// A request that is sent again while it is in flight, as after a lost connection: it is carried out once, and all
/// callers get the one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_at_the_same_time_are_one() {
    let mut world = World::start(unlimited()).await;
    let holder = world.hold();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let mut client = world.placement.clone();
            tokio::spawn(async move { client.place_batch(named(batch("p"), "a")).await })
        })
        .collect();
    world.until("berth_admission_in_flight{lane=\"decision\"}", |n| n == 5.0).await;
    // None of them waits for a worker: four wait for the answer of the first.
    assert_eq!(world.metric("berth_admission_waiting{lane=\"decision\"}").await, 0.0);
    holder.release();
    let mut answers: Vec<Response<PlaceBatchResponse>> = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| is_replayed(answer)).count(), 4);
    let first = answers[0].get_ref().clone();
    assert!(answers.iter().all(|answer| *answer.get_ref() == first));
    assert_eq!(world.n_assumed().await, 2, "the holder's and this one");
}

/// After the first caller goes away, its assumed pods are given back, and a request with the same id runs anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_caller_went_away_was_never_sent() {
    let mut world = World::start(unlimited()).await;
    let holder = world.hold();
    let mut client = world.placement.clone();
    let gone = tokio::spawn(async move { client.place_batch(named(batch("p"), "a")).await });
    world.until("berth_admission_in_flight{lane=\"decision\"}", |n| n == 1.0).await;
    gone.abort();
    world.until("berth_admission_in_flight{lane=\"decision\"}", |n| n == 0.0).await;
    // The second request waits until the assumed pods of the first are given back.
    let mut client = world.placement.clone();
    let again = tokio::spawn(async move { client.place_batch(named(batch("p"), "a")).await });
    world.until("berth_admission_in_flight{lane=\"decision\"}", |n| n == 1.0).await;
    holder.release();
    let again = again.await.unwrap().unwrap();
    assert!(!is_replayed(&again));
    let result = again.into_inner().results.remove(0).result;
    assert!(matches!(result, Some(place_result::Result::Decision(_))), "{result:?}");
    assert_eq!(world.n_assumed().await, 2, "the holder's and this one");
}

#[tokio::test]
async fn request_ids_are_checked() {
    let mut world = World::start(unlimited()).await;
    let long = "x".repeat(129);
    for id in ["", long.as_str()] {
        let status = world.placement.place(named(place("p", PlaceMode::DryRun), id)).await;
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{id}");
        assert!(
            status.message().starts_with("`berth-request-id`: must have 1 to 128"),
            "{status:?}"
        );
    }
    world.placement.place(named(place("p", PlaceMode::DryRun), &"x".repeat(128))).await.unwrap();
    let requests = named(tokio_stream::empty::<PlaceStreamRequest>(), "a");
    let status = world.placement.place_stream(requests).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("a stream is many"), "{status:?}");
    // A method that changes nothing ignores the request id.
    world.cluster.get_cluster(named(GetClusterRequest::default(), "a")).await.unwrap();
}
