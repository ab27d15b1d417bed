//! Sections 2.7 to 2.10: volumes. The worked table under S-VLZ-4: n1 in zone a, n2 in zone b.

use berth_engine::{Cluster, Outcome, Plugin, PolicySpec};
use berth_proto::{core_v1, storage_v1};
use serde_json::{Value, json};

use super::{cluster, explain, message, upsert, verdicts};

const ZONE: &str = "topology.kubernetes.io/zone";
const NOTHING_TO_BIND: &str = "UU: node(s) didn't find available persistent volumes to bind";
const ELSEWHERE: &str = "UU: node(s) didn't match PersistentVolume's node affinity";
const WRONG_ZONE: &str = "UU: node(s) had no available volume zone";
const TOO_MANY: &str = "U: node(s) exceed max volume count";

fn zones(pods: &[&str]) -> Cluster {
    let node = |name: &str, zone: &str| {
        format!("{name} cpu=4 memory=8Gi pods=99 label:host={name} label:{ZONE}={zone}")
    };
    cluster(&[&node("n1", "a"), &node("n2", "b")], pods)
}

/// Adds an unbound claim of 1 GiB.
fn claim(cluster: &Cluster, name: &str, class: Option<&str>) {
    upsert!(
        cluster,
        core_v1::PersistentVolumeClaim,
        json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        })
    );
}

fn bound_claim(cluster: &Cluster, name: &str, volume: &str, access_mode: &str) {
    upsert!(
        cluster,
        core_v1::PersistentVolumeClaim,
        json!({
            "metadata": {
                "name": name, "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"accessModes": [access_mode], "volumeName": volume, "storageClassName": ""},
            "status": {"phase": "Bound"},
        })
    );
}

fn class(cluster: &Cluster, name: &str, provisioner: &str, mode: &str) {
    upsert!(
        cluster,
        storage_v1::StorageClass,
        json!({
            "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
        })
    );
}

/// Adds a volume of 2 GiB on one host, or on any if `host` is null.
fn volume(cluster: &Cluster, name: &str, class: &str, host: &Value, labels: &Value) {
    let mut volume = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "csi": {"driver": "d", "volumeHandle": name},
        },
        "status": {"phase": "Available"},
    });
    if !host.is_null() {
        let expression = json!({"key": "host", "operator": "In", "values": [host]});
        volume["spec"]["nodeAffinity"] =
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
    }
    upsert!(cluster, core_v1::PersistentVolume, volume);
}

fn refusal(cluster: &Cluster, pod: &str) -> String {
    let message = message(cluster, pod);
    let reason = message.strip_prefix("0/2 nodes are available: ").unwrap();
    reason.strip_suffix('.').unwrap().to_owned()
}

/// S-VLR-1, S-VLB-1 to S-VLB-3, S-VLZ-1, S-VLZ-4: refusals of the pod as a whole.
#[test]
fn refused_claims() {
    let cluster = zones(&[]);
    assert_eq!(refusal(&cluster, "p claim=c"), "persistentvolumeclaim \"c\" not found");
    let pre_filter = |pod: &str| {
        let outcome = explain(&cluster, pod, PolicySpec::default()).unwrap().decision.outcome;
        let Outcome::Unschedulable(unschedulable) = outcome else { panic!("{outcome:?}") };
        unschedulable.pre_filter.map(|(plugin, ..)| plugin)
    };
    assert_eq!(pre_filter("p claim=c"), Some(Plugin::VolumeRestrictions));
    class(&cluster, "now", "d", "Immediate");
    for (name, of_class) in [("now", Some("now")), ("none", None), ("lost", Some("absent"))] {
        claim(&cluster, name, of_class);
        let reason = "pod has unbound immediate PersistentVolumeClaims";
        assert_eq!(refusal(&cluster, &format!("p claim={name}")), reason, "{name}");
        assert_eq!(pre_filter(&format!("p claim={name}")), Some(Plugin::VolumeBinding));
    }
    bound_claim(&cluster, "b", "v", "ReadWriteOnce");
    assert_eq!(refusal(&cluster, "p claim=b"), "persistentvolume \"v\" not found");
    assert_eq!(pre_filter("p claim=b"), Some(Plugin::VolumeZone));
    assert_eq!(
        refusal(&cluster, "p ephemeral=e"),
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-e\""
    );
    claim(&cluster, "p-e", None);
    assert_eq!(
        refusal(&cluster, "p ephemeral=e"),
        "PVC default/p-e was not created for pod default/p (pod is not owner)"
    );
}

/// S-VLB-5 to S-VLB-9: claims that are bound after the choice of a node.
#[test]
fn delayed_claims() {
    let cluster = zones(&[]);
    class(&cluster, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    claim(&cluster, "c", Some("local"));
    assert_eq!(verdicts(&cluster, "p claim=c"), [NOTHING_TO_BIND, NOTHING_TO_BIND]);
    volume(&cluster, "v", "local", &json!("n1"), &Value::Null);
    assert_eq!(verdicts(&cluster, "p claim=c"), ["ok", NOTHING_TO_BIND]);
    let volumes = |pod: &str| {
        let outcome = explain(&cluster, pod, PolicySpec::default()).unwrap().decision.outcome;
        let Outcome::Placed(placement) = outcome else { panic!("{outcome:?}") };
        let bound =
            placement.volumes.bound.iter().map(|(claim, volume)| format!("{claim}={volume}"));
        let provisioned = placement.volumes.provisioned.iter().map(|claim| format!("{claim}=new"));
        bound.chain(provisioned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(volumes("p claim=c"), "c=v");
    class(&cluster, "wait", "d", "WaitForFirstConsumer");
    claim(&cluster, "d", Some("wait"));
    assert_eq!(verdicts(&cluster, "p claim=d"), ["ok", "ok"]);
    assert_eq!(volumes("p claim=d claim=c"), "c=v d=new");
}

/// S-VLB-7: provisioning where the class allows it and the driver has capacity.
#[test]
fn provisioning() {
    let cluster = zones(&[]);
    upsert!(
        cluster,
        storage_v1::StorageClass,
        json!({
            "metadata": {"name": "wait"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{}, {"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}],
        })
    );
    claim(&cluster, "c", Some("wait"));
    assert_eq!(verdicts(&cluster, "p claim=c"), [NOTHING_TO_BIND, "ok"]);
    class(&cluster, "wait", "d", "WaitForFirstConsumer");
    upsert!(
        cluster,
        storage_v1::CsiDriver,
        json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}})
    );
    let no_room = "UU: node(s) did not have enough free storage";
    assert_eq!(verdicts(&cluster, "p claim=c"), [no_room, no_room]);
    for (maximum, expected) in
        [(Value::Null, ["ok", no_room]), (json!("1000Mi"), [no_room, no_room])]
    {
        upsert!(
            cluster,
            storage_v1::CsiStorageCapacity,
            json!({
                "metadata": {"name": "k", "namespace": "default"}, "storageClassName": "wait",
                "nodeTopology": {"matchLabels": {ZONE: "a"}}, "capacity": "1Gi", "maximumVolumeSize": maximum,
            })
        );
        assert_eq!(verdicts(&cluster, "p claim=c"), expected);
    }
}

/// S-VLB-4, S-VLZ-2, S-VLZ-3: nodes that reach a bound claim's volume.
#[test]
fn bound_volumes() {
    let check = |host: Value, labels: Value, expected: [&str; 2]| {
        let cluster = zones(&[]);
        volume(&cluster, "v", "", &host, &labels);
        bound_claim(&cluster, "c", "v", "ReadWriteOnce");
        assert_eq!(verdicts(&cluster, "p claim=c"), expected, "{labels}");
    };
    check(json!("n2"), Value::Null, [ELSEWHERE, "ok"]);
    check(Value::Null, json!({ZONE: "c"}), [WRONG_ZONE, WRONG_ZONE]);
    check(Value::Null, json!({ZONE: "a__b"}), ["ok", "ok"]);
    check(Value::Null, json!({ZONE: "c____d"}), ["ok", "ok"]);
    check(Value::Null, json!({"failure-domain.beta.kubernetes.io/zone": "a"}), ["ok", WRONG_ZONE]);
}

/// S-VLB-4: only labels are evaluated in a volume's node affinity, so a term with fields alone matches every node.
#[test]
fn a_volume_cannot_name_its_node_by_field() {
    let cluster = zones(&[]);
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    upsert!(
        cluster,
        core_v1::PersistentVolume,
        json!({
            "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [field]}]}}},
        })
    );
    bound_claim(&cluster, "c", "v", "ReadWriteOnce");
    assert_eq!(verdicts(&cluster, "p claim=c"), ["ok", "ok"]);
}

/// S-VLR-2 to S-VLR-5.
#[test]
fn exclusive_volumes() {
    let in_use = "U: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use \
                  by another pod";
    let cluster = zones(&["e node=n1 claim=c", "f node=n2 namespace=other claim=d"]);
    volume(&cluster, "v", "", &Value::Null, &Value::Null);
    bound_claim(&cluster, "c", "v", "ReadWriteOncePod");
    bound_claim(&cluster, "d", "v", "ReadWriteOncePod");
    assert_eq!(verdicts(&cluster, "p claim=c"), [in_use, in_use]);
    assert_eq!(verdicts(&cluster, "p claim=d"), ["ok", "ok"], "another namespace's claim");
    let taken = "U: node(s) had no available disk";
    let disks = zones(&["e node=n1 read-only-disk=x", "f node=n2 disk=y"]);
    assert_eq!(verdicts(&disks, "p disk=x"), [taken, "ok"]);
    assert_eq!(verdicts(&disks, "p read-only-disk=x"), ["ok", "ok"]);
    assert_eq!(verdicts(&disks, "p read-only-disk=y"), ["ok", taken]);
}

/// S-VLL-3 to S-VLL-5.
#[test]
fn attach_limits() {
    let cluster = zones(&["e node=n1 claim=other"]);
    let limit = |node: &str, count: i32| {
        upsert!(
            cluster,
            storage_v1::CsiNode,
            json!({
                "metadata": {"name": node},
                "spec": {"drivers": [{"name": "d", "nodeID": node, "allocatable": {"count": count}}]},
            })
        );
    };
    for name in ["other", "c"] {
        volume(&cluster, name, "", &Value::Null, &Value::Null);
        bound_claim(&cluster, name, name, "ReadWriteOnce");
    }
    assert_eq!(verdicts(&cluster, "p claim=c"), ["ok", "ok"], "no limit is known");
    limit("n1", 1);
    assert_eq!(verdicts(&cluster, "p claim=c"), [TOO_MANY, "ok"]);
    limit("n2", 0);
    assert_eq!(verdicts(&cluster, "p claim=other"), ["ok", TOO_MANY], "in use there already");
    // The volume is attached but no pod uses it: it counts as in use under its attacher, and as new.
    limit("n2", 1);
    assert_eq!(verdicts(&cluster, "p claim=c"), [TOO_MANY, "ok"]);
    upsert!(
        cluster,
        storage_v1::VolumeAttachment,
        json!({
            "metadata": {"name": "a"},
            "spec": {"attacher": "d", "nodeName": "n2", "source": {"persistentVolumeName": "c"}},
        })
    );
    assert_eq!(verdicts(&cluster, "p claim=c"), [TOO_MANY, TOO_MANY]);
    limit("n2", 2);
    assert_eq!(verdicts(&cluster, "p claim=c"), [TOO_MANY, "ok"]);
}
