//! Bad input ends in an error that says where, never in a panic.

use berth_proto::core_v1;
use proptest::prelude::*;
use prost::Message;

use crate::descriptors::message;
use crate::kinds::{KINDS, kind};
use crate::random::{Random, seeded};

proptest! {
    #![proptest_config(seeded(128))]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for kind in &KINDS {
            let _ = (kind.recode)(&bytes);
            let _ = (kind.from_json)(&bytes);
        }
    }

    /// Valid objects with some changed bytes are refused or read without a panic.
    #[test]
    fn mutated_objects(seed: u64, changes in proptest::collection::vec((any::<u64>(), any::<u8>(), 0..3), 1..6)) {
        for name in ["k8s.io.api.core.v1.Pod", "k8s.io.api.core.v1.Node", "k8s.io.api.policy.v1.PodDisruptionBudget"] {
            let kind = kind(name);
            let protobuf = Random::new(seed, 30).message(&message(name), 0).encode_to_vec();
            let json = (kind.to_json)(&protobuf).to_string().into_bytes();
            let _ = (kind.recode)(&mutated(protobuf, &changes));
            if let Err(error) = (kind.from_json)(&mutated(json, &changes)) {
                prop_assert!(error.line() > 0, "{} has no place", error);
            }
        }
    }
}

/// Changes, inserts or removes a byte at each of the places.
fn mutated(mut bytes: Vec<u8>, changes: &[(u64, u8, i32)]) -> Vec<u8> {
    for (place, byte, what) in changes {
        let at = usize::try_from(place % (bytes.len() as u64 + 1)).unwrap();
        match what {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.insert(at, *byte),
        }
    }
    bytes
}

/// Errors name the field by its path, and the line and column.
#[test]
fn errors_name_the_field() {
    for (json, expected) in [
        (
            "{\"spec\":\n {\"containers\": [{}, {\"ports\": [{\"hostPort\": \"80\"}]}]}}",
            "field `spec.containers[1].ports[0].hostPort`: invalid type: string \"80\", expected i32 at line 2 column 49",
        ),
        (
            r#"{"metadata": {"labels": {"a": "1", "b": 2}}}"#,
            "field `metadata.labels[b]`: invalid type: integer `2`, expected a string at line 1 column 41",
        ),
        (
            r#"{"spec": {"volumes": [{"name": "v", "hostPath": {"path": []}}]}}"#,
            "field `spec.volumes[0].hostPath.path`: invalid type: sequence, expected a string at line 1 column 57",
        ),
        (
            r#"{"spec": []}"#,
            "field `spec`: invalid type: sequence, expected an object (PodSpec) at line 1 column 9",
        ),
        (
            r#"{"spec": {"tolerations": {}}}"#,
            "field `spec.tolerations`: invalid type: map, expected a list at line 1 column 25",
        ),
        (
            r#"{"metadata": {"deletionTimestamp": "tomorrow"}}"#,
            "field `metadata.deletionTimestamp`: `tomorrow` is not an RFC 3339 time at line 1 column 45",
        ),
        (
            r#"{"spec": {"overhead": {"cpu": true}}}"#,
            "field `spec.overhead[cpu]`: invalid type: boolean `true`, expected a quantity: a string or a number at line 1 column 34",
        ),
        ("5", "invalid type: integer `5`, expected an object (Pod) at line 1 column 1"),
    ] {
        assert_eq!(
            serde_json::from_str::<core_v1::Pod>(json).unwrap_err().to_string(),
            expected,
            "{json}"
        );
    }
}

/// YAML names the field too.
#[test]
fn yaml_errors_name_the_field() {
    let yaml = "spec:\n  containers:\n  - name: a\n    ports:\n    - hostPort: http\n";
    let error = serde_saphyr::from_str::<core_v1::Pod>(yaml).unwrap_err().to_string();
    assert!(error.contains("`spec.containers[0].ports[0].hostPort`"), "{error}");
    assert!(error.contains("line 5"), "{error}");
}

/// Deep nesting does not exhaust the stack in either encoding.
#[test]
fn deep_nesting_is_refused_or_skipped() {
    let open = "[".repeat(200_000);
    let json = format!("{{\"unknown\": {open}");
    assert!(serde_json::from_str::<core_v1::Pod>(&json).is_err());
    // Groups of an unknown field inside each other.
    let groups = b"\xfb\x3f".repeat(200_000);
    assert!(core_v1::Pod::decode(&*groups).is_err());
}

/// A length beyond the end of the input does not allocate memory.
#[test]
fn lengths_beyond_the_end_are_refused() {
    for bytes in [
        &b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"[..],
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x05ab",
        b"\x0a",
    ] {
        assert!(core_v1::Pod::decode(bytes).is_err(), "{bytes:x?}");
    }
    // Text must be UTF-8.
    assert!(core_v1::Taint::decode(&b"\x0a\x01\xff"[..]).is_err());
}
