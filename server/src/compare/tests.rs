//! Recorded pods come to the same under the same policy, and to something else under another one.

use std::path::Path;

use berth_engine::KubernetesVersion;
use berth_proto::berth_v1 as wire;
use berth_testing::object;
use prost::Message as _;

use super::*;
use crate::journal::writer::Writer;
use crate::service::recorder::record::{Kind, Published, Record, RecordedPod, Reserved, Start};

const SECOND: u64 = 1_000_000;
/// When every journal here begins.
const BEGAN: u64 = 1_700_000_000 * SECOND;

/// Writes a journal by hand, so that the test says when things happened.
struct Written {
    writer: Writer,
    generation: u64,
}

impl Written {
    /// Begins with these nodes, and with pods that are there already.
    fn begin(directory: &Path, nodes: &[&str], pods: &[&str]) -> Written {
        let writer = Writer::create(directory, BEGAN).unwrap();
        let mut written = Written { writer, generation: 0 };
        written.push(Kind::Start(Start {
            run: 1,
            unix_micros: BEGAN,
            kubernetes: KubernetesVersion::default().to_string(),
            ..Start::default()
        }));
        let mut kinds = vec![Kind::ReplaceBegin(true)];
        kinds.extend(nodes.iter().map(|text| Kind::UpsertNode(object::node(text).encode_to_vec())));
        kinds.push(Kind::ReplaceEnd(true));
        kinds.extend(pods.iter().map(|text| reported(text)));
        written.at(0, kinds);
        written
    }

    fn push(&mut self, kind: Kind) {
        self.writer.push(&Record { kind: Some(kind) }).unwrap();
    }

    /// So many seconds after the beginning.
    fn at(&mut self, seconds: u64, kinds: Vec<Kind>) {
        kinds.into_iter().for_each(|kind| self.push(kind));
        let published =
            Published { generation: self.generation, unix_micros: BEGAN + seconds * SECOND };
        self.push(Kind::Published(published));
        self.generation += 1;
    }

    fn end(mut self) {
        self.writer.flush().unwrap();
    }
}

fn recorded(text: &str) -> RecordedPod {
    let mut pod = object::pod(text);
    let metadata = pod.metadata.get_or_insert_default();
    RecordedPod {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        node: pod.spec.get_or_insert_default().node_name.clone(),
        encoded: pod.encode_to_vec(),
        is_reported: true,
        ..RecordedPod::default()
    }
}

fn reported(text: &str) -> Kind {
    Kind::UpsertPod(recorded(text))
}

fn gone(name: &str) -> Kind {
    let (namespace, name) = ("default".to_owned(), name.to_owned());
    Kind::DeletePod(wire::PodKey { namespace, name, uid: String::new() })
}

fn packing() -> Profiles {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}]
";
    Profiles::read("packing", text, KubernetesVersion::default()).unwrap()
}

fn ask(directory: &Path, question: Question) -> Vec<Figures> {
    let rules = vec![Rule::AsRecorded, Rule::by(Profiles::default()), Rule::by(packing())];
    compare(directory, &Question { rules, ..question }, &|| false).unwrap().figures
}

fn seconds(figures: &Figures, percent: usize) -> u64 {
    figures.wait(percent).as_secs()
}

#[test]
fn a_pod_waits_until_another_one_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Written::begin(directory.path(), &["n0 cpu=4 pods=9"], &[]);
    journal.at(10, vec![reported("a cpu=3")]);
    journal.at(11, vec![reported("a cpu=3 node=n0 phase=Running")]);
    journal.at(20, vec![reported("b cpu=3")]);
    journal.at(100, vec![gone("a")]);
    journal.at(103, vec![reported("b cpu=3 node=n0")]);
    journal.at(200, vec![reported("b cpu=3 node=n0 phase=Succeeded")]);
    journal.at(300, vec![reported("c cpu=9")]);
    journal.at(400, vec![reported("d cpu=1")]);
    journal.end();
    let figures = ask(directory.path(), Question::default());
    let [as_recorded, default, packing] = &figures[..] else { panic!("{figures:?}") };
    for figures in &figures {
        assert_eq!(figures.n_came, 4);
        assert!(figures.evictions.is_empty());
    }
    assert_eq!((as_recorded.n_placed, as_recorded.n_left), (2, 2), "c and d were left waiting");
    assert_eq!(seconds(as_recorded, 100), 100, "c");
    for figures in [default, packing] {
        assert_eq!((figures.n_placed, figures.n_left), (3, 1), "c fits nowhere, d does");
        assert_eq!(figures.wait(50).as_secs(), 0);
        assert_eq!(seconds(figures, 75), 80, "b waits until a leaves");
        let end = figures.samples.last().unwrap();
        assert_eq!((end.n_waiting, end.n_busy), (1, 1));
        let cpu = &end.resources[&Arc::<str>::from("cpu")];
        assert_eq!((cpu.share(), cpu.allocatable), (0.25, 4_000));
    }
}

#[test]
fn an_urgent_pod_evicts_and_its_victim_comes_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal =
        Written::begin(directory.path(), &["n0 cpu=4 pods=9"], &["old cpu=1 node=n0"]);
    journal.at(10, vec![reported("low cpu=3 priority=1")]);
    journal.at(20, vec![reported("urgent cpu=3 priority=9")]);
    journal.at(50, vec![gone("urgent")]);
    journal.end();
    let figures = ask(directory.path(), Question::default());
    assert!(figures[0].evictions.is_empty(), "who evicts is not recorded as such");
    for figures in &figures[1..] {
        assert_eq!(figures.evictions, [(1, 1)].into());
        assert_eq!((figures.n_came, figures.n_placed, figures.n_left), (2, 3, 0));
        assert_eq!(seconds(figures, 100), 30, "the victim has its node back");
    }
}

#[test]
fn pods_that_were_there_and_those_of_other_schedulers_stay_where_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"];
    let mut journal = Written::begin(directory.path(), &nodes, &["old cpu=1 node=n1"]);
    let of_another = |text: &str| {
        let mut pod = object::pod(text);
        pod.spec.as_mut().unwrap().scheduler_name = "another".to_owned();
        let recorded = RecordedPod { encoded: pod.encode_to_vec(), ..recorded(text) };
        Kind::UpsertPod(recorded)
    };
    journal.at(10, vec![of_another("x cpu=4")]);
    journal.at(20, vec![of_another("x cpu=4 node=n0")]);
    // An assumption of Berth's that nobody has reported, and which is undone.
    let pod = RecordedPod { is_reported: false, ..recorded("held cpu=1") };
    let held = Reserved { pod: Some(pod), node: "n1".to_owned(), ..Reserved::default() };
    journal.at(30, vec![Kind::Reserved(held)]);
    let (namespace, name) = ("default".to_owned(), "held".to_owned());
    let undone = wire::PodKey { namespace, name, uid: "held".to_owned() };
    journal.at(40, vec![Kind::TakenBack(undone)]);
    journal.end();
    for figures in ask(directory.path(), Question::default()) {
        assert_eq!((figures.n_came, figures.n_placed, figures.n_left), (2, 2, 0));
        let end = figures.samples.last().unwrap();
        assert_eq!(end.resources[&Arc::<str>::from("cpu")].requested, 5_000);
        assert_eq!(seconds(&figures, 100), 10, "x is where the other scheduler has put it");
    }
}

#[test]
fn a_list_that_lacks_a_pod_or_a_node_says_that_it_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"];
    let mut journal = Written::begin(directory.path(), &nodes, &["old cpu=1 node=n0"]);
    journal.at(10, vec![reported("a cpu=1")]);
    let node = Kind::UpsertNode(object::node(nodes[1]).encode_to_vec());
    journal
        .at(20, vec![Kind::ReplaceBegin(true), node, reported("b cpu=1"), Kind::ReplaceEnd(true)]);
    journal.end();
    for figures in &ask(directory.path(), Question::default())[1..] {
        let end = figures.samples.last().unwrap();
        let cpu = &end.resources[&Arc::<str>::from("cpu")];
        assert_eq!((cpu.allocatable, cpu.requested), (4_000, 1_000), "n1 with b");
    }
}

#[test]
fn other_nodes_can_be_tried_and_have_their_prices() {
    let directory = tempfile::tempdir().unwrap();
    // It was on a node that the others are not, so it comes as well.
    let there = ["a cpu=2 node=n0"];
    let mut journal = Written::begin(directory.path(), &["n0 cpu=2 pods=9"], &there);
    journal.at(3_600, vec![reported("b cpu=2")]);
    journal.end();
    let nodes = ["m0", "m1"].map(|name| {
        object::node(&format!("{name} cpu=4 pods=9 label:node.kubernetes.io/instance-type=m"))
    });
    let question = Question {
        nodes: Some(nodes.into()),
        prices: Some([("m".to_owned(), 2.0)].into()),
        ..Question::default()
    };
    let figures = ask(directory.path(), question);
    let [_, default, packing] = &figures[..] else { panic!("{figures:?}") };
    for figures in [default, packing] {
        assert_eq!(figures.n_placed, 2);
        assert!((figures.cost().unwrap() - 2.0).abs() < 1e-6, "one node for an hour");
    }
    let busy = |figures: &Figures| figures.samples.last().unwrap().n_busy;
    assert_eq!((busy(default), busy(packing)), (2, 1));
    assert_eq!((default.n_emptiable, packing.n_emptiable), (Some(1), Some(1)));
}

#[test]
fn pods_come_again_until_the_cluster_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"];
    let mut journal = Written::begin(directory.path(), &nodes, &[]);
    journal.at(10, vec![reported("small cpu=1")]);
    journal.at(20, vec![gone("small")]);
    journal.at(30, vec![reported("large cpu=3")]);
    journal.end();
    let figures = ask(directory.path(), Question { until_full: true, ..Question::default() });
    // The default profile has spread the pods so that a second large one has no room.
    for (figures, expected) in figures[1..].iter().zip([0.625, 1.0]) {
        let share = |sample: &Sample| sample.resources[&Arc::<str>::from("cpu")].share();
        assert_eq!(share(figures.samples.last().unwrap()), 1.0, "small ones fill what is left");
        let first = share(figures.first_refused.as_ref().unwrap());
        assert_eq!(first, expected, "when a pod waited for the first time");
        assert!(figures.evictions.is_empty() && figures.n_left > 0);
    }
}

#[test]
fn the_first_decision_at_which_two_policies_part_is_explained_by_both() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = ["n0 cpu=4 pods=9", "n1 cpu=4 pods=9"];
    let mut journal = Written::begin(directory.path(), &nodes, &[]);
    journal.at(10, vec![reported("a cpu=1")]);
    journal.at(20, vec![reported("b cpu=1")]);
    journal.end();
    let (parting, n_alike) =
        bisect(directory.path(), [Profiles::default(), packing()], None).unwrap();
    let parting = parting.expect("b goes to the empty node, or to the other one");
    assert_eq!((n_alike, &*parting.pod.name, parting.at), (1, "b", BEGAN + 20 * SECOND));
    let nodes = parting.says.map(|says| answer::node_of(&Ok(says.explanation.decision)).unwrap());
    assert_ne!(nodes[0], nodes[1]);
    let (parting, n_alike) = bisect(directory.path(), [packing(), packing()], None).unwrap();
    assert!(parting.is_none());
    assert_eq!(n_alike, 2);
}

#[test]
fn a_directory_without_a_journal_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = compare(directory.path(), &Question::default(), &|| false).unwrap_err().to_string();
    assert!(error.contains(&directory.path().display().to_string()), "{error}");
}
