//! The policy of a case: from its own configuration, or the defaults.

use berth_engine::{KubernetesVersion, Policy};

use super::case::Case;
use crate::policy;
use crate::policy::configuration::DEFAULT_SCHEDULER_NAME;

/// The policy that a case configures, under a version of Kubernetes.
///
/// Errors: the configuration is refused or does not have exactly one profile, which is a defect of the case or of
/// Berth.
pub fn policy_of(case: &Case, version: KubernetesVersion) -> Result<Policy, String> {
    let Some(config) = &case.config else {
        return Ok(Policy::of_version(DEFAULT_SCHEDULER_NAME, version));
    };
    let mut policies =
        policy::from_text(&case.id, config.get(), version).map_err(|error| error.to_string())?;
    match policies.len() {
        1 => Ok(policies.remove(0)),
        n => Err(format!("has {n} profiles, one is expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_one_profile() {
        let policy = |config: &str| {
            let case = format!(
                r#"{{"id": "c", "suite": "s", "config": {config}, "cluster": {{}}, "steps": []}}"#
            );
            policy_of(&serde_json::from_str(&case).unwrap(), KubernetesVersion::V1_36)
        };
        assert_eq!(policy("null").unwrap().spec(), Policy::default().spec());
        let reason = "`c` line 1: couldn't decode as KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`, \
                      got `Pod` of `v1`";
        assert_eq!(policy(r#"{"apiVersion": "v1", "kind": "Pod"}"#).unwrap_err(), reason);
        let two = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}"#;
        assert_eq!(policy(two).unwrap_err(), "has 2 profiles, one is expected");
    }
}
