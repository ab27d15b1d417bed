//! KubernetesVersion: the version of Kubernetes whose kube-scheduler is followed, and what differs between versions.

use std::fmt;

/// A minor version of Kubernetes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum KubernetesVersion {
    /// v1.36.
    #[default]
    V1_36,
    /// v1.37.
    V1_37,
}

impl KubernetesVersion {
    /// All versions, oldest first.
    pub const ALL: [KubernetesVersion; 2] = [KubernetesVersion::V1_36, KubernetesVersion::V1_37];

    /// The version as it is written, for example `1.36`.
    pub fn as_str(self) -> &'static str {
        match self {
            KubernetesVersion::V1_36 => "1.36",
            KubernetesVersion::V1_37 => "1.37",
        }
    }

    /// The version that is written so.
    pub fn from_name(name: &str) -> Option<KubernetesVersion> {
        KubernetesVersion::ALL.into_iter().find(|version| version.as_str() == name)
    }

    /// Whether VolumeBinding scores nodes by storage: the gate StorageCapacityScoring (S-137-1).
    pub fn scores_storage(self) -> bool {
        self >= KubernetesVersion::V1_37
    }

    /// Whether NodeVolumeLimits refuses nodes without a driver: the gate VolumeLimitScaling (S-137-20).
    pub fn requires_drivers(self) -> bool {
        self >= KubernetesVersion::V1_37
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
