//! Policies: the filters and scores that the extender applies. Those of the pod's profile, or of one profile for all
//! pods, without the plugins that the configuration leaves out.

use berth_engine::{Plugin, Pod, Policy, PolicyError, PolicySpec};

use super::failure::Failure;
use super::options::ExtenderOptions;
use crate::escape;
use crate::policy::Profiles;

/// Reason why the configured policies do not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyChoiceError {
    /// `extender.profile` names an unknown profile.
    #[error("`extender.profile`: {0}")]
    UnknownProfile(String),
    /// A plugin is configured that no profile enables.
    #[error("`extender.{field}`: {plugin} is not enabled in {profiles}")]
    NotEnabled {
        /// The list that names it.
        field: &'static str,
        /// The plugin.
        plugin: Plugin,
        /// The profiles.
        profiles: String,
    },
    /// The reduced profile is not a valid policy.
    #[error("`extender`: {0}")]
    Policy(#[from] PolicyError),
}

/// The policies of the extender.
pub(super) enum Policies {
    /// One policy for every pod.
    One(Box<Policy>),
    /// The policy of the scheduler that the pod names.
    OfScheduler(Profiles),
}

impl Policies {
    /// The profiles unchanged.
    #[cfg(test)]
    pub(super) fn all(profiles: &Profiles) -> Policies {
        Policies::OfScheduler(profiles.clone())
    }

    pub(super) fn new(
        profiles: &Profiles,
        options: &ExtenderOptions,
    ) -> Result<Policies, PolicyChoiceError> {
        let chosen: Vec<&Policy> = match &options.profile {
            Some(name) => {
                vec![profiles.of_scheduler(name).map_err(PolicyChoiceError::UnknownProfile)?]
            }
            None => profiles.policies().collect(),
        };
        let is_any = |is_it: &dyn Fn(&PolicySpec) -> bool| chosen.iter().any(|p| is_it(p.spec()));
        let names: Vec<String> =
            chosen.iter().map(|policy| format!("`{}`", policy.spec().scheduler_name)).collect();
        let not_enabled = |field, plugin| {
            Err(PolicyChoiceError::NotEnabled { field, plugin, profiles: names.join(", ") })
        };
        for plugin in options.filter_plugins.iter().flatten() {
            if !is_any(&|spec| spec.filter.contains(plugin)) {
                return not_enabled("filterPlugins", *plugin);
            }
        }
        for plugin in options.score_plugins.iter().flatten() {
            if !is_any(&|spec| spec.score.iter().any(|(scored, _)| scored == plugin)) {
                return not_enabled("scorePlugins", *plugin);
            }
        }
        let mut left = chosen.iter().map(|policy| Policy::new(reduced(policy.spec(), options)));
        if options.profile.is_some()
            && let Some(policy) = left.next()
        {
            return Ok(Policies::One(Box::new(policy?)));
        }
        let left: Result<Vec<Policy>, PolicyError> = left.collect();
        Ok(Policies::OfScheduler(Profiles::from(left?)))
    }

    /// The policy for a pod.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the pod names a scheduler without a profile.
    pub(super) fn of(&self, pod: &Pod) -> Result<&Policy, Failure> {
        match self {
            Policies::One(policy) => Ok(policy),
            Policies::OfScheduler(profiles) => {
                profiles.of_scheduler(pod.scheduler_name()).map_err(|reason| {
                    let text = format!(
                        "`Pod.spec.schedulerName`: {reason}; `extender.profile` makes one profile decide for all pods"
                    );
                    Failure::Refused(escape::printable(&text).into_owned())
                })
            }
        }
    }
}

/// A profile reduced to the filters and scores that the options name, in its own order. A plugin that does not filter
/// does not run in PreFilter either.
fn reduced(spec: &PolicySpec, options: &ExtenderOptions) -> PolicySpec {
    let mut spec = spec.clone();
    if let Some(filters) = &options.filter_plugins {
        spec.filter.retain(|plugin| filters.contains(plugin));
        spec.pre_filter.retain(|plugin| filters.contains(plugin));
    }
    if let Some(scores) = &options.score_plugins {
        spec.score.retain(|(plugin, _)| scores.contains(plugin));
        spec.pre_score.retain(|plugin| scores.contains(plugin));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use Plugin::{ImageLocality, NodeAffinity, NodeResourcesFit, TaintToleration};

    fn options(filters: &[Plugin], scores: &[Plugin]) -> ExtenderOptions {
        ExtenderOptions {
            filter_plugins: Some(filters.to_vec()),
            score_plugins: Some(scores.to_vec()),
            ..ExtenderOptions::default()
        }
    }

    #[test]
    fn unnamed_plugins_are_left_out_and_the_profiles_order_is_kept() {
        let chosen = options(&[NodeResourcesFit, NodeAffinity], &[ImageLocality, TaintToleration]);
        let Policies::OfScheduler(profiles) = Policies::new(&Profiles::default(), &chosen).unwrap()
        else {
            panic!("one for all")
        };
        let spec = profiles.get("").unwrap().spec();
        assert_eq!(spec.filter, [NodeAffinity, NodeResourcesFit]);
        assert_eq!(spec.pre_filter, [NodeAffinity, NodeResourcesFit]);
        assert_eq!(spec.score, [(TaintToleration, 3), (ImageLocality, 1)]);
        assert_eq!(spec.pre_score, [TaintToleration]);
    }

    #[test]
    fn plugins_that_no_profile_enables_are_refused() {
        let check = |options: &ExtenderOptions, expected: &str| {
            let error = Policies::new(&Profiles::default(), options).err().unwrap();
            assert!(error.to_string().starts_with(expected), "{error}");
        };
        let named =
            ExtenderOptions { profile: Some("gpu".to_owned()), ..ExtenderOptions::default() };
        check(
            &named,
            "`extender.profile`: no profile is called `gpu`; there is `default-scheduler`",
        );
        check(
            &options(&[ImageLocality], &[]),
            "`extender.filterPlugins`: ImageLocality is not enabled in `default-scheduler`",
        );
        check(
            &options(&[], &[Plugin::NodeName]),
            "`extender.scorePlugins`: NodeName is not enabled in `default-scheduler`",
        );
    }
}
