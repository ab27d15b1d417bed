//! Options of the extender.

use berth_engine::Plugin;

/// Default of the maximum body size: suffices for 20,000 whole nodes with their images.
pub(crate) const DEFAULT_MAX_BODY_BYTES: usize = 256 << 20;

/// Options of extender calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderOptions {
    /// The profile that decides for every pod (`profile`); without it, the one of the scheduler that the pod names.
    pub profile: Option<String>,
    /// The filters to apply (`filterPlugins`) among those that the profile enables; all of them without it.
    pub filter_plugins: Option<Vec<Plugin>>,
    /// The scores to apply (`scorePlugins`) among those that the profile enables; all of them without it.
    pub score_plugins: Option<Vec<Plugin>>,
    /// Maximum size of a body, in bytes (`maxBodyBytes`, default 256 MiB).
    pub max_body_bytes: usize,
    /// Whether pods are bound for kube-scheduler (`bind`, default no): every client of the HTTP port may then call it.
    pub bind: bool,
}

impl Default for ExtenderOptions {
    fn default() -> ExtenderOptions {
        ExtenderOptions {
            profile: None,
            filter_plugins: None,
            score_plugins: None,
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            bind: false,
        }
    }
}
