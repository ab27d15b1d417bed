//! Converts the older versions of the configuration to the current one (S-CFG-9).
//!
//! The plugins and their lists are those of v1, with the default weights of the version. What v1 cannot express is a
//! problem of its field.

use super::args::{self, FitArgs, PluginArgs, STRATEGIES, strategy};
use super::configuration::{PluginConfig, Profile, SchedulerConfiguration};
use super::plugins::{ExtensionPoint, PluginRef, PluginSet};
use super::version::Version;
use crate::document::Problem;

const FIT: &str = "NodeResourcesFit";

/// Plugins that v1 lacks, the last version that had them, and what does their work now.
const GONE: [(&str, Version, &str); 4] = [
    ("NodeLabel", Version::V1Beta2, "`addedAffinity` of NodeAffinity"),
    ("NodePreferAvoidPods", Version::V1Beta2, "taints of nodes"),
    ("SelectorSpread", Version::V1Beta3, "PodTopologySpread"),
    ("ServiceAffinity", Version::V1Beta2, "InterPodAffinity"),
];

/// Plugins whose default weight was 1 before v1beta3.
const LIGHTER: [&str; 3] = ["TaintToleration", "NodeAffinity", "InterPodAffinity"];

/// Converts the configuration to v1; returns what cannot be converted.
pub(super) fn convert(configuration: &mut SchedulerConfiguration) -> Vec<Problem> {
    let version = configuration.version;
    let mut problems = Vec::new();
    for (i, profile) in configuration.profiles.iter_mut().enumerate() {
        let path = format!("profiles[{i}]");
        if version < Version::V1 {
            problems.extend(gone(profile, &path, version));
        }
        if version < Version::V1Beta3 {
            lighten(profile);
        }
        if version == Version::V1Beta1 {
            problems.extend(score_by_fit(profile, &path));
        }
    }
    problems
}

/// The uses of plugins that v1 lacks. To disable one of them has no effect, and is no problem.
fn gone(profile: &Profile, path: &str, version: Version) -> Vec<Problem> {
    let problem = |name: &str, field: String| {
        let (_, _, instead) =
            GONE.iter().find(|(gone, last, _)| *gone == name && version <= *last)?;
        let reason = format!("`{name}` cannot be read, v1 has no such plugin; use {instead}");
        Some(Problem::new(field, reason))
    };
    let enabled = profile.plugins.iter().flat_map(|(point, set)| {
        let point = point.field();
        set.enabled.iter().enumerate().filter_map(move |(i, plugin)| {
            problem(&plugin.name, format!("{path}.plugins.{point}.enabled[{i}].name"))
        })
    });
    let configured =
        profile.plugin_config.iter().enumerate().filter_map(|(i, config)| {
            problem(&config.name, format!("{path}.pluginConfig[{i}].name"))
        });
    enabled.chain(configured).collect()
}

/// Gives the plugins their default weights of v1beta1 and v1beta2: an entry of `multiPoint`, which those versions lack,
/// replaces the default entry in its place (S-CFG-5), and a weight at `score` wins over it (S-CFG-8).
fn lighten(profile: &mut Profile) {
    let entry = |name: &str| PluginRef { name: name.to_owned(), weight: Some(1) };
    let set = PluginSet { enabled: LIGHTER.map(entry).to_vec(), disabled: Vec::new() };
    profile.plugins.insert(ExtensionPoint::MultiPoint, set);
}

/// Makes the scores of v1beta1's plugins by allocation those of NodeResourcesFit, which has one strategy.
fn score_by_fit(profile: &mut Profile, path: &str) -> Option<Problem> {
    let score = profile.plugins.entry(ExtensionPoint::Score).or_default();
    let (default, _) = STRATEGIES[0];
    let is_disabled =
        score.disabled.iter().any(|plugin| plugin.name == "*" || plugin.name == default);
    let enabled = score.enabled.iter().enumerate();
    let used: Vec<usize> =
        enabled.filter(|(_, plugin)| strategy(&plugin.name).is_some()).map(|(i, _)| i).collect();
    let has_default = used.iter().any(|i| score.enabled[*i].name == default);
    let with_default = !is_disabled && !has_default;
    let chosen = match used.as_slice() {
        [] if with_default => default.to_owned(),
        [] => {
            score.disabled.push(PluginRef { name: FIT.to_owned(), weight: None });
            return None;
        }
        [only] if !with_default => {
            let name = FIT.to_owned();
            std::mem::replace(&mut score.enabled[*only].name, name)
        }
        [.., last] => {
            let reason = format!(
                "`{}` beside another score by allocation cannot be read, v1 has one scoring strategy; disable \
                 `{default}` or leave out one",
                score.enabled[*last].name
            );
            let field = format!("{path}.plugins.score.enabled[{last}].name");
            return Some(Problem::new(field, reason));
        }
    };
    score_as(profile, &chosen);
    None
}

/// Moves the arguments of the former plugin `chosen` to NodeResourcesFit.
fn score_as(profile: &mut Profile, chosen: &str) {
    let PluginArgs::NodeResourcesFit(mut scoring) = args::default_of(chosen, Version::V1Beta1)
    else {
        return;
    };
    for config in &mut profile.plugin_config {
        if strategy(&config.name).is_some() {
            // The arguments of the others have no effect.
            let args = std::mem::replace(&mut config.args, PluginArgs::Opaque);
            if let (true, PluginArgs::NodeResourcesFit(args)) = (config.name == chosen, args) {
                scoring = args;
            }
        }
    }
    strategy(chosen).unwrap_or_default().clone_into(&mut scoring.strategy);
    let fit = profile.plugin_config.iter_mut().find(|config| config.name == FIT);
    match fit.map(|config| &mut config.args) {
        Some(PluginArgs::NodeResourcesFit(fit)) => {
            let FitArgs { strategy, resources, shape, .. } = scoring;
            (fit.strategy, fit.resources, fit.shape) = (strategy, resources, shape);
        }
        _ => {
            let (name, args) = (FIT.to_owned(), PluginArgs::NodeResourcesFit(scoring));
            profile.plugin_config.push(PluginConfig { name, args });
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::{Plugin, PolicySpec, ResourceWeight, ScoringStrategy};

    use crate::policy::from_text;
    use berth_engine::KubernetesVersion;

    fn read(version: &str, body: &str) -> Result<PolicySpec, String> {
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n{body}"
        );
        let policies = from_text("s.yaml", &text, KubernetesVersion::default())
            .map_err(|error| error.to_string())?;
        Ok(policies[0].spec().clone())
    }

    fn weights(spec: &PolicySpec) -> Vec<String> {
        let mut weights: Vec<String> =
            spec.score.iter().map(|(plugin, weight)| format!("{plugin}={weight}")).collect();
        weights.sort();
        weights
    }

    /// The weights of the default profile, with those of `changes` in place of the current ones.
    fn default_weights(changes: &[(Plugin, i64)]) -> Vec<String> {
        let mut spec = PolicySpec::default();
        for (plugin, weight) in &mut spec.score {
            if let Some((_, changed)) = changes.iter().find(|(changed, _)| changed == plugin) {
                *weight = *changed;
            }
        }
        weights(&spec)
    }

    const LIGHTER: [(Plugin, i64); 3] =
        [(Plugin::TaintToleration, 1), (Plugin::NodeAffinity, 1), (Plugin::InterPodAffinity, 1)];

    #[test]
    fn defaults_are_those_of_the_version() {
        assert_eq!(read("v1beta3", "").unwrap(), PolicySpec::default(), "S-CFG-9");
        for version in ["v1beta1", "v1beta2"] {
            let spec = read(version, "").unwrap();
            assert_eq!(weights(&spec), default_weights(&LIGHTER), "{version}");
            assert_eq!(spec.filter, PolicySpec::default().filter);
            let ours =
                "profiles:\n- plugins: {score: {enabled: [{name: NodeAffinity, weight: 5}]}}\n";
            let [taint, _, affinity] = LIGHTER;
            let changed = [taint, (Plugin::NodeAffinity, 5), affinity];
            assert_eq!(weights(&read(version, ours).unwrap()), default_weights(&changed));
        }
    }

    #[test]
    fn fields_are_those_of_the_version() {
        let process = "healthzBindAddress: 0.0.0.0:10251\nmetricsBindAddress: 0.0.0.0:10251\nparallelism: 4\n";
        assert!(read("v1beta1", process).is_ok() && read("v1beta2", process).is_ok());
        let error = read("v1beta3", process).unwrap_err();
        assert!(error.contains("line 3: `healthzBindAddress`: unknown field"), "{error}");
        let percentage = "profiles: [{percentageOfNodesToScore: 50}]\n";
        assert!(read("v1", percentage).is_ok());
        assert!(read("v1beta3", percentage).unwrap_err().contains("unknown field"));
        let multi_point =
            "profiles: [{plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}}]\n";
        assert!(read("v1beta3", multi_point).is_ok());
        assert!(read("v1beta2", multi_point).unwrap_err().contains("unknown field"));
        let args = |version: &str| {
            format!(
                "profiles: [{{pluginConfig: [{{name: InterPodAffinity, args: {{apiVersion: \
                 kubescheduler.config.k8s.io/{version}, kind: InterPodAffinityArgs, hardPodAffinityWeight: 7}}}}]}}]\n"
            )
        };
        let spec = read("v1beta2", &args("v1beta2")).unwrap();
        assert_eq!(spec.inter_pod_affinity.hard_pod_affinity_weight, 7);
        assert!(read("v1beta2", &args("v1")).unwrap_err().contains("were not of type"));
    }

    #[test]
    fn plugins_that_v1_lacks_are_problems_of_their_field() {
        let enabled = "profiles:\n- plugins: {score: {enabled: [{name: SelectorSpread}]}}\n";
        assert_eq!(
            read("v1beta3", enabled).unwrap_err(),
            "`s.yaml` line 4: `profiles[0].plugins.score.enabled[0].name`: `SelectorSpread` cannot be read, v1 has no \
             such plugin; use PodTopologySpread"
        );
        let configured =
            "profiles:\n- pluginConfig: [{name: NodeLabel, args: {presentLabels: [a]}}]\n";
        let error = read("v1beta2", configured).unwrap_err();
        assert!(
            error.contains("`profiles[0].pluginConfig[0].name`: `NodeLabel` cannot be read"),
            "{error}"
        );
        let disabled = "profiles:\n- plugins: {score: {disabled: [{name: NodePreferAvoidPods}, {name: SelectorSpread}]}}\n";
        assert_eq!(weights(&read("v1beta2", disabled).unwrap()), default_weights(&LIGHTER));
        // v1beta3 had no NodeLabel either.
        let error = read("v1beta3", &enabled.replace("SelectorSpread", "NodeLabel")).unwrap_err();
        assert!(error.contains("does not exist"), "{error}");
    }

    #[test]
    fn scores_by_allocation_become_strategies() {
        let gpu = || vec![ResourceWeight { name: "example.com/gpu".to_owned(), weight: 3 }];
        let most = "profiles:\n- plugins:\n    score:\n      disabled: [{name: NodeResourcesLeastAllocated}]\n      \
                    enabled: [{name: NodeResourcesMostAllocated, weight: 4}]\n  pluginConfig:\n  \
                    - {name: NodeResourcesMostAllocated, args: {resources: [{name: example.com/gpu, weight: 3}]}}\n  \
                    - {name: NodeResourcesFit, args: {ignoredResources: [example.com/foo]}}\n";
        let spec = read("v1beta1", most).unwrap();
        let fit = &spec.node_resources_fit;
        assert_eq!(fit.scoring, ScoringStrategy::MostAllocated { resources: gpu() });
        assert_eq!(fit.ignored_resources, ["example.com/foo"]);
        assert!(spec.score.contains(&(Plugin::NodeResourcesFit, 4)), "{:?}", spec.score);
        let ratio = most.replace("NodeResourcesMostAllocated", "RequestedToCapacityRatio").replace(
            "resources:",
            "shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}], resources:",
        );
        let spec = read("v1beta1", &ratio).unwrap();
        assert!(
            matches!(&spec.node_resources_fit.scoring,
                ScoringStrategy::RequestedToCapacityRatio { resources, shape } if *resources == gpu() && shape.len() == 2),
            "{:?}",
            spec.node_resources_fit
        );
        let least = "profiles:\n- pluginConfig: [{name: NodeResourcesLeastAllocated, args: {resources: \
                     [{name: example.com/gpu, weight: 3}]}}]\n";
        let spec = read("v1beta1", least).unwrap();
        let expected = ScoringStrategy::LeastAllocated { resources: gpu() };
        assert_eq!(spec.node_resources_fit.scoring, expected);
        let none =
            "profiles:\n- plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}\n";
        let spec = read("v1beta1", none).unwrap();
        assert!(spec.score.iter().all(|(plugin, _)| *plugin != Plugin::NodeResourcesFit));
        let two =
            "profiles:\n- plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}\n";
        let error = read("v1beta1", two).unwrap_err();
        assert!(
            error.contains("`profiles[0].plugins.score.enabled[0].name`: `NodeResourcesMostAllocated` beside another"),
            "{error}"
        );
        // Later versions have the strategy, and not the plugin.
        assert!(read("v1beta2", most).unwrap_err().contains("does not exist"));
    }
}
