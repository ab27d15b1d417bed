//! Validation of the arguments of each plugin (10.4), with upstream's messages.

use super::{DefaultConstraint, FitArgs, PluginArgs, PodTopologySpreadArgs, SECOND_NS};
use crate::document::Problem;
use crate::policy::syntax;
use berth_engine::{KubernetesVersion, ResourceWeight, ShapePoint};

const PERCENT: &str = "not in valid range [0, 100]";
/// Reason for a resource without a name. Not a rule of upstream, which scores it as one that no node has.
const NO_NAME: &str = "required value: a resource needs a name";

/// Reason for a shape of VolumeBinding before Kubernetes 1.37 (S-137-15), and what to do about it.
const NO_SHAPE: &str = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring: it is on \
                        with `kubernetesVersion` 1.37";

/// Problems that configuration validation finds under a version of Kubernetes. `path` is the path of the arguments.
///
/// NodeResourcesFit is checked separately: see [`fit`].
pub(in crate::policy) fn validate(
    args: &PluginArgs,
    version: KubernetesVersion,
    path: &str,
) -> Vec<Problem> {
    let at = |field: &str, reason: String| Problem::new(format!("{path}.{field}"), reason);
    let mut problems = Vec::new();
    match args {
        PluginArgs::DefaultPreemption(args) => {
            let (percentage, absolute) =
                (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute);
            if !(0..=100).contains(&percentage) {
                problems.push(at("minCandidateNodesPercentage", invalid(percentage, PERCENT)));
            }
            if absolute < 0 {
                problems.push(at(
                    "minCandidateNodesAbsolute",
                    invalid(absolute, "not in valid range [0, inf)"),
                ));
            }
            if percentage == 0 && absolute == 0 {
                let both =
                    |other| invalid(0, &format!("cannot be zero at the same time as {other}"));
                problems.push(at("minCandidateNodesPercentage", both("minCandidateNodesAbsolute")));
                problems.push(at("minCandidateNodesAbsolute", both("minCandidateNodesPercentage")));
            }
        }
        PluginArgs::InterPodAffinity(args) => {
            if !(0..=100).contains(&args.hard_pod_affinity_weight) {
                problems.push(at(
                    "hardPodAffinityWeight",
                    invalid(args.hard_pod_affinity_weight, PERCENT),
                ));
            }
        }
        PluginArgs::NodeResourcesBalancedAllocation(resources) => {
            problems.extend(balanced(resources, path))
        }
        PluginArgs::PodTopologySpread(args) => problems.extend(spread(args, path)),
        PluginArgs::VolumeBinding(args) => {
            if args.bind_timeout_seconds < 0 {
                let reason = invalid(args.bind_timeout_seconds, "must not be negative");
                problems.push(at("bindTimeoutSeconds", reason));
            }
            match &args.shape {
                Some(points) if version.scores_storage() => {
                    problems.extend(shape(points, &format!("{path}.shape"), STORAGE_SHAPE));
                }
                Some(_) => problems.push(at("shape", NO_SHAPE.to_owned())),
                None => {}
            }
        }
        PluginArgs::DynamicResources(args) => {
            if args.filter_timeout_ns < 0 {
                problems.push(at("filterTimeout", "must be greater than or equal to 0".to_owned()));
            }
            if args.binding_timeout_ns < SECOND_NS {
                problems.push(at("bindingTimeout", "must be at least 1 second".to_owned()));
            }
        }
        PluginArgs::NodeAffinity(_) | PluginArgs::NodeResourcesFit(_) | PluginArgs::Opaque => {}
    }
    problems
}

/// Problems of NodeResourcesFit, found when the plugin is built: upstream registers its validator under a name that no
/// plugin has, so validation skips it. `path` is the path of the arguments.
pub(in crate::policy) fn fit(args: &FitArgs, path: &str) -> Vec<Problem> {
    let at = |field: String, reason: String| Problem::new(format!("{path}.{field}"), reason);
    let mut problems = Vec::new();
    for (i, name) in args.ignored_resources.iter().enumerate() {
        if let Err(reason) = syntax::qualified_name(name) {
            problems.push(at(format!("ignoredResources[{i}]"), reason));
        }
    }
    for (i, group) in args.ignored_resource_groups.iter().enumerate() {
        let field = format!("ignoredResourceGroups[{i}]");
        if group.contains('/') {
            problems.push(at(field, invalid(group, "resource group name can't contain '/'")));
        } else if let Err(reason) = syntax::qualified_name(group) {
            problems.push(at(field, reason));
        }
    }
    for (i, resource) in args.resources.iter().enumerate() {
        if resource.name.is_empty() {
            problems.push(at(format!("scoringStrategy.resources[{i}].name"), NO_NAME.to_owned()));
        }
        if !(1..=100).contains(&resource.weight) {
            let reason =
                format!("resource weight of {} not in valid range (0, 100]", resource.name);
            problems.push(at(
                format!("scoringStrategy.resources[{i}].weight"),
                invalid(resource.weight, &reason),
            ));
        }
    }
    let ratio = "scoringStrategy.requestedToCapacityRatio".to_owned();
    match (args.strategy.as_str(), &args.shape) {
        ("LeastAllocated" | "MostAllocated", None) => {}
        ("LeastAllocated" | "MostAllocated", Some(_)) => {
            problems.push(at(ratio, format!("forbidden when the type is {}", args.strategy)));
        }
        ("RequestedToCapacityRatio", None) => problems.push(at(ratio, "required value".to_owned())),
        ("RequestedToCapacityRatio", Some(points)) => {
            let field = format!("{ratio}.shape");
            if points.is_empty() {
                let reason = "required value: at least one point must be specified";
                problems.push(at(field.clone(), reason.to_owned()));
            }
            problems.extend(shape(points, &format!("{path}.{field}"), RATIO_SHAPE));
        }
        (other, _) => {
            let reason = format!(
                "unsupported value `{other}`, supported are `LeastAllocated`, `MostAllocated`, `RequestedToCapacityRatio`"
            );
            problems.push(at("scoringStrategy.type".to_owned(), reason));
        }
    }
    problems
}

/// Reasons for an utilization and a score out of range, and for points out of order.
type ShapeReasons = [&'static str; 3];

const RATIO_SHAPE: ShapeReasons = [
    "not in valid range [0-100]",
    "not in valid range [0-10]",
    "utilization values must be sorted in increasing order",
];

/// Rule: S-137-15.
const STORAGE_SHAPE: ShapeReasons =
    [PERCENT, "not in valid range [0, 10]", "values must be sorted in increasing order"];

fn shape(points: &[ShapePoint], path: &str, reasons: ShapeReasons) -> Vec<Problem> {
    let [no_utilization, no_score, no_order] = reasons;
    let mut problems = Vec::new();
    let mut at = |i: usize, field: &str, value: i64, reason: &str| {
        problems.push(Problem::new(format!("{path}[{i}].{field}"), invalid(value, reason)));
    };
    for (i, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            at(i, "utilization", point.utilization, no_utilization);
        }
        if !(0..=10).contains(&point.score) {
            at(i, "score", point.score, no_score);
        }
        if i > 0 && points[i - 1].utilization >= point.utilization {
            at(i, "utilization", point.utilization, no_order);
        }
    }
    problems
}

fn balanced(resources: &[ResourceWeight], path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (i, resource) in resources.iter().enumerate() {
        if resource.name.is_empty() {
            problems.push(Problem::new(format!("{path}.resources[{i}].name"), NO_NAME));
        }
        if resource.weight != 1 {
            let reason = invalid(resource.weight, "must be 1");
            problems.push(Problem::new(format!("{path}.resources[{i}].weight"), reason));
        }
        if resources[..i].iter().any(|earlier| earlier.name == resource.name) {
            let reason = format!("duplicate value `{}`", resource.name);
            problems.push(Problem::new(format!("{path}.resources[{i}].name"), reason));
        }
    }
    problems
}

fn spread(args: &PodTopologySpreadArgs, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    match args.defaulting_type.as_str() {
        "System" if !args.default_constraints.is_empty() => {
            let reason = invalid("System", "when .defaultConstraints are not empty");
            problems.push(Problem::new(format!("{path}.defaultingType"), reason));
        }
        "System" | "List" => {}
        other => {
            let reason = format!("unsupported value `{other}`, supported are `List`, `System`");
            problems.push(Problem::new(format!("{path}.defaultingType"), reason));
        }
    }
    for (i, constraint) in args.default_constraints.iter().enumerate() {
        problems.extend(default_constraint(constraint, &format!("{path}.defaultConstraints[{i}]")));
        let same = |earlier: &DefaultConstraint| {
            (&earlier.topology_key, &earlier.when_unsatisfiable)
                == (&constraint.topology_key, &constraint.when_unsatisfiable)
        };
        if args.default_constraints[..i].iter().any(same) {
            let (key, action) = (&constraint.topology_key, &constraint.when_unsatisfiable);
            let reason = format!("duplicate value `{{{key}, {action}}}`");
            problems.push(Problem::new(format!("{path}.defaultConstraints[{i}]"), reason));
        }
    }
    problems
}

fn default_constraint(constraint: &DefaultConstraint, path: &str) -> Vec<Problem> {
    let at = |field: &str, reason: String| Problem::new(format!("{path}.{field}"), reason);
    let mut problems = Vec::new();
    if constraint.max_skew <= 0 {
        problems.push(at("maxSkew", invalid(constraint.max_skew, "must be greater than zero")));
    }
    if constraint.topology_key.is_empty() {
        problems.push(at("topologyKey", "required value: can not be empty".to_owned()));
    } else if let Err(reason) = syntax::qualified_name(&constraint.topology_key) {
        problems.push(at("topologyKey", reason));
    }
    match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" | "ScheduleAnyway" => {}
        "" => problems.push(at("whenUnsatisfiable", "required value: can not be empty".to_owned())),
        other => {
            let reason = format!(
                "unsupported value `{other}`, supported are `DoNotSchedule`, `ScheduleAnyway`"
            );
            problems.push(at("whenUnsatisfiable", reason));
        }
    }
    if constraint.has_label_selector {
        let reason = "constraint must not define a selector, as they deduced for each pod";
        problems.push(at("labelSelector", reason.to_owned()));
    }
    problems.extend(inclusion(constraint).map(|(field, reason)| at(field, reason)));
    problems
}

/// Problems of a default constraint that upstream does not check, although it refuses the same in a pod's constraint.
fn inclusion(constraint: &DefaultConstraint) -> impl Iterator<Item = (&'static str, String)> {
    let min_domains = constraint.min_domains.filter(|min_domains| *min_domains <= 0);
    let min_domains = min_domains.map(|n| ("minDomains", invalid(n, "must be greater than 0")));
    let policies = [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ];
    let unknown = policies.into_iter().filter_map(|(field, policy)| {
        let policy = policy.as_deref().filter(|policy| !matches!(*policy, "Honor" | "Ignore"))?;
        Some((field, format!("unsupported value `{policy}`, supported are `Honor`, `Ignore`")))
    });
    min_domains.into_iter().chain(unknown)
}

fn invalid(value: impl std::fmt::Display, reason: &str) -> String {
    format!("invalid value `{value}`: {reason}")
}
