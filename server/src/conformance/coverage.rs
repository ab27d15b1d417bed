//! What this version can be asked about: everything but preemption, and the steps on which a nomination bears. The rest is
//! reported as not compared, never as passed.

use berth_engine::Policy;
use berth_proto::core_v1::Pod;

use super::case::{Case, Expect};
use crate::config::policy;

/// The suites of the corpus that are about preemption. They are never covered: of their steps, filters and scores are
/// compared, but not what they are there for.
pub const PREEMPTION_SUITES: [&str; 4] =
    ["nominated", "preemption", "preemption-complex", "preemption-sequence"];

/// The policy that a case asks for.
///
/// Errors: the configuration is refused or is not one profile, a defect of the case or of Berth.
pub fn policy_of(case: &Case) -> Result<Policy, String> {
    let Some(config) = &case.config else {
        return Ok(Policy::default());
    };
    let mut policies =
        policy::from_text(&case.id, config.get()).map_err(|error| error.to_string())?;
    match policies.len() {
        1 => Ok(policies.remove(0)),
        n => Err(format!("has {n} profiles, one is expected")),
    }
}

/// Why an attempt for `pod` cannot be compared; `cluster` holds every pod that is there.
///
/// A nominated pod holds its room against pods of the same or a lower priority (S-NOM-1, S-NOM-2), and a pod's own
/// nominated node is taken before all others when it fits (S-CYC-3). The engine knows of neither.
pub fn left_out<'a>(
    pod: &Pod,
    expect: &Expect,
    mut cluster: impl Iterator<Item = &'a Pod>,
) -> Option<String> {
    if expect.via_nominated_node {
        return Some("the pod's own nominated node is taken".to_owned());
    }
    let holds_room = |other: &Pod| {
        is_nominated(other) && priority(other) >= priority(pod) && uid(other) != uid(pod)
    };
    cluster.any(holds_room).then(|| "a nominated pod holds its room".to_owned())
}

fn is_nominated(pod: &Pod) -> bool {
    let is_bound = pod.spec.as_ref().is_some_and(|spec| !spec.node_name.is_empty());
    !is_bound && pod.status.as_ref().is_some_and(|status| !status.nominated_node_name.is_empty())
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, priority: i32, node: &str, nominated: &str) -> Pod {
        serde_json::from_str(&format!(
            r#"{{"metadata": {{"uid": "{uid}"}}, "spec": {{"priority": {priority}, "nodeName": "{node}"}},
                "status": {{"nominatedNodeName": "{nominated}"}}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn a_nomination_bears_on_pods_of_no_higher_priority() {
        let incoming = pod("p", 5, "", "n1");
        for (other, bears) in [
            (pod("q", 5, "", "n1"), true),
            (pod("q", 6, "", "n1"), true),
            (pod("q", 4, "", "n1"), false),
            (pod("q", 5, "", ""), false),
            (pod("q", 5, "n1", "n1"), false),
            (incoming.clone(), false),
        ] {
            let reason = left_out(&incoming, &Expect::default(), [&other].into_iter());
            assert_eq!(reason.is_some(), bears, "{other:?}");
        }
        let expect = Expect { via_nominated_node: true, ..Expect::default() };
        assert!(left_out(&incoming, &expect, std::iter::empty()).is_some());
    }

    #[test]
    fn a_configuration_is_one_profile() {
        let policy = |config: &str| {
            let case = format!(
                r#"{{"id": "c", "suite": "s", "config": {config}, "cluster": {{}}, "steps": []}}"#
            );
            policy_of(&serde_json::from_str(&case).unwrap())
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
