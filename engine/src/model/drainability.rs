//! Drainability: the pod's own properties that decide whether it may be moved off its node. Rule: S-SD-3.

use std::sync::Arc;

use berth_proto::{core_v1, meta_v1};

use super::intern::{Interner, Symbol};
use super::table::Table;

/// Facts of a pod's annotations, owner and volumes that drains read. Pods of one workload share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Drainability {
    /// Whether the pod is the copy of a static pod, which ends with its node.
    pub(crate) is_mirror: bool,
    /// Whether a DaemonSet owns the pod, by its controller's kind or by annotation.
    pub(crate) is_daemon: bool,
    pub(crate) owner: OwnerKind,
    pub(crate) safe_to_evict: SafeToEvict,
    /// `spec.terminationGracePeriodSeconds`, or its default.
    pub(crate) grace_period_seconds: i64,
    /// Volumes on the node's own disks that are not declared dispensable, by name, in spec order.
    pub(crate) local_storage: Box<[Symbol]>,
}

/// The kind of the controller that owns a pod.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKind {
    /// No controller recreates the pod.
    None,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    Job,
    DaemonSet,
    /// Any other kind of controller.
    Other,
}

/// Value of the annotation that allows or forbids eviction.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SafeToEvict {
    /// The annotation is absent or has another value.
    Unsaid,
    Yes,
    No,
    /// A drain waits for the pod to complete.
    OnCompletion,
}

/// Interned drainabilities of all pods.
pub(crate) type DrainabilityTable = Table<Drainability, Drainability>;

const MIRROR: &str = "kubernetes.io/config.mirror";
const DAEMON: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DISPENSABLE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;

impl Drainability {
    pub(crate) fn compile(
        metadata: Option<&meta_v1::ObjectMeta>,
        spec: &core_v1::PodSpec,
        names: &Interner,
    ) -> Drainability {
        let annotation = |key: &str| metadata.and_then(|metadata| metadata.annotations.get(key));
        let owner = metadata.map_or(OwnerKind::None, OwnerKind::of);
        Drainability {
            is_mirror: annotation(MIRROR).is_some(),
            is_daemon: owner == OwnerKind::DaemonSet
                || annotation(DAEMON).is_some_and(|value| value == "true"),
            owner,
            safe_to_evict: match annotation(SAFE_TO_EVICT).map(String::as_str) {
                Some("true") => SafeToEvict::Yes,
                Some("false") => SafeToEvict::No,
                Some("on-completion") => SafeToEvict::OnCompletion,
                Some(_) | None => SafeToEvict::Unsaid,
            },
            grace_period_seconds: spec
                .termination_grace_period_seconds
                .unwrap_or(DEFAULT_GRACE_PERIOD_SECONDS),
            local_storage: local_storage(spec, annotation(DISPENSABLE_VOLUMES), names),
        }
    }

    /// The interned value equal to this one.
    pub(crate) fn shared(self, table: &DrainabilityTable, names: &Interner) -> Arc<Drainability> {
        let n_bytes = 256 + 2 * size_of_val(&*self.local_storage);
        let make = |_, drainability| (drainability, n_bytes);
        table.intern(self, names.lease(), make)
    }
}

/// Names of volumes on the node's disk that are not listed as dispensable.
fn local_storage(
    spec: &core_v1::PodSpec,
    dispensable: Option<&String>,
    names: &Interner,
) -> Box<[Symbol]> {
    let is_local = |volume: &&core_v1::Volume| {
        volume.volume_source.as_ref().is_some_and(|source| {
            source.host_path.is_some()
                || source.empty_dir.as_ref().is_some_and(|folder| folder.medium != "Memory")
        })
    };
    let is_listed = |volume: &core_v1::Volume| {
        dispensable.is_some_and(|list| list.split(',').any(|name| name == volume.name))
    };
    let kept = spec.volumes.iter().filter(is_local).filter(|volume| !is_listed(volume));
    kept.map(|volume| names.intern(&volume.name)).collect()
}

impl OwnerKind {
    fn of(metadata: &meta_v1::ObjectMeta) -> OwnerKind {
        let Some(owner) = metadata.controller() else {
            return OwnerKind::None;
        };
        match owner.kind.as_str() {
            "ReplicationController" => OwnerKind::ReplicationController,
            "ReplicaSet" => OwnerKind::ReplicaSet,
            "StatefulSet" => OwnerKind::StatefulSet,
            "Job" => OwnerKind::Job,
            "DaemonSet" => OwnerKind::DaemonSet,
            _ => OwnerKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(metadata: &str, spec: &str, names: &Interner) -> Drainability {
        let metadata: meta_v1::ObjectMeta = serde_json::from_str(metadata).unwrap();
        let spec: core_v1::PodSpec = serde_json::from_str(spec).unwrap();
        Drainability::compile(Some(&metadata), &spec, names)
    }

    /// S-SD-3
    #[test]
    fn annotations_and_owners() {
        let names = Interner::new();
        let plain = compile("{}", "{}", &names);
        let nothing = Drainability {
            is_mirror: false,
            is_daemon: false,
            owner: OwnerKind::None,
            safe_to_evict: SafeToEvict::Unsaid,
            grace_period_seconds: 30,
            local_storage: Box::default(),
        };
        assert_eq!(plain, nothing);
        let annotated = |key: &str, value: &str| {
            compile(&format!(r#"{{"annotations": {{"{key}": "{value}"}}}}"#), "{}", &names)
        };
        assert!(annotated(MIRROR, "").is_mirror);
        assert!(annotated(DAEMON, "true").is_daemon && !annotated(DAEMON, "True").is_daemon);
        for (value, expected) in [
            ("true", SafeToEvict::Yes),
            ("false", SafeToEvict::No),
            ("on-completion", SafeToEvict::OnCompletion),
            ("maybe", SafeToEvict::Unsaid),
        ] {
            assert_eq!(annotated(SAFE_TO_EVICT, value).safe_to_evict, expected, "{value}");
        }
        let owned = |kind: &str, controller: &str| {
            let owners = format!(
                r#"{{"ownerReferences": [{{"kind": "X", "name": "x"}}, {{"kind": "{kind}", "name": "o"{controller}}}]}}"#
            );
            compile(&owners, r#"{"terminationGracePeriodSeconds": 5}"#, &names)
        };
        assert_eq!(owned("ReplicaSet", "").owner, OwnerKind::None);
        for (kind, expected) in [
            ("ReplicationController", OwnerKind::ReplicationController),
            ("ReplicaSet", OwnerKind::ReplicaSet),
            ("StatefulSet", OwnerKind::StatefulSet),
            ("Job", OwnerKind::Job),
            ("DaemonSet", OwnerKind::DaemonSet),
            ("CloneSet", OwnerKind::Other),
        ] {
            let compiled = owned(kind, r#", "controller": true"#);
            assert_eq!((compiled.owner, compiled.is_daemon), (expected, kind == "DaemonSet"));
            assert_eq!(compiled.grace_period_seconds, 5);
        }
    }

    /// S-SD-3
    #[test]
    fn local_storage_is_on_disk_and_not_declared_dispensable() {
        let names = Interner::new();
        let spec = r#"{"volumes": [
            {"name": "host", "hostPath": {"path": "/var"}}, {"name": "scratch", "emptyDir": {}},
            {"name": "cache", "emptyDir": {"medium": "Memory"}}, {"name": "huge", "emptyDir": {"medium": "HugePages"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}"#;
        let kept = |metadata: &str| -> Vec<String> {
            let compiled = compile(metadata, spec, &names);
            compiled.local_storage.iter().map(|name| names.name(*name).to_string()).collect()
        };
        assert_eq!(kept("{}"), ["host", "scratch", "huge"]);
        let listed = |list: &str| {
            kept(&format!(r#"{{"annotations": {{"{DISPENSABLE_VOLUMES}": "{list}"}}}}"#))
        };
        assert_eq!(listed("scratch,huge"), ["host"]);
        // Spaces are part of a name, so this lists no existing volume.
        assert_eq!(listed("host, scratch"), ["scratch", "huge"]);
    }
}
