//! Options of the extender.

use berth_engine::Plugin;

/// Bodies that are accepted unless the file says otherwise: the whole nodes of 20,000 with their images.
pub(crate) const DEFAULT_MAX_BODY_BYTES: usize = 256 << 20;

/// How extender calls are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderOptions {
    /// The profile that decides for every pod (`profile`); without it, that of the scheduler which the pod names.
    pub profile: Option<String>,
    /// The filters that are applied (`filterPlugins`), of those that the profile enables; all of them without it.
    pub filter_plugins: Option<Vec<Plugin>>,
    /// The scores that are applied (`scorePlugins`), of those that the profile enables; all of them without it.
    pub score_plugins: Option<Vec<Plugin>>,
    /// Longest body that is accepted, in bytes (`maxBodyBytes`, default 256 MiB).
    pub max_body_bytes: usize,
    /// Whether pods are bound for kube-scheduler (`bind`, default no): everybody who reaches the HTTP port may ask for it then.
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
