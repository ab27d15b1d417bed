//! Versions of the configuration.

/// The current version, and the only one that kube-scheduler v1.36 recognises (S-CFG-1).
pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// A version of the configuration that is read, oldest first (S-CFG-9).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `v1beta1`, of Kubernetes v1.19 to v1.24.
    V1Beta1,
    /// `v1beta2`, of Kubernetes v1.22 to v1.27.
    V1Beta2,
    /// `v1beta3`, of Kubernetes v1.23 to v1.28.
    V1Beta3,
    /// `v1`.
    #[default]
    V1,
}

impl Version {
    const ALL: [Version; 4] = [Version::V1Beta1, Version::V1Beta2, Version::V1Beta3, Version::V1];

    /// The version that `api_version` names.
    pub(super) fn of(api_version: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.api_version() == api_version)
    }

    /// The `apiVersion` of documents, and of the arguments in them.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Version::V1Beta1 => "kubescheduler.config.k8s.io/v1beta1",
            Version::V1Beta2 => "kubescheduler.config.k8s.io/v1beta2",
            Version::V1Beta3 => "kubescheduler.config.k8s.io/v1beta3",
            Version::V1 => API_VERSION,
        }
    }
}
