//! `LifecycleService.EvaluatePods`: each pod is answered, in order, before any feed has delivered a cluster.

use berth_proto::Time;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::{
    EvaluatePodsRequest, EvaluatePodsResponse, EvictRequest, ExplainPodRequest, ObjectKey,
};
use berth_proto::core_v1::{Node, Pod};
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

/// L-GEN-7: a pod of the cluster is evaluated with its node, and the response says that it was taken.
#[tokio::test]
async fn the_node_comes_from_the_cluster() {
    let mut world = World::start().await;
    let lost = r#"{"metadata":{"name":"n1","resourceVersion":"1"},
        "spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":"2026-01-10T11:59:00Z"}]},
        "status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}"#;
    let lost: Node = serde_json::from_str(lost).unwrap();
    assert_eq!(world.apply([Change::UpsertNode(lost)]).await.rejections, []);
    let (requests, mut answers) = open(&world).await;
    let pod = |node: &str| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c"}}],"tolerations":
            [{{"key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}}]}},
            "status":{{"phase":"Running","containerStatuses":[{{"name":"c","ready":true,"state":{{"running":{{}}}}}}]}}}}"#
        )
    };
    requests.send(request(&pod("n1"))).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((&*answer.effective_phase, &*answer.display_status), ("Unknown", "NodeDown"));
    assert_eq!(answer.conditions["berth.io/NodePartitioned"].status, "True");
    // 300 s after the taint was added, which was 60 s ago.
    assert_eq!(answer.wake_up_at, Some(Time::from_unix_seconds(1_768_046_400 + 240)));
    let taken = answer.taken.unwrap();
    assert_eq!((&*taken.node, taken.generation > 0), ("n1", true));
    // A node that the cluster does not have, and one that the request has.
    requests.send(request(&pod("n2"))).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((&*answer.display_status, answer.taken), ("Running", None));
    let ready =
        r#"{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let node = Some(serde_json::from_str(ready).unwrap());
    requests.send(EvaluatePodsRequest { node, ..request(&pod("n1")) }).await.unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    assert_eq!((&*answer.display_status, answer.taken), ("Running", None));
    // The single question has the same answer, and knows the pod's claim.
    let claim = r#"{"metadata":{"name":"data","namespace":"default"},"spec":{"accessModes":["ReadWriteOnce"]}}"#;
    let claim = Change::UpsertPersistentVolumeClaim(serde_json::from_str(claim).unwrap());
    assert_eq!(world.apply([claim]).await.rejections, []);
    let EvaluatePodsRequest { pod, now, .. } = request(&pod("n1"));
    let mut pod = pod.unwrap();
    let owner = r#"{"kind":"ReplicaSet","name":"r","controller":true}"#;
    pod.metadata.as_mut().unwrap().owner_references = vec![serde_json::from_str(owner).unwrap()];
    let volume = r#"{"name":"v","persistentVolumeClaim":{"claimName":"data"}}"#;
    pod.spec.as_mut().unwrap().volumes = vec![serde_json::from_str(volume).unwrap()];
    let explain = ExplainPodRequest { pod: Some(pod), now, ..ExplainPodRequest::default() };
    let mut client = LifecycleServiceClient::new(world.channel.clone());
    let story = client.explain_pod(explain).await.unwrap().into_inner();
    let evaluation = story.evaluation.unwrap();
    assert_eq!(evaluation.display_status, "NodeDown");
    let taken = evaluation.taken.unwrap();
    assert_eq!((&*taken.node, &*taken.claims), ("n1", &["data".to_owned()][..]));
    assert_eq!(story.volume_warnings[0].access_modes, ["ReadWriteOnce"]);
}

/// L-GEN-7: an eviction request without budgets takes those of the cluster, with a status or without.
#[tokio::test]
async fn the_budgets_come_from_the_cluster() {
    let mut world = World::start().await;
    let budget = |name: &str, rest: &str| {
        let budget = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"shop"}},"spec":{{"selector":{{"matchLabels":{{"app":"web"}}}}
            {rest}}}"#
        );
        Change::UpsertPodDisruptionBudget(serde_json::from_str(&budget).unwrap())
    };
    let stated = budget(
        "web",
        r#","minAvailable":1},"status":{"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}"#,
    );
    assert_eq!(world.apply([stated]).await.rejections, []);
    let mut client = LifecycleServiceClient::new(world.channel.clone());
    let pod = r#"{"metadata":{"name":"a","namespace":"shop","labels":{"app":"web"}},"spec":{"nodeName":"n"},
        "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    let evict = EvictRequest {
        pod: Some(serde_json::from_str(pod).unwrap()),
        now: Some(Time::from_unix_seconds(1_768_046_400)),
        ..EvictRequest::default()
    };
    let answer = client.evict(evict.clone()).await.unwrap().into_inner();
    assert_eq!((&*answer.outcome, answer.code), ("TooManyRequests", 429));
    assert_eq!(answer.taken.unwrap().budgets, ["web"]);
    // Without a status it is computed: no pod is needed.
    let key = ObjectKey {
        kind: "PodDisruptionBudget".into(),
        namespace: "shop".into(),
        name: "web".into(),
    };
    assert_eq!(
        world
            .apply([Change::DeleteObject(key), budget("none", r#","maxUnavailable":"100%"}"#)])
            .await
            .rejections,
        []
    );
    world.nodes(1, 8).await;
    let placed = r#"{"metadata":{"name":"a","namespace":"shop","uid":"u","labels":{"app":"web"},
        "ownerReferences":[{"kind":"ReplicaSet","name":"r","uid":"r","controller":true}]},
        "spec":{"nodeName":"n0","containers":[{"name":"c"}]},
        "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    let placed = Change::UpsertPod(serde_json::from_str(placed).unwrap());
    assert_eq!(world.apply([placed]).await.rejections, []);
    let answer = client.evict(evict.clone()).await.unwrap().into_inner();
    assert_eq!((&*answer.outcome, answer.budget_used), ("Evicted", true));
    assert_eq!(answer.taken.unwrap().budgets, ["none"]);
    // Budgets of the request count alone.
    let other = r#"{"metadata":{"name":"other","namespace":"shop"},"spec":{}}"#;
    let pdbs = vec![serde_json::from_str(other).unwrap()];
    let answer = client.evict(EvictRequest { pdbs, ..evict }).await.unwrap().into_inner();
    assert_eq!((&*answer.outcome, answer.budget_used, answer.taken), ("Evicted", false, None));
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
