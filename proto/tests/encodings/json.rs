//! JSON: the same names and shapes as `k8s-openapi`, and Kubernetes' conventions (W-JS).

use berth_proto::{apps_v1, berth_v1, core_v1, meta_v1, policy_v1};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::Kind as FieldKind;
use serde_json::{Value, json};

use crate::descriptors::{
    every_field, is_inlined, kubernetes_messages, label, message, message_below,
};
use crate::kinds::{KINDS, Kind, kind};
use crate::random::{Random, seeded};

/// Our bytes after a round trip through `k8s-openapi`, which speaks JSON only.
fn through_k8s_openapi(kind: &Kind, ours: &[u8]) -> Vec<u8> {
    let theirs = (kind.k8s_openapi)(&(kind.to_json)(ours));
    (kind.from_json)(theirs.to_string().as_bytes()).unwrap()
}

/// Sets one field at a time: `k8s-openapi` must know the field by its name.
#[test]
fn every_field_is_called_what_k8s_openapi_calls_it() {
    for (name, path) in every_field() {
        if path.last().and_then(message_below).is_some_and(|below| is_inlined(&below)) {
            continue; // empty, and so without a trace in JSON
        }
        let kind = kind(name);
        let labels: Vec<String> = path.iter().map(label).collect();
        let ours =
            (kind.recode)(&Random::new(2, 0).along(&message(name), &path).encode_to_vec()).unwrap();
        let json = (kind.to_json)(&ours);
        assert_eq!(
            (kind.from_json)(json.to_string().as_bytes()).unwrap(),
            ours,
            "{labels:?} through our own type: {json}"
        );
        kind.check_same(&through_k8s_openapi(kind, &ours), &ours);
    }
}

proptest! {
    #![proptest_config(seeded(24))]

    #[test]
    fn random_objects_survive_k8s_openapi_and_yaml(seed: u64, density in 5_u64..60) {
        for kind in &KINDS {
            let random = Random::new(seed, density).message(&message(kind.name), 0).encode_to_vec();
            let ours = (kind.recode)(&random).unwrap();
            kind.check_same(&through_k8s_openapi(kind, &ours), &ours);
            let yaml = serde_saphyr::to_string(&(kind.to_json)(&ours)).unwrap();
            kind.check_same(&(kind.from_yaml)(&yaml), &ours);
        }
    }
}

fn pod(json: &Value) -> core_v1::Pod {
    serde_json::from_value(json.clone()).unwrap()
}

/// W-JS-4: `null` is absence everywhere; an explicit zero of a P field is not.
#[test]
fn null_is_absent() {
    for (name, path) in every_field() {
        let kind = kind(name);
        let ours = Random::new(3, 0).along(&message(name), &path[..path.len() - 1]).encode_to_vec();
        let mut json = (kind.to_json)(&ours);
        let field = &path[path.len() - 1];
        // An inlined message has no key.
        let key = field.json_name().to_owned();
        if let Some(object) = object_at(&mut json, &path[..path.len() - 1])
            && !object.contains_key(&key)
        {
            object.insert(key, Value::Null);
            let read = (kind.from_json)(json.to_string().as_bytes())
                .unwrap_or_else(|error| panic!("{json}: {error}"));
            kind.check_same(&read, &ours);
        }
    }
    assert_eq!(pod(&json!({"spec": {"priority": 0}})).spec.unwrap().priority, Some(0));
    assert_eq!(pod(&json!({"spec": {"priority": null}})).spec.unwrap().priority, None);
    let owner: meta_v1::OwnerReference = serde_json::from_str(r#"{"controller": false}"#).unwrap();
    assert_eq!(serde_json::to_value(owner).unwrap(), json!({"controller": false}));
}

/// The JSON object at `path`; `None` below an inlined message.
fn object_at<'a>(
    json: &'a mut Value,
    path: &[prost_reflect::FieldDescriptor],
) -> Option<&'a mut serde_json::Map<String, Value>> {
    let mut at = json;
    for field in path {
        at = at.get_mut(field.json_name())?;
        if field.is_list() {
            at = at.get_mut(0)?;
        } else if field.is_map() {
            at = at.get_mut("key")?;
        }
    }
    at.as_object_mut()
}

/// W-JS-5: `{}` is a present message; empty and absent lists and maps are the same, and neither is written.
#[test]
fn empty_objects_are_present_and_empty_lists_are_not() {
    let read = pod(&json!({"spec": {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {}},
            {"topologyKey": "b", "labelSelector": null},
        ]}},
        "tolerations": [], "nodeSelector": {}, "nodeName": "",
    }}));
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {}},
            {"topologyKey": "b"},
        ]}}}})
    );
}

/// `null` inside lists and maps is the zero value, as Kubernetes' reader takes it.
#[test]
fn null_elements_are_zero() {
    let read = pod(&json!({
        "metadata": {"labels": {"a": null}, "finalizers": [null, "x"]},
        "spec": {"containers": [null], "overhead": {"cpu": null}},
    }));
    let metadata = read.metadata.unwrap();
    assert_eq!(metadata.labels["a"], "");
    assert_eq!(metadata.finalizers, ["", "x"]);
    let spec = read.spec.unwrap();
    assert_eq!(spec.containers, [core_v1::Container::default()]);
    assert_eq!(spec.overhead["cpu"].parse(), Ok(berth_proto::Amount::ZERO));
    let budget: policy_v1::PodDisruptionBudgetStatus =
        serde_json::from_str(r#"{"disruptedPods": {"a": null}}"#).unwrap();
    assert_eq!(budget.disrupted_pods["a"].unix_seconds(), None);
}

/// W-JS-3: a volume's source is beside its name, in any order.
#[test]
fn inlined_messages_have_no_level() {
    let json = json!({"hostPath": {"path": "/x", "type": ""}, "name": "v"});
    let volume: core_v1::Volume = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(volume.volume_source.as_ref().unwrap().host_path.as_ref().unwrap().path, "/x");
    assert_eq!(serde_json::to_value(&volume).unwrap(), json);
    let probe = json!({"tcpSocket": {"port": "http"}, "periodSeconds": 5});
    assert_eq!(
        serde_json::to_value(serde_json::from_value::<core_v1::Probe>(probe.clone()).unwrap())
            .unwrap(),
        probe
    );
    // The level itself is an unknown key.
    let volume: core_v1::Volume =
        serde_json::from_str(r#"{"volumeSource": {"emptyDir": {}}, "name": "v"}"#).unwrap();
    assert_eq!(volume.volume_source, None);
}

/// W-JS-1, W-JS-8: names are matched exactly, unknown ones skipped with all they hold; the last of two equal keys wins.
#[test]
fn unknown_and_repeated_keys() {
    let read: core_v1::Pod = serde_json::from_str(
        r#"{"apiVersion": "v1", "kind": "Pod", "x": {"y": [1, {"z": null}]}, "Spec": {"nodeName": "n"}, "spec":
           {"node_name": "a", "NodeName": "b", "nodeName": "c", "nodeName": "d", "priority": 1, "priority": null,
            "nodeSelector": {"k": "1", "k": "2"}, "tolerations": [{"key": "a"}, {"key": "b"}], "tolerations": []}}"#,
    )
    .unwrap();
    let spec = read.spec.unwrap();
    assert_eq!((spec.node_name.as_str(), spec.priority), ("d", None));
    assert_eq!(spec.node_selector["k"], "2");
    assert!(spec.tolerations.is_empty());
}

/// W-JS-2: 64-bit numbers are numbers; texts, fractions and numbers out of range are refused.
#[test]
fn numbers() {
    let metadata: meta_v1::ObjectMeta =
        serde_json::from_str(r#"{"generation": -9223372036854775808}"#).unwrap();
    assert_eq!(serde_json::to_string(&metadata).unwrap(), r#"{"generation":-9223372036854775808}"#);
    for generation in ["9223372036854775808", "\"1\"", "1.5", "1e3", "true", "{}", "[]"] {
        let json = format!("{{\"generation\": {generation}}}");
        let error = serde_json::from_str::<meta_v1::ObjectMeta>(&json).unwrap_err();
        assert!(error.to_string().starts_with("field `generation`: "), "{error}");
    }
    assert!(
        serde_json::from_str::<apps_v1::ReplicaSetStatus>(r#"{"replicas": 2147483648}"#).is_err()
    );
}

/// W-JS-9: escaped and plain forms of `<`, `>`, `&` and the line separators read the same.
#[test]
fn escapes() {
    let escaped = r#"{"spec": {"nodeName": "\u003c\u003e\u0026\u2028\u2029\ud83e\udd80"}}"#;
    let plain = "{\"spec\": {\"nodeName\": \"<>&\u{2028}\u{2029}\u{1f980}\"}}";
    assert_eq!(
        serde_json::from_str::<core_v1::Pod>(escaped).unwrap(),
        serde_json::from_str::<core_v1::Pod>(plain).unwrap()
    );
    // An escaped key is the same key.
    let key = serde_json::from_str::<core_v1::Pod>(r#"{"sp\u0065c": {"nodeName": "n"}}"#).unwrap();
    assert_eq!(key.spec.unwrap().node_name, "n");
}

/// W-JS-6 does not apply: no message with a JSON form has bytes. If one gets some, `build.rs` refuses it.
#[test]
fn no_json_field_carries_bytes() {
    for message in kubernetes_messages()
        .filter(|message| message.package_name() != "k8s.io.apimachinery.pkg.runtime")
    {
        for field in message.fields() {
            assert!(!matches!(field.kind(), FieldKind::Bytes), "{}", label(&field));
        }
    }
}

/// W-JS-10, and times inside objects.
#[test]
fn creation_timestamps() {
    for json in [r#"{"metadata": {"creationTimestamp": null}}"#, r#"{"metadata": {}}"#] {
        let read: core_v1::Pod = serde_json::from_str(json).unwrap();
        assert_eq!(read.metadata.unwrap().creation_timestamp, None, "{json}");
    }
    let read: core_v1::Pod =
        serde_json::from_str(r#"{"metadata": {"creationTimestamp": "2026-01-02T04:04:05+01:00"}}"#)
            .unwrap();
    assert_eq!(
        serde_json::to_string(&read).unwrap(),
        r#"{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"}}"#
    );
}

/// The protobuf and the JSON of one object agree on quantities: both keep the text.
#[test]
fn quantities_keep_their_text() {
    let read = pod(&json!({"spec": {"overhead": {"cpu": " 0.10 ", "memory": 5}}}));
    let again = core_v1::Pod::decode(&*read.encode_to_vec()).unwrap();
    assert_eq!(
        serde_json::to_value(again).unwrap(),
        json!({"spec": {"overhead": {"cpu": "0.10", "memory": "5"}}})
    );
}

/// Responses of Berth's own services: camel case, oneofs by the member's name, enums by the value's name.
#[test]
fn berth_messages_are_written() {
    let decision = berth_v1::Decision {
        pod: Some(berth_v1::PodKey {
            namespace: "default".into(),
            name: "web-0".into(),
            uid: String::new(),
        }),
        generation: 7,
        outcome: Some(berth_v1::decision::Outcome::Placement(berth_v1::Placement {
            node_name: "n".into(),
            total_score: Some(0),
            n_feasible_nodes: 2,
            ..Default::default()
        })),
    };
    assert_eq!(
        serde_json::to_value(decision).unwrap(),
        json!({
            "pod": {"namespace": "default", "name": "web-0"},
            "generation": 7,
            "placement": {"nodeName": "n", "totalScore": 0, "nFeasibleNodes": 2},
        })
    );
    let request =
        berth_v1::PlaceRequest { mode: berth_v1::PlaceMode::Assume.into(), ..Default::default() };
    assert_eq!(serde_json::to_value(request).unwrap(), json!({"mode": "PLACE_MODE_ASSUME"}));
}
