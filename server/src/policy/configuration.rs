//! KubeSchedulerConfiguration as written, with upstream's defaults for absent fields (10.1, 10.2).

use super::args::{self, PluginArgs};
use super::extender::{self, Extender};
use super::plugins::{ExtensionPoint, PluginRef, PluginSet};
use super::version::{API_VERSION, Version};
use crate::document::decode::{self, Cursor, Fields};
use crate::document::described_kind;
use std::collections::BTreeMap;

/// Default name of a profile.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";
const KIND: &str = "KubeSchedulerConfiguration";

/// A whole configuration file.
#[derive(Clone, Debug)]
pub struct SchedulerConfiguration {
    /// Version that the file was written in.
    pub version: Version,
    /// Goroutines of kube-scheduler; checked, not used.
    pub parallelism: i32,
    /// Percentage, 0 to 100; checked, not used: every node is considered.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// First backoff of a failed pod; used by `berth schedule`.
    pub pod_initial_backoff_seconds: i64,
    /// Longest backoff of a failed pod; used by `berth schedule`.
    pub pod_max_backoff_seconds: i64,
    /// Profiles; at least one after defaulting.
    pub profiles: Vec<Profile>,
    /// Extenders that kube-scheduler would call; checked, not called.
    pub extenders: Vec<Extender>,
}

/// One profile.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Name of the scheduler; empty only if several profiles exist and this one has no name, which validation refuses.
    pub scheduler_name: String,
    /// Overrides the percentage of the file; checked, not used.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The profile's plugin lists by extension point.
    pub plugins: BTreeMap<ExtensionPoint, PluginSet>,
    /// Arguments, in the order written.
    pub plugin_config: Vec<PluginConfig>,
}

/// One entry of `pluginConfig`.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// Name of the plugin.
    pub name: String,
    /// Arguments of the plugin.
    pub args: PluginArgs,
}

/// Decodes the configuration of a document; errors are reported to the cursor's reader.
///
/// A document of another kind is reported as such, and the rest of it is ignored (S-CFG-1).
pub fn decode(root: Cursor<'_>) -> SchedulerConfiguration {
    root.object(|fields| {
        let api_version = fields.take_or_default("apiVersion", decode::text);
        let kind = fields.take_or_default("kind", decode::text);
        let version = Version::of(&api_version).filter(|_| kind == KIND);
        if version.is_none() {
            let got = described_kind(&kind, &api_version);
            fields
                .object()
                .report(format!("couldn't decode as {KIND} of `{API_VERSION}`, got {got}"));
            fields.ignore_rest();
        }
        let version = version.unwrap_or_default();
        let profile = |item: Cursor<'_>| item.object(|fields| profile(fields, version));
        let profiles = fields.take("profiles", |list| list.list(profile)).unwrap_or_default();
        let configuration = SchedulerConfiguration {
            version,
            parallelism: fields.take("parallelism", decode::integer).unwrap_or(16),
            percentage_of_nodes_to_score: fields.take("percentageOfNodesToScore", decode::integer),
            pod_initial_backoff_seconds: fields
                .take("podInitialBackoffSeconds", decode::integer)
                .unwrap_or(1),
            pod_max_backoff_seconds: fields
                .take("podMaxBackoffSeconds", decode::integer)
                .unwrap_or(10),
            profiles: with_default_name(profiles),
            extenders: fields
                .take("extenders", |list| list.list(|item| item.object(extender::decode)))
                .unwrap_or_default(),
        };
        ignore_process_settings(fields, version);
        configuration
    })
    .unwrap_or_else(|| SchedulerConfiguration {
        version: Version::default(),
        parallelism: 16,
        percentage_of_nodes_to_score: None,
        pod_initial_backoff_seconds: 1,
        pod_max_backoff_seconds: 10,
        profiles: with_default_name(Vec::new()),
        extenders: Vec::new(),
    })
}

/// Adds an empty profile if there is none, and the default name if there is exactly one (10.2).
fn with_default_name(mut profiles: Vec<Profile>) -> Vec<Profile> {
    if profiles.is_empty() {
        profiles.push(Profile::default());
    }
    if let [only] = profiles.as_mut_slice()
        && only.scheduler_name.is_empty()
    {
        DEFAULT_SCHEDULER_NAME.clone_into(&mut only.scheduler_name);
    }
    profiles
}

/// Ignores settings of the kube-scheduler process that do not affect placement: known names are accepted, others are
/// not.
fn ignore_process_settings(fields: &mut Fields<'_>, version: Version) {
    const LEADER_ELECTION: [&str; 7] = [
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
    ];
    const CLIENT_CONNECTION: [&str; 5] =
        ["kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"];
    fields
        .take("leaderElection", |section| section.object(|fields| fields.ignore(&LEADER_ELECTION)));
    fields.take("clientConnection", |section| {
        section.object(|fields| fields.ignore(&CLIENT_CONNECTION))
    });
    for name in ["enableProfiling", "enableContentionProfiling"] {
        fields.take(name, decode::boolean);
    }
    if version == Version::V1 {
        fields.take("delayCacheUntilActive", decode::boolean);
    }
    if version <= Version::V1Beta2 {
        for name in ["healthzBindAddress", "metricsBindAddress"] {
            fields.take(name, decode::text);
        }
    }
}

fn profile(fields: &mut Fields<'_>, version: Version) -> Profile {
    let config = |item: Cursor<'_>| item.object(|fields| plugin_config(fields, version));
    let percentage_of_nodes_to_score = match version {
        Version::V1 => fields.take("percentageOfNodesToScore", decode::integer),
        Version::V1Beta1 | Version::V1Beta2 | Version::V1Beta3 => None,
    };
    Profile {
        scheduler_name: fields.take_or_default("schedulerName", decode::text),
        percentage_of_nodes_to_score,
        plugins: fields
            .take("plugins", |plugins| plugins.object(|fields| plugin_sets(fields, version)))
            .unwrap_or_default(),
        plugin_config: fields.take("pluginConfig", |list| list.list(config)).unwrap_or_default(),
    }
}

fn plugin_sets(fields: &mut Fields<'_>, version: Version) -> BTreeMap<ExtensionPoint, PluginSet> {
    ExtensionPoint::ALL
        .into_iter()
        .filter(|point| version >= first_version(*point))
        .filter_map(|point| {
            Some((point, fields.take(point.field(), |set| set.object(plugin_set))?))
        })
        .collect()
}

/// The version that brought a list of plugins.
fn first_version(point: ExtensionPoint) -> Version {
    match point {
        ExtensionPoint::MultiPoint => Version::V1Beta3,
        ExtensionPoint::PreEnqueue => Version::V1Beta2,
        ExtensionPoint::PlacementGenerate | ExtensionPoint::PlacementScore => Version::V1,
        _ => Version::V1Beta1,
    }
}

fn plugin_set(fields: &mut Fields<'_>) -> PluginSet {
    let mut list = |name| {
        fields.take(name, |list| list.list(|item| item.object(plugin_ref))).unwrap_or_default()
    };
    PluginSet { enabled: list("enabled"), disabled: list("disabled") }
}

fn plugin_ref(fields: &mut Fields<'_>) -> PluginRef {
    PluginRef {
        name: fields.take_or_default("name", decode::text),
        weight: fields.take("weight", decode::integer),
    }
}

fn plugin_config(fields: &mut Fields<'_>, version: Version) -> PluginConfig {
    let name = fields.take_or_default("name", decode::text);
    let args = fields.take("args", |cursor| Some(args::decode(&name, cursor, version)));
    PluginConfig { args: args.unwrap_or_else(|| args::default_of(&name, version)), name }
}
