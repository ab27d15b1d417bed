//! Workloads as bodies: their pods are those of the commands, with names and remarks, and nothing of them stays.

use berth_server::runtime::{Limits, Server, ServerOptions};
use serde_json::{Value, json};

use crate::http::world::{JSON, Reply, YAML, ask, post, server, server_with};

/// A workload of this kind with a template for pods of one CPU.
fn workload(kind: &str, name: &str, spec: &Value) -> Value {
    let version = match kind {
        "Job" | "CronJob" => "batch/v1",
        "ReplicationController" | "PodTemplate" => "v1",
        _ => "apps/v1",
    };
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]);
    let mut template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}});
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    match kind {
        "PodTemplate" => object["template"] = template,
        "CronJob" => {
            template["spec"]["restartPolicy"] = "Never".into();
            object["spec"] = json!({"schedule": "@daily", "jobTemplate": {"spec": spec}});
            object["spec"]["jobTemplate"]["spec"]["template"] = template;
        }
        "Job" => {
            template["spec"]["restartPolicy"] = "Never".into();
            object["spec"] = spec.clone();
            object["spec"]["template"] = template;
        }
        "ReplicationController" => {
            object["spec"] = spec.clone();
            object["spec"]["template"] = template;
        }
        _ => {
            object["spec"] = spec.clone();
            object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            object["spec"]["template"] = template;
        }
    }
    object
}

fn deployment(replicas: u32) -> Value {
    workload("Deployment", "web", &json!({"replicas": replicas}))
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// The nodes of a batch's pods, `-` for those that fit nowhere.
fn nodes(answer: &Value) -> Vec<&str> {
    let node = |result: &'_ Value| -> Option<String> {
        Some(result["decision"]["placement"]["nodeName"].as_str()?.to_owned())
    };
    let results = answer["results"].as_array().into_iter().flatten();
    results
        .map(|result| match node(result) {
            Some(_) => result["decision"]["placement"]["nodeName"].as_str().unwrap(),
            None => "-",
        })
        .collect()
}

async fn place(server: &Server, query: &str, body: &Value) -> Value {
    let reply = post(server, &format!("/v1/place{query}"), JSON, &body.to_string()).await;
    assert_eq!(reply.status, 200, "{body}: {}", reply.body);
    reply.json()
}

async fn refused(server: &Server, path: &str, body: &str) -> (String, String) {
    let reply = post(server, path, YAML, body).await;
    let (code, field, message) = reply.error();
    assert_eq!((reply.status, &*code), (400, "INVALID_ARGUMENT"), "{path}: {message}");
    (field, message)
}

/// Number of nodes, pods and objects of the live cluster.
async fn generation(server: &Server) -> Value {
    let reply = post(server, "/v1/headroom?limit=1", JSON, &pod("probe").to_string()).await;
    reply.json()["generation"].clone()
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
           "spec": {"containers": [{"name": "c"}]}})
}

#[tokio::test]
async fn every_kind_is_placed_with_the_names_of_its_pods() {
    let server = server().await;
    let before = generation(&server).await;
    for (kind, spec, pods) in [
        ("Deployment", json!({"replicas": 2}), &["-0", "-1"][..]),
        ("ReplicaSet", json!({"replicas": 2}), &["-0", "-1"]),
        ("ReplicationController", json!({"replicas": 2}), &["-0", "-1"]),
        ("StatefulSet", json!({"replicas": 2}), &["-0", "-1"]),
        ("DaemonSet", json!({}), &["-n0", "-n1"]),
        ("Job", json!({"parallelism": 2}), &["-0", "-1"]),
        (
            "Job",
            json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}),
            &["-0-0", "-1-0"],
        ),
        ("CronJob", json!({"parallelism": 1}), &["-0"]),
        ("PodTemplate", json!({}), &["-0"]),
    ] {
        let answer = place(&server, "", &workload(kind, "w", &spec)).await;
        let found = texts(&answer["pods"]);
        assert_eq!(found.len(), pods.len(), "{kind}: {answer}");
        assert_eq!(nodes(&answer).len(), pods.len(), "{kind}: {answer}");
        for (name, end) in found.iter().zip(pods) {
            assert!(name.starts_with("default/w-") && name.ends_with(end), "{kind}: {name}");
        }
        assert!(!nodes(&answer).contains(&"-"), "{kind}: {answer}");
    }
    assert_eq!(generation(&server).await, before);
}

#[tokio::test]
async fn replicas_replace_those_of_the_workload_and_copy_pods() {
    let server = server().await;
    let answer = place(&server, "?replicas=9", &deployment(1)).await;
    assert_eq!(answer["pods"].as_array().unwrap().len(), 9, "{answer}");
    assert_eq!(nodes(&answer).iter().filter(|node| **node == "-").count(), 4, "{answer}");
    let answer = place(&server, "?replicas=2", &pod("a")).await;
    assert_eq!(texts(&answer["pods"]), ["default/a-0", "default/a-1"]);
    let reply = post(&server, "/v1/fit?replicas=6", JSON, &deployment(1).to_string()).await.json();
    assert_eq!(reply["nFit"], 5, "{reply}");
    let set = workload("DaemonSet", "agent", &json!({})).to_string();
    let (field, message) = refused(&server, "/v1/place?replicas=2", &set).await;
    assert_eq!(field, "replicas");
    assert!(message.contains("one pod for each node that suits it"), "{message}");
    let body = deployment(1).to_string();
    for query in
        ["replicas=0", "replicas=-1", "replicas=many", "replicas=1&replicas=2", "replicas="]
    {
        assert_eq!(refused(&server, &format!("/v1/place?{query}"), &body).await.0, "replicas");
    }
    // A question about one pod has no use for a number.
    let (field, message) = refused(&server, "/v1/explain?replicas=2", &body).await;
    assert!(field == "replicas" && message.contains("unknown parameter"), "{message}");
}

#[tokio::test]
async fn questions_about_one_pod_take_a_workload() {
    let server = server().await;
    for path in ["/v1/explain", "/v1/preempt", "/v1/list-candidates", "/v1/headroom?limit=3"] {
        let reply = post(&server, path, JSON, &deployment(3).to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        let answer = reply.json();
        assert_eq!(texts(&answer["pods"]).len(), 1, "{path}: {answer}");
        assert_eq!(
            texts(&answer["notes"]),
            ["Deployment `default/web` makes 3 pods; this is about the first, as if it were alone"],
            "{path}"
        );
    }
    let set = workload("DaemonSet", "agent", &json!({})).to_string();
    let reply = post(&server, "/v1/explain?nodeNames=n1", JSON, &set).await.json();
    assert_eq!(texts(&reply["pods"]), ["default/agent-n1"], "{reply}");
    assert!(texts(&reply["notes"])[0].contains("the one of this node"), "{reply}");
    let (_, message) = refused(&server, "/v1/headroom", &set).await;
    assert!(message.contains("one pod on each node that suits it; `/v1/place` shows"), "{message}");
    let (_, message) = refused(&server, "/v1/explain", &deployment(0).to_string()).await;
    assert_eq!(message, "Deployment `default/web` makes no pods");
    let two = format!("{}{}", deployment(1), pod("p"));
    assert!(refused(&server, "/v1/explain", &two).await.1.contains("takes one `Pod`"));
}

/// A chart: what a StatefulSet needs is among the documents, and nothing of it is there afterwards.
const CHART: &str = "\
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {selector: {app: db}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: db}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: disk.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 6
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: '1'}}, volumeMounts: [{name: data, mountPath: /d}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
";

#[tokio::test]
async fn what_stands_beside_the_pods_is_supposed() {
    let server = server().await;
    let before = generation(&server).await;
    let reply = post(&server, "/v1/place", YAML, CHART).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answer = reply.json();
    assert_eq!(texts(&answer["pods"])[..2], ["default/db-0", "default/db-1"]);
    assert_eq!(nodes(&answer).iter().filter(|node| **node != "-").count(), 5, "{answer}");
    assert_eq!(
        texts(&answer["notes"]),
        [
            "the body: 1 object of kind ConfigMap: placements do not depend on such",
            "1 Service, 1 StorageClass of the body supposed to exist",
        ]
    );
    let first = &answer["results"][0]["decision"]["placement"];
    assert_eq!(first["volumes"]["provisioned"], json!(["data-db-0"]), "{first}");
    assert_eq!(generation(&server).await, before);
    // Without the class, the claims cannot be provisioned: that of the first call is gone.
    let class = CHART.find("apiVersion: storage").unwrap();
    let set = CHART.find("apiVersion: apps").unwrap();
    let chart = format!("{}{}", &CHART[..class], &CHART[set..]);
    let answer = post(&server, "/v1/place", YAML, &chart).await.json();
    assert!(nodes(&answer).iter().all(|node| *node == "-"), "{answer}");
    let waits = texts(&answer["notes"]).pop().unwrap().to_owned();
    assert!(waits.ends_with("5 pods after default/db-0 would have to wait for it"), "{waits}");
    // A node of the body is one more for its DaemonSet.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"},
                      "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
    let body = format!("{node}{}", workload("DaemonSet", "agent", &json!({})));
    let answer = post(&server, "/v1/place", JSON, &body).await.json();
    assert_eq!(nodes(&answer), ["n0", "n1", "n2"], "{answer}");
    let bad =
        "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\nstatus: {allocatable: {cpu: 1x}}\n---\n";
    let (field, message) = refused(&server, "/v1/place", &format!("{bad}{}", pod("p"))).await;
    assert_eq!(field, "status.allocatable[cpu]", "{message}");
    assert!(message.contains("body:1 (document 0): Node `n2`"), "{message}");
}

#[tokio::test]
async fn lists_and_owners_are_read_as_the_commands_read_them() {
    let server = server().await;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [deployment(2), pod("p")]});
    let answer = place(&server, "", &list).await;
    assert_eq!(answer["pods"].as_array().unwrap().len(), 3, "{answer}");
    let mut set = workload("ReplicaSet", "web-1", &json!({"replicas": 2}));
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "", "controller": true}]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [deployment(5), set]});
    let answer = place(&server, "", &list).await;
    assert_eq!(texts(&answer["pods"]), ["default/web-1-0", "default/web-1-1"]);
    assert_eq!(
        texts(&answer["notes"]),
        ["Deployment `web` is not expanded: what it owns is given too"]
    );
    let answer = place(&server, "", &deployment(0)).await;
    assert_eq!(answer["results"], Value::Null, "{answer}");
}

#[tokio::test]
async fn what_an_api_server_would_refuse_names_its_field() {
    let server = server().await;
    let mut lost = deployment(1);
    lost["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    let mut bare = deployment(1);
    bare["spec"].as_object_mut().unwrap().remove("template");
    let mut unselected = deployment(1);
    unselected["spec"].as_object_mut().unwrap().remove("selector");
    let mut misspelt = deployment(1);
    misspelt["spec"]["template"]["spec"]["contianers"] = json!([]);
    let mut never = deployment(1);
    never["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    let mut negative = deployment(1);
    negative["spec"]["replicas"] = (-1).into();
    for (body, field, text) in [
        (lost, "spec.template.metadata.labels", "Deployment `web`: "),
        (bare, "spec.template", "must be set"),
        (unselected, "spec.selector", "Deployment `web`: "),
        (misspelt, "spec.template.spec.contianers", "did you mean `containers`?"),
        (never, "spec.template.spec.restartPolicy", "set `Always`"),
        (negative, "spec.replicas", "must be greater than or equal to 0"),
    ] {
        let (found, message) = refused(&server, "/v1/place", &body.to_string()).await;
        assert_eq!(found, field, "{message}");
        assert!(message.contains(text) && message.contains("body:1 (document 0)"), "{message}");
    }
}

#[tokio::test]
async fn a_workload_is_not_assumed() {
    let server = server().await;
    let body = deployment(2).to_string();
    for path in ["/v1/place?mode=assume", "/v1/place-batch?mode=assume"] {
        let (field, message) = refused(&server, path, &body).await;
        assert_eq!(field, "mode");
        assert!(message.contains("`mode=assume` takes pods, not a Deployment: "), "{message}");
    }
    let (field, message) = refused(&server, "/v1/preempt?nominate", &body).await;
    assert_eq!(field, "nominate");
    assert!(message.contains("not known before they are created"), "{message}");
    // Pods are, and what stands beside them is not supposed then.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                         "spec": {"selector": {"app": "a"}}});
    let reply =
        post(&server, "/v1/place?mode=assume", JSON, &format!("{service}{}", pod("p"))).await;
    let answer = reply.json();
    assert_eq!(answer["decision"]["placement"]["assumed"], true, "{answer}");
    assert_eq!(
        texts(&answer["notes"]),
        ["1 Service of the body not supposed: `mode=assume` takes the cluster as it is"]
    );
}

#[tokio::test]
async fn the_pods_of_workloads_have_limits() {
    let limits =
        Limits { max_message_bytes: 20_000, max_pods_per_request: 100, ..Limits::default() };
    let server = server_with(ServerOptions { limits, ..ServerOptions::default() }).await;
    let (field, message) = refused(&server, "/v1/place", &deployment(101).to_string()).await;
    assert_eq!(field, "spec.replicas");
    assert!(message.contains("asks for 101 pods, more than the limit of 100"), "{message}");
    let (field, _) = refused(&server, "/v1/explain", &deployment(101).to_string()).await;
    assert_eq!(field, "spec.replicas");
    let query = "/v1/place?replicas=4000000000";
    assert_eq!(refused(&server, query, &deployment(1).to_string()).await.0, "replicas");
    let mut large = deployment(90);
    large["metadata"]["annotations"] = json!({"a": "x".repeat(1_000)});
    let (_, message) = refused(&server, "/v1/place", &large.to_string()).await;
    assert!(message.contains("more than the limit of 20000 bytes"), "{message}");
    let answer = place(&server, "", &deployment(90)).await;
    assert_eq!(answer["pods"].as_array().unwrap().len(), 90);
}

#[tokio::test]
async fn a_session_is_the_cluster_of_a_workload() {
    let server = server().await;
    let opened = post(&server, "/v1/sessions/open", JSON, "").await.json();
    let id = opened["sessionId"].as_str().unwrap();
    let apply = json!({"sessionId": id, "deltas": [{"deleteNode": "n0"}]});
    post(&server, "/v1/sessions/apply", JSON, &apply.to_string()).await;
    let set = workload("DaemonSet", "agent", &json!({}));
    let answer = place(&server, &format!("?sessionId={id}"), &set).await;
    assert_eq!(texts(&answer["pods"]), ["default/agent-n1"], "{answer}");
    assert_eq!(texts(&place(&server, "", &set).await["pods"]).len(), 2);
    let reply = post(&server, "/v1/place?sessionId=none", JSON, &set.to_string()).await;
    assert_eq!((reply.status, &*reply.error().0), (404, "NOT_FOUND"), "{}", reply.body);
}

#[tokio::test]
async fn a_named_request_is_its_body_with_all_that_it_supposes() {
    let server = server().await;
    let headers = format!("Content-Type: {JSON}\r\nberth-request-id: r-1\r\n");
    let ask = async |body: &str| -> Reply {
        ask(server.http_address(), "POST /v1/place-batch", &headers, body.as_bytes()).await
    };
    let node = |cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"},
               "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}})
    };
    let first = ask(&format!("{}{}", node("9"), deployment(2))).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let again = ask(&format!("{}{}", node("9"), deployment(2))).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert!(again.head.contains("berth-replayed: true"), "{}", again.head);
    let other = ask(&format!("{}{}", node("8"), deployment(2))).await;
    assert_eq!((other.status, &*other.error().0), (400, "FAILED_PRECONDITION"), "{}", other.body);
}

#[tokio::test]
async fn nodes_are_the_templates_of_groups_for_a_scale_up() {
    let server = server().await;
    let node = |name: &str, cpu: &str| {
        let room = json!({"cpu": cpu, "memory": "16Gi", "pods": "110"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
               "status": {"allocatable": room, "capacity": room}})
    };
    let body = format!("{}{}{}", node("small", "2"), node("large", "8"), deployment(9));
    let reply = post(&server, "/v1/scale-up", JSON, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answer = reply.json();
    let options = answer["options"].as_array().unwrap();
    let groups: Vec<&str> =
        options.iter().map(|option| option["nodeGroupId"].as_str().unwrap()).collect();
    assert_eq!(groups, ["small", "large"], "{answer}");
    assert_eq!(answer["pods"].as_array().unwrap().len(), 9);
    // The nodes were templates, not suppositions.
    assert_eq!(answer["existing"].as_array().unwrap().len(), 5, "{answer}");
    let (_, message) = refused(&server, "/v1/scale-up", &node("small", "2").to_string()).await;
    assert_eq!(message, "the body holds no Pod, and no workload such as a Deployment");
}
