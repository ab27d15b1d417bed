//! Validation of a decoded and defaulted configuration (10.2, 10.4). Every problem is found in one run (S-CFG-4).

use super::args::{PluginArgs, check};
use super::configuration::{Profile, SchedulerConfiguration};
use super::extender;
use super::plugins::ExtensionPoint;
use super::version::{API_VERSION, Version};
use crate::document::Problem;
use berth_engine::KubernetesVersion;

/// Removed plugins that v1 of the configuration refuses by name.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

pub(super) fn validate(
    configuration: &SchedulerConfiguration,
    kubernetes: KubernetesVersion,
) -> Vec<Problem> {
    let mut problems = globals(configuration);
    for (i, profile) in configuration.profiles.iter().enumerate() {
        let path = format!("profiles[{i}]");
        let name = &profile.scheduler_name;
        if name.is_empty() {
            problems.push(Problem::new(format!("{path}.schedulerName"), "required value"));
        } else if configuration.profiles[..i].iter().any(|earlier| earlier.scheduler_name == *name)
        {
            problems.push(Problem::new(
                format!("{path}.schedulerName"),
                format!("duplicate value `{name}`"),
            ));
        }
        if let Some(percentage) = profile.percentage_of_nodes_to_score {
            problems.extend(percentage_problem(
                &format!("{path}.percentageOfNodesToScore"),
                percentage,
            ));
        }
        problems.extend(plugin_sets(profile, &path));
        problems.extend(plugin_config(profile, kubernetes, &path));
    }
    problems.extend(queue_sort(&configuration.profiles));
    problems.extend(extender::validate(&configuration.extenders));
    problems
}

/// Fields that kube-scheduler uses and Berth does not, and a version that kube-scheduler does not read any more.
pub(super) fn without_effect(configuration: &SchedulerConfiguration) -> Vec<Problem> {
    let mut vain = Vec::new();
    if configuration.version != Version::V1 {
        let version = configuration.version.api_version();
        let reason = format!("`{version}` is an older version, read like `{API_VERSION}`");
        vain.push(Problem::new("apiVersion", reason));
    }
    // 0 means a percentage that depends on the cluster's size, and 100 is what Berth does anyway.
    let mut percentage = |field: String, percentage: Option<i32>| {
        if let Some(percentage) = percentage.filter(|percentage| !matches!(percentage, 0 | 100)) {
            let reason = format!("{percentage} has no effect, every node is considered");
            vain.push(Problem::new(field, reason));
        }
    };
    percentage("percentageOfNodesToScore".to_owned(), configuration.percentage_of_nodes_to_score);
    for (i, profile) in configuration.profiles.iter().enumerate() {
        let field = format!("profiles[{i}].percentageOfNodesToScore");
        percentage(field, profile.percentage_of_nodes_to_score);
    }
    for (i, profile) in configuration.profiles.iter().enumerate() {
        vain.extend(vain_label_keys(profile, &format!("profiles[{i}]")));
    }
    if !configuration.extenders.is_empty() {
        vain.push(Problem::new("extenders", "has no effect, no extender is called"));
    }
    vain
}

fn vain_label_keys(profile: &Profile, path: &str) -> Vec<Problem> {
    let mut vain = Vec::new();
    for (i, config) in profile.plugin_config.iter().enumerate() {
        let PluginArgs::PodTopologySpread(args) = &config.args else { continue };
        for (j, constraint) in args.default_constraints.iter().enumerate() {
            if !constraint.match_label_keys.is_empty() {
                let field =
                    format!("{path}.pluginConfig[{i}].args.defaultConstraints[{j}].matchLabelKeys");
                vain.push(Problem::new(field, "has no effect, the selector is deduced"));
            }
        }
    }
    vain
}

fn globals(configuration: &SchedulerConfiguration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut invalid = |field: &str, value: i64, reason: &str| {
        problems.push(Problem::new(field, format!("invalid value `{value}`: {reason}")));
    };
    if configuration.parallelism <= 0 {
        let value = configuration.parallelism.into();
        invalid("parallelism", value, "should be an integer value greater than zero");
    }
    let (initial, max) =
        (configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds);
    if initial <= 0 {
        invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if max < initial {
        invalid(
            "podMaxBackoffSeconds",
            max,
            "must be greater than or equal to PodInitialBackoffSeconds",
        );
    } else if max <= 0 {
        invalid("podMaxBackoffSeconds", max, "must be greater than 0");
    }
    if let Some(percentage) = configuration.percentage_of_nodes_to_score {
        problems.extend(percentage_problem("percentageOfNodesToScore", percentage));
    }
    problems
}

fn percentage_problem(field: &str, percentage: i32) -> Option<Problem> {
    let reason = format!("invalid value `{percentage}`: not in valid range [0-100]");
    (!(0..=100).contains(&percentage)).then(|| Problem::new(field, reason))
}

fn plugin_sets(profile: &Profile, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (point, set) in &profile.plugins {
        for (i, plugin) in set.enabled.iter().enumerate() {
            let field = format!("{path}.plugins.{}.enabled[{i}]", point.field());
            if REMOVED.contains(&plugin.name.as_str()) {
                problems.push(removed(field, &plugin.name));
            } else if plugin.weight.is_some_and(|weight| weight < 0) {
                let reason = format!(
                    "invalid value `{}`: must not be negative",
                    plugin.weight.unwrap_or_default()
                );
                problems.push(Problem::new(format!("{field}.weight"), reason));
            }
        }
    }
    problems
}

fn plugin_config(profile: &Profile, kubernetes: KubernetesVersion, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, config) in profile.plugin_config.iter().enumerate() {
        let field = format!("{path}.pluginConfig[{i}]");
        if REMOVED.contains(&config.name.as_str()) {
            problems.push(removed(field, &config.name));
            continue;
        }
        if profile.plugin_config[..i].iter().any(|earlier| earlier.name == config.name) {
            let reason = format!("duplicate value: repeated config for plugin {}", config.name);
            problems.push(Problem::new(&field, reason));
        }
        problems.extend(check::validate(&config.args, kubernetes, &format!("{field}.args")));
    }
    problems
}

fn removed(field: String, name: &str) -> Problem {
    Problem::new(
        field,
        format!("invalid value `{name}`: was removed, {API_VERSION} does not know it"),
    )
}

/// Checks that every profile sorts the queue alike, since the profiles share it.
fn queue_sort(profiles: &[Profile]) -> Vec<Problem> {
    let set = |profile: &Profile| {
        profile.plugins.get(&ExtensionPoint::QueueSort).cloned().unwrap_or_default()
    };
    let Some(first) = profiles.first().map(set) else {
        return Vec::new();
    };
    let differs = profiles.iter().enumerate().skip(1).filter(|(_, profile)| set(profile) != first);
    differs
        .map(|(i, _)| {
            Problem::new(
                format!("profiles[{i}].plugins.queueSort"),
                "must be the same for all profiles",
            )
        })
        .collect()
}
