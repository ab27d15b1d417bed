//! Objects that a real API server and `kubectl` wrote, from [`berth_testing::recorded`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use berth_proto::{ENVELOPE_MAGIC, core_v1, runtime};
use berth_testing::recorded;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kinds::KINDS;

/// Fields that the messages leave out, by the last two names of the path. Every other field of a recorded object must
/// be kept.
const LEFT_OUT: [&str; 10] = [
    "containers.volumeMounts",
    "spec.persistentVolumeClaimRetentionPolicy",
    "spec.ports",
    "spec.securityContext",
    "spec.updateStrategy",
    "status.daemonEndpoints",
    "status.hostIPs",
    "Service.status",
    "StatefulSet.status",
    "volumes.projected",
];

/// Reads a recorded file of messages.
fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// Reads a recorded file of text.
fn text(path: &Path) -> String {
    recorded::text(path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// Opens the envelope (W-ENV-1) around an object.
fn opened(bytes: &[u8]) -> runtime::Unknown {
    let envelope = bytes.strip_prefix(&ENVELOPE_MAGIC).expect("the four magic bytes");
    runtime::Unknown::decode(envelope).unwrap()
}

/// The object after a trip through JSON: zero times and other empty messages that protobuf always has are gone.
fn in_json<T: Serialize + DeserializeOwned>(object: &T) -> T {
    serde_json::from_str(&serde_json::to_string(object).unwrap()).unwrap()
}

/// The API server's protobuf and its JSON of the same objects read as the same.
#[test]
fn protobuf_and_json_of_an_api_server_agree() {
    let Some(folder) = recorded::find("data/apiserver") else { return };
    let exchanges: Value = serde_json::from_str(&text(&folder.join("13-protobuf.json"))).unwrap();
    let body = |index: usize| {
        let body = &exchanges["exchanges"][index]["response"]["body"];
        body.as_str().map_or_else(|| body.to_string(), str::to_owned)
    };

    for (file, kind) in [
        ("13-podlist.pb", "PodList"),
        ("13-podlist-both.pb", "PodList"),
        ("13-nodelist.pb", "NodeList"),
        ("13-pod.pb", "Pod"),
        ("13-notfound.pb", "Status"),
    ] {
        let type_meta = opened(&bytes(&folder.join(file))).type_meta.unwrap();
        assert_eq!(
            (type_meta.api_version.as_str(), type_meta.kind.as_str()),
            ("v1", kind),
            "{file}"
        );
    }
    let pods =
        core_v1::PodList::decode(&*opened(&bytes(&folder.join("13-podlist.pb"))).raw).unwrap();
    let json: core_v1::PodList = serde_json::from_str(&body(0)).unwrap();
    assert!(!pods.items.is_empty());
    assert_eq!(in_json(&pods), json);
    let pod = core_v1::Pod::decode(&*opened(&bytes(&folder.join("13-pod.pb"))).raw).unwrap();
    assert!(pods.items.contains(&pod), "the single pod is one of the list");

    let nodes =
        core_v1::NodeList::decode(&*opened(&bytes(&folder.join("13-nodelist.pb"))).raw).unwrap();
    let json: core_v1::NodeList = serde_json::from_str(&body(4)).unwrap();
    assert!(!nodes.items.is_empty());
    assert_eq!(in_json(&nodes), json);
}

/// Every object of the dumps is unchanged after a round trip through our types, except for fields that they leave out.
#[test]
fn dumped_objects_come_back() {
    let Some(folder) = recorded::find("data/cluster-dump") else { return };
    let yaml: Value = serde_saphyr::from_str(&text(&folder.join("small.yaml"))).unwrap();
    let json: Value = serde_json::from_str(&text(&folder.join("mid.json.gz"))).unwrap();
    let mut lost = BTreeSet::new();
    let mut n_objects = BTreeMap::new();
    for item in [&yaml, &json].into_iter().flat_map(|dump| dump["items"].as_array().unwrap()) {
        let (group, kind) = (item["apiVersion"].as_str().unwrap(), item["kind"].as_str().unwrap());
        let group = if group == "v1" {
            "core.v1".to_owned()
        } else {
            group.replace(".k8s.io", "").replace('/', ".")
        };
        let Some(known) =
            KINDS.iter().find(|known| known.name == format!("k8s.io.api.{group}.{kind}"))
        else {
            continue;
        };
        *n_objects.entry(kind).or_insert(0) += 1;
        let protobuf = (known.from_json)(item.to_string().as_bytes()).unwrap();
        let written = (known.to_json)(&(known.recode)(&protobuf).unwrap());
        compare(&mut vec![kind.to_owned()], item, &written, &mut lost);
    }
    println!("compared {n_objects:?}");
    assert!(n_objects["Pod"] > 100 && n_objects["Node"] > 10, "{n_objects:?}");
    let unexpected: Vec<_> =
        lost.iter().filter(|path| !LEFT_OUT.contains(&path.as_str())).collect();
    assert!(unexpected.is_empty(), "lost: {unexpected:#?}");
}

/// Every object of the recorded cases of dynamic resource allocation is unchanged after a round trip through our types.
#[test]
fn objects_of_dynamic_resource_allocation_come_back() {
    let Some(folder) = recorded::find("conformance-dra") else { return };
    let mut lost = BTreeSet::new();
    let mut n_objects = BTreeMap::new();
    for suite in ["basic", "capacity", "extended", "odd", "partitionable", "prioritized", "taints"]
    {
        let path = folder.join(format!("dra-{suite}.jsonl.gz"));
        for line in text(&path).lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            for (list, kind) in [
                ("deviceClasses", "DeviceClass"),
                ("resourceSlices", "ResourceSlice"),
                ("resourceClaims", "ResourceClaim"),
            ] {
                let known = crate::kinds::kind(&format!("k8s.io.api.resource.v1.{kind}"));
                for item in case["cluster"][list].as_array().into_iter().flatten() {
                    *n_objects.entry(kind).or_insert(0) += 1;
                    let protobuf = (known.from_json)(item.to_string().as_bytes()).unwrap();
                    let written = (known.to_json)(&(known.recode)(&protobuf).unwrap());
                    compare(&mut vec![kind.to_owned()], item, &written, &mut lost);
                }
            }
        }
    }
    println!("compared {n_objects:?}");
    assert!(n_objects["ResourceSlice"] > 1000, "{n_objects:?}");
    assert!(lost.is_empty(), "lost: {lost:#?}");
}

/// Checks that `written` has nothing that `item` does not have, and collects in `lost` what is missing in `written`.
fn compare(path: &mut Vec<String>, item: &Value, written: &Value, lost: &mut BTreeSet<String>) {
    match (item, written) {
        (Value::Object(item), Value::Object(written)) => {
            for (key, value) in written {
                let before = item
                    .get(key)
                    .unwrap_or_else(|| panic!("{path:?}: `{key}` came from nowhere: {value}"));
                path.push(key.clone());
                compare(path, before, value, lost);
                path.pop();
            }
            // The envelope has the two names of the kind (W-PB-8).
            let gone = item.iter().filter(|(key, value)| {
                !written.contains_key(*key)
                    && !is_zero(value)
                    && !["apiVersion", "kind"].contains(&key.as_str())
            });
            lost.extend(
                gone.map(|(key, _)| format!("{}.{key}", path.last().map_or("", String::as_str))),
            );
        }
        (Value::Array(item), Value::Array(written)) => {
            assert_eq!(item.len(), written.len(), "{path:?}");
            item.iter().zip(written).for_each(|(item, written)| compare(path, item, written, lost));
        }
        _ => assert_eq!(item, written, "{path:?}"),
    }
}

/// Whether a value is a zero value, which our types do not write.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(_) | Value::Bool(true) => false,
    }
}
