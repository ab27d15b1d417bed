//! Requests of `berth.v1` as JSON, which people and programs write: strict, with numbers and enums as in protobuf's
//! JSON; and the schemas of that form.

use std::fmt::Debug;

use berth_proto::berth_v1;
use berth_proto::openapi::{OPERATIONS, SCHEMAS, schema};
use proptest::prelude::*;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::descriptors::message;
use crate::random::{Random, seeded};

macro_rules! requests {
    ($($request:ident)+) => {
        /// Every request that is not a lifecycle function's, with the check of its JSON form.
        const REQUESTS: &[(&str, fn(&[u8]))] =
            &[$((concat!("berth.v1.", stringify!($request)), check::<berth_v1::$request>),)+];
    };
}

requests! {
    PlaceRequest PlaceBatchRequest ExplainRequest PreemptRequest ListCandidatesRequest HeadroomRequest
    SimulateDrainRequest SimulateScaleUpRequest FitRequest ConsolidateRequest ChooseScaleInRequest
    SessionServiceOpenRequest SessionServiceApplyRequest SessionServiceCommitRequest
    SessionServiceCloseRequest ApplyRequest GetClusterRequest ListNodesRequest ListPodsRequest
    ReserveRequest ConfirmRequest ExtendRequest ReleaseRequest ListAssumedRequest GetPodRequest ListPendingRequest
    ListDecisionsRequest GetDecisionRequest ReplayDecisionRequest CompareRequest
}

fn read<T: DeserializeOwned>(json: &Value) -> Result<T, String> {
    serde_json::from_value(json.clone()).map_err(|error| error.to_string())
}

/// Checks that the JSON form of a message reads as the message, from where on it stays the same. The first pass drops
/// empty inlined messages, which JSON does not have.
fn check<T: Message + Default + Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let settle = |request: &T| -> T {
        let json = serde_json::to_value(request).unwrap();
        let again: T = read(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(serde_json::to_value(&again).unwrap(), json);
        again
    };
    let settled = settle(&T::decode(bytes).unwrap());
    assert_eq!(settle(&settled), settled);
}

proptest! {
    #![proptest_config(seeded(24))]

    #[test]
    fn random_requests_survive_their_json_form(seed: u64, density in 5_u64..60) {
        for (name, check) in REQUESTS {
            check(&Random::new(seed, density).message(&message(name), 0).encode_to_vec());
        }
    }
}

#[test]
fn every_unary_request_is_read() {
    let listed = |name: &str| REQUESTS.iter().any(|(request, _)| *request == name);
    let others = OPERATIONS.iter().filter(|operation| !operation.path.contains("LifecycleService"));
    for operation in others {
        assert!(listed(operation.request), "{}", operation.request);
    }
}

#[test]
fn numbers_may_be_strings_and_enums_numbers() {
    let request: berth_v1::PlaceRequest = read(&json!({
        "mode": 2, "tieBreak": {"rule": "TIE_BREAK_RULE_SEEDED", "seed": "18446744073709551615"}, "sessionId": null,
    }))
    .unwrap();
    assert_eq!(request.mode(), berth_v1::PlaceMode::Assume);
    assert_eq!(request.tie_break.unwrap().seed, u64::MAX);
    let request: berth_v1::PlaceRequest = read(&json!({"mode": null, "tieBreak": null})).unwrap();
    assert_eq!(request, berth_v1::PlaceRequest::default());
    // The handler refuses a mode that it does not know.
    let request: berth_v1::PlaceRequest = read(&json!({"mode": 77})).unwrap();
    assert_eq!((request.mode, serde_json::to_value(&request).unwrap()), (77, json!({"mode": 77})));
    let limits: berth_v1::ScaleUpLimits =
        read(&json!({"nodes": "3", "totalNodes": 4, "milliCpu": "-5", "memoryBytes": null}))
            .unwrap();
    let expected = berth_v1::ScaleUpLimits {
        nodes: Some(3),
        total_nodes: Some(4),
        milli_cpu: Some(-5),
        ..Default::default()
    };
    assert_eq!(limits, expected);
}

#[test]
fn what_is_no_request_is_refused_with_its_path() {
    let error = |json: Value| read::<berth_v1::PlaceBatchRequest>(&json).unwrap_err();
    assert_eq!(error(json!({"entry": []})), "field `entry`: unknown field");
    assert_eq!(
        error(json!({"entries": [{"replicas": -1}]})),
        "field `entries[0].replicas`: invalid value: integer `-1`, expected u32"
    );
    for text in ["+1", " 1", "", "1.0", "0x1", "4294967296"] {
        let text = error(json!({"entries": [{"replicas": text}]}));
        assert!(text.starts_with("field `entries[0].replicas`: invalid value: string"), "{text}");
    }
    assert!(error(json!({"mode": "assume"})).contains("expected one of PLACE_MODE_UNSPECIFIED, "));
    assert!(error(json!({"mode": 1.5})).starts_with("field `mode`: invalid type"));
    assert!(
        error(json!({"gang": {"minCount": true}})).starts_with("field `gang.minCount`: invalid")
    );
    assert_eq!(
        error(json!({"entries": [{"pod": {"spec": {"priority": "7"}}}]})),
        "field `entries[0].pod.spec.priority`: invalid type: string \"7\", expected i32"
    );
}

#[test]
fn only_one_member_of_a_oneof_is_taken() {
    let both = json!({"deltas": [{"deleteNode": "a", "deletePod": {"name": "b"}}]});
    assert_eq!(
        read::<berth_v1::ApplyRequest>(&both).unwrap_err(),
        "field `deltas[0].deletePod`: another field of `change` is set, and at most one may be"
    );
    let one = json!({"deltas": [{"deleteNode": "a", "deletePod": null}]});
    let read: berth_v1::ApplyRequest = read(&one).unwrap();
    let change = read.deltas[0].change.clone().unwrap();
    assert_eq!(change, berth_v1::delta::Change::DeleteNode("a".to_owned()));
    // The last of two equal keys counts.
    let twice: berth_v1::Delta =
        serde_json::from_str(r#"{"deleteNode": "a", "deleteNode": "b"}"#).unwrap();
    assert_eq!(twice.change, Some(berth_v1::delta::Change::DeleteNode("b".to_owned())));
}

#[test]
fn schemas_have_the_keys_that_are_written() {
    assert!(SCHEMAS.is_sorted_by_key(|(name, _)| *name));
    for (name, _) in REQUESTS {
        let schema: Value = serde_json::from_str(schema(name).unwrap()).unwrap();
        let message = message(name);
        let keys: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let mut expected: Vec<String> =
            message.fields().map(|field| field.json_name().to_owned()).collect();
        expected.sort();
        assert_eq!(keys, expected, "{name}");
    }
    let volume: Value = serde_json::from_str(schema("io.k8s.api.core.v1.Volume").unwrap()).unwrap();
    assert!(volume["properties"]["persistentVolumeClaim"].is_object(), "{volume}");
}
