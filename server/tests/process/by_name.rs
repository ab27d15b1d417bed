//! Questions about pods by name: a dump, a server and an API server that have the same objects give the same answers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_fake_apiserver::{FakeApiServer, Options, cluster};
use berth_testing::recorded;
use tempfile::TempDir;

use crate::served::{Served, berth, serve};

/// The kinds that decisions read.
const KINDS: [&str; 20] = [
    "Node",
    "Pod",
    "Namespace",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "PodDisruptionBudget",
    "PriorityClass",
    "LimitRange",
    "ResourceQuota",
    "RuntimeClass",
    "Deployment",
];

/// The three sources of one cluster.
struct Sources {
    folder: TempDir,
    dump: PathBuf,
    served: Served,
    /// Kept alive: the kubeconfig in the folder leads to it.
    _api: FakeApiServer,
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/cluster.yaml")
}

impl Sources {
    async fn of(file: &Path) -> Sources {
        let folder = tempfile::tempdir().unwrap();
        let api = FakeApiServer::start(Options::default()).await.unwrap();
        api.store().set_auto_kubelet(false);
        cluster::load(api.store(), file).unwrap();
        fs::write(folder.path().join("kubeconfig"), api.kubeconfig()).unwrap();
        // What the API server has, admitted and with uids, is also the dump.
        let items: Vec<_> = KINDS.into_iter().flat_map(|kind| api.store().list(kind)).collect();
        let dump = folder.path().join("cluster.json");
        let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": items});
        fs::write(&dump, list.to_string()).unwrap();
        let served = Served::start(serve().arg("--cluster").arg(&dump));
        served.eventually("/readyz", |body| body.contains("ok")).await;
        Sources { folder, dump, served, _api: api }
    }

    /// Asks each source, and returns the answers.
    fn ask(&self, question: &str) -> [String; 3] {
        let [dump, kubeconfig] = [self.dump.clone(), self.folder.path().join("kubeconfig")]
            .map(|path| path.display().to_string());
        let sources: [Vec<&str>; 3] = [
            vec!["--cluster", &dump],
            vec!["--server", &self.served.url],
            vec!["--kube", "--kubeconfig", &kubeconfig],
        ];
        sources.map(|source| {
            let mut command = berth();
            command.args(question.split(' ')).args(source);
            text(&command.output().unwrap())
        })
    }
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}\n{err}\n{:?}", output.status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_source_gives_the_same_answer() {
    let sources = Sources::of(&example()).await;
    for (question, part) in [
        ("explain shop/db-0", "WOULD HELP"),
        ("explain pod/db-0 -n shop --node general-3", "SHORT BY"),
        ("explain batch/report", "decided as if it were pending"),
        ("preempt search/index-1", "evicting 1 pod makes room on memory-2"),
        ("headroom shop/db-0", "shop/db-0"),
        ("headroom batch/report", "batch/report"),
        ("place --pending", "4 pods: 0 placed, 4 pending"),
        ("place shop/db-0", "1 pod: 0 placed, 1 pending"),
        ("drain general-1", "general-1"),
        ("get pending", "4 pods pending"),
        ("get nodes", "general-4"),
        ("get pods -n shop", "shop/db-0"),
        ("get pods --phase Pending --scheduler-name default-scheduler", "ml/train"),
        ("lifecycle qos shop/db-0", "shop/db-0"),
        ("lifecycle phase pod/report -n batch --now 2026-01-01T00:00:00Z", "batch/report"),
        ("lifecycle delete shop/db-0 --at 2026-01-01T00:00:00Z", "shop/db-0"),
        ("explain shop/nobody", "`shop/nobody` is neither a file nor a pod of the cluster"),
    ] {
        let [dump, server, kube] = sources.ask(question);
        assert!(dump.contains(part), "{question}:\n{dump}");
        assert_eq!(server, dump, "{question}: the server differs from the dump");
        assert_eq!(kube, dump, "{question}: the API server differs from the dump");
    }
    for status in sources.ask("status") {
        assert!(status.starts_with("8 nodes, ") && status.contains("4 pending"), "{status}");
    }
    sources.served.stop();
}

/// The dump has 300 nodes and 55 pending pods. Every sixth of these is explained, since each answer takes a while;
/// `get pending` is about all.
#[tokio::test(flavor = "multi_thread")]
async fn pending_pods_of_a_real_dump_have_one_account() {
    let Some(file) = recorded::find("data/cluster-dump/mid.json.gz") else { return };
    let sources = Sources::of(&file).await;
    let pending = sources.ask("get pods --phase Pending -o json");
    assert_eq!((&pending[1], &pending[2]), (&pending[0], &pending[0]));
    let json = pending[0].split("\n\n").next().unwrap_or_default();
    let pods: serde_json::Value = serde_json::from_str(json).unwrap();
    let names: Vec<String> = pods["pods"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pod| pod["nodeName"].is_null())
        .map(|pod| {
            let part = |name: &str| pod["key"][name].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", part("namespace"), part("name"))
        })
        .collect();
    assert!(names.len() > 50, "{names:?}");
    let questions = names.iter().step_by(6).map(|name| format!("explain {name}"));
    for question in questions.chain(["get pending".to_owned()]) {
        let [dump, server, kube] = sources.ask(&question);
        assert_eq!(server, dump, "{question}: the server differs from the dump");
        assert_eq!(kube, dump, "{question}: the API server differs from the dump");
    }
    sources.served.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_reads_the_current_context() {
    let sources = Sources::of(&example()).await;
    let plugin = sources.folder.path().join("kubectl-berth");
    symlink(env!("CARGO_BIN_EXE_berth"), &plugin).unwrap();
    let mut command = Command::new(&plugin);
    command.env_clear().env("KUBECONFIG", sources.folder.path().join("kubeconfig"));
    let answer = text(&command.args(["explain", "pod/db-0", "-n", "shop"]).output().unwrap());
    assert_eq!(answer, sources.ask("explain shop/db-0")[0]);
    let mut command = Command::new(&plugin);
    command.env_clear().env("KUBECONFIG", sources.folder.path().join("kubeconfig"));
    let answer = text(&command.args(["get", "pods", "--context", "nobody"]).output().unwrap());
    assert!(answer.contains("nobody") && answer.ends_with("Some(1)"), "{answer}");
    sources.served.stop();
}
