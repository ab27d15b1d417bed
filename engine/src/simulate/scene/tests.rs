//! A scene changed and restored at random gives the same results as a cluster built from the same objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Cluster;
use crate::cluster::delta::Delta;
use crate::cluster::fork::Saved;
use crate::model::{Pod, PodKey};
use crate::place::decision::{Outcome, Verdict};
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::plugin::{Plugin, StatusCode};
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::simulate::one_pass::Misfit;
use crate::simulate::rows::Rows;
use crate::simulate::scene::Scene;
use berth_testing::object;

const KINDS: [&str; 9] = [
    "x cpu=500m",
    "x cpu=2",
    "x cpu=100m label:app=lonely far=kubernetes.io/hostname,app:lonely",
    "x cpu=100m label:app=even spread=zone,1,DoNotSchedule,app:even",
    "x cpu=100m label:app=flat spread=kubernetes.io/hostname,1,DoNotSchedule,app:flat",
    "x cpu=100m near=zone,app:even",
    "x cpu=100m label:app=even far=zone,app:lonely",
    "x cpu=100m toleration=k,Exists,,",
    "x cpu=100m named=n3",
];

/// Expected content of a scene: nodes as text, pods with their node and their kind.
#[derive(Clone, Default)]
struct Held {
    nodes: BTreeMap<String, String>,
    pods: BTreeMap<String, (String, usize)>,
}

impl Held {
    /// A cluster with exactly this content.
    fn cluster(&self) -> Cluster {
        let cluster = Cluster::new();
        let node =
            |text: &String| Delta::UpsertNode(cluster.compile_node(&object::node(text)).unwrap());
        let pod = |(name, (node, kind)): (&String, &(String, usize))| {
            Delta::UpsertPod(pod(&cluster, *kind, name).on_node(node.as_str().into()))
        };
        let deltas = self.nodes.values().map(node).chain(self.pods.iter().map(pod));
        assert_eq!(cluster.apply(deltas.collect()).rejected, []);
        cluster
    }
}

fn pod(cluster: &Cluster, kind: usize, name: &str) -> Pod {
    let pod = cluster.compile_pod(&object::pod(KINDS[kind])).unwrap();
    pod.with_identity(PodKey::new("default", name), name)
}

/// A random walk, the same in every run.
struct Walk<'a> {
    cluster: &'a Cluster,
    scene: Scene<'a>,
    held: Held,
    saves: Vec<(Saved, Held)>,
    random: u64,
    n_pods: usize,
}

impl Walk<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as usize % n
    }

    fn one_of<T>(&mut self, mut items: impl ExactSizeIterator<Item = T>) -> T {
        let at = self.below(items.len());
        items.nth(at).unwrap()
    }

    fn row(&mut self, node: &str) -> NodeRow {
        self.scene.snapshot().row_named(node).unwrap()
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=2 => self.add_node(),
            3 if self.held.nodes.len() > 3 => {
                let name = self.one_of(self.held.clone().nodes.into_keys());
                let row = self.row(&name);
                self.scene.remove_node(row);
                self.held.nodes.remove(&name);
                self.held.pods.retain(|_, (node, _)| *node != name);
            }
            4 if !self.held.pods.is_empty() => {
                let name = self.one_of(self.held.clone().pods.into_keys());
                let (node, _) = self.held.pods.remove(&name).unwrap();
                let (row, key) = (self.row(&node), PodKey::new("default", &name));
                let taken = self.scene.take(row, &key).unwrap();
                assert_eq!((taken.key(), taken.node_name()), (&key, None));
                assert!(self.scene.take(row, &key).is_none());
            }
            5 => self.saves.push((self.scene.save(), self.held.clone())),
            6 if !self.saves.is_empty() => {
                let at = self.below(self.saves.len());
                self.saves.truncate(at + 1);
                let (saved, held) = self.saves[at].clone();
                self.scene.restore(saved);
                self.held = held;
            }
            _ => self.put(),
        }
    }

    fn add_node(&mut self) {
        let (name, zone) = (format!("n{}", self.below(40)), self.below(3));
        let zone = if zone == 2 { String::new() } else { format!(" label:zone=z{zone}") };
        let extras = ["", "", " taint=k=v:NoSchedule", " cordoned=true", " image=i@9Mi"];
        let extra = extras[self.below(extras.len())];
        let text = format!("{name} cpu=4 pods=5 label:kubernetes.io/hostname={name}{zone}{extra}");
        let node = self.cluster.compile_node(&object::node(&text)).unwrap();
        let row = self.scene.add_node(&node);
        assert_eq!(self.scene.node(row), Some(&node));
        self.held.nodes.insert(name, text);
    }

    fn put(&mut self) {
        self.n_pods += 1;
        let (kind, name) = (self.below(KINDS.len()), format!("p{}", self.n_pods));
        let pod = pod(self.cluster, kind, &name);
        let rows = self.scene.feasible(&pod).unwrap();
        if rows.len() > 0 {
            let row = self.below(rows.len());
            let row = rows.iter().nth(row).unwrap();
            let node = self.scene.node(row).unwrap().name().to_owned();
            self.scene.put(&pod, row);
            self.held.pods.insert(name, (node, kind));
        }
    }

    /// Compares the results for a pod of each kind with a full evaluation on a new cluster.
    fn check(&mut self) {
        let rebuilt = self.held.cluster();
        let policy = Policy::default();
        assert_eq!(self.scene.snapshot().n_nodes(), rebuilt.snapshot().n_nodes());
        for (kind, _) in KINDS.iter().enumerate() {
            let probe = pod(&rebuilt, kind, "asked");
            let tie_break = TieBreak::Lexicographic;
            let request = PlaceRequest { pod: &probe, policy: &policy, tie_break, now: None };
            let explanation = rebuilt.explain(&request).unwrap();
            let probe = pod(self.cluster, kind, "asked");
            let feasible = self.scene.feasible(&probe).unwrap();
            let mut expected = BTreeSet::new();
            for verdict in &explanation.nodes {
                let row = self.row(&verdict.node);
                let misfit = self.scene.why_not(&probe, row).unwrap();
                if same(&verdict.verdict, misfit.as_ref(), &self.held.nodes[&*verdict.node]) {
                    expected.insert(row);
                }
                assert_eq!(self.scene.fits(&probe, row).unwrap(), misfit.is_none());
            }
            assert_eq!(feasible.iter().collect::<BTreeSet<_>>(), expected, "{}", KINDS[kind]);
            let backwards: Vec<NodeRow> = self.row_order();
            let first = backwards.iter().copied().find(|row| feasible.contains(*row));
            assert_eq!(self.scene.first_fit(&probe, backwards).unwrap(), first);
            self.check_decision(&probe, &explanation.decision.outcome, &feasible);
        }
    }

    fn check_decision(&mut self, probe: &Pod, outcome: &Outcome, feasible: &Rows) {
        let tie_break = TieBreak::Lexicographic;
        let chosen = self.scene.decide(probe, tie_break, None).unwrap();
        let chosen = chosen.map(|row| self.scene.node(row).unwrap().name().to_owned());
        let expected = match outcome {
            Outcome::Placed(placement) => Some(placement.node.to_string()),
            _ => None,
        };
        assert_eq!(chosen, expected);
        let last = feasible.iter().last();
        let only: Rows = last.into_iter().collect();
        assert_eq!(self.scene.decide(probe, tie_break, Some(&only)).unwrap(), last);
    }

    fn row_order(&mut self) -> Vec<NodeRow> {
        self.held.clone().nodes.keys().rev().map(|name| self.row(name)).collect()
    }
}

/// Whether a verdict and a misfit agree; the reasons must be equal where the node refuses.
fn same(verdict: &Verdict, misfit: Option<&Misfit>, node: &str) -> bool {
    match (verdict, misfit) {
        (Verdict::Feasible { .. }, None) => return true,
        (Verdict::Rejected { plugin, code, reasons }, Some(misfit)) => {
            // The evaluation names no plugin where a PreFilter left the node out.
            let plugin = plugin.unwrap_or(Plugin::NodeAffinity);
            if !node.contains("cordoned") || plugin != Plugin::NodeAffinity {
                assert_eq!((&plugin, code), (&misfit.plugin, &misfit.code), "{node}");
                assert_eq!(reasons[..], misfit.reasons[..]);
            }
        }
        (verdict, misfit) => panic!("{node}: {verdict:?}, {misfit:?}"),
    }
    false
}

/// Walks from a cluster with this content; returns the content of the scene at the end.
fn walk(held: Held, seed: u64) -> Held {
    let cluster = held.cluster();
    let (snapshot, policy) = (cluster.snapshot(), Policy::default());
    let scene = Scene::of(&cluster, &snapshot, &policy);
    let n_nodes = held.nodes.len();
    let (saves, n_pods) = (Vec::new(), 1000 * seed as usize);
    let mut walk = Walk { cluster: &cluster, scene, held, saves, random: seed, n_pods };
    for step in 0..120 {
        walk.step();
        if step % 4 == 3 {
            walk.check();
        }
    }
    assert_eq!(cluster.snapshot().n_nodes(), n_nodes, "the cluster is as it was");
    walk.held
}

#[test]
fn a_scene_agrees_with_an_equal_cluster() {
    for seed in 0..6 {
        let held = walk(Held::default(), 2 * seed);
        walk(held, 2 * seed + 1);
    }
}

#[test]
fn a_cordoned_node_is_out_even_where_it_is_tolerated() {
    let cluster = Cluster::new();
    let node = cluster.compile_node(&object::node("n cpu=1 pods=9 cordoned=true")).unwrap();
    cluster.apply(vec![Delta::UpsertNode(node)]);
    let (snapshot, policy) = (cluster.snapshot(), Policy::default());
    let mut scene = Scene::of(&cluster, &snapshot, &policy);
    let text = "p toleration=node.kubernetes.io/unschedulable,Exists,,";
    let pod = cluster.compile_pod(&object::pod(text)).unwrap();
    let row = scene.snapshot().row_named("n").unwrap();
    assert!(scene.feasible(&pod).unwrap().len() == 0 && !scene.fits(&pod, row).unwrap());
    let misfit = scene.why_not(&pod, row).unwrap().unwrap();
    assert_eq!(misfit.plugin, Plugin::NodeUnschedulable);
    assert_eq!(misfit.code, StatusCode::UnschedulableAndUnresolvable);
    assert_eq!(misfit.reasons[..], ["node(s) were unschedulable"]);
    assert_eq!(scene.decide(&pod, TieBreak::Seeded(1), None).unwrap(), Some(row));
}
