//! Answers over HTTP are those over gRPC, as JSON.

use berth_proto::berth_v1 as wire;
use berth_server::in_process::InProcess;
use berth_server::lifecycle::Function;
use berth_server::runtime::{Server, ServerOptions};
use prost::Message;
use serde_json::{Value, json};

use crate::http::world::{JSON, YAML, in_process, message, post, server};

/// HTTP status of each gRPC status that a request can lead to here.
fn http_status(code: i32) -> u16 {
    match code {
        3 | 9 | 11 => 400,
        5 => 404,
        6 => 409,
        8 => 429,
        12 => 501,
        code => panic!("gRPC status {code}"),
    }
}

/// Sends one request over both transports, as JSON and as YAML over HTTP, and compares.
async fn compare<Request, Response>(services: &InProcess, path: &str, rpc: &str, request: &Request)
where
    Request: Message + serde::Serialize,
    Response: Message + Default + serde::Serialize,
{
    let text = serde_json::to_string(request).unwrap();
    let yaml = serde_saphyr::to_string(request).unwrap();
    let over_grpc = services.call(rpc, &[&request.encode_to_vec()]).await;
    for (content_type, body) in [(JSON, &text), (YAML, &yaml)] {
        let over_http = services.post_as(path, content_type, body.clone().into_bytes()).await;
        let json: Value = serde_json::from_slice(&over_http.body).unwrap();
        match message(&over_grpc) {
            Ok(bytes) => {
                let expected = serde_json::to_value(Response::decode(bytes).unwrap()).unwrap();
                assert_eq!((over_http.status, &json), (200, &expected), "{path}: {body}");
            }
            Err(code) => assert_eq!(over_http.status, http_status(code), "{path}: {body}: {json}"),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(request: Value) -> T {
    serde_json::from_value(request).unwrap()
}

/// Pods that differ in everything that changes a decision.
fn pods() -> Vec<Value> {
    let mut pods = Vec::new();
    for cpu in ["100m", "2", "3500m", "9"] {
        for spec in [
            json!({}),
            json!({"nodeSelector": {"topology.kubernetes.io/zone": "b"}}),
            json!({"tolerations": [{"operator": "Exists"}], "priority": 1000}),
            json!({"nodeName": "n1"}),
            json!({"schedulingGates": [{"name": "wait"}]}),
            json!({"topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "old"}},
            }]}),
        ] {
            let mut spec = spec;
            spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
            let metadata = json!({"name": "p", "uid": "u", "labels": {"app": "old"}});
            pods.push(json!({"metadata": metadata, "spec": spec}));
        }
    }
    pods
}

#[tokio::test]
async fn decisions_equal_those_over_grpc() {
    let server = server().await;
    let services = in_process(&server);
    for pod in pods() {
        let place = "/berth.v1.PlacementService/Place";
        for mode in ["PLACE_MODE_DRY_RUN", "PLACE_MODE_UNSPECIFIED"] {
            let request: wire::PlaceRequest =
                read(json!({"pod": pod, "mode": mode, "tieBreak": {"rule": 1, "seed": "7"}}));
            compare::<_, wire::PlaceResponse>(&services, "/v1/place", place, &request).await;
        }
        let request: wire::PlaceBatchRequest = read(
            json!({"entries": [{"pod": pod, "replicas": 3}, {"pod": pod}], "gang": {"minCount": 2}}),
        );
        let rpc = "/berth.v1.PlacementService/PlaceBatch";
        compare::<_, wire::PlaceBatchResponse>(&services, "/v1/place-batch", rpc, &request).await;
        let request: wire::ExplainRequest = read(json!({"pod": pod}));
        let rpc = "/berth.v1.PlacementService/Explain";
        compare::<_, wire::ExplainResponse>(&services, "/v1/explain", rpc, &request).await;
        let request: wire::PreemptRequest =
            read(json!({"pod": pod, "options": {"victimPlacement": "VICTIM_PLACEMENT_REPORT"}}));
        let rpc = "/berth.v1.PreemptionService/Preempt";
        compare::<_, wire::PreemptResponse>(&services, "/v1/preempt", rpc, &request).await;
        let request: wire::ListCandidatesRequest = read(json!({"pod": pod}));
        let rpc = "/berth.v1.PreemptionService/ListCandidates";
        compare::<_, wire::ListCandidatesResponse>(&services, "/v1/list-candidates", rpc, &request)
            .await;
        let request: wire::HeadroomRequest = read(json!({"pod": pod, "limit": 7}));
        let rpc = "/berth.v1.AutoscalerService/Headroom";
        compare::<_, wire::HeadroomResponse>(&services, "/v1/headroom", rpc, &request).await;
        let request: wire::FitRequest = read(json!({"pods": [{"pod": pod, "replicas": 2}]}));
        let rpc = "/berth.v1.AutoscalerService/Fit";
        compare::<_, wire::FitResponse>(&services, "/v1/fit", rpc, &request).await;
    }
}

#[tokio::test]
async fn simulations_equal_those_over_grpc() {
    let server = server().await;
    let services = in_process(&server);
    let now = "2026-03-01T00:00:00Z";
    for nodes in [json!(["n0"]), json!(["n0", "n1"]), json!(["n9"]), json!([])] {
        let request: wire::SimulateDrainRequest =
            read(json!({"nodeNames": nodes, "now": now, "mode": "DRAIN_MODE_TOGETHER"}));
        let rpc = "/berth.v1.AutoscalerService/SimulateDrain";
        compare::<_, wire::SimulateDrainResponse>(&services, "/v1/drain", rpc, &request).await;
        let request: wire::ConsolidateRequest =
            read(json!({"candidateNodeNames": nodes, "now": now}));
        let rpc = "/berth.v1.AutoscalerService/Consolidate";
        compare::<_, wire::ConsolidateResponse>(&services, "/v1/consolidate", rpc, &request).await;
    }
    let node = json!({"metadata": {"name": "t"}, "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "capacity": {"cpu": "8", "memory": "32Gi"}}});
    for (cpu, limits) in [("5", json!({})), ("5", json!({"nodes": 1})), ("9", json!({}))] {
        let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        let request: wire::SimulateScaleUpRequest = read(json!({
            "entries": [{"pod": pod, "replicas": 3}],
            "nodeGroups": [{"id": "g", "template": node, "maxSize": 5}],
            "limits": limits,
        }));
        let rpc = "/berth.v1.AutoscalerService/SimulateScaleUp";
        compare::<_, wire::SimulateScaleUpResponse>(&services, "/v1/scale-up", rpc, &request).await;
    }
    let request: wire::ChooseScaleInRequest =
        read(json!({"namespace": "default", "selector": {"matchLabels": {"app": "old"}}, "n": 1}));
    let rpc = "/berth.v1.AutoscalerService/ChooseScaleIn";
    compare::<_, wire::ChooseScaleInResponse>(&services, "/v1/scale-in", rpc, &request).await;
}

/// The examples of all decision groups.
const EXAMPLES: &str = include_str!("../../data/lifecycle-examples.json");

#[tokio::test]
async fn lifecycle_functions_answer_as_the_command_does() {
    // A cluster would complete the requests, which the command does not.
    let server = Server::start(ServerOptions::default()).await.unwrap();
    let services = in_process(&server);
    let examples: Vec<Value> = serde_json::from_str(EXAMPLES).unwrap();
    assert!(examples.len() > 20, "{}", examples.len());
    for example in examples {
        let name = example["function"].as_str().unwrap();
        let expected = Function::named(name).unwrap().decide(&example["input"]);
        let path = format!("/v1/lifecycle/{name}");
        let response = services.post(&path, example["input"].to_string().into_bytes()).await;
        let json: Value = serde_json::from_slice(&response.body).unwrap();
        match expected {
            Ok(expected) => assert_eq!((response.status, json), (200, expected), "{path}"),
            Err(_) => assert_eq!(response.status, 400, "{path}: {json}"),
        }
    }
}

#[tokio::test]
async fn a_session_is_opened_filled_and_committed() {
    let server = server().await;
    let ask = async |path: &str, body: &str| {
        let reply = post(&server, path, JSON, body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    };
    let opened = ask("/v1/sessions/open", "").await;
    let id = opened["sessionId"].as_str().unwrap();
    let node = json!({"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "9"}}});
    let apply = json!({"sessionId": id, "deltas": [{"upsertNode": node}, {"deleteNode": "n1"}]});
    let applied = ask("/v1/sessions/apply", &apply.to_string()).await;
    assert_eq!(applied["rejections"], Value::Null, "{applied}");
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "20"}}}]}}"#;
    let placed = ask(&format!("/v1/place?mode=assume&sessionId={id}"), pod).await;
    assert_eq!(placed["decision"]["placement"]["nodeName"], "n2", "{placed}");
    let both = json!({"sessionId": id, "deltas": [{"deleteNode": "n1", "upsertNode": node}]});
    let reply = post(&server, "/v1/sessions/apply", JSON, &both.to_string()).await;
    let (code, field, message) = reply.error();
    assert_eq!((reply.status, &*code), (400, "INVALID_ARGUMENT"));
    assert!(
        field.starts_with("deltas[0].") && message.contains("another field of `change`"),
        "{message}"
    );
    let reply =
        post(&server, "/v1/sessions/commit", JSON, &json!({"sessionId": id}).to_string()).await;
    assert_eq!((reply.status, &*reply.error().0), (400, "FAILED_PRECONDITION"), "{}", reply.body);
    assert_eq!(reply.json()["error"]["reason"], "HYPOTHETICAL");
    ask("/v1/sessions/close", &json!({"sessionId": id}).to_string()).await;
    let reply =
        post(&server, "/v1/sessions/close", JSON, &json!({"sessionId": id}).to_string()).await;
    assert_eq!((reply.status, &*reply.error().0), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn an_assumption_is_listed_extended_confirmed_and_released() {
    let server = server().await;
    let ask = async |path: &str, body: &Value| {
        let reply = post(&server, path, JSON, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"},
                     "spec": {"containers": [{"name": "c"}]}});
    let placed = ask("/v1/place?mode=assume&assumeTtlMs=60000", &pod).await;
    let token = placed["decision"]["placement"]["assumption"]["token"].clone();
    assert!(token.is_u64(), "{placed}");
    let listed = ask("/v1/assumed/list", &json!({"namespace": "default"})).await;
    let assumed = &listed["pods"][0];
    assert_eq!((&assumed["pod"]["name"], &assumed["assumption"]["token"]), (&json!("p"), &token));
    let key = json!({"namespace": "default", "name": "p", "uid": "u"});
    let extend = json!({"pod": key, "token": token, "ttlMs": 5000});
    let extended = ask("/v1/assumed/extend", &extend).await;
    assert!(extended["assumption"]["timeLeftMs"].as_u64().unwrap() <= 5000, "{extended}");
    // A number may be a text, as protobuf's JSON writes 64-bit numbers.
    let confirm = json!({"pod": key, "token": token.to_string()});
    let confirmed = ask("/v1/assumed/confirm", &confirm).await;
    assert_eq!(confirmed["assumed"], true, "{confirmed}");
    let release = json!({"pod": key, "token": token});
    assert_eq!(ask("/v1/assumed/release", &release).await["released"], true);
    assert_eq!(ask("/v1/assumed/release", &release).await["released"], Value::Null);
    assert_eq!(ask("/v1/assumed/list", &json!({})).await["pods"], Value::Null);
    let reply = post(&server, "/v1/assumed/extend", JSON, &extend.to_string()).await;
    assert_eq!((reply.status, &*reply.error().0), (404, "NOT_FOUND"), "{}", reply.body);
}

#[tokio::test]
async fn the_ledger_grants_and_lists() {
    let server = server().await;
    let ask = async |path: &str, body: Value| {
        let reply = post(&server, path, JSON, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    };
    let name = json!({"namespace": "default", "name": "web-0"});
    let acquire = json!({"namespace": "default", "name": "web-0", "uid": "u1", "actor": "a"});
    let granted = ask("/v1/ledger/acquire-identity", acquire).await;
    assert_eq!(granted["outcome"], "Granted", "{granted}");
    let held = ask("/v1/ledger/get-identity", name.clone()).await;
    assert_eq!(held["record"]["holderUID"], "u1", "{held}");
    let event = json!({"namespace": "default", "name": "web-0", "uid": "u1", "actor": "a",
                       "type": "RemovedByNodeAgent"});
    assert_eq!(ask("/v1/ledger/record-identity-event", event).await["outcome"], "Released");
    let attach = json!({"volume": "v", "node": "n1", "podUID": "u2", "actor": "a"});
    let attached = ask("/v1/ledger/attach-volume", attach.clone()).await;
    assert_eq!(attached["reason"], "Attached", "{attached}");
    let may_start = json!({"volume": "v", "node": "n0", "podUID": "u3"});
    assert_eq!(ask("/v1/ledger/may-start", may_start).await["reason"], "WaitForDetach");
    let volume = ask("/v1/ledger/get-volume", json!({"volume": "v"})).await;
    assert_eq!(volume["record"]["holders"][0]["podUID"], "u2", "{volume}");
    let fence = ask("/v1/ledger/get-fence", json!({"nodeName": "n0"})).await;
    assert_eq!(fence["record"]["nodeName"], "n0", "{fence}");
    let records = ask("/v1/ledger/list-records", json!({})).await;
    let operations = records["records"].as_array().unwrap().iter();
    let operations: Vec<&str> =
        operations.map(|record| record["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["AcquireIdentity", "RecordIdentityEvent", "AttachVolume"]);
    let reply = post(&server, "/v1/ledger/attach-volume", JSON, r#"{"volum": "v"}"#).await;
    assert_eq!((reply.status, &*reply.error().1), (400, "volum"), "{}", reply.body);
}
