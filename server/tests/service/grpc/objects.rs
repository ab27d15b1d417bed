//! Objects other than nodes and pods: applied, counted, deleted, and their effect on placements.

use std::collections::BTreeMap;

use berth_engine::ObjectKind;
use berth_proto::berth_v1::decision::Outcome;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    BeginSnapshot, ClaimBinding, Decision, Delta, DeltaBatch, EndSnapshot, ObjectKey, PlaceMode,
    SyncRequest, VolumeBindings, sync_request,
};
use serde_json::{Value, json};

use crate::grpc::world::{World, key, node, outcome, pod, pod_with};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn object(kind: &str, namespace: &str, name: &str) -> Change {
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    Change::DeleteObject(ObjectKey { kind, namespace, name })
}

macro_rules! one_of_each {
    ($($kind:ident($message:ty) { upsert: $upsert:ident, $($rest:tt)* })+) => {
        /// An object of every kind.
        fn one_of_each() -> [Change; ObjectKind::ALL.len()] {
            let plain = || json!({"metadata": {"name": "x"}, "spec": {}});
            [$(Change::$upsert(read(plain()))),+]
        }
    };
}

berth_engine::object_kinds!(one_of_each);

async fn counts(world: &mut World) -> BTreeMap<String, u32> {
    world.counts().await.n_objects
}

#[tokio::test]
async fn every_kind_is_counted_and_can_be_deleted() {
    let mut world = World::start().await;
    for _ in 0..2 {
        assert_eq!(world.apply(one_of_each()).await.rejections, []);
    }
    let counted = counts(&mut world).await;
    let names = ObjectKind::ALL.map(|kind| (kind.name().to_owned(), 1));
    assert_eq!(counted, names.into());
    for kind in counted.keys() {
        let answer = world.apply([object(kind, "", "y"), object(kind, "elsewhere", "y")]).await;
        assert_eq!(answer.rejections, [], "what is not there is gone already");
        world.apply([object(kind, "", "x")]).await;
        assert!(!counts(&mut world).await.contains_key(kind), "{kind}");
    }
    assert!(counts(&mut world).await.is_empty());
}

#[tokio::test]
async fn bad_objects_are_refused_by_position_and_field() {
    let mut world = World::start().await;
    let answer = world
        .apply([
            Change::UpsertService(read(json!({"metadata": {"name": "web"}}))),
            Change::UpsertStorageClass(read(json!({}))),
            Change::UpsertPersistentVolumeClaim(read(json!({
                "metadata": {"namespace": "shop", "name": "data"},
                "spec": {"resources": {"requests": {"storage": "much"}}},
            }))),
            object("Deployment", "shop", "web"),
            object("Service", "shop", ""),
        ])
        .await;
    let refused: Vec<(u32, &str, &str)> = answer
        .rejections
        .iter()
        .map(|refused| (refused.index, refused.object.as_str(), refused.field.as_str()))
        .collect();
    assert_eq!(
        refused,
        [
            (1, "StorageClass", "metadata"),
            (2, "PersistentVolumeClaim `shop/data`", "spec.resources.requests[storage]"),
            (3, "Object", "delete_object.kind"),
            (4, "Service", "delete_object.name"),
        ]
    );
    assert_eq!(counts(&mut world).await, [("Service".to_owned(), 1)].into());
}

#[tokio::test]
async fn a_snapshot_takes_the_place_of_all_objects() {
    let mut world = World::start().await;
    world.apply(one_of_each()).await;
    let twice = json!({"metadata": {"name": "web", "namespace": "shop"}});
    let deltas = [
        Change::UpsertService(read(twice.clone())),
        Change::UpsertCsiNode(read(json!({"metadata": {"name": "gone"}}))),
        object("CSINode", "", "gone"),
        Change::UpsertPersistentVolume(read(json!({}))),
        Change::UpsertService(read(twice)),
    ];
    let deltas = deltas.map(|change| Delta { change: Some(change) }).to_vec();
    let messages = [
        sync_request::Message::BeginSnapshot(BeginSnapshot {}),
        sync_request::Message::Batch(DeltaBatch { deltas, position: 0 }),
        sync_request::Message::EndSnapshot(EndSnapshot { position: 0 }),
    ];
    let requests = messages.map(|message| SyncRequest { message: Some(message) });
    let answers = world.cluster.sync(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    let mut rejections = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        rejections.extend(answer.rejections.into_iter().map(|refused| refused.index));
    }
    assert_eq!(rejections, [3]);
    assert_eq!(counts(&mut world).await, [("Service".to_owned(), 1)].into());
}

/// Two nodes, a volume that only `n1` reaches, and claims that wait for their first consumer.
async fn world_with_volumes() -> World {
    let mut world = World::start().await;
    let claim = |name: &str, class: &str| {
        Change::UpsertPersistentVolumeClaim(read(json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        })))
    };
    let class = |name: &str, provisioner: &str| {
        Change::UpsertStorageClass(read(json!({
            "metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        })))
    };
    let volume = Change::UpsertPersistentVolume(read(json!({
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}]}},
        },
        "status": {"phase": "Available"},
    })));
    let answer = world
        .apply([
            Change::UpsertNode(node("n0", "4")),
            Change::UpsertNode(node("n1", "4")),
            class("local", "kubernetes.io/no-provisioner"),
            class("dynamic", "example.com/p"),
            claim("data", "local"),
            claim("other", "local"),
            claim("logs", "dynamic"),
            volume,
        ])
        .await;
    assert_eq!(answer.rejections, []);
    world
}

fn with_claims(name: &str, claims: &[&str]) -> berth_proto::core_v1::Pod {
    let volume =
        |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    pod_with(name, "1", &json!({"spec": {"volumes": volumes}}))
}

fn volumes(decision: &Decision) -> Option<&VolumeBindings> {
    match decision.outcome.as_ref().unwrap() {
        Outcome::Placement(placement) => placement.volumes.as_ref(),
        outcome => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn a_placement_reports_the_volumes_of_the_claims() {
    let mut world = world_with_volumes().await;
    let pod_with_claims = with_claims("p", &["logs", "data"]);
    let decision = world.place(pod_with_claims, PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&decision), Ok("n1"));
    let expected = VolumeBindings {
        bound: vec![ClaimBinding { claim: "data".into(), persistent_volume: "disk".into() }],
        provisioned: vec!["logs".into()],
    };
    assert_eq!(volumes(&decision), Some(&expected));
    let plain = world.place(pod("plain", "1"), PlaceMode::DryRun).await.unwrap();
    assert_eq!(volumes(&plain), None);
}

/// S-VLB-9: bindings of an assumed pod are its own until it is deleted.
#[tokio::test]
async fn a_volume_is_not_given_twice() {
    let mut world = world_with_volumes().await;
    let first = with_claims("first", &["data"]);
    assert_eq!(outcome(&world.place(first, PlaceMode::Assume).await.unwrap()), Ok("n1"));
    let second = || with_claims("second", &["other"]);
    let refused = world.place(second(), PlaceMode::DryRun).await.unwrap();
    let message =
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(outcome(&refused), Err(message.to_owned()));
    world.apply([Change::DeletePod(key("first"))]).await;
    assert_eq!(outcome(&world.place(second(), PlaceMode::DryRun).await.unwrap()), Ok("n1"));
}

#[tokio::test]
async fn a_namespace_is_known_by_its_labels_until_it_is_deleted() {
    let mut world = World::start().await;
    world.nodes(2, 4).await;
    let quiet = json!({"metadata": {"name": "other", "labels": {"team": "quiet"}}});
    let there = pod_with(
        "there",
        "1",
        &json!({"metadata": {"namespace": "other", "labels": {"app": "x"}}, "spec": {"nodeName": "n0"}}),
    );
    world.apply([Change::UpsertNamespace(read(quiet)), Change::UpsertPod(there)]).await;
    let term = json!({
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "quiet"}},
    });
    let shy = pod_with(
        "shy",
        "1",
        &json!({"spec": {
            "nodeSelector": {"kubernetes.io/hostname": "n0"},
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        }}),
    );
    let decision = world.place(shy.clone(), PlaceMode::DryRun).await.unwrap();
    let message = outcome(&decision).unwrap_err();
    assert!(message.contains("1 node(s) didn't match pod anti-affinity rules"), "{message}");
    world.apply([object("Namespace", "", "other")]).await;
    assert_eq!(outcome(&world.place(shy, PlaceMode::DryRun).await.unwrap()), Ok("n0"));
}
