//! Random volumes, claims, classes, drivers, and the nodes' information about drivers.

use std::collections::BTreeMap;

use berth_proto::core_v1::{
    self, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    TopologySelectorLabelRequirement, TopologySelectorTerm,
};
use berth_proto::{Quantity, Time, meta_v1, storage_v1};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::labels::namespace;
use super::object::named;
use crate::naive::objects::AnyObject;

const CLASSES: [&str; 4] = ["wait", "wait-local", "in-tree", "now"];
const DRIVERS: [&str; 3] = ["csi.example.com", "csi2.example.com", "ebs.csi.aws.com"];
const N_VOLUMES: usize = 8;
pub(crate) const N_CLAIMS: usize = 8;
const N_NODES: usize = 8;

/// Generates nearly all storage objects, so that most claims of pods exist.
pub(crate) fn world() -> BoxedStrategy<Vec<AnyObject>> {
    let classes: Vec<_> = CLASSES.iter().map(|name| class(name)).collect();
    let claims: Vec<_> = (0..N_CLAIMS)
        .map(|i| claim(Just(("default".to_owned(), format!("claim-{i}"), None)).boxed()))
        .collect();
    let volumes: Vec<_> = (0..N_VOLUMES).map(volume).collect();
    let csi_nodes: Vec<_> = (0..N_NODES).map(csi_node).collect();
    let others = vec(prop_oneof![csi_driver(), capacity(), attachment(), any_claim()], 4..12);
    (classes, claims, volumes, csi_nodes, others, vec(prop::bool::weighted(0.9), 64))
        .prop_map(|(classes, claims, volumes, csi_nodes, others, is_there)| {
            let all =
                classes.into_iter().chain(claims).chain(volumes).chain(csi_nodes).chain(others);
            all.zip(is_there).filter(|(_, is_there)| *is_there).map(|(object, _)| object).collect()
        })
        .boxed()
}

/// Generates a storage object of any kind.
pub(crate) fn object() -> BoxedStrategy<AnyObject> {
    prop_oneof![
        6 => any_claim(),
        4 => (0..N_VOLUMES).prop_flat_map(volume),
        2 => select(CLASSES.to_vec()).prop_flat_map(class),
        2 => (0..N_NODES).prop_flat_map(csi_node),
        1 => csi_driver(),
        2 => capacity(),
        2 => attachment(),
    ]
    .boxed()
}

fn size() -> BoxedStrategy<Quantity> {
    select(vec!["1Gi", "2Gi", "5Gi", "500M", "10Gi"]).prop_map(Quantity::new).boxed()
}

fn class_name() -> BoxedStrategy<&'static str> {
    prop_oneof![
        6 => select(CLASSES[..3].to_vec()),
        1 => Just("now"),
        1 => select(vec!["", "absent"]),
    ]
    .boxed()
}

fn class(name: &'static str) -> BoxedStrategy<AnyObject> {
    let topologies = prop_oneof![2 => Just(Vec::new()), 1 => vec(topology_term(), 1..3)];
    (topologies, 0..30_usize)
        .prop_map(move |(allowed_topologies, odd)| {
            let (provisioner, mode) = match name {
                "wait" => ("csi.example.com", "WaitForFirstConsumer"),
                "wait-local" => ("kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
                "in-tree" => ("kubernetes.io/aws-ebs", "WaitForFirstConsumer"),
                _ => ("csi2.example.com", "Immediate"),
            };
            let volume_binding_mode = (odd != 0).then(|| mode.to_owned());
            let provisioner = if odd == 1 { "" } else { provisioner }.to_owned();
            storage_v1::StorageClass {
                metadata: named("", name.to_owned(), BTreeMap::new()),
                provisioner,
                volume_binding_mode,
                allowed_topologies,
                ..Default::default()
            }
            .into()
        })
        .boxed()
}

fn topology_term() -> BoxedStrategy<TopologySelectorTerm> {
    let expression = (
        select(vec!["topology.kubernetes.io/zone", "example.com/pool"]),
        subsequence(vec!["a", "b", "web"], 1..=3),
    );
    let expression = expression.prop_map(|(key, values)| TopologySelectorLabelRequirement {
        key: key.to_owned(),
        values: values.into_iter().map(str::to_owned).collect(),
    });
    vec(expression, 0..3)
        .prop_map(|match_label_expressions| TopologySelectorTerm { match_label_expressions })
        .boxed()
}

fn access_modes() -> BoxedStrategy<Vec<String>> {
    prop_oneof![
        4 => Just(vec!["ReadWriteOnce"]),
        1 => Just(vec!["ReadWriteOncePod"]),
        1 => Just(vec!["ReadWriteOnce", "ReadOnlyMany"]),
    ]
    .prop_map(|modes| modes.into_iter().map(str::to_owned).collect())
    .boxed()
}

/// Generates a claim with its own name, or one for the ephemeral volume `e` of one of the first pods.
fn any_claim() -> BoxedStrategy<AnyObject> {
    let namespace = || prop_oneof![4 => Just("default".to_owned()), 1 => namespace()];
    let plain = (namespace(), 0..N_CLAIMS).prop_map(|(ns, i)| (ns, format!("claim-{i}"), None));
    let ephemeral =
        (namespace(), 1..8_usize, prop::bool::weighted(0.9)).prop_map(|(ns, i, right)| {
            let uid = if right { format!("uid-{i}") } else { "another".to_owned() };
            (ns, format!("pod-{i}-e"), Some(uid))
        });
    claim(prop_oneof![3 => plain, 1 => ephemeral].boxed())
}

/// Generates a claim with this namespace, name and owner.
fn claim(who: BoxedStrategy<(String, String, Option<String>)>) -> BoxedStrategy<AnyObject> {
    // The volume that the claim names, and whether the two are bound.
    let volume = option::weighted(0.4, (0..N_VOLUMES, prop::bool::weighted(0.95)));
    let selected = option::weighted(0.1, 0..N_NODES);
    let selector = option::weighted(0.1, super::labels::valid_pod_selector());
    let rest = (access_modes(), option::weighted(0.95, size()), selector, 0..40_usize);
    (who, class_name(), volume, selected, rest)
        .prop_map(
            |((namespace, name, owner), class, volume, selected, (modes, size, selector, odd))| {
                let mut metadata =
                    named(&namespace, name.clone(), BTreeMap::new()).unwrap_or_default();
                metadata.uid = format!("uid-of-{name}");
                let mut note =
                    |key: &str, value: String| metadata.annotations.insert(key.to_owned(), value);
                if volume.is_some_and(|(_, is_bound)| is_bound) {
                    note("pv.kubernetes.io/bind-completed", "yes".to_owned());
                }
                if let Some(node) = selected {
                    note("volume.kubernetes.io/selected-node", format!("node-{node}"));
                }
                if odd == 2 {
                    note("volume.beta.kubernetes.io/storage-class", "wait".to_owned());
                }
                metadata.owner_references = owner.map(owned_by).into_iter().collect();
                metadata.deletion_timestamp = (odd == 0).then(|| Time::from_unix_seconds(1));
                let spec = core_v1::PersistentVolumeClaimSpec {
                    access_modes: modes,
                    resources: size.map(|size| core_v1::VolumeResourceRequirements {
                        requests: BTreeMap::from([("storage".to_owned(), size)]),
                        ..Default::default()
                    }),
                    volume_name: volume.map(|(i, _)| format!("pv-{i}")).unwrap_or_default(),
                    selector,
                    storage_class_name: Some(class.to_owned()),
                    volume_mode: (odd == 3).then(|| "Block".to_owned()),
                    volume_attributes_class_name: (odd == 4).then(|| "fast".to_owned()),
                };
                let status = core_v1::PersistentVolumeClaimStatus {
                    phase: if odd == 1 { "Lost" } else { "Pending" }.to_owned(),
                    ..Default::default()
                };
                let (metadata, spec, status) = (Some(metadata), Some(spec), Some(status));
                core_v1::PersistentVolumeClaim { metadata, spec, status }.into()
            },
        )
        .boxed()
}

fn owned_by(uid: String) -> meta_v1::OwnerReference {
    meta_v1::OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        uid,
        controller: Some(true),
        ..Default::default()
    }
}

fn volume(i: usize) -> BoxedStrategy<AnyObject> {
    // Sizes differ from volume to volume, so that only one is the smallest (S-VLB-6).
    let namespace = prop_oneof![4 => Just("default".to_owned()), 1 => namespace()];
    let claim_ref = option::weighted(0.2, (namespace, 0..N_CLAIMS, 0..3_usize));
    let source = prop_oneof![
        3 => (select(DRIVERS.to_vec()), 0..4_usize).prop_map(|(driver, i)| csi_source(driver, i)),
        1 => (0..3_usize).prop_map(|i| core_v1::PersistentVolumeSource {
            aws_elastic_block_store: Some(disk(i)),
            ..Default::default()
        }),
        1 => Just(core_v1::PersistentVolumeSource::default()),
    ];
    let affinity = option::weighted(0.4, node_selector());
    let rest = (access_modes(), zone_labels(), 0..30_usize);
    (class_name(), claim_ref, (source, affinity), rest)
        .prop_map(move |(class, claim_ref, (source, affinity), (access_modes, labels, odd))| {
            let mut metadata = named("", format!("pv-{i}"), labels).unwrap_or_default();
            metadata.deletion_timestamp = (odd == 0).then(|| Time::from_unix_seconds(1));
            let to_claim = |(namespace, i, uid): (String, usize, usize)| core_v1::ObjectReference {
                namespace,
                name: format!("claim-{i}"),
                uid: ["", "uid-of-claim", "another"][uid]
                    .replace("of-claim", &format!("of-claim-{i}")),
                ..Default::default()
            };
            let spec = core_v1::PersistentVolumeSpec {
                capacity: BTreeMap::from([(
                    "storage".to_owned(),
                    Quantity::new(format!("{}Mi", 700 + 1100 * i)),
                )]),
                persistent_volume_source: Some(source),
                access_modes,
                claim_ref: claim_ref.map(to_claim),
                storage_class_name: class.to_owned(),
                volume_mode: (odd == 1).then(|| "Block".to_owned()),
                node_affinity: affinity
                    .map(|required| core_v1::VolumeNodeAffinity { required: Some(required) }),
                volume_attributes_class_name: (odd == 2).then(|| "fast".to_owned()),
                ..Default::default()
            };
            let phase = if odd < 5 { "Released" } else { "Available" }.to_owned();
            let status = core_v1::PersistentVolumeStatus { phase, ..Default::default() };
            let (metadata, spec, status) = (Some(metadata), Some(spec), Some(status));
            core_v1::PersistentVolume { metadata, spec, status }.into()
        })
        .boxed()
}

fn csi_source(driver: &str, i: usize) -> core_v1::PersistentVolumeSource {
    let csi = core_v1::CsiPersistentVolumeSource {
        driver: driver.to_owned(),
        volume_handle: format!("handle-{i}"),
        ..Default::default()
    };
    core_v1::PersistentVolumeSource { csi: Some(csi), ..Default::default() }
}

fn disk(i: usize) -> core_v1::AwsElasticBlockStoreVolumeSource {
    core_v1::AwsElasticBlockStoreVolumeSource {
        volume_id: format!("vol-{i}"),
        ..Default::default()
    }
}

/// Generates labels that VolumeZone reads, and some that claims select.
fn zone_labels() -> BoxedStrategy<BTreeMap<String, String>> {
    let zone = (
        select(vec!["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]),
        select(vec!["a", "b", "a__b", "a____b", "b__c"]),
    );
    let zone = prop_oneof![3 => Just(None), 1 => zone.prop_map(Some)];
    (zone, super::labels::pod_labels())
        .prop_map(|(zone, mut labels)| {
            labels.extend(zone.map(|(key, value)| (key.to_owned(), value.to_owned())));
            labels
        })
        .boxed()
}

/// Generates the node selector of a volume, over labels; some have fields, which cannot be evaluated (S-VLB-4).
fn node_selector() -> BoxedStrategy<NodeSelector> {
    let requirement = |key: &str, operator: &str, values: &[&str]| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let on_labels = select(vec![
        requirement("topology.kubernetes.io/zone", "In", &["a"]),
        requirement("topology.kubernetes.io/zone", "In", &["b", "c"]),
        requirement("kubernetes.io/hostname", "In", &["node-0", "node-1"]),
        requirement("kubernetes.io/hostname", "NotIn", &["node-0"]),
        requirement("example.com/pool", "Exists", &[]),
        requirement("cpus", "Gt", &["4"]),
        requirement("cpus", "Gt", &["many"]),
    ]);
    let on_fields = select(vec![
        requirement("metadata.name", "In", &["node-0"]),
        requirement("metadata.name", "In", &[]),
    ]);
    let on_fields = prop_oneof![8 => Just(Vec::new()), 1 => vec(on_fields, 1..2)];
    let term = (vec(on_labels, 0..3), on_fields).prop_map(|(match_expressions, match_fields)| {
        NodeSelectorTerm { match_expressions, match_fields }
    });
    vec(term, 0..3).prop_map(|node_selector_terms| NodeSelector { node_selector_terms }).boxed()
}

fn csi_node(i: usize) -> BoxedStrategy<AnyObject> {
    let driver = option::weighted(0.7, option::weighted(0.9, 0..4_i32));
    vec(driver, DRIVERS.len())
        .prop_map(move |limits| {
            let of = |(name, limit): (&str, Option<Option<i32>>)| {
                Some(storage_v1::CsiNodeDriver {
                    name: name.to_owned(),
                    node_id: format!("id-{i}"),
                    allocatable: limit?
                        .map(|count| storage_v1::VolumeNodeResources { count: Some(count) }),
                    ..Default::default()
                })
            };
            let drivers = DRIVERS.into_iter().zip(limits).filter_map(of).collect();
            storage_v1::CsiNode {
                metadata: named("", format!("node-{i}"), BTreeMap::new()),
                spec: Some(storage_v1::CsiNodeSpec { drivers }),
            }
            .into()
        })
        .boxed()
}

fn csi_driver() -> BoxedStrategy<AnyObject> {
    (select(DRIVERS.to_vec()), select(vec![None, Some(false), Some(true), Some(true)]))
        .prop_map(|(name, storage_capacity)| {
            let spec = storage_v1::CsiDriverSpec { storage_capacity, ..Default::default() };
            let metadata = named("", name.to_owned(), BTreeMap::new());
            storage_v1::CsiDriver { metadata, spec: Some(spec) }.into()
        })
        .boxed()
}

fn capacity() -> BoxedStrategy<AnyObject> {
    let topology = select(vec![None, Some(None), Some(Some("a")), Some(Some("b"))]);
    let sizes = (option::weighted(0.9, size()), option::weighted(0.2, size()));
    (0..4_usize, select(CLASSES.to_vec()), topology, sizes)
        .prop_map(|(i, class, topology, (capacity, maximum_volume_size))| {
            let selector = |zone: Option<&str>| meta_v1::LabelSelector {
                match_labels: zone
                    .map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.to_owned()))
                    .into_iter()
                    .collect(),
                ..Default::default()
            };
            storage_v1::CsiStorageCapacity {
                metadata: named("kube-system", format!("capacity-{i}"), BTreeMap::new()),
                node_topology: topology.map(selector),
                storage_class_name: class.to_owned(),
                capacity,
                maximum_volume_size,
            }
            .into()
        })
        .boxed()
}

fn attachment() -> BoxedStrategy<AnyObject> {
    let volume = option::weighted(0.9, 0..N_VOLUMES);
    (0..5_usize, select(DRIVERS.to_vec()), 0..N_NODES, volume)
        .prop_map(|(i, attacher, node, volume)| {
            let source = storage_v1::VolumeAttachmentSource {
                persistent_volume_name: volume.map(|i| format!("pv-{i}")),
                ..Default::default()
            };
            let spec = storage_v1::VolumeAttachmentSpec {
                attacher: attacher.to_owned(),
                source: Some(source),
                node_name: format!("node-{node}"),
            };
            let metadata = named("", format!("attachment-{i}"), BTreeMap::new());
            storage_v1::VolumeAttachment { metadata, spec: Some(spec), ..Default::default() }.into()
        })
        .boxed()
}
