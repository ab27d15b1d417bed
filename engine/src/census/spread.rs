//! Demand of topology spread: the pod's constraints, or the defaults with a selector derived from services and owners.
//! Rules: S-PTS-1 to S-PTS-5, S-PTS-12, S-TS-1, S-TS-2.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::demand::{Demand, HardConstraint, SoftConstraint};
use super::subject::{Clause, PodQuery, Subject};
use super::sums::{CountedNodes, SumBy};
use crate::model::Pod;
use crate::model::intern::{Interner, Symbol};
use crate::model::key::ObjectKind;
use crate::model::label_selector::LabelSelector;
use crate::model::selector::{Requirement, Rule};
use crate::model::topology_spread::SpreadConstraint;
use crate::policy::{DefaultConstraint, Policy, SpreadDefaulting, WhenUnsatisfiable};
use crate::snapshot::Snapshot;

pub(super) fn demand(demand: &mut Demand, pod: &Pod, policy: &Policy, snapshot: &Snapshot) {
    let own = &pod.shape().facts.spread.list;
    let is_own = !own.is_empty();
    let defaulting = &policy.spec().pod_topology_spread.defaulting;
    let constraints: Cow<'_, [SpreadConstraint]> = if is_own {
        Cow::Borrowed(own)
    } else {
        let Some(selector) = deduced_selector(pod, snapshot) else {
            return;
        };
        Cow::Owned(defaults(defaulting, &selector, snapshot.model.names()))
    };
    demand.soft.is_strict = is_own || !matches!(defaulting, SpreadDefaulting::System);
    let keys = |is_hard| -> Vec<Symbol> {
        constraints.iter().filter(|c| c.is_hard == is_hard).map(|c| c.topology_key).collect()
    };
    let (hard_keys, soft_keys) = (keys(true), keys(false));
    for constraint in constraints.iter() {
        if constraint.is_hard {
            add_hard(demand, constraint, &hard_keys, pod);
        } else {
            let keys = if demand.soft.is_strict { &soft_keys[..] } else { &[] };
            add_soft(demand, constraint, keys, pod);
        }
    }
}

fn add_hard(demand: &mut Demand, constraint: &SpreadConstraint, keys: &[Symbol], pod: &Pod) {
    let subject = add_subject(demand, constraint, pod);
    let sum = add_sum(demand, subject, constraint, keys);
    let labels = &pod.population().facts.labels;
    let counts_itself = constraint.selector.as_ref().is_some_and(|s| s.matches(labels));
    demand.hard.push(HardConstraint {
        sum,
        max_skew: i64::from(constraint.max_skew),
        min_domains: usize::try_from(constraint.min_domains).unwrap_or(0),
        own: i64::from(counts_itself),
        selector: constraint.selector.clone(),
    });
}

fn add_soft(demand: &mut Demand, constraint: &SpreadConstraint, keys: &[Symbol], pod: &Pod) {
    let subject = add_subject(demand, constraint, pod);
    let key = constraint.topology_key;
    let is_hostname = key == Symbol::HOSTNAME;
    let sum = (!is_hostname).then(|| add_sum(demand, subject, constraint, keys));
    demand.soft.list.push(SoftConstraint { subject, sum, key, max_skew: constraint.max_skew });
}

fn add_subject(demand: &mut Demand, constraint: &SpreadConstraint, pod: &Pod) -> usize {
    // An empty selector matches everything but counts nothing (S-PTS-5), like a missing one.
    let selector = constraint.selector.clone().filter(|selector| !selector.is_empty());
    let clauses = selector.map(|selector| {
        let namespaces = Some([pod.population().facts.namespace].into_iter().collect());
        Clause { namespaces, selector }
    });
    let query = PodQuery { clauses: clauses.into_iter().collect(), with_terminating: false };
    demand.subject(Subject::Pods(query))
}

fn add_sum(
    demand: &mut Demand,
    subject: usize,
    constraint: &SpreadConstraint,
    keys: &[Symbol],
) -> usize {
    demand.sum(SumBy {
        subject,
        key: constraint.topology_key,
        nodes: CountedNodes::Eligible {
            keys: keys.to_vec(),
            honors_affinity: constraint.honors_affinity,
            honors_taints: constraint.honors_taints,
        },
    })
}

fn defaults(
    defaulting: &SpreadDefaulting,
    selector: &LabelSelector,
    names: &Interner,
) -> Vec<SpreadConstraint> {
    let constraint = |topology_key, max_skew, is_hard| SpreadConstraint {
        topology_key,
        max_skew,
        is_hard,
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
        selector: Some(selector.clone()),
    };
    let of_list = |listed: &DefaultConstraint| SpreadConstraint {
        min_domains: listed.min_domains.unwrap_or(1),
        honors_affinity: listed.honors_affinity,
        honors_taints: listed.honors_taints,
        ..constraint(
            names.intern(&listed.topology_key),
            listed.max_skew,
            listed.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
        )
    };
    match defaulting {
        SpreadDefaulting::System => {
            vec![constraint(Symbol::HOSTNAME, 3, false), constraint(Symbol::ZONE, 5, false)]
        }
        SpreadDefaulting::List(list) => list.iter().map(of_list).collect(),
    }
}

/// The selector of the services and of the controller of a pod; `None` where it is empty (S-PTS-12).
fn deduced_selector(pod: &Pod, snapshot: &Snapshot) -> Option<LabelSelector> {
    let facts = &pod.population().facts;
    let mut requirements: SmallVec<[Requirement; 1]> = SmallVec::new();
    for service in snapshot.objects.services_of(facts.namespace, &facts.labels) {
        service.selector.iter().for_each(|(key, value)| set(&mut requirements, *key, *value));
    }
    if let Some(owner) = pod.facts().owner
        && let Some(controller) = snapshot.objects.controller(owner)
        && let Some(selector) = &controller.selector
    {
        for requirement in &selector.requirements {
            match &requirement.rule {
                // A map is merged into the services' equalities; a label selector is added to them.
                Rule::In(values) if owner.kind() == ObjectKind::ReplicationController => {
                    values.iter().for_each(|value| set(&mut requirements, requirement.key, *value));
                }
                _ => requirements.push(requirement.clone()),
            }
        }
    }
    (!requirements.is_empty()).then(|| LabelSelector::of(requirements))
}

/// Merges one equality: of two values for a key the later one applies.
fn set(requirements: &mut SmallVec<[Requirement; 1]>, key: Symbol, value: Symbol) {
    requirements.retain(|requirement| requirement.key != key);
    requirements.push(Requirement { key, rule: Rule::In([value].into_iter().collect()) });
}
