//! Tests of section 10, rule by rule: valid files, and the messages for invalid ones.

use super::*;
use berth_engine::{
    DefaultConstraint, DefaultPreemptionArgs, InterPodAffinityArgs, Plugin, PolicySpec,
    ResourceWeight, ScoringStrategy, ShapePoint, SpreadDefaulting, WhenUnsatisfiable,
};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Reads a file whose `body` starts on line 3.
fn read(body: &str) -> Result<Vec<Policy>, String> {
    from_text("s.yaml", &format!("{HEAD}{body}"), KubernetesVersion::V1_36)
        .map_err(|error| error.to_string())
}

fn spec(body: &str) -> PolicySpec {
    read(body).unwrap().remove(0).spec().clone()
}

/// Checks that every line of `expected` is a problem, in order, and that there is no other.
fn check_problems(body: &str, expected: &str) {
    let error = read(body).expect_err(body);
    let problems: Vec<&str> = match error.strip_prefix("`s.yaml` line") {
        Some(_) => vec![error.trim_start_matches("`s.yaml` ")],
        None => error.lines().skip(1).map(str::trim).collect(),
    };
    let expected: Vec<&str> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(problems, expected, "{body}");
}

/// Checks problems like [`check_problems`], for arguments of one plugin in flow style; `{at}` stands for the arguments'
/// path.
fn check_args(plugin: &str, args: &str, expected: &str) {
    let body = format!("profiles:\n- pluginConfig:\n  - name: {plugin}\n    args: {args}\n");
    check_problems(&body, &expected.replace("{at}", "line 6: `profiles[0].pluginConfig[0].args"));
}

/// S-137-14, S-137-15
#[test]
fn a_shape_of_storage_is_read_since_1_37() {
    let read = |args: &str| {
        let body =
            format!("profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args: {args}\n");
        from_text("s", &format!("{HEAD}{body}"), KubernetesVersion::V1_37)
    };
    let shape = |args: &str| {
        let spec = read(args).unwrap().remove(0).spec().clone();
        assert_eq!(spec.kubernetes_version, KubernetesVersion::V1_37);
        let points = spec.volume_binding.shape.iter();
        points.map(|point| (point.utilization, point.score)).collect::<Vec<_>>()
    };
    assert_eq!(shape("{}"), [(0, 10), (100, 0)]);
    assert_eq!(shape("{shape: []}"), [(0, 10), (100, 0)]);
    assert_eq!(
        shape("{shape: [{utilization: 0}, {utilization: 40, score: 7}]}"),
        [(0, 0), (40, 7)]
    );
    let points = "[{utilization: 5, score: 11}, {utilization: 5}, {utilization: 101, score: -1}]";
    let error = read(&format!("{{shape: {points}}}")).unwrap_err().to_string();
    let problems: Vec<_> = error.lines().skip(1).map(str::trim).collect();
    let at = "line 6: `profiles[0].pluginConfig[0].args.shape";
    let expected = [
        "[0].score`: invalid value `11`: not in valid range [0, 10]",
        "[1].utilization`: invalid value `5`: values must be sorted in increasing order",
        "[2].utilization`: invalid value `101`: not in valid range [0, 100]",
        "[2].score`: invalid value `-1`: not in valid range [0, 10]",
    ];
    assert_eq!(problems, expected.map(|reason| format!("{at}{reason}")));
}

#[test]
fn an_empty_configuration_is_the_default_profile() {
    assert_eq!(spec(""), PolicySpec::default());
    assert_eq!(spec("profiles: []"), PolicySpec::default());
    assert_eq!(spec("profiles: [{}]"), PolicySpec::default());
    let json =
        r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}"#;
    assert_eq!(from_text("s.json", json, KubernetesVersion::V1_36).unwrap().len(), 1);
}

#[test]
fn another_kind_or_version_is_refused() {
    for (text, got) in [
        ("apiVersion: v1\nkind: Pod\nspec: {}\n", "`Pod` of `v1`"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration\n",
            "`KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1alpha2`",
        ),
        ("profiles: []\n", "neither `kind` nor `apiVersion`"),
        ("kind: Pod\n", "`kind: Pod` without `apiVersion`"),
    ] {
        let expected = format!(
            "`s` line 1: couldn't decode as KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`, got {got}"
        );
        assert_eq!(
            from_text("s", text, KubernetesVersion::V1_36).unwrap_err().to_string(),
            expected
        );
    }
    assert!(
        from_text("s", "- a\n", KubernetesVersion::V1_36)
            .unwrap_err()
            .to_string()
            .contains("expected an object, got a list")
    );
    assert!(
        from_text("s", "a: [\n", KubernetesVersion::V1_36)
            .unwrap_err()
            .to_string()
            .starts_with("`s` line 1: ")
    );
}

#[test]
fn decoding_is_strict_everywhere() {
    check_problems(
        concat!(
            "parallelism: many\nparalelism: 3\nparallelism: 4\nleaderElection: {leaderElect: true, leader: x}\n",
            "clientConnection: {qps: 50, burts: 1}\nenableProfiling: 1\n",
            "profiles:\n- schedulerName: a\n  plugin: {}\n  plugins:\n    filter: {enable: []}\n    filtre: {}\n",
            "    score: {enabled: [{name: NodeName, wait: 1}]}\n",
            "  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      kind: NodeResourcesFitArgs\n      ignored: []\n",
            "extenders: [{urlPrefix: u, verb: x, tlsConfig: {cert: y}, httpTimeout: 5}]\n",
        ),
        "line 3: `parallelism`: expected an integer, got a string
         line 4: `paralelism`: unknown field
         line 5: `parallelism`: duplicate field, first given on line 3
         line 6: `leaderElection.leader`: unknown field
         line 7: `clientConnection.burts`: unknown field
         line 8: `enableProfiling`: expected a boolean, got an integer
         line 11: `profiles[0].plugin`: unknown field
         line 13: `profiles[0].plugins.filter.enable`: unknown field
         line 14: `profiles[0].plugins.filtre`: unknown field
         line 15: `profiles[0].plugins.score.enabled[0].wait`: unknown field
         line 20: `profiles[0].pluginConfig[0].args.ignored`: unknown field
         line 21: `extenders[0].tlsConfig.cert`: unknown field
         line 21: `extenders[0].httpTimeout`: expected a duration such as `5s`, got an integer
         line 21: `extenders[0].verb`: unknown field",
    );
}

#[test]
fn defaults_and_known_fields_are_accepted() {
    let body = concat!(
        "parallelism: 8\npercentageOfNodesToScore: 50\npodInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 2\n",
        "leaderElection: {leaderElect: false, resourceName: x}\nclientConnection: {kubeconfig: k}\n",
        "enableProfiling: true\nenableContentionProfiling: false\ndelayCacheUntilActive: true\n",
        "extenders:\n- {urlPrefix: 'http://x', filterVerb: f, prioritizeVerb: p, weight: 1, httpTimeout: 2s, ignorable: true,\n",
        "   managedResources: [{name: example.com/gpu, ignoredByScheduler: true}], tlsConfig: {insecure: true}}\n",
    );
    let configuration =
        decode_text("s", &format!("{HEAD}{body}"), KubernetesVersion::V1_36).unwrap();
    assert_eq!(configuration.parallelism, 8);
    assert_eq!(configuration.extenders[0].http_timeout_ns, 2_000_000_000);
    assert_eq!(
        configuration.extenders[0].managed_resources,
        [("example.com/gpu".to_owned(), true)]
    );
    let defaults = decode_text("s", HEAD, KubernetesVersion::V1_36).unwrap();
    assert_eq!((defaults.parallelism, defaults.percentage_of_nodes_to_score), (16, None));
    assert_eq!((defaults.pod_initial_backoff_seconds, defaults.pod_max_backoff_seconds), (1, 10));
    assert_eq!(defaults.profiles[0].scheduler_name, "default-scheduler");
}

#[test]
fn all_validation_errors_come_together() {
    check_problems(
        concat!(
            "parallelism: 0\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1\n",
            "profiles:\n- schedulerName: a\n  percentageOfNodesToScore: -1\n- schedulerName: a\n",
            "  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n- plugins: {score: {enabled: [{name: NodeAffinity, weight: -2}]}}\n",
            "  pluginConfig:\n  - name: EBSLimits\n  - name: NodeName\n  - name: NodeName\n",
        ),
        "line 3: `parallelism`: invalid value `0`: should be an integer value greater than zero
         line 4: `percentageOfNodesToScore`: invalid value `101`: not in valid range [0-100]
         line 5: `podInitialBackoffSeconds`: invalid value `0`: must be greater than 0
         line 6: `podMaxBackoffSeconds`: invalid value `-1`: must be greater than or equal to PodInitialBackoffSeconds
         line 9: `profiles[0].percentageOfNodesToScore`: invalid value `-1`: not in valid range [0-100]
         line 10: `profiles[1].schedulerName`: duplicate value `a`
         line 11: `profiles[1].plugins.queueSort`: must be the same for all profiles
         line 12: `profiles[2].schedulerName`: required value
         line 12: `profiles[2].plugins.score.enabled[0].weight`: invalid value `-2`: must not be negative
         line 14: `profiles[2].pluginConfig[0]`: invalid value `EBSLimits`: was removed, kubescheduler.config.k8s.io/v1 does not know it
         line 16: `profiles[2].pluginConfig[2]`: duplicate value: repeated config for plugin NodeName",
    );
}

#[test]
fn extenders_are_validated() {
    check_problems(
        concat!(
            "extenders:\n- {prioritizeVerb: p, weight: 0, bindVerb: b}\n- bindVerb: b\n",
            "  managedResources: [{name: cpu}, {name: example.com/a}, {name: example.com/a}]\n",
        ),
        "line 3: `extenders`: invalid value `found 2 extenders implementing bind`: only one extender can implement bind
         line 4: `extenders[0].weight`: invalid value `0`: must have a positive weight applied to it
         line 6: `extenders[1].managedResources[0].name`: `cpu` is not an extended resource: a domain other than kubernetes.io is needed
         line 6: `extenders[1].managedResources[2].name`: invalid value `example.com/a`: duplicate extender managed resource name",
    );
}

#[test]
fn args_must_be_of_the_plugin() {
    check_args(
        "NodeResourcesFit",
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}",
        "{at}`: args for plugin NodeResourcesFit were not of type kubescheduler.config.k8s.io/v1, \
         kind=NodeResourcesFitArgs, got kubescheduler.config.k8s.io/v1, kind=InterPodAffinityArgs",
    );
    check_args("NodeResourcesFit", "3", "{at}`: expected an object, got an integer");
    // Arguments of unknown plugins are ignored.
    assert_eq!(
        spec("profiles: [{pluginConfig: [{name: Foo, args: {x: 1}}]}]"),
        PolicySpec::default()
    );
}

#[test]
fn args_of_each_plugin_are_validated() {
    check_args(
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
        "{at}.minCandidateNodesPercentage`: invalid value `101`: not in valid range [0, 100]
         {at}.minCandidateNodesAbsolute`: invalid value `-1`: not in valid range [0, inf)",
    );
    check_args(
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
        "{at}.minCandidateNodesPercentage`: invalid value `0`: cannot be zero at the same time as minCandidateNodesAbsolute
         {at}.minCandidateNodesAbsolute`: invalid value `0`: cannot be zero at the same time as minCandidateNodesPercentage",
    );
    check_args(
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        "{at}.hardPodAffinityWeight`: invalid value `101`: not in valid range [0, 100]",
    );
    check_args(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}, {name: cpu, weight: 1}]}",
        "{at}.resources[0].weight`: invalid value `2`: must be 1
         {at}.resources[1].name`: duplicate value `cpu`",
    );
    check_args(
        "VolumeBinding",
        "{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 0}]}",
        "{at}.bindTimeoutSeconds`: invalid value `-1`: must not be negative
         {at}.shape`: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring: it is on with \
         `kubernetesVersion` 1.37",
    );
    check_args(
        "DynamicResources",
        "{filterTimeout: -1s, bindingTimeout: 999ms}",
        "{at}.filterTimeout`: must be greater than or equal to 0
         {at}.bindingTimeout`: must be at least 1 second",
    );
    check_args(
        "DynamicResources",
        "{filterTimeout: 5}",
        "{at}.filterTimeout`: expected a duration such as `5s`, got an integer",
    );
}

#[test]
fn spread_args_are_validated() {
    check_args(
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
        "{at}.defaultingType`: invalid value `System`: when .defaultConstraints are not empty",
    );
    check_args(
        "PodTopologySpread",
        "{defaultingType: Lists, defaultConstraints: [{maxSkew: 0, whenUnsatisfiable: Never, labelSelector: {}}, \
         {maxSkew: 1, topologyKey: 'a b', whenUnsatisfiable: DoNotSchedule}, \
         {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, \
         {maxSkew: 3, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
        "{at}.defaultingType`: unsupported value `Lists`, supported are `List`, `System`
         {at}.defaultConstraints[0].maxSkew`: invalid value `0`: must be greater than zero
         {at}.defaultConstraints[0].topologyKey`: required value: can not be empty
         {at}.defaultConstraints[0].whenUnsatisfiable`: unsupported value `Never`, supported are `DoNotSchedule`, `ScheduleAnyway`
         {at}.defaultConstraints[0].labelSelector`: constraint must not define a selector, as they deduced for each pod
         {at}.defaultConstraints[1].topologyKey`: `a b`: name part must be 1 to 63 letters, digits, `-`, `_` or `.`
         {at}.defaultConstraints[3]`: duplicate value `{zone, DoNotSchedule}`",
    );
    check_args(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, \
         minDomains: 0, nodeAffinityPolicy: honor, nodeTaintsPolicy: ''}]}",
        "{at}.defaultConstraints[0].minDomains`: invalid value `0`: must be greater than 0
         {at}.defaultConstraints[0].nodeAffinityPolicy`: unsupported value `honor`, supported are `Honor`, `Ignore`
         {at}.defaultConstraints[0].nodeTaintsPolicy`: unsupported value ``, supported are `Honor`, `Ignore`",
    );
}

#[test]
fn fit_args_are_checked_at_build() {
    check_args(
        "NodeResourcesFit",
        "{ignoredResources: ['a b'], ignoredResourceGroups: [a/b], scoringStrategy: {type: Most, resources: [{name: cpu, weight: 101}]}}",
        "{at}.ignoredResources[0]`: initializing plugin \"NodeResourcesFit\": `a b`: name part must be 1 to 63 letters, digits, `-`, `_` or `.`
         {at}.ignoredResourceGroups[0]`: initializing plugin \"NodeResourcesFit\": invalid value `a/b`: resource group name can't contain '/'
         {at}.scoringStrategy.resources[0].weight`: initializing plugin \"NodeResourcesFit\": invalid value `101`: resource weight of cpu not in valid range (0, 100]
         {at}.scoringStrategy.type`: initializing plugin \"NodeResourcesFit\": unsupported value `Most`, supported are `LeastAllocated`, `MostAllocated`, `RequestedToCapacityRatio`",
    );
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        "{at}.scoringStrategy.requestedToCapacityRatio`: initializing plugin \"NodeResourcesFit\": required value",
    );
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {shape: []}}}",
        "{at}.scoringStrategy.requestedToCapacityRatio`: initializing plugin \"NodeResourcesFit\": forbidden when the type is LeastAllocated",
    );
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: 11}, {utilization: 50, score: 0}, {utilization: 101, score: 0}]}}}",
        "{at}.scoringStrategy.requestedToCapacityRatio.shape[0].score`: initializing plugin \"NodeResourcesFit\": invalid value `11`: not in valid range [0-10]
         {at}.scoringStrategy.requestedToCapacityRatio.shape[1].utilization`: initializing plugin \"NodeResourcesFit\": invalid value `50`: utilization values must be sorted in increasing order
         {at}.scoringStrategy.requestedToCapacityRatio.shape[2].utilization`: initializing plugin \"NodeResourcesFit\": invalid value `101`: not in valid range [0-100]",
    );
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
        "{at}.scoringStrategy.requestedToCapacityRatio.shape`: initializing plugin \"NodeResourcesFit\": required value: at least one point must be specified",
    );
    // A plugin that runs nowhere is never constructed, so its arguments are not read.
    let disabled = concat!(
        "profiles:\n- plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}\n",
        "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Nope}}}]\n"
    );
    assert!(read(disabled).is_ok());
}

#[test]
fn a_resource_needs_a_name() {
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, resources: [{weight: 1}]}}",
        "{at}.scoringStrategy.resources[0].name`: initializing plugin \"NodeResourcesFit\": required value: a resource needs a name",
    );
    check_args(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu}, {name: ''}]}",
        "{at}.resources[1].name`: required value: a resource needs a name",
    );
    // Upstream takes a resource that is named twice, and so do we.
    let twice = "{type: MostAllocated, resources: [{name: cpu}, {name: cpu}]}";
    let body = format!(
        "profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: {twice}}}}}]}}]"
    );
    assert!(read(&body).is_ok());
}

/// S-PRE-6: an absent argument keeps its default.
#[test]
fn preemption_args_reach_the_policy() {
    let preemption = |args: &str| {
        let config = format!("{{name: DefaultPreemption, args: {args}}}");
        spec(&format!("profiles: [{{pluginConfig: [{config}]}}]")).default_preemption
    };
    let expected = |percentage, absolute| DefaultPreemptionArgs {
        min_candidate_nodes_percentage: percentage,
        min_candidate_nodes_absolute: absolute,
    };
    assert_eq!(preemption("{}"), expected(10, 100));
    assert_eq!(preemption("{minCandidateNodesPercentage: 30}"), expected(30, 100));
    let both = "{minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: 0}";
    assert_eq!(preemption(both), expected(100, 0));
}

#[test]
fn fields_without_effect_are_reported() {
    let vain = |body: &str| {
        let (_, vain) =
            super::read("s", &format!("{HEAD}{body}"), KubernetesVersion::V1_36).unwrap();
        vain.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(
        vain("percentageOfNodesToScore: 0\nprofiles: [{percentageOfNodesToScore: 100}]\n")
            .is_empty()
    );
    assert_eq!(
        vain(
            "extenders: [{urlPrefix: u}]\nprofiles:\n- percentageOfNodesToScore: 7\npercentageOfNodesToScore: 50\n"
        ),
        [
            "line 3: `extenders`: has no effect, no extender is called",
            "line 5: `profiles[0].percentageOfNodesToScore`: 7 has no effect, every node is considered",
            "line 6: `percentageOfNodesToScore`: 50 has no effect, every node is considered",
        ]
    );
    assert_eq!(
        vain(concat!(
            "profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args:\n      defaultingType: List\n",
            "      defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}]\n",
        )),
        [
            "line 8: `profiles[0].pluginConfig[0].args.defaultConstraints[0].matchLabelKeys`: has no effect, the selector is deduced"
        ]
    );
}

#[test]
fn strategies_reach_the_engine() {
    let strategy = |text: &str| {
        let body = format!(
            "profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: {text}}}}}]}}]"
        );
        spec(&body).node_resources_fit.scoring
    };
    let weight = |name: &str, weight| ResourceWeight { name: name.to_owned(), weight };
    let cpu_memory = vec![weight("cpu", 1), weight("memory", 1)];
    assert_eq!(
        strategy("{type: MostAllocated}"),
        ScoringStrategy::MostAllocated { resources: cpu_memory.clone() }
    );
    assert_eq!(
        strategy(
            "{type: LeastAllocated, resources: [{name: cpu, weight: 0}, {name: example.com/gpu, weight: 5}]}"
        ),
        ScoringStrategy::LeastAllocated {
            resources: vec![weight("cpu", 1), weight("example.com/gpu", 5)]
        }
    );
    assert_eq!(
        strategy(
            "{type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0}, {utilization: 100, score: 10}]}}"
        ),
        ScoringStrategy::RequestedToCapacityRatio {
            resources: cpu_memory,
            shape: vec![
                ShapePoint { utilization: 0, score: 0 },
                ShapePoint { utilization: 100, score: 10 }
            ],
        }
    );
}

#[test]
fn other_args_reach_the_engine() {
    let spec = spec(concat!(
        "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {ignoredResources: [example.com/a], ignoredResourceGroups: [x.io]}\n",
        "  - name: NodeResourcesBalancedAllocation\n    args: {resources: [{name: memory}]}\n",
        "  - name: NodeAffinity\n    args:\n      addedAffinity:\n        requiredDuringSchedulingIgnoredDuringExecution:\n",
        "          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]\n",
        "        preferredDuringSchedulingIgnoredDuringExecution:\n        - {weight: 3, preference: {matchFields: [{key: metadata.name, operator: In, values: [n1]}]}}\n",
    ));
    assert_eq!(spec.node_resources_fit.ignored_resources, ["example.com/a"]);
    assert_eq!(spec.node_resources_fit.ignored_resource_groups, ["x.io"]);
    assert_eq!(spec.balanced_allocation.resources, ["memory"]);
    let added = spec.node_affinity.added_affinity.unwrap();
    let required = added.required_during_scheduling_ignored_during_execution.unwrap();
    assert_eq!(required.node_selector_terms[0].match_expressions[0].values, ["a"]);
    let preferred = &added.preferred_during_scheduling_ignored_during_execution[0];
    assert_eq!(preferred.weight, 3);
    assert_eq!(preferred.preference.as_ref().unwrap().match_fields[0].key, "metadata.name");
}

#[test]
fn spread_and_affinity_args_reach_the_engine() {
    let args = |body: &str| {
        let spec = spec(body);
        (spec.pod_topology_spread.defaulting, spec.inter_pod_affinity)
    };
    let defaults = (SpreadDefaulting::System, InterPodAffinityArgs::default());
    assert_eq!(args("profiles: [{pluginConfig: [{name: PodTopologySpread}]}]"), defaults);
    let (spread, affinity) = args(concat!(
        "profiles:\n- pluginConfig:\n",
        "  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}\n",
        "  - name: PodTopologySpread\n    args:\n      defaultingType: List\n      defaultConstraints:\n",
        "      - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor}\n",
        "      - {maxSkew: 5, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}\n",
    ));
    let expected = InterPodAffinityArgs {
        hard_pod_affinity_weight: 0,
        ignore_preferred_terms_of_existing_pods: true,
    };
    assert_eq!(affinity, expected);
    let hard = DefaultConstraint {
        max_skew: 2,
        topology_key: "zone".to_owned(),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        min_domains: Some(3),
        honors_affinity: false,
        honors_taints: true,
    };
    let soft = DefaultConstraint {
        max_skew: 5,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        min_domains: None,
        honors_affinity: true,
        honors_taints: false,
        ..hard.clone()
    };
    assert_eq!(spread, SpreadDefaulting::List(vec![hard, soft]));
    let (none, _) = args(
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]}]",
    );
    assert_eq!(none, SpreadDefaulting::List(Vec::new()));
}

#[test]
fn each_profile_has_its_own_arguments() {
    let policies = read(concat!(
        "profiles:\n- schedulerName: a\n  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]\n",
        "- schedulerName: b\n  plugins: {multiPoint: {disabled: [{name: InterPodAffinity}], enabled: [{name: NodeAffinity, weight: 9}]}}\n",
    ))
    .unwrap();
    let weight = |policy: &Policy| policy.spec().inter_pod_affinity.hard_pod_affinity_weight;
    assert_eq!(policies.iter().map(weight).collect::<Vec<_>>(), [7, 1]);
    let scored = |plugin| policies.iter().map(move |policy| policy.weight(plugin));
    assert_eq!(scored(Plugin::InterPodAffinity).collect::<Vec<_>>(), [Some(2), None]);
    assert_eq!(scored(Plugin::NodeAffinity).collect::<Vec<_>>(), [Some(2), Some(9)]);
    check_problems(
        concat!(
            "profiles:\n- schedulerName: a\n- schedulerName: b\n  pluginConfig:\n",
            "  - {name: InterPodAffinity, args: {hardPodAffinityWeight: -1}}\n",
            "  - {name: PodTopologySpread, args: {defaultingTyp: List}}\n",
        ),
        "line 8: `profiles[1].pluginConfig[1].args.defaultingTyp`: unknown field",
    );
}

#[test]
fn an_added_affinity_must_parse() {
    let error = read(concat!(
        "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args:\n      addedAffinity:\n",
        "        requiredDuringSchedulingIgnoredDuringExecution:\n",
        "          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Maybe, values: [a]}]}]\n",
    ))
    .unwrap_err();
    assert!(error.contains("`profiles[0].pluginConfig[0].args.addedAffinity."), "{error}");
    assert!(error.contains("initializing plugin \"NodeAffinity\": "), "{error}");
    check_args(
        "NodeAffinity",
        "{addedAffinity: {required: {}}}",
        "{at}.addedAffinity.required`: unknown field",
    );
}

#[test]
fn build_errors_of_every_profile_come_together() {
    check_problems(
        concat!(
            "profiles:\n- schedulerName: a\n  plugins: {filter: {enabled: [{name: Nope}]}}\n",
            "- schedulerName: b\n  plugins:\n    bind: {disabled: [{name: '*'}]}\n- schedulerName: c\n",
        ),
        "line 5: `profiles[0].plugins.filter.enabled[0].name`: FilterPlugin \"Nope\" does not exist
         line 8: `profiles[1].plugins.bind`: at least one bind plugin is needed for profile with scheduler name \"b\"",
    );
    let error = read(
        "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 2147483647}]}}}]",
    )
    .unwrap_err();
    assert!(
        error.contains("`profiles[0].plugins.score`: total score of Score plugins could overflow: the weights add up to"),
        "{error}"
    );
}

#[test]
fn profiles_are_found_by_scheduler_name() {
    let policies = read(
        "profiles:\n- schedulerName: b\n- schedulerName: a\n  plugins: {multiPoint: {disabled: [{name: ImageLocality}]}}\n",
    );
    let profiles = Profiles::from(policies.unwrap());
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["a", "b"]);
    assert!(profiles.get("default-scheduler").is_none());
    assert_eq!(
        profiles.of_scheduler("x").unwrap_err(),
        "no profile is called `x`; there is `a`, `b`"
    );
    assert_eq!(profiles.get("a").unwrap().weight(Plugin::ImageLocality), None);
    assert_eq!(profiles.get("b").unwrap().weight(Plugin::ImageLocality), Some(1));
    assert!(Profiles::default().get("").is_some(), "an absent name is the default one");
    assert!(
        Profiles::load(Path::new("/nonexistent"), KubernetesVersion::V1_36)
            .unwrap_err()
            .to_string()
            .starts_with("cannot read `/nonexistent`: ")
    );
}
