//! The table of served resources, used by paths, store, selectors and discovery.

/// A row of the table: a resource of one group and version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// API group; empty for core.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) subresources: &'static [&'static str],
    /// Field labels besides `metadata.name` and `metadata.namespace`, with the values of absent fields.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// Whether a PUT must name the version that it replaces (recording 11).
    pub(crate) conditional_update: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) counts_generations: bool,
    /// Fields of a bookmark's object besides `metadata`: those of the kind that Go always writes (recordings 03, 05).
    pub(crate) skeleton: &'static str,
}

const PLAIN: Resource = Resource {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    namespaced: true,
    short_names: &[],
    subresources: &[],
    fields: &[],
    conditional_update: false,
    counts_generations: false,
    skeleton: "",
};

const WORKLOAD: Resource = Resource {
    group: "apps",
    subresources: &["status"],
    counts_generations: true,
    skeleton: r#","spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#,
    ..PLAIN
};

const STORAGE: Resource = Resource { group: "storage.k8s.io", namespaced: false, ..PLAIN };

const DEVICES: Resource = Resource { group: "resource.k8s.io", ..PLAIN };

/// Kept and shown, so that manifests can be applied, but not enforced.
const ACCESS: Resource = Resource { group: "rbac.authorization.k8s.io", ..PLAIN };

const REGARDING: &[(&str, &str)] = &[
    ("reason", ""),
    ("type", ""),
    ("regarding.kind", ""),
    ("regarding.namespace", ""),
    ("regarding.name", ""),
    ("regarding.uid", ""),
];

/// All rows. Rows of one kind share their objects: `events` is served by two groups and stored in the form of the first
/// row.
pub(crate) static RESOURCES: [Resource; 36] = [
    Resource {
        plural: "pods",
        kind: "Pod",
        short_names: &["po"],
        subresources: &["binding", "eviction", "status"],
        fields: &[
            ("spec.nodeName", ""),
            ("status.phase", ""),
            ("spec.schedulerName", ""),
            ("spec.restartPolicy", ""),
            ("spec.serviceAccountName", ""),
            ("spec.hostNetwork", "false"),
            ("status.podIP", ""),
            ("status.nominatedNodeName", ""),
        ],
        counts_generations: true,
        skeleton: r#","spec":{"containers":null},"status":{}"#,
        ..PLAIN
    },
    Resource {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        short_names: &["no"],
        subresources: &["status"],
        fields: &[("spec.unschedulable", "false")],
        skeleton: r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
        ..PLAIN
    },
    Resource {
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        short_names: &["ns"],
        subresources: &["status"],
        fields: &[("status.phase", "")],
        skeleton: r#","spec":{},"status":{}"#,
        ..PLAIN
    },
    Resource {
        plural: "services",
        kind: "Service",
        short_names: &["svc"],
        subresources: &["status"],
        skeleton: r#","spec":{},"status":{"loadBalancer":{}}"#,
        ..PLAIN
    },
    Resource {
        plural: "replicationcontrollers",
        kind: "ReplicationController",
        short_names: &["rc"],
        subresources: &["status"],
        counts_generations: true,
        skeleton: r#","spec":{},"status":{"replicas":0}"#,
        ..PLAIN
    },
    Resource {
        plural: "persistentvolumes",
        kind: "PersistentVolume",
        namespaced: false,
        short_names: &["pv"],
        subresources: &["status"],
        skeleton: r#","spec":{},"status":{}"#,
        ..PLAIN
    },
    Resource {
        plural: "persistentvolumeclaims",
        kind: "PersistentVolumeClaim",
        short_names: &["pvc"],
        subresources: &["status"],
        skeleton: r#","spec":{"resources":{}},"status":{}"#,
        ..PLAIN
    },
    Resource { plural: "configmaps", kind: "ConfigMap", short_names: &["cm"], ..PLAIN },
    Resource {
        group: "events.k8s.io",
        plural: "events",
        kind: "Event",
        short_names: &["ev"],
        fields: REGARDING,
        skeleton: r#","eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
        ..PLAIN
    },
    Resource {
        plural: "events",
        kind: "Event",
        short_names: &["ev"],
        fields: REGARDING,
        skeleton: r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
        ..PLAIN
    },
    Resource { plural: "replicasets", kind: "ReplicaSet", short_names: &["rs"], ..WORKLOAD },
    Resource { plural: "statefulsets", kind: "StatefulSet", short_names: &["sts"], ..WORKLOAD },
    Resource { plural: "deployments", kind: "Deployment", short_names: &["deploy"], ..WORKLOAD },
    Resource { plural: "daemonsets", kind: "DaemonSet", short_names: &["ds"], ..WORKLOAD },
    Resource {
        group: "policy",
        plural: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        short_names: &["pdb"],
        subresources: &["status"],
        conditional_update: true,
        counts_generations: true,
        skeleton: r#","spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
        ..PLAIN
    },
    Resource {
        plural: "storageclasses",
        kind: "StorageClass",
        short_names: &["sc"],
        skeleton: r#","provisioner":"""#,
        ..STORAGE
    },
    Resource {
        plural: "csinodes",
        kind: "CSINode",
        skeleton: r#","spec":{"drivers":null}"#,
        ..STORAGE
    },
    Resource { plural: "csidrivers", kind: "CSIDriver", skeleton: r#","spec":{}"#, ..STORAGE },
    Resource {
        plural: "csistoragecapacities",
        kind: "CSIStorageCapacity",
        namespaced: true,
        skeleton: r#","storageClassName":"""#,
        ..STORAGE
    },
    Resource {
        plural: "volumeattachments",
        kind: "VolumeAttachment",
        subresources: &["status"],
        skeleton: r#","spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":false}"#,
        ..STORAGE
    },
    Resource {
        group: "coordination.k8s.io",
        plural: "leases",
        kind: "Lease",
        conditional_update: true,
        skeleton: r#","spec":{}"#,
        ..PLAIN
    },
    Resource {
        group: "scheduling.k8s.io",
        plural: "priorityclasses",
        kind: "PriorityClass",
        namespaced: false,
        short_names: &["pc"],
        skeleton: r#","value":0"#,
        ..PLAIN
    },
    Resource {
        plural: "limitranges",
        kind: "LimitRange",
        short_names: &["limits"],
        skeleton: r#","spec":{"limits":null}"#,
        ..PLAIN
    },
    Resource {
        plural: "resourcequotas",
        kind: "ResourceQuota",
        short_names: &["quota"],
        subresources: &["status"],
        skeleton: r#","spec":{},"status":{}"#,
        ..PLAIN
    },
    Resource {
        group: "node.k8s.io",
        plural: "runtimeclasses",
        kind: "RuntimeClass",
        namespaced: false,
        skeleton: r#","handler":"""#,
        ..PLAIN
    },
    Resource {
        plural: "deviceclasses",
        kind: "DeviceClass",
        namespaced: false,
        skeleton: r#","spec":{}"#,
        ..DEVICES
    },
    Resource {
        plural: "resourceslices",
        kind: "ResourceSlice",
        namespaced: false,
        fields: &[("spec.nodeName", ""), ("spec.driver", "")],
        skeleton: r#","spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}"#,
        ..DEVICES
    },
    Resource {
        plural: "resourceclaims",
        kind: "ResourceClaim",
        subresources: &["status"],
        skeleton: r#","spec":{"devices":{}},"status":{}"#,
        ..DEVICES
    },
    Resource {
        plural: "resourceclaimtemplates",
        kind: "ResourceClaimTemplate",
        skeleton: r#","spec":{"metadata":{},"spec":{"devices":{}}}"#,
        ..DEVICES
    },
    Resource { plural: "serviceaccounts", kind: "ServiceAccount", short_names: &["sa"], ..PLAIN },
    Resource { plural: "secrets", kind: "Secret", ..PLAIN },
    Resource { plural: "roles", kind: "Role", ..ACCESS },
    Resource { plural: "rolebindings", kind: "RoleBinding", ..ACCESS },
    Resource { plural: "clusterroles", kind: "ClusterRole", namespaced: false, ..ACCESS },
    Resource {
        plural: "clusterrolebindings",
        kind: "ClusterRoleBinding",
        namespaced: false,
        ..ACCESS
    },
    Resource {
        group: "networking.k8s.io",
        plural: "networkpolicies",
        kind: "NetworkPolicy",
        short_names: &["netpol"],
        ..PLAIN
    },
];

pub(crate) static PODS: &Resource = &RESOURCES[0];
pub(crate) static NODES: &Resource = &RESOURCES[1];

impl Resource {
    /// Group and version, such as `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Name in messages, such as `pods` or `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The position of the first row of this kind, whose collection holds the objects.
    pub(crate) fn position(&self) -> usize {
        RESOURCES.iter().position(|row| row.kind == self.kind).unwrap_or_default()
    }

    /// The row in whose form objects of this kind are stored.
    pub(crate) fn kept_as(&self) -> &'static Resource {
        &RESOURCES[self.position()]
    }
}

/// The row that serves `plural` in `group` and `version`.
pub(crate) fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|row| row.group == group && row.version == version && row.plural == plural)
}

/// The row of an object with this `apiVersion` and `kind`.
pub(crate) fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|row| row.kind == kind && row.api_version() == api_version)
}

/// The row in whose form objects of `kind` are stored.
pub(crate) fn of_kind(kind: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|row| row.kind == kind)
}
