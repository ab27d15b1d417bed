//! PodTopologySpread: counts by domain, computed node by node and pod by pod. Rules: S-PTS-1 to S-PTS-12,
//! S-TS-1 to S-TS-9.

use std::collections::BTreeMap;

use berth_engine::{
    DefaultConstraint, PolicySpec, SpreadDefaulting, StatusCode, WhenUnsatisfiable,
};
use berth_proto::core_v1::{Pod, TopologySpreadConstraint};

use super::cluster::{NaiveCluster, NaiveNode};
use super::default_selector::default_selector;
use super::filter::{Rejection, is_affine, unresolvable};
use super::label_selector::{self, Selector, Unparsable};
use super::ln::ln;
use super::pod;
use super::score::Scores;
use super::toleration::{hard_taints, is_tolerated};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";

/// One constraint with all its defaults.
#[derive(Clone)]
struct Constraint {
    max_skew: i64,
    key: String,
    selector: Selector,
    min_domains: i64,
    honors_affinity: bool,
    honors_taints: bool,
}

/// The constraints of one action: the pod's own, or the defaults where it lists none of either kind (S-PTS-1, S-TS-1).
fn constraints(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    action: &str,
) -> Result<Vec<Constraint>, Unparsable> {
    let own = own_constraints(pod);
    if own.is_empty() {
        return Ok(default_constraints(cluster, policy, pod, action));
    }
    let of_action = own.iter().filter(|constraint| constraint.when_unsatisfiable == action);
    of_action.map(|constraint| with_defaults(constraint, pod)).collect()
}

fn own_constraints(pod: &Pod) -> &[TopologySpreadConstraint] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.topology_spread_constraints)
}

/// S-PTS-2, S-PTS-3
fn with_defaults(own: &TopologySpreadConstraint, pod: &Pod) -> Result<Constraint, Unparsable> {
    let labels = pod::labels(pod);
    let keys = own.match_label_keys.iter();
    let of_keys = keys
        .filter_map(|key| labels.get(key).map(|value| label_selector::equality(key, value)))
        .collect::<Vec<_>>();
    Ok(Constraint {
        max_skew: i64::from(own.max_skew),
        key: own.topology_key.clone(),
        selector: label_selector::parse(own.label_selector.as_ref())?.and(of_keys),
        min_domains: own.min_domains.map_or(1, i64::from),
        honors_affinity: own.node_affinity_policy.as_deref().is_none_or(|policy| policy == "Honor"),
        honors_taints: own.node_taints_policy.as_deref() == Some("Honor"),
    })
}

/// S-PTS-12
fn default_constraints(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    action: &str,
) -> Vec<Constraint> {
    let selector = default_selector(&cluster.objects, pod);
    if selector.is_empty() {
        return Vec::new();
    }
    let of = |default: &DefaultConstraint| Constraint {
        max_skew: i64::from(default.max_skew),
        key: default.topology_key.clone(),
        selector: selector.clone(),
        min_domains: default.min_domains.map_or(1, i64::from),
        honors_affinity: default.honors_affinity,
        honors_taints: default.honors_taints,
    };
    let wanted = match action {
        HARD => WhenUnsatisfiable::DoNotSchedule,
        _ => WhenUnsatisfiable::ScheduleAnyway,
    };
    let configured = match &policy.pod_topology_spread.defaulting {
        SpreadDefaulting::System => vec![of_system(HOSTNAME, 3), of_system(ZONE, 5)],
        SpreadDefaulting::List(list) => list.clone(),
    };
    configured.iter().filter(|default| default.when_unsatisfiable == wanted).map(of).collect()
}

fn of_system(key: &str, max_skew: i32) -> DefaultConstraint {
    DefaultConstraint {
        max_skew,
        topology_key: key.to_owned(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        min_domains: None,
        honors_affinity: true,
        honors_taints: false,
    }
}

/// Whether the inclusion policies of one constraint count the node (S-PTS-4).
fn is_included(constraint: &Constraint, pod: &Pod, node: &NaiveNode) -> bool {
    let is_tainted = || hard_taints(&node.node).any(|taint| !is_tolerated(pod, taint));
    (!constraint.honors_affinity || is_affine(pod, node))
        && (!constraint.honors_taints || !is_tainted())
}

fn has_keys(constraints: &[Constraint], node: &NaiveNode) -> bool {
    constraints.iter().all(|constraint| node.label(&constraint.key).is_some())
}

/// Counts the pods of a node that match (S-PTS-5).
fn count(constraint: &Constraint, pod: &Pod, node: &NaiveNode) -> i64 {
    if constraint.selector.is_empty() {
        return 0;
    }
    let counts = |other: &&Pod| {
        pod::namespace(other) == pod::namespace(pod)
            && !pod::is_terminating(other)
            && constraint.selector.matches(pod::labels(other))
    };
    i64::try_from(node.pods.iter().map(|other| &other.pod).filter(counts).count()).expect("few")
}

/// Counts for the hard constraints of a pod over the whole cluster (S-PTS-5 to S-PTS-7).
#[derive(Clone)]
pub(crate) struct Hard(Vec<HardConstraint>);

#[derive(Clone)]
struct HardConstraint {
    constraint: Constraint,
    domains: BTreeMap<String, i64>,
    minimum: i64,
    own: i64,
}

impl HardConstraint {
    /// Sets the exact smallest count of a domain (S-PTS-6, S-PTS-10).
    fn update_minimum(&mut self) {
        let n_domains = i64::try_from(self.domains.len()).expect("few");
        let smallest = self.domains.values().copied().min().unwrap_or(0);
        self.minimum = if n_domains < self.constraint.min_domains { 0 } else { smallest };
    }
}

pub(crate) fn hard(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
) -> Result<Hard, Unparsable> {
    let all = constraints(cluster, policy, pod, HARD)?;
    let eligible: Vec<&NaiveNode> =
        cluster.nodes.values().filter(|node| has_keys(&all, node)).collect();
    let of = |constraint: Constraint| {
        let mut domains: BTreeMap<String, i64> = BTreeMap::new();
        for node in eligible.iter().filter(|node| is_included(&constraint, pod, node)) {
            let domain = node.label(&constraint.key).expect("eligible").to_owned();
            *domains.entry(domain).or_default() += count(&constraint, pod, node);
        }
        let own = i64::from(constraint.selector.matches(pod::labels(pod)));
        let mut hard = HardConstraint { constraint, domains, minimum: 0, own };
        hard.update_minimum();
        hard
    };
    Ok(Hard(all.into_iter().map(of).collect()))
}

impl Hard {
    /// Adds or removes the count of a pod in a dry run. Neither a terminating pod nor an empty selector is treated
    /// specially here (S-PTS-9).
    pub(crate) fn count(&mut self, of: &Pod, other: &Pod, node: &NaiveNode, step: i64) {
        let has_keys = self.0.iter().all(|hard| node.label(&hard.constraint.key).is_some());
        if pod::namespace(other) != pod::namespace(of) || !has_keys {
            return;
        }
        for hard in &mut self.0 {
            if hard.constraint.selector.matches(pod::labels(other))
                && is_included(&hard.constraint, of, node)
            {
                let domain = node.label(&hard.constraint.key).expect("it has the keys");
                *hard.domains.entry(domain.to_owned()).or_default() += step;
                hard.update_minimum();
            }
        }
    }

    /// S-PTS-7, S-PTS-8
    pub(crate) fn filter(&self, node: &NaiveNode) -> Option<Rejection> {
        let reason = "node(s) didn't match pod topology spread constraints";
        self.0.iter().find_map(|hard| {
            let Some(domain) = node.label(&hard.constraint.key) else {
                return unresolvable(&format!("{reason} (missing required label)"));
            };
            let skew = hard.domains.get(domain).copied().unwrap_or(0) + hard.own - hard.minimum;
            let exceeds = skew > hard.constraint.max_skew;
            exceeds.then(|| Rejection {
                code: StatusCode::Unschedulable,
                reasons: vec![reason.to_owned()],
            })
        })
    }
}

/// Returns the scores of the soft constraints; `None` means that the plugin skips (S-TS-1 to S-TS-8).
pub(crate) fn score(
    cluster: &NaiveCluster,
    policy: &PolicySpec,
    pod: &Pod,
    feasible: &[&NaiveNode],
) -> Result<Option<Scores>, Unparsable> {
    let all = constraints(cluster, policy, pod, SOFT)?;
    if all.is_empty() {
        return Ok(None);
    }
    let lists_own = !own_constraints(pod).is_empty();
    let is_strict = lists_own || policy.pod_topology_spread.defaulting != SpreadDefaulting::System;
    let is_ignored = |node: &NaiveNode| is_strict && !has_keys(&all, node);
    let scored: Vec<&NaiveNode> =
        feasible.iter().copied().filter(|node| !is_ignored(node)).collect();
    let counters: Vec<Counter> =
        all.iter().map(|constraint| Counter::new(constraint, &scored)).collect();
    let counters = counted(counters, cluster, pod, is_ignored);
    let raw: Vec<i64> = feasible
        .iter()
        .map(|node| if is_ignored(node) { 0 } else { raw(&counters, pod, node) })
        .collect();
    let kept = || feasible.iter().zip(&raw).filter(|(node, _)| !is_ignored(node));
    let low = kept().map(|(_, raw)| *raw).min().unwrap_or(0);
    let high = kept().map(|(_, raw)| *raw).max().unwrap_or(0);
    let normalized = feasible.iter().zip(&raw).map(|(node, raw)| match high {
        _ if is_ignored(node) => 0,
        0 => 100,
        _ => 100 * (high + low - raw) / high,
    });
    Ok(Some(Scores { normalized: normalized.collect(), raw }))
}

/// One soft constraint: its weight, and the count of every candidate domain.
struct Counter<'a> {
    constraint: &'a Constraint,
    weight: f64,
    domains: BTreeMap<String, i64>,
}

impl Counter<'_> {
    /// Candidate domains and weight (S-TS-3, S-TS-4).
    fn new<'a>(constraint: &'a Constraint, scored: &[&NaiveNode]) -> Counter<'a> {
        let mut domains = BTreeMap::new();
        if constraint.key != HOSTNAME {
            for node in scored {
                domains.insert(node.label(&constraint.key).unwrap_or("").to_owned(), 0);
            }
        }
        let size = if constraint.key == HOSTNAME { scored.len() } else { domains.len() };
        Counter { constraint, weight: ln(size as u32 + 2), domains }
    }
}

/// Counts over all nodes of the cluster (S-TS-5).
fn counted<'a>(
    mut counters: Vec<Counter<'a>>,
    cluster: &NaiveCluster,
    pod: &Pod,
    is_ignored: impl Fn(&NaiveNode) -> bool,
) -> Vec<Counter<'a>> {
    for node in cluster.nodes.values().filter(|node| !is_ignored(node)) {
        for counter in &mut counters {
            let domain = node.label(&counter.constraint.key).unwrap_or("");
            if let Some(n) = counter.domains.get_mut(domain)
                && is_included(counter.constraint, pod, node)
            {
                *n += count(counter.constraint, pod, node);
            }
        }
    }
    counters
}

/// S-TS-6, S-TS-7
fn raw(counters: &[Counter<'_>], pod: &Pod, node: &NaiveNode) -> i64 {
    let mut sum = 0.0;
    for counter in counters {
        let Some(domain) = node.label(&counter.constraint.key) else {
            continue;
        };
        let n = match &*counter.constraint.key {
            HOSTNAME => count(counter.constraint, pod, node),
            _ => counter.domains[domain],
        };
        sum += n as f64 * counter.weight + (counter.constraint.max_skew - 1) as f64;
    }
    sum.round() as i64
}
