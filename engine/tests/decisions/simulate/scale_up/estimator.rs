//! A plain implementation of the estimator's rules, on a cluster that is changed by deltas and queried by `explain`:
//! slow and obvious. Rules: S-CAS-1, S-CAS-4 to S-CAS-7, S-BIN-1 to S-BIN-4.

use berth_engine::{
    Cluster, Delta, LeftReason, Misfit, PlaceRequest, Plugin, Pod, Policy, ScaleUpLimit,
    ScaleUpStop, StatusCode, TieBreak, Verdict,
};
use berth_proto::meta_v1::OwnerReference;

use berth_testing::object;

/// A pending pod.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) name: String,
    pub(super) priority: i32,
    /// Words of the pod, which distinguish its spec and labels from others'.
    pub(super) words: &'static str,
    /// Milli-CPU and bytes of memory.
    pub(super) asks: (i64, i64),
    pub(super) controller: Option<usize>,
}

impl Waiting {
    pub(super) fn compile(&self, cluster: &Cluster, node: Option<&str>) -> Pod {
        let node = node.map(|node| format!(" node={node}")).unwrap_or_default();
        let Waiting { name, words, priority, .. } = self;
        let mut pod = object::pod(&format!("{name} {words} priority={priority}{node}"));
        if let Some(controller) = self.controller {
            let (kind, uid) = ("Job".to_owned(), format!("u{controller}"));
            let owner = OwnerReference { kind, uid, controller: Some(true), ..Default::default() };
            pod.metadata.as_mut().unwrap().owner_references = vec![owner];
        }
        cluster.compile_pod(&pod).unwrap()
    }

    fn is_like(&self, other: &Waiting) -> bool {
        (self.words, self.priority) == (other.words, other.priority)
            && self.controller.is_some()
            && self.controller == other.controller
    }
}

/// A group as text, so that copies can be made of its template.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Words of the node, without those that its copies lose.
    pub(super) template: String,
    /// Milli-CPU and bytes of memory.
    pub(super) has: (i64, i64),
    pub(super) daemons: Vec<&'static str>,
    /// Number of nodes by which the group may grow.
    pub(super) room: Option<usize>,
}

/// The estimate for a group, in a form that can be compared.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Estimate {
    pub(super) nodes: Vec<Vec<usize>>,
    pub(super) on_existing: Vec<(usize, String)>,
    pub(super) left: Vec<(LeftReason, Vec<usize>)>,
    pub(super) stop: ScaleUpStop,
}

/// A cluster with the order in which its nodes are tried.
pub(super) struct World {
    cluster: Cluster,
    /// Names of the nodes; added nodes are at the end.
    order: Vec<String>,
    n_existing: usize,
    next: usize,
    n_names: usize,
}

impl World {
    pub(super) fn of(cluster: &Cluster) -> World {
        let mut order: Vec<String> =
            cluster.snapshot().nodes().iter().map(|node| node.name.to_string()).collect();
        order.sort();
        let (n_existing, cluster) = (order.len(), cluster.fork());
        World { cluster, n_existing, order, next: 0, n_names: 0 }
    }

    fn copy(&self) -> World {
        World { cluster: self.cluster.fork(), order: self.order.clone(), ..*self }
    }

    /// S-CAS-1
    fn why_not(&self, pod: &Waiting, node: &str) -> Option<Misfit> {
        let views = self.cluster.snapshot().nodes();
        if views.iter().any(|view| &*view.name == node && view.unschedulable) {
            let reasons = ["node(s) were unschedulable".to_owned()].into();
            let code = StatusCode::UnschedulableAndUnresolvable;
            return Some(Misfit { plugin: Plugin::NodeUnschedulable, code, reasons });
        }
        let (pod, policy) = (pod.compile(&self.cluster, None), Policy::default());
        let tie_break = TieBreak::Lexicographic;
        let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
        let explanation = self.cluster.explain(&request).unwrap();
        let verdict = explanation.nodes.into_iter().find(|verdict| &*verdict.node == node);
        match verdict.expect("a node").verdict {
            Verdict::Feasible { .. } => None,
            Verdict::Rejected { plugin, code, reasons } => {
                let plugin = plugin.unwrap_or(Plugin::NodeAffinity);
                Some(Misfit { plugin, code, reasons: reasons.into() })
            }
        }
    }

    fn put(&mut self, pod: &Waiting, node: &str) {
        let pod = pod.compile(&self.cluster, Some(node));
        assert_eq!(self.cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
    }

    /// Returns the first node that takes the pod, in rotation from the one after the last found (S-CAS-2).
    fn find(&mut self, pod: &Waiting, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let n = self.order.len();
        let mut places = (0..n).map(|step| (self.next + step) % n).filter(|at| is_meant(*at));
        places.find(|place| self.why_not(pod, &self.order[*place]).is_none())
    }

    fn put_at(&mut self, pod: &Waiting, place: usize) {
        self.put(pod, &self.order[place].clone());
        self.next = (place + 1) % self.order.len();
    }

    /// S-CAS-6
    fn add(&mut self, group: &Group) {
        let name = loop {
            let name = format!("template-node-{}", self.n_names);
            self.n_names += 1;
            if !self.order.contains(&name) {
                break name;
            }
        };
        let text = format!("{name} {} label:kubernetes.io/hostname={name}", group.template);
        let node = self.cluster.compile_node(&object::node(&text)).unwrap();
        self.cluster.apply(vec![Delta::UpsertNode(node)]);
        for (n, words) in group.daemons.iter().enumerate() {
            let pod = object::pod(&format!("d{n}-{name} {words} node={name}"));
            let pod = self.cluster.compile_pod(&pod).unwrap();
            assert_eq!(self.cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
        }
        self.order.push(name);
    }

    /// S-CAS-4; returns the placed pods and those that are left, highest priority first.
    pub(super) fn pack(&mut self, pods: &[Waiting]) -> (Vec<(usize, String)>, Vec<usize>) {
        let mut order: Vec<usize> = (0..pods.len()).collect();
        order.sort_by_key(|index| -pods[*index].priority);
        let (mut placed, mut left) = (Vec::new(), Vec::new());
        for index in order {
            match self.find(&pods[index], |_| true) {
                Some(place) => {
                    self.put_at(&pods[index], place);
                    placed.push((index, self.order[place].clone()));
                }
                None => left.push(index),
            }
        }
        placed.sort();
        (placed, left)
    }

    /// S-CAS-7 and the estimator's rules, on a copy.
    pub(super) fn estimate(
        &self,
        pods: &[Waiting],
        pending: &[usize],
        group: &Group,
        max_nodes: Option<usize>,
    ) -> Estimate {
        let mut tester = self.copy();
        tester.add(group);
        let node = tester.order.last().unwrap().clone();
        let mut run = Run { world: self.copy(), group, max_nodes, n_added: 0, refused: None };
        let mut estimate = Estimate::default();
        let mut taken = Vec::new();
        for of in groups(pods, pending) {
            match tester.why_not(&pods[of[0]], &node) {
                None => taken.push(of),
                Some(misfit) => estimate.left.push((LeftReason::Misfit(misfit), of)),
            }
        }
        let score = |of: &Vec<usize>| {
            let (asks, has) = (pods[of[0]].asks, group.has);
            let share = |requested: i64, has: i64| {
                if has == 0 { 0.0 } else { requested as f64 / has as f64 }
            };
            share(asks.0, has.0) + share(asks.1, has.1)
        };
        taken.sort_by(|a, b| score(b).total_cmp(&score(a)));
        for of in taken {
            run.pack(pods, &of, &mut estimate);
        }
        estimate.nodes.retain(|node| !node.is_empty());
        estimate.stop = match run.refused {
            _ if estimate.left.is_empty() => ScaleUpStop::AllPlaced,
            Some(limit) => ScaleUpStop::Limit(limit),
            None => ScaleUpStop::NothingMoreFits,
        };
        estimate
    }
}

/// S-CAS-5, for controllers with few kinds of pods.
fn groups(pods: &[Waiting], pending: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in pending {
        match groups.iter_mut().find(|group| pods[group[0]].is_like(&pods[*index])) {
            Some(group) => group.push(*index),
            None => groups.push(vec![*index]),
        }
    }
    groups
}

struct Run<'a> {
    world: World,
    group: &'a Group,
    max_nodes: Option<usize>,
    n_added: usize,
    refused: Option<ScaleUpLimit>,
}

impl Run<'_> {
    fn put(&mut self, pods: &[Waiting], index: usize, place: usize, estimate: &mut Estimate) {
        self.world.put_at(&pods[index], place);
        match place.checked_sub(self.world.n_existing) {
            Some(added) => estimate.nodes[added].push(index),
            None => estimate.on_existing.push((index, self.world.order[place].clone())),
        }
    }

    fn pack(&mut self, pods: &[Waiting], of: &[usize], estimate: &mut Estimate) {
        let mut rest = of;
        // S-BIN-2
        while let [index, others @ ..] = rest {
            let n_existing = self.world.n_existing;
            let Some(place) = self.world.find(&pods[*index], |place| place >= n_existing) else {
                break;
            };
            self.put(pods, *index, place, estimate);
            rest = others;
        }
        // S-BIN-3
        while let [index, others @ ..] = rest {
            if let Err(reason) = self.put_on_new(pods, *index, estimate) {
                estimate.left.push((reason, rest.to_vec()));
                return;
            }
            rest = others;
        }
    }

    fn put_on_new(
        &mut self,
        pods: &[Waiting],
        index: usize,
        estimate: &mut Estimate,
    ) -> Result<(), LeftReason> {
        let pod = &pods[index];
        let newest = self.world.order.len().saturating_sub(1);
        if self.n_added > 0 {
            let name = self.world.order[newest].clone();
            let Some(misfit) = self.world.why_not(pod, &name) else {
                self.put(pods, index, newest, estimate);
                return Ok(());
            };
            let is_skewed =
                misfit.reasons[0] == "node(s) didn't match pod topology spread constraints";
            if is_skewed
                && pod.words.contains("spread=kubernetes.io/hostname")
                && let Some(place) = self.world.find(pod, |place| place != newest)
            {
                self.put(pods, index, place, estimate);
                return Ok(());
            }
            if estimate.nodes.last().is_some_and(Vec::is_empty) {
                return Err(LeftReason::Misfit(misfit));
            }
        }
        if self.refused.is_none() {
            self.refused = if self.max_nodes == Some(self.n_added) {
                Some(ScaleUpLimit::Nodes)
            } else if self.group.room == Some(self.n_added) {
                Some(ScaleUpLimit::GroupSize)
            } else {
                None
            };
        }
        if let Some(limit) = self.refused {
            return Err(LeftReason::Limit(limit));
        }
        self.world.add(self.group);
        self.n_added += 1;
        estimate.nodes.push(Vec::new());
        let newest = self.world.order.len() - 1;
        match self.world.why_not(pod, &self.world.order[newest]) {
            None => {
                self.put(pods, index, newest, estimate);
                Ok(())
            }
            Some(misfit) => Err(LeftReason::Misfit(misfit)),
        }
    }
}
