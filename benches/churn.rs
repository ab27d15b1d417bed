//! Churn: running pods that are added and removed, with labels, spread constraints, affinity terms or claims.

use berth_engine::{Cluster, Delta, PodKey};
use berth_proto::Quantity;
use berth_proto::core_v1::{
    CsiPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PersistentVolumeClaimVolumeSource,
    PersistentVolumeSource, PersistentVolumeSpec, Pod, Volume, VolumeResourceRequirements,
    VolumeSource,
};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::storage_v1::{
    CsiDriver, CsiNode, CsiNodeDriver, CsiNodeSpec, StorageClass, VolumeNodeResources,
};

use crate::workload::{Workload, compiled_object, compiled_pod, existing, incoming, node_name};

/// Features of the added and removed pods.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cargo {
    /// The labels of all existing pods.
    Labels,
    /// Labels that constraints select, and two constraints.
    SpreadConstraints,
    /// A required anti-affinity term.
    RequiredTerm,
    /// Two preferred terms.
    PreferredTerms,
    /// A claim bound to a volume of a CSI driver, and labels.
    Claim,
}

impl Cargo {
    /// All kinds with their names.
    pub const ALL: [(Cargo, &'static str); 5] = [
        (Cargo::Labels, "labels"),
        (Cargo::SpreadConstraints, "spread-constraints"),
        (Cargo::RequiredTerm, "required-anti-affinity"),
        (Cargo::PreferredTerms, "preferred-terms"),
        (Cargo::Claim, "claims"),
    ];

    fn pod(self, k: usize, n_nodes: usize) -> Pod {
        match self {
            Cargo::Labels => existing(k, n_nodes, Workload::Basic),
            Cargo::SpreadConstraints => incoming(k, Workload::SpreadSoft),
            Cargo::RequiredTerm => incoming(k, Workload::AntiAffinityHost1000),
            Cargo::PreferredTerms => incoming(k, Workload::PreferredAffinity),
            Cargo::Claim => {
                let mut pod = existing(k, n_nodes, Workload::Basic);
                if let Some(spec) = &mut pod.spec {
                    spec.volumes = vec![volume(k)];
                }
                pod
            }
        }
    }
}

/// The deltas that add and remove pod `k`. Its node depends only on `k`.
pub fn churn(cluster: &Cluster, k: usize, n_nodes: usize, cargo: Cargo) -> (Delta, Delta) {
    come_and_go(cluster, cargo.pod(k, n_nodes), k, n_nodes)
}

/// The deltas that add and remove a pod like those of the workload's cluster.
pub fn churn_of(cluster: &Cluster, k: usize, n_nodes: usize, workload: Workload) -> (Delta, Delta) {
    come_and_go(cluster, existing(any_node(k, n_nodes), n_nodes, workload), k, n_nodes)
}

/// The node of pod `k`: consecutive pods are on distant nodes, because 7919 is a prime.
fn any_node(k: usize, n_nodes: usize) -> usize {
    k.wrapping_mul(7919) % n_nodes
}

fn come_and_go(cluster: &Cluster, mut pod: Pod, k: usize, n_nodes: usize) -> (Delta, Delta) {
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("churn-{k}");
        metadata.uid = metadata.name.clone();
    }
    if let Some(spec) = &mut pod.spec {
        spec.node_name = node_name(any_node(k, n_nodes));
    }
    let pod = compiled_pod(cluster, &pod);
    let key = PodKey::new(&pod.key().namespace, &pod.key().name);
    (Delta::UpsertPod(pod), Delta::DeletePod { key, uid: None })
}

const DRIVER: &str = "csi.example.com";
const CLASS: &str = "fast";

/// The objects that the claims of the first `n_pods` pods need: volumes, a storage class, a driver, and its limit on
/// every node.
pub fn storage(cluster: &Cluster, n_pods: usize, n_nodes: usize) -> Vec<Delta> {
    let class = StorageClass {
        metadata: named("", CLASS.into()),
        provisioner: DRIVER.into(),
        volume_binding_mode: Some("Immediate".into()),
        ..StorageClass::default()
    };
    let driver = CsiDriver { metadata: named("", DRIVER.into()), ..CsiDriver::default() };
    let mut objects = vec![compiled_object(cluster, &class), compiled_object(cluster, &driver)];
    objects.extend((0..n_nodes).map(|i| compiled_object(cluster, &csi_node(i))));
    objects.extend((0..n_pods).map(|k| compiled_object(cluster, &persistent_volume(k))));
    objects.extend((0..n_pods).map(|k| compiled_object(cluster, &claim(k))));
    objects.into_iter().map(Delta::UpsertObject).collect()
}

fn volume(k: usize) -> Volume {
    let claim =
        PersistentVolumeClaimVolumeSource { claim_name: claim_name(k), ..Default::default() };
    let source = VolumeSource { persistent_volume_claim: Some(claim), ..VolumeSource::default() };
    Volume { name: "data".into(), volume_source: Some(source) }
}

fn csi_node(i: usize) -> CsiNode {
    let driver = CsiNodeDriver {
        name: DRIVER.into(),
        node_id: node_name(i),
        allocatable: Some(VolumeNodeResources { count: Some(64) }),
        ..CsiNodeDriver::default()
    };
    CsiNode { metadata: named("", node_name(i)), spec: Some(CsiNodeSpec { drivers: vec![driver] }) }
}

fn persistent_volume(k: usize) -> PersistentVolume {
    let csi = CsiPersistentVolumeSource {
        driver: DRIVER.into(),
        volume_handle: format!("handle-{k}"),
        ..CsiPersistentVolumeSource::default()
    };
    PersistentVolume {
        metadata: named("", volume_name(k)),
        spec: Some(PersistentVolumeSpec {
            capacity: [("storage".to_owned(), Quantity::new("10Gi"))].into_iter().collect(),
            persistent_volume_source: Some(PersistentVolumeSource {
                csi: Some(csi),
                ..PersistentVolumeSource::default()
            }),
            access_modes: vec!["ReadWriteOnce".into()],
            claim_ref: Some(ObjectReference {
                namespace: namespace(k),
                name: claim_name(k),
                ..ObjectReference::default()
            }),
            storage_class_name: CLASS.into(),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    }
}

fn claim(k: usize) -> PersistentVolumeClaim {
    let requests = [("storage".to_owned(), Quantity::new("10Gi"))].into_iter().collect();
    let bound = ("pv.kubernetes.io/bind-completed".to_owned(), "yes".to_owned());
    PersistentVolumeClaim {
        metadata: Some(ObjectMeta {
            namespace: namespace(k),
            name: claim_name(k),
            annotations: [bound].into_iter().collect(),
            ..ObjectMeta::default()
        }),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: vec!["ReadWriteOnce".into()],
            resources: Some(VolumeResourceRequirements { requests, ..Default::default() }),
            volume_name: volume_name(k),
            storage_class_name: Some(CLASS.into()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: Some(PersistentVolumeClaimStatus {
            phase: "Bound".into(),
            ..PersistentVolumeClaimStatus::default()
        }),
    }
}

/// The namespace of existing pod `k` and of its claim.
fn namespace(k: usize) -> String {
    format!("ns-{}", k % 10)
}

fn claim_name(k: usize) -> String {
    format!("claim-{k}")
}

fn volume_name(k: usize) -> String {
    format!("volume-{k}")
}

fn named(namespace: &str, name: String) -> Option<ObjectMeta> {
    Some(ObjectMeta { namespace: namespace.into(), name, ..ObjectMeta::default() })
}

#[cfg(test)]
mod tests {
    use super::{Cargo, churn, churn_of, storage};
    use crate::workload::{Workload, cluster};

    #[test]
    fn whatever_comes_is_accepted_and_goes() {
        let cluster = cluster(Workload::Mixed, 20, 1);
        let stored = cluster.apply(storage(&cluster, 30, 20));
        assert_eq!(stored.rejected, []);
        for (cargo, name) in Cargo::ALL {
            let (come, go): (Vec<_>, Vec<_>) =
                (0..30).map(|k| churn(&cluster, k, 20, cargo)).unzip();
            assert_eq!(cluster.apply(come).rejected, [], "{name}");
            assert_eq!(cluster.snapshot().n_pods(), 50, "{name}");
            assert_eq!(cluster.apply(go).rejected, [], "{name}");
            assert_eq!(cluster.snapshot().n_pods(), 20, "{name}");
        }
        let (come, go) = churn_of(&cluster, 3, 20, Workload::Mixed);
        assert_eq!(cluster.apply(vec![come]).rejected, []);
        assert_eq!(cluster.snapshot().n_pods(), 21);
        assert_eq!(cluster.apply(vec![go]).rejected, []);
        assert_eq!(cluster.snapshot().n_pods(), 20);
    }
}
