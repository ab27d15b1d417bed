//! `LifecycleService.EvaluatePods`: each pod is answered, in order, before any feed has delivered a cluster.

use berth_proto::Time;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::{EvaluatePodsRequest, EvaluatePodsResponse};
use berth_proto::core_v1::Pod;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use crate::grpc::world::World;

async fn open(
    world: &World,
) -> (mpsc::Sender<EvaluatePodsRequest>, Streaming<EvaluatePodsResponse>) {
    let (requests, receiver) = mpsc::channel(64);
    let mut client = LifecycleServiceClient::new(world.channel.clone());
    let answers = client.evaluate_pods(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    (requests, answers)
}

/// A request to evaluate a pod, in JSON, at noon of a fixed day.
fn request(pod: &str) -> EvaluatePodsRequest {
    EvaluatePodsRequest {
        pod: Some(serde_json::from_str::<Pod>(pod).unwrap()),
        now: Some(Time::from_unix_seconds(1_768_046_400)),
        ..EvaluatePodsRequest::default()
    }
}

#[tokio::test]
async fn every_pod_is_answered_and_a_bad_one_does_not_end_the_stream() {
    let world = World::start().await;
    let (requests, mut answers) = open(&world).await;
    let pods = [
        r#"{"metadata":{"name":"a"},"spec":{"schedulingGates":[{"name":"x"}]}}"#,
        r#"{"metadata":{"name":"b"},"spec":{"nodeName":"n","containers":[{"name":"c"}]},
            "status":{"containerStatuses":[{"name":"c","state":{"running":{},"terminated":{"exitCode":1}}}]}}"#,
        r#"{"metadata":{"name":"c"},"spec":{"nodeName":"n","containers":[{"name":"c"}]},
            "status":{"phase":"Running","startTime":"2026-01-10T11:59:00Z","containerStatuses":[{"name":"c","restartCount":3,
            "state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,
            "startedAt":"2026-01-10T11:59:30Z","finishedAt":"2026-01-10T11:59:50Z"}}}]}}"#,
    ];
    for pod in pods {
        requests.send(request(pod)).await.unwrap();
    }
    let gated = answers.message().await.unwrap().unwrap();
    assert_eq!((&*gated.name, &*gated.phase), ("a", "Pending"));
    assert_eq!(gated.next_action.unwrap().names, ["x"]);
    let bad = answers.message().await.unwrap().unwrap();
    let error = bad.error.unwrap();
    assert_eq!((&*bad.name, &*error.field), ("b", "pod.status.containerStatuses[0].state"));
    let crashing = answers.message().await.unwrap().unwrap();
    assert_eq!((&*crashing.name, &*crashing.phase), ("c", "Running"));
    assert_eq!(crashing.conditions["Ready"].status, "False");
    assert_eq!(crashing.next_action.unwrap().action, "RestartContainers");
    // 40 s after the end of the latest run: after three restarts the back-off has doubled twice.
    assert_eq!(crashing.wake_up_at, Some(Time::from_unix_seconds(1_768_046_400 + 30)));
    drop(requests);
    assert_eq!(answers.message().await.unwrap(), None);
}

#[tokio::test]
async fn without_a_time_it_is_now() {
    let world = World::start().await;
    let (requests, mut answers) = open(&world).await;
    let pod = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","activeDeadlineSeconds":60,"containers":[{"name":"c"}]},
        "status":{"phase":"Running","startTime":"2020-01-01T00:00:00Z","containerStatuses":[{"name":"c","state":{"running":{}}}]}}"#;
    requests.send(EvaluatePodsRequest { now: None, ..request(pod) }).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!(answer.next_action.unwrap().action, "FailPod");
}

#[tokio::test]
async fn a_stream_ends_with_the_server() {
    let world = World::start().await;
    let (requests, mut answers) = open(&world).await;
    requests.send(request(r#"{"metadata":{"name":"a"}}"#)).await.unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().name, "a");
    let World { server, .. } = world;
    let stopped = tokio::spawn(server.shutdown());
    assert_eq!(answers.message().await.unwrap_err().code(), Code::Unavailable);
    stopped.await.unwrap();
}
