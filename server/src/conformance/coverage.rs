//! Which cases this version can be asked about: those in which every enabled plugin that would have something to say is
//! built. The rest is reported as not covered, never as passed.

use berth_engine::{Plugin, Policy};
use berth_proto::core_v1::{Pod, Volume};

use super::case::{Case, Step};
use crate::config::policy;

/// Whether a case can be replayed.
#[derive(Debug)]
pub enum Coverage {
    /// Yes, under this policy.
    Covered(Box<Policy>),
    /// No: the reason names the plugin and what would need it.
    NotCovered(String),
    /// Its configuration is refused or is not one profile: a defect of the case or of Berth, counted as a difference.
    Unusable(String),
}

/// The suites of the corpus and the plugins that they are about. A suite is covered when all of them are built and every
/// case is within reach; a suite that is not listed here is judged by its cases alone.
pub const SUITES: [(&str, &[Plugin]); 21] = [
    ("fit", &[Plugin::NodeResourcesFit]),
    ("pod-resources", &[Plugin::NodeResourcesFit, Plugin::NodeResourcesBalancedAllocation]),
    (
        "node-basics",
        &[
            Plugin::NodeName,
            Plugin::NodeUnschedulable,
            Plugin::SchedulingGates,
            Plugin::NodeDeclaredFeatures,
        ],
    ),
    ("host-ports", &[Plugin::NodePorts]),
    ("node-affinity", &[Plugin::NodeAffinity]),
    ("taints", &[Plugin::TaintToleration]),
    ("image-locality", &[Plugin::ImageLocality]),
    ("scoring", &[Plugin::NodeResourcesFit, Plugin::NodeResourcesBalancedAllocation]),
    ("spread-hard", &[Plugin::PodTopologySpread]),
    ("spread-soft", &[Plugin::PodTopologySpread]),
    ("spread-defaults", &[Plugin::PodTopologySpread]),
    ("pod-affinity", &[Plugin::InterPodAffinity]),
    ("pod-affinity-soft", &[Plugin::InterPodAffinity]),
    ("profiles", &[Plugin::InterPodAffinity, Plugin::PodTopologySpread]),
    ("volumes", &VOLUME_PLUGINS),
    ("preemption", &[Plugin::DefaultPreemption]),
    ("preemption-complex", &[Plugin::DefaultPreemption]),
    ("preemption-sequence", &[Plugin::DefaultPreemption]),
    ("nominated", &[Plugin::DefaultPreemption]),
    ("mixed", &[Plugin::InterPodAffinity, Plugin::PodTopologySpread]),
    ("sequence", &[Plugin::InterPodAffinity, Plugin::PodTopologySpread]),
];

const VOLUME_PLUGINS: [Plugin; 4] = [
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::VolumeBinding,
    Plugin::VolumeZone,
];

/// The plugins of suite `name` that are not built; none for a suite that is not listed.
pub fn unbuilt_of_suite(name: &str) -> Vec<Plugin> {
    let needed =
        SUITES.iter().find(|(suite, _)| *suite == name).map_or(&[][..], |(_, plugins)| *plugins);
    needed.iter().copied().filter(|plugin| !plugin.is_built()).collect()
}

/// Judges one case by its data: configuration, cluster and steps.
pub fn of(case: &Case) -> Coverage {
    let policy = match &case.config {
        None => Policy::default(),
        Some(config) => match policy::from_text(&case.id, config.get()) {
            Ok(mut policies) if policies.len() == 1 => policies.remove(0),
            Ok(policies) => {
                return Coverage::Unusable(format!(
                    "has {} profiles, one is expected",
                    policies.len()
                ));
            }
            Err(error) => return Coverage::Unusable(error.to_string()),
        },
    };
    for (plugin, found) in needs(case) {
        if !plugin.is_built() && is_enabled(&policy, plugin) {
            return Coverage::NotCovered(format!("{plugin}: {found}"));
        }
    }
    Coverage::Covered(Box::new(policy))
}

/// Plugins beyond the always needed ones, and what in the case calls for them, first find first.
fn needs(case: &Case) -> Vec<(Plugin, String)> {
    let mut needs = Vec::new();
    let objects = &case.cluster;
    let n_owners = objects.services.len()
        + objects.replication_controllers.len()
        + objects.replica_sets.len()
        + objects.stateful_sets.len();
    if n_owners > 0 {
        // Services and controllers are read for one thing: the selector of default constraints (S-PTS-12).
        needs.push((Plugin::PodTopologySpread, "services or controllers".to_owned()));
    }
    for pod in &objects.pods {
        needs.extend(needs_of_any_pod(pod));
        let status = pod.status.as_ref();
        if status.is_some_and(|status| !status.nominated_node_name.is_empty()) {
            needs.push((Plugin::DefaultPreemption, "a nominated pod".to_owned()));
        }
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_empty()) {
            needs.extend(needs_of_tried_pod(pod));
        }
    }
    for step in &case.steps {
        needs.extend(needs_of_step(step));
    }
    needs
}

fn needs_of_step(step: &Step) -> Vec<(Plugin, String)> {
    let mut needs = Vec::new();
    if let Some(pod) = &step.pod {
        needs.extend(needs_of_any_pod(pod));
        needs.extend(needs_of_tried_pod(pod));
    }
    if let Some(expect) = &step.expect {
        let effects = !expect.evict.is_empty()
            || !expect.terminate.is_empty()
            || !expect.clear_nominations.is_empty();
        if effects || expect.nominate.is_some() || expect.via_nominated_node {
            needs.push((Plugin::DefaultPreemption, "preempts or nominates".to_owned()));
        }
    }
    needs
}

/// Inter-pod affinity counts in both directions: the terms of pods on nodes matter too.
fn needs_of_any_pod(pod: &Pod) -> Option<(Plugin, String)> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let has_terms =
        affinity.is_some_and(|a| a.pod_affinity.is_some() || a.pod_anti_affinity.is_some());
    has_terms.then(|| (Plugin::InterPodAffinity, "pod affinity".to_owned()))
}

/// Spread constraints, volumes and claims matter only on the pod that is being placed.
fn needs_of_tried_pod(pod: &Pod) -> Vec<(Plugin, String)> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let mut needs = Vec::new();
    if !spec.topology_spread_constraints.is_empty() {
        needs.push((Plugin::PodTopologySpread, "topology spread constraints".to_owned()));
    }
    if spec.volumes.iter().any(is_limited) {
        needs.extend(VOLUME_PLUGINS.map(|plugin| (plugin, "volumes".to_owned())));
    }
    if !spec.resource_claims.is_empty() {
        needs.push((Plugin::DynamicResources, "resource claims".to_owned()));
    }
    needs
}

/// Whether the volume is of a kind that some volume plugin reads: a claim, or a disk that only some nodes can attach.
fn is_limited(volume: &Volume) -> bool {
    volume.volume_source.as_ref().is_some_and(|source| {
        source.persistent_volume_claim.is_some()
            || source.ephemeral.is_some()
            || source.gce_persistent_disk.is_some()
            || source.aws_elastic_block_store.is_some()
            || source.iscsi.is_some()
            || source.rbd.is_some()
            || source.cinder.is_some()
            || source.azure_disk.is_some()
    })
}

fn is_enabled(policy: &Policy, plugin: Plugin) -> bool {
    let spec = policy.spec();
    [&spec.pre_enqueue, &spec.pre_filter, &spec.filter, &spec.post_filter, &spec.pre_score]
        .iter()
        .any(|plugins| plugins.contains(&plugin))
        || spec.score.iter().any(|(scored, _)| *scored == plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, cluster: &str, pod_spec: &str, expected: Option<&str>) {
        let text = format!(
            r#"{{"id": "c", "suite": "s", "config": {config}, "cluster": {cluster}, "steps":
                [{{"pod": {{"metadata": {{"name": "p"}}, "spec": {pod_spec}}}, "expect": {{}}}}]}}"#
        );
        let case: Case = serde_json::from_str(&text).unwrap();
        let reason = match of(&case) {
            Coverage::Covered(_) => None,
            Coverage::NotCovered(reason) | Coverage::Unusable(reason) => Some(reason),
        };
        assert_eq!(reason.as_deref(), expected);
    }

    #[test]
    fn a_case_is_judged_by_what_it_holds() {
        check("null", "{}", "{}", None);
        check(
            "null",
            r#"{"services": [{}]}"#,
            "{}",
            Some("PodTopologySpread: services or controllers"),
        );
        let spread = r#"{"topologySpreadConstraints": [{"maxSkew": 1}]}"#;
        check("null", "{}", spread, Some("PodTopologySpread: topology spread constraints"));
        let claim = r#"{"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}"#;
        check("null", "{}", claim, Some("VolumeRestrictions: volumes"));
        check("null", "{}", r#"{"volumes": [{"name": "v", "emptyDir": {}}]}"#, None);
        check(
            "null",
            "{}",
            r#"{"affinity": {"podAffinity": {}}}"#,
            Some("InterPodAffinity: pod affinity"),
        );
        let on_node =
            r#"{"pods": [{"spec": {"nodeName": "n", "affinity": {"podAntiAffinity": {}}}}]}"#;
        check("null", on_node, "{}", Some("InterPodAffinity: pod affinity"));
        let nominated = r#"{"pods": [{"spec": {}, "status": {"nominatedNodeName": "n"}}]}"#;
        check("null", nominated, "{}", Some("DefaultPreemption: a nominated pod"));
    }

    #[test]
    fn a_disabled_plugin_needs_no_rules() {
        let config = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}}}]}"#;
        check(
            config,
            r#"{"services": [{}]}"#,
            r#"{"topologySpreadConstraints": [{"maxSkew": 1}]}"#,
            None,
        );
        let config = r#"{"apiVersion": "v1", "kind": "Pod"}"#;
        let reason = "`c` line 1: couldn't decode as KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`, \
                      got `Pod` of `v1`";
        check(config, "{}", "{}", Some(reason));
    }
}
