//! `berth lifecycle evict-order`: shows in which order a node under pressure would evict pods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_engine::lifecycle::pressure;
use berth_proto::berth_v1::{PodUsage, RankForEvictionRequest, RankForEvictionResponse, RankedPod};
use berth_proto::core_v1::Pod;
use serde_json::Value;

use super::files::FileArgs;
use super::objects::Objects;
use crate::cli::output::{self, Format};
use crate::cli::{CliError, manifest};
use crate::feed::file::{self, UnknownFields};

/// Ranks the pods of one node for eviction, and shows which is the victim
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_STATUS)]
pub(super) struct EvictOrderArgs {
    /// Files with the pods of the node, as kubectl writes them; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    input: FileArgs,
    /// The node, if the files have pods of several
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// A file with the usage of each pod, by `namespace/name`: `default/web: {memory: 200Mi, ephemeral-storage: 1Gi,
    /// inodes: 10, pids: 5}`; a pod that is not in it has no figures
    #[arg(long, value_name = "FILE")]
    usage: PathBuf,
    /// Signal of the resource that the node is short of
    #[arg(long, value_name = "SIGNAL", default_value = "memory.available")]
    signal: String,
    /// Treat the threshold as a soft one, so that a victim gets at most this many seconds
    #[arg(long, value_name = "SECONDS")]
    soft: Option<u32>,
    /// `Strict` never makes a pod within its requests the victim; `v1.36.2` makes it the last one
    #[arg(long, value_name = "MODE", default_value = "Strict")]
    mode: String,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be read, files without a pod, a usage of an unknown pod, an unknown signal or mode.
pub(super) fn run(
    args: &EvictOrderArgs,
    unknown_fields: UnknownFields,
) -> Result<ExitCode, CliError> {
    let mut objects = args.input.read(&args.files, unknown_fields)?;
    let usage = usage(&args.usage)?;
    let names: BTreeSet<String> =
        objects.pods.iter().map(|pod| manifest::name_of(&pod.value)).collect();
    if let Some(unknown) = usage.keys().find(|pod| !names.contains(*pod)) {
        let file = args.usage.display();
        return Err(CliError::Request(format!("`{file}`: `{unknown}`: no file has this pod")));
    }
    keep_those_of_one_node(&mut objects, args)?;
    let running = objects.ask(|pod| {
        let usage = usage.get(&manifest::name_of(pod)).cloned();
        Ok(RankedPod { pod: Some(pod.clone()), usage, is_static: is_static(pod) })
    })?;
    let request = RankForEvictionRequest {
        signal: args.signal.clone(),
        mode: args.mode.clone(),
        hard: args.soft.is_none(),
        max_pod_grace_period_seconds: args.soft.map(i64::from),
        pods: running.into_iter().map(|(_, pod)| pod).collect(),
    };
    let answer = pressure::rank_for_eviction(&request)
        .map_err(|error| CliError::Request(error.to_string()))?;
    output::answer(args.output, &answer, || table(&answer))?;
    Ok(objects.status())
}

/// Names of the figures of [`PodUsage`].
const FIGURES: [&str; 4] = ["memory", "ephemeral-storage", "inodes", "pids"];

/// Usage of each pod, by name.
fn usage(path: &Path) -> Result<BTreeMap<String, PodUsage>, CliError> {
    let at = |key: &str, reason: String| {
        CliError::Request(format!("`{}`: `{key}`: {reason}", path.display()))
    };
    let Value::Object(keys) = file::read_value(path)? else {
        return Err(CliError::Request(format!(
            "`{}`: must be an object of pods by name",
            path.display()
        )));
    };
    let read = |(pod, figures): (String, Value)| {
        // A misspelt figure would otherwise count as unknown.
        let mut names = figures.as_object().into_iter().flat_map(|figures| figures.keys());
        if let Some(unknown) = names.find(|name| !FIGURES.contains(&name.as_str())) {
            let reason = format!("`{unknown}` is not one of `{}`", FIGURES.join("`, `"));
            return Err(at(&pod, reason));
        }
        match serde_json::from_value(figures) {
            Ok(usage) => Ok((pod, usage)),
            Err(error) => Err(at(&pod, file::describe(&error))),
        }
    };
    keys.into_iter().map(read).collect()
}

/// Removes the pods that run on other nodes, or on none.
///
/// # Errors
/// Pods of several nodes without a chosen node; no pod left.
fn keep_those_of_one_node(objects: &mut Objects, args: &EvictOrderArgs) -> Result<(), CliError> {
    let n_pods = objects.pods.len();
    objects.pods.retain(|pod| {
        let phase = pod.value.status.as_ref().map_or("", |status| status.phase.as_str());
        !node_of(&pod.value).is_empty() && !matches!(phase, "Succeeded" | "Failed")
    });
    let nodes: BTreeSet<&str> = objects.pods.iter().map(|pod| node_of(&pod.value)).collect();
    let node = match (&args.node, nodes.len()) {
        (Some(node), _) => node.clone(),
        (None, 1) => nodes.first().map(|node| (*node).to_owned()).unwrap_or_default(),
        (None, 0) => return Err(objects.hold_no("Pod that runs on a node")),
        (None, _) => {
            let list = nodes.into_iter().collect::<Vec<_>>().join(", ");
            let reason = format!("there are pods of nodes {list}; choose one with --node");
            return Err(CliError::Request(reason));
        }
    };
    objects.pods.retain(|pod| node_of(&pod.value) == node);
    if objects.pods.is_empty() {
        return Err(CliError::Request(format!("no pod of the files runs on node `{node}`")));
    }
    let n_passed_over = n_pods - objects.pods.len();
    if n_passed_over > 0 {
        let pods = output::count(n_passed_over, "pod");
        output::note(&format!("note: {pods} passed over: not running on node {node}"));
    }
    Ok(())
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| spec.node_name.as_str())
}

/// Whether the pod was created from a file on the node, as the annotation of its mirror pod says.
fn is_static(pod: &Pod) -> bool {
    let metadata = pod.metadata.as_ref();
    metadata
        .is_some_and(|metadata| metadata.annotations.contains_key("kubernetes.io/config.mirror"))
}

fn table(answer: &RankForEvictionResponse) -> String {
    let mut table = output::Table::new(&["ORDER", "POD", ""]);
    let protected: BTreeSet<_> =
        answer.protected_namespaces.iter().zip(&answer.protected).collect();
    for (index, pod) in answer.order_namespaces.iter().zip(&answer.order).enumerate() {
        let grace = answer.grace_period_seconds.unwrap_or_default();
        let remark = if pod == (&answer.victim_namespace, &answer.victim) {
            format!("the victim, with {grace} s")
        } else if protected.contains(&pod) {
            "protected".to_owned()
        } else {
            String::new()
        };
        let (namespace, name) = pod;
        table.add_row([(index + 1).to_string(), format!("{namespace}/{name}"), remark]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_distinguished_by_namespace() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let answer = RankForEvictionResponse {
            order: names(&["web", "web", "zzz"]),
            order_namespaces: names(&["b", "a", "b"]),
            victim: "web".to_owned(),
            victim_namespace: "b".to_owned(),
            grace_period_seconds: Some(1),
            protected: names(&["web"]),
            protected_namespaces: names(&["a"]),
            ..RankForEvictionResponse::default()
        };
        let expected =
            "ORDER  POD\n1      b/web  the victim, with 1 s\n2      a/web  protected\n3      b/zzz";
        assert_eq!(table(&answer), expected);
    }

    #[test]
    fn a_misspelt_figure_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a/web: {memry: 200Mi}").unwrap();
        let error = usage(file.path()).unwrap_err().to_string();
        let reason =
            "`a/web`: `memry` is not one of `memory`, `ephemeral-storage`, `inodes`, `pids`";
        assert!(error.ends_with(reason), "{error}");
    }
}
