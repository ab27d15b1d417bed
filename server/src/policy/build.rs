//! Profiles → [`Policy`]: the last stage, with the errors that only it can find (S-CFG-7).

use super::args::{self, FitArgs, PluginArgs, SECOND_NS, check};
use super::configuration::{Profile, SchedulerConfiguration};
use super::plugins::{self, Expanded, ExtensionPoint};
use crate::document::Problem;
use berth_engine::{
    BalancedAllocationArgs, DefaultConstraint, DefaultPreemptionArgs, DynamicResourcesArgs,
    InterPodAffinityArgs, KubernetesVersion, NodeAffinityArgs, NodeResourcesFitArgs, Plugin,
    PodTopologySpreadArgs, Policy, PolicyError, PolicySpec, ScoringStrategy, SpreadDefaulting,
    VolumeBindingArgs, WhenUnsatisfiable,
};

/// Builds a policy per profile, or returns the first problem of each profile that has one.
pub(super) fn build(
    configuration: &SchedulerConfiguration,
    kubernetes: KubernetesVersion,
) -> (Vec<Policy>, Vec<Problem>) {
    let mut policies = Vec::new();
    let mut problems = Vec::new();
    for (i, profile) in configuration.profiles.iter().enumerate() {
        match policy(profile, kubernetes, &format!("profiles[{i}]")) {
            Ok(policy) => policies.push(policy),
            Err(found) => problems.extend(found),
        }
    }
    (policies, problems)
}

fn policy(
    profile: &Profile,
    kubernetes: KubernetesVersion,
    path: &str,
) -> Result<Policy, Vec<Problem>> {
    let expanded = plugins::expand(&profile.scheduler_name, &profile.plugins).map_err(|error| {
        let field = format!("{path}.plugins.{}", error.field(&profile.plugins));
        vec![Problem::new(field, error.reason)]
    })?;
    let at = |point| expanded.at(point).to_vec();
    let spec = PolicySpec {
        scheduler_name: profile.scheduler_name.clone(),
        kubernetes_version: kubernetes,
        pre_enqueue: at(ExtensionPoint::PreEnqueue),
        pre_filter: at(ExtensionPoint::PreFilter),
        filter: at(ExtensionPoint::Filter),
        post_filter: at(ExtensionPoint::PostFilter),
        pre_score: at(ExtensionPoint::PreScore),
        score: weighted(&expanded),
        node_affinity: node_affinity(profile),
        node_resources_fit: node_resources_fit(profile, &expanded, path)?,
        balanced_allocation: balanced_allocation(profile),
        pod_topology_spread: pod_topology_spread(profile),
        inter_pod_affinity: inter_pod_affinity(profile),
        default_preemption: default_preemption(profile),
        dynamic_resources: dynamic_resources(profile),
        volume_binding: volume_binding(profile),
    };
    Policy::new(spec).map_err(|error| vec![locate(profile, path, &error)])
}

fn weighted(expanded: &Expanded) -> Vec<(Plugin, i64)> {
    expanded
        .at(ExtensionPoint::Score)
        .iter()
        .map(|plugin| (*plugin, expanded.weight(*plugin)))
        .collect()
}

/// The arguments of a plugin and their index in `pluginConfig`, if the profile has any.
fn args_of(profile: &Profile, plugin: Plugin) -> Option<(usize, &PluginArgs)> {
    let position = profile.plugin_config.iter().position(|config| config.name == plugin.name())?;
    Some((position, &profile.plugin_config[position].args))
}

fn node_affinity(profile: &Profile) -> NodeAffinityArgs {
    match args_of(profile, Plugin::NodeAffinity) {
        Some((_, PluginArgs::NodeAffinity(args))) => args.clone(),
        _ => NodeAffinityArgs::default(),
    }
}

fn balanced_allocation(profile: &Profile) -> BalancedAllocationArgs {
    match args_of(profile, Plugin::NodeResourcesBalancedAllocation) {
        Some((_, PluginArgs::NodeResourcesBalancedAllocation(resources))) => {
            BalancedAllocationArgs {
                resources: resources.iter().map(|resource| resource.name.clone()).collect(),
            }
        }
        _ => BalancedAllocationArgs::default(),
    }
}

fn pod_topology_spread(profile: &Profile) -> PodTopologySpreadArgs {
    match args_of(profile, Plugin::PodTopologySpread) {
        Some((_, PluginArgs::PodTopologySpread(args))) if args.defaulting_type == "List" => {
            let list = args.default_constraints.iter().map(default_constraint).collect();
            PodTopologySpreadArgs { defaulting: SpreadDefaulting::List(list) }
        }
        // `check::validate` accepts no other type than `System`.
        _ => PodTopologySpreadArgs::default(),
    }
}

fn default_constraint(constraint: &args::DefaultConstraint) -> DefaultConstraint {
    DefaultConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.clone(),
        when_unsatisfiable: match constraint.when_unsatisfiable.as_str() {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            // `check::validate` accepts no other action here, and no other policy than `Honor` and `Ignore`.
            _ => WhenUnsatisfiable::ScheduleAnyway,
        },
        min_domains: constraint.min_domains,
        honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

fn inter_pod_affinity(profile: &Profile) -> InterPodAffinityArgs {
    match args_of(profile, Plugin::InterPodAffinity) {
        Some((_, PluginArgs::InterPodAffinity(args))) => args.clone(),
        _ => InterPodAffinityArgs::default(),
    }
}

fn dynamic_resources(profile: &Profile) -> DynamicResourcesArgs {
    let Some((_, PluginArgs::DynamicResources(args))) = args_of(profile, Plugin::DynamicResources)
    else {
        return DynamicResourcesArgs::default();
    };
    DynamicResourcesArgs { binding_timeout_seconds: args.binding_timeout_ns / SECOND_NS }
}

fn volume_binding(profile: &Profile) -> VolumeBindingArgs {
    match args_of(profile, Plugin::VolumeBinding) {
        Some((_, PluginArgs::VolumeBinding(args))) => match &args.shape {
            Some(shape) if !shape.is_empty() => VolumeBindingArgs { shape: shape.clone() },
            // An empty shape is the default one (S-137-14).
            _ => VolumeBindingArgs::default(),
        },
        _ => VolumeBindingArgs::default(),
    }
}

fn default_preemption(profile: &Profile) -> DefaultPreemptionArgs {
    let Some((_, PluginArgs::DefaultPreemption(args))) =
        args_of(profile, Plugin::DefaultPreemption)
    else {
        return DefaultPreemptionArgs::default();
    };
    // `check::validate` accepts nothing negative.
    let n = |number: i32| u32::try_from(number).unwrap_or(0);
    DefaultPreemptionArgs {
        min_candidate_nodes_percentage: n(args.min_candidate_nodes_percentage),
        min_candidate_nodes_absolute: n(args.min_candidate_nodes_absolute),
    }
}

/// Builds the arguments of NodeResourcesFit. They are ignored if the plugin runs nowhere, as upstream never constructs
/// it.
fn node_resources_fit(
    profile: &Profile,
    expanded: &Expanded,
    path: &str,
) -> Result<NodeResourcesFitArgs, Vec<Problem>> {
    let Some((i, PluginArgs::NodeResourcesFit(args))) = args_of(profile, Plugin::NodeResourcesFit)
    else {
        return Ok(NodeResourcesFitArgs::default());
    };
    if !expanded.is_needed(Plugin::NodeResourcesFit) {
        return Ok(NodeResourcesFitArgs::default());
    }
    let problems = check::fit(args, &format!("{path}.pluginConfig[{i}].args"));
    if problems.is_empty() {
        Ok(fit_args(args))
    } else {
        Err(problems
            .into_iter()
            .map(|problem| initializing(Plugin::NodeResourcesFit, problem))
            .collect())
    }
}

fn fit_args(args: &FitArgs) -> NodeResourcesFitArgs {
    let resources = args.resources.clone();
    let scoring = match (args.strategy.as_str(), &args.shape) {
        ("RequestedToCapacityRatio", Some(shape)) => {
            ScoringStrategy::RequestedToCapacityRatio { resources, shape: shape.clone() }
        }
        ("MostAllocated", _) => ScoringStrategy::MostAllocated { resources },
        // `check::fit` accepts no other strategy.
        _ => ScoringStrategy::LeastAllocated { resources },
    };
    NodeResourcesFitArgs {
        ignored_resources: args.ignored_resources.clone(),
        ignored_resource_groups: args.ignored_resource_groups.clone(),
        scoring,
    }
}

/// Adds the path in the file to an error of the engine.
fn locate(profile: &Profile, path: &str, error: &PolicyError) -> Problem {
    if error.field == "plugins.score" {
        return Problem::new(
            format!("{path}.plugins.score"),
            format!("{OVERFLOW}: {}", error.reason),
        );
    }
    let in_args = error.field.strip_prefix("pluginConfig[").and_then(|rest| rest.split_once(']'));
    let Some((name, rest)) = in_args else {
        return Problem::new(format!("{path}.{}", error.field), &error.reason);
    };
    let Some(plugin) = Plugin::from_name(name) else {
        return Problem::new(format!("{path}.{}", error.field), &error.reason);
    };
    let index = args_of(profile, plugin).map_or(0, |(index, _)| index);
    initializing(
        plugin,
        Problem::new(format!("{path}.pluginConfig[{index}].args{rest}"), &error.reason),
    )
}

/// Upstream's words for an overflow, which begin the message. The sum of the weights has a tighter limit here than
/// upstream.
const OVERFLOW: &str = "total score of Score plugins could overflow";

fn initializing(plugin: Plugin, problem: Problem) -> Problem {
    Problem { reason: format!("initializing plugin \"{plugin}\": {}", problem.reason), ..problem }
}
