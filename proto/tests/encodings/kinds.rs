//! Every kind that the crate has, beside its counterparts in `k8s-pb` and `k8s-openapi`.

use std::fmt::Debug;

use berth_proto::{
    apps_v1, batch_v1, core_v1, node_v1, policy_v1, resource_v1, scheduling_v1, storage_v1,
};
use k8s_openapi::List;
use k8s_openapi::api as openapi;
use k8s_pb::api as pb;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One kind, its types hidden behind functions on bytes and JSON.
pub(crate) struct Kind {
    /// Full protobuf name.
    pub(crate) name: &'static str,
    /// Protobuf through our type.
    pub(crate) recode: fn(&[u8]) -> Result<Vec<u8>, prost::DecodeError>,
    /// Protobuf to JSON through our type.
    pub(crate) to_json: fn(&[u8]) -> Value,
    /// JSON to protobuf through our type.
    pub(crate) from_json: fn(&[u8]) -> Result<Vec<u8>, serde_json::Error>,
    /// YAML to protobuf through our type.
    pub(crate) from_yaml: fn(&str) -> Vec<u8>,
    /// Protobuf through the type of `k8s-pb`, and how that type prints.
    pub(crate) k8s_pb: fn(&[u8]) -> (Vec<u8>, String),
    /// JSON through the type of `k8s-openapi`.
    pub(crate) k8s_openapi: fn(&Value) -> Value,
}

impl Kind {
    const fn of<Ours, Pb, Openapi>(name: &'static str) -> Kind
    where
        Ours: Message + Default + Serialize + DeserializeOwned,
        Pb: Message + Default + Debug,
        Openapi: Serialize + DeserializeOwned,
    {
        Kind {
            name,
            recode: |bytes| Ours::decode(bytes).map(|ours| ours.encode_to_vec()),
            to_json: |bytes| serde_json::to_value(Ours::decode(bytes).unwrap()).unwrap(),
            from_json: |json| serde_json::from_slice::<Ours>(json).map(|ours| ours.encode_to_vec()),
            from_yaml: |yaml| serde_saphyr::from_str::<Ours>(yaml).unwrap().encode_to_vec(),
            k8s_pb: |bytes| {
                let theirs = Pb::decode(bytes).unwrap();
                (theirs.encode_to_vec(), format!("{theirs:?}"))
            },
            k8s_openapi: |json| serde_json::to_value(Openapi::deserialize(json).unwrap()).unwrap(),
        }
    }

    /// Checks that two objects of our type, as protobuf, are equal. Comparing bytes is enough, because maps are sorted
    /// and fields have an order.
    pub(crate) fn check_same(&self, actual: &[u8], expected: &[u8]) {
        if actual != expected {
            let (actual_json, expected_json) = ((self.to_json)(actual), (self.to_json)(expected));
            panic!(
                "`{}` is {actual_json}\nnot {expected_json}\n{actual:x?}\n{expected:x?}",
                self.name
            );
        }
    }
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).unwrap_or_else(|| panic!("no kind `{name}`"))
}

/// The objects, then their lists.
pub(crate) static KINDS: [Kind; 57] = [
    Kind::of::<core_v1::Pod, pb::core::v1::Pod, openapi::core::v1::Pod>("k8s.io.api.core.v1.Pod"),
    Kind::of::<core_v1::Node, pb::core::v1::Node, openapi::core::v1::Node>(
        "k8s.io.api.core.v1.Node",
    ),
    Kind::of::<core_v1::Namespace, pb::core::v1::Namespace, openapi::core::v1::Namespace>(
        "k8s.io.api.core.v1.Namespace",
    ),
    Kind::of::<core_v1::Service, pb::core::v1::Service, openapi::core::v1::Service>(
        "k8s.io.api.core.v1.Service",
    ),
    Kind::of::<
        core_v1::ReplicationController,
        pb::core::v1::ReplicationController,
        openapi::core::v1::ReplicationController,
    >("k8s.io.api.core.v1.ReplicationController"),
    Kind::of::<
        core_v1::PersistentVolume,
        pb::core::v1::PersistentVolume,
        openapi::core::v1::PersistentVolume,
    >("k8s.io.api.core.v1.PersistentVolume"),
    Kind::of::<
        core_v1::PersistentVolumeClaim,
        pb::core::v1::PersistentVolumeClaim,
        openapi::core::v1::PersistentVolumeClaim,
    >("k8s.io.api.core.v1.PersistentVolumeClaim"),
    Kind::of::<core_v1::Binding, pb::core::v1::Binding, openapi::core::v1::Binding>(
        "k8s.io.api.core.v1.Binding",
    ),
    Kind::of::<apps_v1::ReplicaSet, pb::apps::v1::ReplicaSet, openapi::apps::v1::ReplicaSet>(
        "k8s.io.api.apps.v1.ReplicaSet",
    ),
    Kind::of::<apps_v1::StatefulSet, pb::apps::v1::StatefulSet, openapi::apps::v1::StatefulSet>(
        "k8s.io.api.apps.v1.StatefulSet",
    ),
    Kind::of::<apps_v1::DaemonSet, pb::apps::v1::DaemonSet, openapi::apps::v1::DaemonSet>(
        "k8s.io.api.apps.v1.DaemonSet",
    ),
    Kind::of::<apps_v1::Deployment, pb::apps::v1::Deployment, openapi::apps::v1::Deployment>(
        "k8s.io.api.apps.v1.Deployment",
    ),
    Kind::of::<batch_v1::Job, pb::batch::v1::Job, openapi::batch::v1::Job>(
        "k8s.io.api.batch.v1.Job",
    ),
    Kind::of::<batch_v1::CronJob, pb::batch::v1::CronJob, openapi::batch::v1::CronJob>(
        "k8s.io.api.batch.v1.CronJob",
    ),
    Kind::of::<core_v1::PodTemplate, pb::core::v1::PodTemplate, openapi::core::v1::PodTemplate>(
        "k8s.io.api.core.v1.PodTemplate",
    ),
    Kind::of::<
        storage_v1::StorageClass,
        pb::storage::v1::StorageClass,
        openapi::storage::v1::StorageClass,
    >("k8s.io.api.storage.v1.StorageClass"),
    Kind::of::<storage_v1::CsiNode, pb::storage::v1::CSINode, openapi::storage::v1::CSINode>(
        "k8s.io.api.storage.v1.CSINode",
    ),
    Kind::of::<
        storage_v1::VolumeAttachment,
        pb::storage::v1::VolumeAttachment,
        openapi::storage::v1::VolumeAttachment,
    >("k8s.io.api.storage.v1.VolumeAttachment"),
    Kind::of::<storage_v1::CsiDriver, pb::storage::v1::CSIDriver, openapi::storage::v1::CSIDriver>(
        "k8s.io.api.storage.v1.CSIDriver",
    ),
    Kind::of::<
        storage_v1::CsiStorageCapacity,
        pb::storage::v1::CSIStorageCapacity,
        openapi::storage::v1::CSIStorageCapacity,
    >("k8s.io.api.storage.v1.CSIStorageCapacity"),
    Kind::of::<
        policy_v1::PodDisruptionBudget,
        pb::policy::v1::PodDisruptionBudget,
        openapi::policy::v1::PodDisruptionBudget,
    >("k8s.io.api.policy.v1.PodDisruptionBudget"),
    Kind::of::<
        scheduling_v1::PriorityClass,
        pb::scheduling::v1::PriorityClass,
        openapi::scheduling::v1::PriorityClass,
    >("k8s.io.api.scheduling.v1.PriorityClass"),
    Kind::of::<core_v1::LimitRange, pb::core::v1::LimitRange, openapi::core::v1::LimitRange>(
        "k8s.io.api.core.v1.LimitRange",
    ),
    Kind::of::<core_v1::ResourceQuota, pb::core::v1::ResourceQuota, openapi::core::v1::ResourceQuota>(
        "k8s.io.api.core.v1.ResourceQuota",
    ),
    Kind::of::<node_v1::RuntimeClass, pb::node::v1::RuntimeClass, openapi::node::v1::RuntimeClass>(
        "k8s.io.api.node.v1.RuntimeClass",
    ),
    Kind::of::<
        resource_v1::ResourceClaim,
        pb::resource::v1::ResourceClaim,
        openapi::resource::v1::ResourceClaim,
    >("k8s.io.api.resource.v1.ResourceClaim"),
    Kind::of::<
        resource_v1::ResourceClaimTemplate,
        pb::resource::v1::ResourceClaimTemplate,
        openapi::resource::v1::ResourceClaimTemplate,
    >("k8s.io.api.resource.v1.ResourceClaimTemplate"),
    Kind::of::<
        resource_v1::ResourceSlice,
        pb::resource::v1::ResourceSlice,
        openapi::resource::v1::ResourceSlice,
    >("k8s.io.api.resource.v1.ResourceSlice"),
    Kind::of::<
        resource_v1::DeviceClass,
        pb::resource::v1::DeviceClass,
        openapi::resource::v1::DeviceClass,
    >("k8s.io.api.resource.v1.DeviceClass"),
    Kind::of::<core_v1::PodList, pb::core::v1::PodList, List<openapi::core::v1::Pod>>(
        "k8s.io.api.core.v1.PodList",
    ),
    Kind::of::<core_v1::NodeList, pb::core::v1::NodeList, List<openapi::core::v1::Node>>(
        "k8s.io.api.core.v1.NodeList",
    ),
    Kind::of::<
        core_v1::NamespaceList,
        pb::core::v1::NamespaceList,
        List<openapi::core::v1::Namespace>,
    >("k8s.io.api.core.v1.NamespaceList"),
    Kind::of::<core_v1::ServiceList, pb::core::v1::ServiceList, List<openapi::core::v1::Service>>(
        "k8s.io.api.core.v1.ServiceList",
    ),
    Kind::of::<
        core_v1::ReplicationControllerList,
        pb::core::v1::ReplicationControllerList,
        List<openapi::core::v1::ReplicationController>,
    >("k8s.io.api.core.v1.ReplicationControllerList"),
    Kind::of::<
        core_v1::PersistentVolumeList,
        pb::core::v1::PersistentVolumeList,
        List<openapi::core::v1::PersistentVolume>,
    >("k8s.io.api.core.v1.PersistentVolumeList"),
    Kind::of::<
        core_v1::PersistentVolumeClaimList,
        pb::core::v1::PersistentVolumeClaimList,
        List<openapi::core::v1::PersistentVolumeClaim>,
    >("k8s.io.api.core.v1.PersistentVolumeClaimList"),
    Kind::of::<
        apps_v1::ReplicaSetList,
        pb::apps::v1::ReplicaSetList,
        List<openapi::apps::v1::ReplicaSet>,
    >("k8s.io.api.apps.v1.ReplicaSetList"),
    Kind::of::<
        apps_v1::StatefulSetList,
        pb::apps::v1::StatefulSetList,
        List<openapi::apps::v1::StatefulSet>,
    >("k8s.io.api.apps.v1.StatefulSetList"),
    Kind::of::<
        apps_v1::DaemonSetList,
        pb::apps::v1::DaemonSetList,
        List<openapi::apps::v1::DaemonSet>,
    >("k8s.io.api.apps.v1.DaemonSetList"),
    Kind::of::<
        apps_v1::DeploymentList,
        pb::apps::v1::DeploymentList,
        List<openapi::apps::v1::Deployment>,
    >("k8s.io.api.apps.v1.DeploymentList"),
    Kind::of::<batch_v1::JobList, pb::batch::v1::JobList, List<openapi::batch::v1::Job>>(
        "k8s.io.api.batch.v1.JobList",
    ),
    Kind::of::<batch_v1::CronJobList, pb::batch::v1::CronJobList, List<openapi::batch::v1::CronJob>>(
        "k8s.io.api.batch.v1.CronJobList",
    ),
    Kind::of::<
        core_v1::PodTemplateList,
        pb::core::v1::PodTemplateList,
        List<openapi::core::v1::PodTemplate>,
    >("k8s.io.api.core.v1.PodTemplateList"),
    Kind::of::<
        storage_v1::StorageClassList,
        pb::storage::v1::StorageClassList,
        List<openapi::storage::v1::StorageClass>,
    >("k8s.io.api.storage.v1.StorageClassList"),
    Kind::of::<
        storage_v1::CsiNodeList,
        pb::storage::v1::CSINodeList,
        List<openapi::storage::v1::CSINode>,
    >("k8s.io.api.storage.v1.CSINodeList"),
    Kind::of::<
        storage_v1::VolumeAttachmentList,
        pb::storage::v1::VolumeAttachmentList,
        List<openapi::storage::v1::VolumeAttachment>,
    >("k8s.io.api.storage.v1.VolumeAttachmentList"),
    Kind::of::<
        storage_v1::CsiDriverList,
        pb::storage::v1::CSIDriverList,
        List<openapi::storage::v1::CSIDriver>,
    >("k8s.io.api.storage.v1.CSIDriverList"),
    Kind::of::<
        storage_v1::CsiStorageCapacityList,
        pb::storage::v1::CSIStorageCapacityList,
        List<openapi::storage::v1::CSIStorageCapacity>,
    >("k8s.io.api.storage.v1.CSIStorageCapacityList"),
    Kind::of::<
        policy_v1::PodDisruptionBudgetList,
        pb::policy::v1::PodDisruptionBudgetList,
        List<openapi::policy::v1::PodDisruptionBudget>,
    >("k8s.io.api.policy.v1.PodDisruptionBudgetList"),
    Kind::of::<
        scheduling_v1::PriorityClassList,
        pb::scheduling::v1::PriorityClassList,
        List<openapi::scheduling::v1::PriorityClass>,
    >("k8s.io.api.scheduling.v1.PriorityClassList"),
    Kind::of::<
        core_v1::LimitRangeList,
        pb::core::v1::LimitRangeList,
        List<openapi::core::v1::LimitRange>,
    >("k8s.io.api.core.v1.LimitRangeList"),
    Kind::of::<
        core_v1::ResourceQuotaList,
        pb::core::v1::ResourceQuotaList,
        List<openapi::core::v1::ResourceQuota>,
    >("k8s.io.api.core.v1.ResourceQuotaList"),
    Kind::of::<
        node_v1::RuntimeClassList,
        pb::node::v1::RuntimeClassList,
        List<openapi::node::v1::RuntimeClass>,
    >("k8s.io.api.node.v1.RuntimeClassList"),
    Kind::of::<
        resource_v1::ResourceClaimList,
        pb::resource::v1::ResourceClaimList,
        List<openapi::resource::v1::ResourceClaim>,
    >("k8s.io.api.resource.v1.ResourceClaimList"),
    Kind::of::<
        resource_v1::ResourceClaimTemplateList,
        pb::resource::v1::ResourceClaimTemplateList,
        List<openapi::resource::v1::ResourceClaimTemplate>,
    >("k8s.io.api.resource.v1.ResourceClaimTemplateList"),
    Kind::of::<
        resource_v1::ResourceSliceList,
        pb::resource::v1::ResourceSliceList,
        List<openapi::resource::v1::ResourceSlice>,
    >("k8s.io.api.resource.v1.ResourceSliceList"),
    Kind::of::<
        resource_v1::DeviceClassList,
        pb::resource::v1::DeviceClassList,
        List<openapi::resource::v1::DeviceClass>,
    >("k8s.io.api.resource.v1.DeviceClassList"),
];
