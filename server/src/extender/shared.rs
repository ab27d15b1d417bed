//! Shared: the state of the extender, which its verbs share besides the cluster.

#[cfg(test)]
use super::options::DEFAULT_MAX_BODY_BYTES;
use super::options::ExtenderOptions;
use super::policies::{Policies, PolicyChoiceError};
use super::recent_pods::RecentPods;
use crate::policy::Profiles;

/// Settings and state that the verbs share besides the cluster.
pub(crate) struct Extender {
    pub(super) policies: Policies,
    pub(super) recent_pods: RecentPods,
    max_body_bytes: usize,
    /// Whether `bind` is enabled; every client of the HTTP port may then call it.
    pub(super) binds: bool,
}

impl Extender {
    /// Creates an extender with these options.
    ///
    /// # Errors
    /// [`PolicyChoiceError`] if the options name something that the profiles do not have.
    pub(crate) fn new(
        profiles: &Profiles,
        options: &ExtenderOptions,
    ) -> Result<Extender, PolicyChoiceError> {
        Ok(Extender {
            policies: Policies::new(profiles, options)?,
            recent_pods: RecentPods::default(),
            max_body_bytes: options.max_body_bytes,
            binds: options.bind,
        })
    }

    /// An extender with all plugins of every profile, the default maximum body size, and no binding.
    #[cfg(test)]
    pub(crate) fn of(profiles: &Profiles) -> Extender {
        Extender {
            policies: Policies::all(profiles),
            recent_pods: RecentPods::default(),
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            binds: false,
        }
    }

    /// Maximum size of a body, in bytes.
    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }
}
