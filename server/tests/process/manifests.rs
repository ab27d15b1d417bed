//! Manifests as people write them: `manifests/*.txt` hold cases, each with what admission makes of its pods and what
//! `berth place` answers on `manifests/cluster.yaml`. `BERTH_UPDATE=1` writes the actual outputs.
//!
//! A case is a line `=== TITLE`, the manifest, a line `--- admitted` with the fields that admission fills in, and a line
//! `--- placed` with the output of `berth place --cluster cluster.yaml -f -`: standard output, standard error marked
//! with `! `, and `[status N]` when it is not 0. Fields that every pod gets alike are in the first case only.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use berth_engine::workload::{DaemonNode, ExpandOptions, Workload};
use berth_engine::{AdmissionContext, Cluster, Snapshot, admit_pod};
use berth_proto::core_v1::Pod;
use berth_server::feed::file::{self, Dump, UnknownFields, WrittenObject};

/// The smallest number of cases that all files hold together.
const MIN_CASES: usize = 150;
const MINIMAL: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: example.com/web:1.2}]}
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests")
}

/// One case of a file.
struct Case {
    title: String,
    manifest: String,
}

/// The cases of a file, without their expected outputs.
fn cases(text: &str) -> Vec<Case> {
    let case = |part: &str| {
        let (title, rest) = part.split_once('\n').unwrap_or((part, ""));
        let manifest = rest.split("--- admitted\n").next().unwrap_or_default();
        Case { title: title.to_owned(), manifest: format!("{}\n", manifest.trim_end()) }
    };
    format!("\n{text}").split("\n=== ").skip(1).map(case).collect()
}

/// The cluster of all cases, and the nodes among which its DaemonSets choose.
struct World {
    cluster: Cluster,
    nodes: Vec<DaemonNode>,
    /// What every pod gets alike.
    usual: BTreeSet<String>,
}

impl World {
    fn new() -> World {
        let cluster = Cluster::new();
        let files = [folder().join("cluster.yaml")];
        let report = file::load_files(&cluster, &files, UnknownFields::Refuse).unwrap();
        assert_eq!(report.refused, []);
        let nodes = cluster.snapshot().nodes().iter().map(DaemonNode::from).collect();
        let mut world = World { cluster, nodes, usual: BTreeSet::new() };
        world.usual = world.admitted(MINIMAL).lines().map(str::to_owned).collect();
        world
    }

    /// The fields that admission fills in for the pods of a manifest, or why it refuses them.
    fn admitted(&self, manifest: &str) -> String {
        match file::parse(&"-".into(), manifest, UnknownFields::Refuse) {
            Ok(dump) => self.admitted_of(dump),
            Err(error) => format!("unreadable: {error}\n"),
        }
    }

    fn admitted_of(&self, dump: Dump) -> String {
        let mut lines: Vec<String> =
            dump.refused.iter().map(|refused| format!("refused: {refused}")).collect();
        lines.extend(dump.misspelt_kinds.lines().map(|line| format!("refused: {line}")));
        let mut pods: Vec<Pod> = dump.pods.into_iter().map(|pod| pod.value).collect();
        let of_objects = dump.objects.into_iter().map(|object| object.value);
        let of_objects = of_objects.filter_map(as_workload);
        let workloads = dump.workloads.into_iter().map(|workload| workload.value);
        for workload in workloads.chain(of_objects) {
            let options = ExpandOptions { replicas: None, nodes: &self.nodes };
            match workload.expand(&options) {
                Ok(expansion) => pods.extend(expansion.pods),
                Err(error) => lines.push(format!("refused: {error}")),
            }
        }
        let snapshot = self.cluster.snapshot();
        let several = pods.len() > 1;
        for (position, pod) in pods.iter_mut().enumerate() {
            let of_pod = self.admitted_pod(pod, &snapshot, position);
            let metadata = pod.metadata.clone().unwrap_or_default();
            if several {
                lines.push(format!("pod {}/{}", metadata.namespace, metadata.name));
            }
            lines.extend(of_pod);
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn admitted_pod(&self, pod: &mut Pod, snapshot: &Snapshot, position: usize) -> Vec<String> {
        let context = AdmissionContext { snapshot, position: position as u64, n_replicas: 1 };
        let admitted = match admit_pod(pod, context) {
            Ok(admitted) => admitted,
            Err(error) => return vec![format!("refused: `{}`: {}", error.field, error.reason)],
        };
        let again = admit_pod(&mut pod.clone(), context).unwrap();
        assert_eq!(again.filled, [], "admission is idempotent");
        let filled = admitted
            .filled
            .iter()
            .map(|filled| format!("{} = {} ({})", filled.field, filled.value, filled.source));
        let warnings =
            admitted.warnings.iter().map(|warning| format!("warning: {}", warning.message));
        filled.filter(|line| !self.usual.contains(line)).chain(warnings).collect()
    }
}

/// The object as a workload, if its kind is one.
fn as_workload(object: WrittenObject) -> Option<Workload> {
    match object {
        WrittenObject::ReplicationController(object) => {
            Some(Workload::ReplicationController(object))
        }
        WrittenObject::ReplicaSet(object) => Some(Workload::ReplicaSet(object)),
        WrittenObject::StatefulSet(object) => Some(Workload::StatefulSet(object)),
        _ => None,
    }
}

/// The output of `berth place` with the manifest on standard input.
fn placed(manifest: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["place", "--cluster", "cluster.yaml", "-f", "-"])
        .current_dir(folder())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        text += format!("! {line}").trim_end();
        text += "\n";
    }
    match output.status.code() {
        Some(0) => {}
        code => text += &format!("[status {code:?}]\n"),
    }
    text
}

#[test]
fn manifests_are_understood_or_refused() {
    let world = World::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    let (mut n_cases, mut different) = (0, Vec::new());
    for path in paths {
        let expected = fs::read_to_string(&path).unwrap();
        let mut actual = String::new();
        for Case { title, manifest } in cases(&expected) {
            n_cases += 1;
            let admitted = match title.as_str() {
                "a minimal pod" => world.usual.iter().map(|line| format!("{line}\n")).collect(),
                _ => world.admitted(&manifest),
            };
            let placed = placed(&manifest);
            actual +=
                &format!("=== {title}\n{manifest}--- admitted\n{admitted}--- placed\n{placed}\n");
        }
        if actual != expected {
            let line = expected.lines().zip(actual.lines()).position(|(old, new)| old != new);
            different.push(format!("{} from line {} on", path.display(), line.unwrap_or(0) + 1));
            if std::env::var_os("BERTH_UPDATE").is_some() {
                fs::write(&path, actual).unwrap();
            }
        }
    }
    assert!(n_cases >= MIN_CASES, "{n_cases} cases");
    let is_update = std::env::var_os("BERTH_UPDATE").is_some();
    assert!(is_update || different.is_empty(), "differs, BERTH_UPDATE=1 writes it: {different:#?}");
}
