//! Version of the configuration.

/// The only group and version that is recognised (S-CFG-1).
pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
