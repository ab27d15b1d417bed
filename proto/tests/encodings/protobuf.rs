//! Protobuf: the same numbers and types as `k8s-pb`, and Kubernetes' conventions (W-PB, W-ENV).

use berth_proto::{apps_v1, core_v1, meta_v1, runtime};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{FieldDescriptor, ReflectMessage};

use crate::descriptors::{decode, every_field, kubernetes_messages, label, message};
use crate::kinds::{KINDS, Kind, kind};
use crate::random::{Random, seeded};

/// Fields of Kubernetes 1.36 that `k8s-pb` 0.9, which is made from 1.35, does not have.
const NOT_IN_K8S_PB: [&str; 3] = [
    "CSIDriverSpec.preventPodSchedulingIfMissing",
    "PodSchedulingGroup.podGroupName",
    "PodSpec.schedulingGroup",
];

/// Our bytes after a round trip through `k8s-pb`.
fn through_k8s_pb(kind: &Kind, ours: &[u8]) -> Vec<u8> {
    (kind.recode)(&(kind.k8s_pb)(ours).0).unwrap()
}

#[test]
fn every_kind_has_its_twins() {
    for message in kubernetes_messages() {
        let is_part = [
            "JobTemplateSpec",
            "PersistentVolumeClaimTemplate",
            "PodTemplateSpec",
            "ResourceClaimTemplateSpec",
        ];
        let is_object =
            message.get_field_by_name("metadata").is_some() && !is_part.contains(&message.name());
        assert_eq!(
            KINDS.iter().any(|kind| kind.name == message.full_name()),
            is_object,
            "`{}` is tested exactly when it is an object or a list",
            message.full_name()
        );
    }
}

/// Sets one field at a time, so that a wrong number cannot hide behind another field: `k8s-pb` must print it by its
/// name.
#[test]
fn every_field_stands_where_k8s_pb_has_it() {
    let fields = every_field();
    assert!(fields.len() > 500, "only {} fields found", fields.len());
    for (name, path) in fields {
        let kind = kind(name);
        let labels: Vec<String> = path.iter().map(label).collect();
        let ours = Random::new(1, 0).along(&message(name), &path).encode_to_vec();
        assert_eq!((kind.recode)(&ours).unwrap(), ours, "{labels:?} through our own type");
        let (_, printed) = (kind.k8s_pb)(&ours);
        if labels.iter().any(|label| NOT_IN_K8S_PB.contains(&&**label)) {
            assert_ne!(
                through_k8s_pb(kind, &ours),
                ours,
                "{labels:?} is in `k8s-pb` by now: shorten the list"
            );
            continue;
        }
        assert!(prints(&printed, &path), "{labels:?} is something else to `k8s-pb`: {printed}");
        assert_eq!(through_k8s_pb(kind, &ours), ours, "{labels:?} through `k8s-pb`");
    }
}

/// Whether a printed message names the fields of `path`, one inside the other, each with something in it. Underscores
/// and `r#` do not count: there are several ways to put `podIPs` in snake case.
fn prints(printed: &str, path: &[FieldDescriptor]) -> bool {
    let printed = printed.replace('_', "").replace(" r#", " ");
    let mut rest = printed.as_str();
    path.iter().all(|field| {
        let (open, empty) = match (field.is_list(), field.is_map()) {
            (true, _) => ("[", "[]"),
            (_, true) => ("{", "{}"),
            _ => ("Some(", "None"),
        };
        let name = format!(" {}: ", field.name().to_lowercase());
        let found = rest.match_indices(&name).find_map(|(at, _)| {
            let value = &rest[at + name.len()..];
            (value.starts_with(open) && !value.starts_with(empty)).then_some(value)
        });
        found.is_some_and(|value| {
            rest = value;
            true
        })
    })
}

proptest! {
    #![proptest_config(seeded(24))]

    #[test]
    fn random_objects_survive_k8s_pb(seed: u64, density in 5_u64..60) {
        for kind in &KINDS {
            let random = Random::new(seed, density).message(&message(kind.name), 0).encode_to_vec();
            let ours = (kind.recode)(&random).unwrap();
            kind.check_same(&through_k8s_pb(kind, &ours), &without_newer(kind, &ours));
            // The first conversion loses nothing either: our bytes have the content of the descriptors' bytes.
            prop_assert!(decode(kind.name, &ours) == decode(kind.name, &random), "{}", kind.name);
        }
    }
}

/// The object without the fields that `k8s-pb` does not know.
fn without_newer(kind: &Kind, bytes: &[u8]) -> Vec<u8> {
    let mut object = decode(kind.name, bytes);
    clear_newer(&mut object);
    (kind.recode)(&object.encode_to_vec()).unwrap()
}

fn clear_newer(message: &mut prost_reflect::DynamicMessage) {
    let descriptor = message.descriptor();
    for field in descriptor.fields() {
        if NOT_IN_K8S_PB.contains(&&*label(&field)) {
            message.clear_field(&field);
        } else if message.has_field(&field) {
            match message.get_field_mut(&field) {
                prost_reflect::Value::Message(below) => clear_newer(below),
                prost_reflect::Value::List(list) => {
                    list.iter_mut()
                        .filter_map(prost_reflect::Value::as_message_mut)
                        .for_each(clear_newer);
                }
                _ => {}
            }
        }
    }
}

/// W-PB-2: an empty selector is not an absent one.
#[test]
fn an_empty_message_is_present() {
    let empty = core_v1::PodAffinityTerm {
        label_selector: Some(meta_v1::LabelSelector::default()),
        ..Default::default()
    };
    assert_eq!(empty.encode_to_vec(), b"\x0a\x00");
    assert_eq!(core_v1::PodAffinityTerm::decode(&b"\x0a\x00"[..]).unwrap(), empty);
    assert_eq!(core_v1::PodAffinityTerm::decode(&b""[..]).unwrap().label_selector, None);
    let affinity = core_v1::NodeAffinity::decode(&b"\x0a\x00"[..]).unwrap();
    assert_eq!(
        affinity.required_during_scheduling_ignored_during_execution,
        Some(core_v1::NodeSelector::default())
    );
}

/// W-PB-1: in a P field, zero is not absence.
#[test]
fn a_zero_of_a_pointer_field_is_present() {
    let spec = core_v1::PodSpec::decode(&b"\xc8\x01\x00"[..]).unwrap();
    assert_eq!(spec.priority, Some(0));
    assert_eq!(spec.encode_to_vec(), b"\xc8\x01\x00");
    // In any other field upstream writes the zero too, and it means nothing.
    assert_eq!(
        core_v1::PodSpec::decode(&b"\x1a\x00\x58\x00"[..]).unwrap(),
        core_v1::PodSpec::default()
    );
}

/// W-PB-3: elements of length 0 count.
#[test]
fn empty_elements_are_kept() {
    let selector = core_v1::NodeSelector::decode(&b"\x0a\x00\x0a\x00"[..]).unwrap();
    assert_eq!(
        selector.node_selector_terms,
        [core_v1::NodeSelectorTerm::default(), Default::default()]
    );
    assert_eq!(selector.encode_to_vec(), b"\x0a\x00\x0a\x00");
}

/// W-PB-4: repeated numbers come unpacked or packed and leave unpacked; negative ones take ten bytes.
#[test]
fn repeated_numbers_packed_and_not() {
    let codes =
        core_v1::ContainerRestartRuleOnExitCodes { values: vec![1, 300, -1], ..Default::default() };
    let unpacked = b"\x10\x01\x10\xac\x02\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    let packed = b"\x12\x0d\x01\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    for bytes in [&unpacked[..], &packed[..]] {
        assert_eq!(core_v1::ContainerRestartRuleOnExitCodes::decode(bytes).unwrap(), codes);
    }
    assert_eq!(codes.encode_to_vec(), unpacked);
}

/// W-PB-5: of two equal keys the later wins; any order is read, sorted order is written.
#[test]
fn maps_are_entries() {
    let entry = |key: &[u8], value: &[u8]| [b"\x5a\x06\x0a\x01", key, b"\x12\x01", value].concat();
    let bytes = [entry(b"b", b"1"), entry(b"a", b"2"), entry(b"b", b"3")].concat();
    let metadata = meta_v1::ObjectMeta::decode(&*bytes).unwrap();
    assert_eq!(
        metadata.labels,
        [("a", "2"), ("b", "3")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    );
    assert_eq!(metadata.encode_to_vec(), [entry(b"a", b"2"), entry(b"b", b"3")].concat());
}

/// W-PB-6, W-PB-7: unknown texts stay, unknown fields of every wire type are skipped.
#[test]
fn unknown_texts_stay_and_unknown_fields_are_skipped() {
    let taint = core_v1::Taint { effect: "Quarantine".into(), ..Default::default() };
    assert_eq!(core_v1::Taint::decode(&*taint.encode_to_vec()).unwrap(), taint);
    let unknown: [&[u8]; 5] = [
        b"\xf8\x3f\x07",
        b"\xf9\x3f12345678",
        b"\xfa\x3f\x03abc",
        b"\xfb\x3f\x08\x01\xfc\x3f",
        b"\xfd\x3f1234",
    ];
    for field in unknown {
        let bytes = [field, &taint.encode_to_vec(), field].concat();
        assert_eq!(core_v1::Taint::decode(&*bytes).unwrap(), taint, "{field:x?}");
    }
}

/// W-PB-9, W-ENV-1, W-ENV-3: `k8s-pb` reads lists, envelope and watch frames alike.
#[test]
fn envelope_and_watch_event() {
    let pods = core_v1::PodList { items: vec![core_v1::Pod::default(); 2], ..Default::default() };
    let envelope = runtime::Unknown {
        type_meta: Some(runtime::TypeMeta { api_version: "v1".into(), kind: "PodList".into() }),
        raw: pods.encode_to_vec(),
        content_encoding: "gzip".into(),
        content_type: "application/json".into(),
    };
    let theirs =
        k8s_pb::apimachinery::pkg::runtime::Unknown::decode(&*envelope.encode_to_vec()).unwrap();
    assert_eq!(theirs.type_meta.as_ref().unwrap().kind.as_deref(), Some("PodList"));
    assert_eq!(theirs.content_encoding.as_deref(), Some("gzip"));
    assert_eq!(k8s_pb::api::core::v1::PodList::decode(theirs.raw()).unwrap().items.len(), 2);
    assert_eq!(runtime::Unknown::decode(&*theirs.encode_to_vec()).unwrap(), envelope);

    let event = meta_v1::WatchEvent {
        r#type: "ADDED".into(),
        object: Some(runtime::RawExtension { raw: envelope.encode_to_vec() }),
    };
    let theirs =
        k8s_pb::apimachinery::pkg::apis::meta::v1::WatchEvent::decode(&*event.encode_to_vec())
            .unwrap();
    assert_eq!(theirs.r#type.as_deref(), Some("ADDED"));
    assert_eq!(meta_v1::WatchEvent::decode(&*theirs.encode_to_vec()).unwrap(), event);
}

/// Limits of the sizes of Rust types, because a cluster has many objects.
#[test]
fn objects_stay_small() {
    assert!(size_of::<core_v1::Volume>() <= 640, "{}", size_of::<core_v1::Volume>());
    assert!(size_of::<core_v1::Container>() <= 640, "{}", size_of::<core_v1::Container>());
    assert!(size_of::<apps_v1::ReplicaSet>() <= 8192, "{}", size_of::<apps_v1::ReplicaSet>());
}
