//! Kinds: the one list of the kinds of objects that placement reads besides nodes and pods. Enums, tables and resources
//! of every crate are made from it.

/// Calls a macro with the list of object kinds.
///
/// A row is `Kind(Message) { … }`: the name of the kind in this code and its message. A macro that reads the first
/// fields of a row takes the others as `$($rest:tt)*`. The order of the rows is that of
/// [`ObjectKind::ALL`](crate::ObjectKind::ALL) and of the kinds in fuzz inputs: a new row goes to the end.
///
/// * `upsert`: the field of `Delta.change` in `berth/v1/cluster.proto`, as its Rust variant.
/// * `wakes`: the event by which a change of an object wakes pending pods, a constant of the server's `Changes`; `NONE`
///   for kinds that no placement reads.
/// * `recorded`: the field of a recorded conformance case, in snake case.
/// * `name`, `api_version`, `plural`, `namespaced`: the kind as the API server has it.
#[macro_export]
macro_rules! object_kinds {
    ($callback:ident) => {
        $callback! {
            Namespace(berth_proto::core_v1::Namespace) {
                upsert: UpsertNamespace, wakes: NAMESPACE, recorded: namespaces,
                name: "Namespace", api_version: "v1", plural: "namespaces", namespaced: false
            }
            Service(berth_proto::core_v1::Service) {
                upsert: UpsertService, wakes: WORKLOAD, recorded: services,
                name: "Service", api_version: "v1", plural: "services", namespaced: true
            }
            ReplicationController(berth_proto::core_v1::ReplicationController) {
                upsert: UpsertReplicationController, wakes: WORKLOAD, recorded: replication_controllers,
                name: "ReplicationController", api_version: "v1", plural: "replicationcontrollers", namespaced: true
            }
            ReplicaSet(berth_proto::apps_v1::ReplicaSet) {
                upsert: UpsertReplicaSet, wakes: WORKLOAD, recorded: replica_sets,
                name: "ReplicaSet", api_version: "apps/v1", plural: "replicasets", namespaced: true
            }
            StatefulSet(berth_proto::apps_v1::StatefulSet) {
                upsert: UpsertStatefulSet, wakes: WORKLOAD, recorded: stateful_sets,
                name: "StatefulSet", api_version: "apps/v1", plural: "statefulsets", namespaced: true
            }
            PersistentVolume(berth_proto::core_v1::PersistentVolume) {
                upsert: UpsertPersistentVolume, wakes: VOLUME, recorded: persistent_volumes,
                name: "PersistentVolume", api_version: "v1", plural: "persistentvolumes", namespaced: false
            }
            PersistentVolumeClaim(berth_proto::core_v1::PersistentVolumeClaim) {
                upsert: UpsertPersistentVolumeClaim, wakes: CLAIM, recorded: persistent_volume_claims,
                name: "PersistentVolumeClaim", api_version: "v1", plural: "persistentvolumeclaims", namespaced: true
            }
            StorageClass(berth_proto::storage_v1::StorageClass) {
                upsert: UpsertStorageClass, wakes: STORAGE_CLASS, recorded: storage_classes,
                name: "StorageClass", api_version: "storage.k8s.io/v1", plural: "storageclasses", namespaced: false
            }
            CsiNode(berth_proto::storage_v1::CsiNode) {
                upsert: UpsertCsiNode, wakes: CSI_NODE, recorded: csi_nodes,
                name: "CSINode", api_version: "storage.k8s.io/v1", plural: "csinodes", namespaced: false
            }
            CsiDriver(berth_proto::storage_v1::CsiDriver) {
                upsert: UpsertCsiDriver, wakes: CSI_DRIVER, recorded: csi_drivers,
                name: "CSIDriver", api_version: "storage.k8s.io/v1", plural: "csidrivers", namespaced: false
            }
            CsiStorageCapacity(berth_proto::storage_v1::CsiStorageCapacity) {
                upsert: UpsertCsiStorageCapacity, wakes: CSI_STORAGE_CAPACITY, recorded: csi_storage_capacities,
                name: "CSIStorageCapacity", api_version: "storage.k8s.io/v1", plural: "csistoragecapacities",
                namespaced: true
            }
            VolumeAttachment(berth_proto::storage_v1::VolumeAttachment) {
                upsert: UpsertVolumeAttachment, wakes: VOLUME_ATTACHMENT, recorded: volume_attachments,
                name: "VolumeAttachment", api_version: "storage.k8s.io/v1", plural: "volumeattachments",
                namespaced: false
            }
            PodDisruptionBudget(berth_proto::policy_v1::PodDisruptionBudget) {
                upsert: UpsertPodDisruptionBudget, wakes: DISRUPTION_BUDGET, recorded: pod_disruption_budgets,
                name: "PodDisruptionBudget", api_version: "policy/v1", plural: "poddisruptionbudgets", namespaced: true
            }
            PriorityClass(berth_proto::scheduling_v1::PriorityClass) {
                upsert: UpsertPriorityClass, wakes: NONE, recorded: priority_classes,
                name: "PriorityClass", api_version: "scheduling.k8s.io/v1", plural: "priorityclasses",
                namespaced: false
            }
            LimitRange(berth_proto::core_v1::LimitRange) {
                upsert: UpsertLimitRange, wakes: NONE, recorded: limit_ranges,
                name: "LimitRange", api_version: "v1", plural: "limitranges", namespaced: true
            }
            RuntimeClass(berth_proto::node_v1::RuntimeClass) {
                upsert: UpsertRuntimeClass, wakes: NONE, recorded: runtime_classes,
                name: "RuntimeClass", api_version: "node.k8s.io/v1", plural: "runtimeclasses", namespaced: false
            }
            ResourceQuota(berth_proto::core_v1::ResourceQuota) {
                upsert: UpsertResourceQuota, wakes: NONE, recorded: resource_quotas,
                name: "ResourceQuota", api_version: "v1", plural: "resourcequotas", namespaced: true
            }
            DeviceClass(berth_proto::resource_v1::DeviceClass) {
                upsert: UpsertDeviceClass, wakes: DEVICE_CLASS, recorded: device_classes,
                name: "DeviceClass", api_version: "resource.k8s.io/v1", plural: "deviceclasses", namespaced: false
            }
            ResourceSlice(berth_proto::resource_v1::ResourceSlice) {
                upsert: UpsertResourceSlice, wakes: RESOURCE_SLICE, recorded: resource_slices,
                name: "ResourceSlice", api_version: "resource.k8s.io/v1", plural: "resourceslices", namespaced: false
            }
            ResourceClaim(berth_proto::resource_v1::ResourceClaim) {
                upsert: UpsertResourceClaim, wakes: RESOURCE_CLAIM, recorded: resource_claims,
                name: "ResourceClaim", api_version: "resource.k8s.io/v1", plural: "resourceclaims", namespaced: true
            }
            ResourceClaimTemplate(berth_proto::resource_v1::ResourceClaimTemplate) {
                upsert: UpsertResourceClaimTemplate, wakes: NONE, recorded: resource_claim_templates,
                name: "ResourceClaimTemplate", api_version: "resource.k8s.io/v1", plural: "resourceclaimtemplates",
                namespaced: true
            }
        }
    };
}

pub(crate) use object_kinds;
