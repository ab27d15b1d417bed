//! ResourceQuota: warnings for a pod that would exceed what its namespace may use. Rules: A-QUO-1 to A-QUO-4.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::Amount;
use berth_proto::core_v1::{Pod, PodAffinityTerm, PodSpec};

use super::context::AdmissionContext;
use super::filling::Filling;
use super::outcome::{AdmissionError, AdmissionWarning, QuotaExcess};
use super::requests::{self, AmountsOf};
use crate::lifecycle::pressure::{QosClass, qos_class_of};
use crate::model::label::clip;
use crate::model::object::ObjectFacts;
use crate::model::resource_quota::{ResourceQuota, Scope, ScopeOperator, ScopeRequirement};
use crate::model::resources::is_extended_name;
use crate::model::{ModelError, ObjectKind};

/// Resources of a quota that every container has to name an amount of (A-QUO-3).
const COMPUTE: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Amounts that the pods admitted so far charge to quotas, in addition to what is in use: those of one request together
/// exceed a quota that each of them keeps (A-QUO-4).
#[derive(Clone, Debug, Default)]
pub struct Charged(BTreeMap<(Arc<str>, String), Amount>);

impl Charged {
    fn of(&self, quota: &ResourceQuota, resource: &str) -> Amount {
        self.0.get(&(quota.name.clone(), resource.to_owned())).copied().unwrap_or_default()
    }

    /// Charges the copies that are created: as many as there is room for, of which `left` is the thousandfold.
    fn add(&mut self, quota: &ResourceQuota, resource: &str, each: Amount, n: u32, left: i64) {
        let each = each.milli_value();
        let n = i64::from(n.max(1)).min((left / each.max(1)).max(0));
        let sum = self.0.entry((quota.name.clone(), resource.to_owned())).or_default();
        *sum += Amount::from_milli(each.saturating_mul(n));
    }
}

/// Adds a warning for each resource of each quota that the pod would exceed.
pub(super) fn check(
    pod: &Pod,
    namespace: &str,
    context: AdmissionContext<'_>,
    charged: &mut Charged,
    filling: &mut Filling,
) -> Result<(), AdmissionError> {
    let objects = context.snapshot.objects.of_kind(ObjectKind::ResourceQuota, namespace);
    let quotas: Vec<&Arc<ResourceQuota>> = objects
        .filter_map(|object| match object.facts() {
            ObjectFacts::ResourceQuota(quota) => Some(quota),
            _ => None,
        })
        .collect();
    let Some(spec) = pod.spec.as_ref().filter(|_| !quotas.is_empty()) else { return Ok(()) };
    let usage = usage(spec)?;
    let is_best_effort = qos_class_of(pod)? == QosClass::BestEffort;
    for quota in quotas {
        if !quota.scopes.iter().all(|scope| is_in_scope(scope, spec, is_best_effort)) {
            continue;
        }
        missing(quota, spec, filling);
        for (name, hard) in &quota.hard {
            let Some(requested) = usage.get(name).filter(|amount| !amount.is_zero()) else {
                continue;
            };
            let each = *requested;
            let requested = times(each, context.n_replicas);
            let used = quota.used.get(name).copied().unwrap_or_default();
            let used = used + charged.of(quota, name);
            if used + requested > *hard {
                filling.warn(exceeded(quota, name, [requested, used, *hard]));
            }
            let left = hard.milli_value().saturating_sub(used.milli_value());
            charged.add(quota, name, each, context.n_replicas, left);
        }
    }
    Ok(())
}

/// An amount for so many copies.
fn times(amount: Amount, n: u32) -> Amount {
    let milli = amount.milli_value().saturating_mul(i64::from(n.max(1)));
    if n <= 1 { amount } else { Amount::from_milli(milli) }
}

fn exceeded(quota: &ResourceQuota, name: &str, amounts: [Amount; 3]) -> AdmissionWarning {
    let [requested, used, hard] = amounts.map(|amount| requests::text(name, amount));
    let resource = clip(name);
    let message = format!(
        "exceeded quota: {}, requested: {resource}={requested}, used: {resource}={used}, limited: {resource}={hard}",
        short_name(quota)
    );
    let source = format!("ResourceQuota {}", quota.name);
    let quota = Some(QuotaExcess { resource: name.to_owned(), requested, used, hard });
    AdmissionWarning { source, message, quota }
}

/// The quota's name without its namespace.
fn short_name(quota: &ResourceQuota) -> &str {
    quota.name.split_once('/').map_or(&quota.name, |(_, name)| name)
}

/// Adds a warning if a container names no amount of a resource of the quota. Pod-level amounts stand for all.
fn missing(quota: &ResourceQuota, spec: &PodSpec, filling: &mut Filling) {
    let level = spec.resources.as_ref();
    let is_at =
        |list: &BTreeMap<String, berth_proto::Quantity>, name: &str| list.contains_key(name);
    let mut lacking = Vec::new();
    for name in COMPUTE.into_iter().filter(|name| quota.hard.contains_key(*name)) {
        let (is_limit, resource) = match name.strip_prefix("limits.") {
            Some(resource) => (true, resource),
            None => (false, name.strip_prefix("requests.").unwrap_or(name)),
        };
        let has = |resources: Option<&berth_proto::core_v1::ResourceRequirements>| {
            resources.is_some_and(|resources| {
                is_at(if is_limit { &resources.limits } else { &resources.requests }, resource)
            })
        };
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let of: Vec<String> = containers
            .filter(|container| !has(level) && !has(container.resources.as_ref()))
            .map(|container| clip(&container.name))
            .collect();
        if !of.is_empty() {
            lacking.push(format!("{name} for: {}", of.join(",")));
        }
    }
    if !lacking.is_empty() {
        let message =
            format!("failed quota: {}: must specify {}", short_name(quota), lacking.join("; "));
        let source = format!("ResourceQuota {}", quota.name);
        filling.warn(AdmissionWarning { source, message, quota: None });
    }
}

/// Amounts that the pod adds, by the names that quotas use (A-QUO-3).
fn usage(spec: &PodSpec) -> Result<BTreeMap<String, Amount>, ModelError> {
    let one = Amount::from_value(1);
    let mut usage = BTreeMap::from([("pods".to_owned(), one), ("count/pods".to_owned(), one)]);
    for (name, amount) in requests::of_whole_pod(spec, AmountsOf::Requests, true)? {
        usage.insert(format!("requests.{name}"), amount);
        if !is_extended_name(&name) {
            usage.insert(name, amount);
        }
    }
    for (name, amount) in requests::of_whole_pod(spec, AmountsOf::Limits, true)? {
        if matches!(&*name, "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    Ok(usage)
}

/// Whether a pod is in the scope (A-QUO-2).
fn is_in_scope(scope: &ScopeRequirement, spec: &PodSpec, is_best_effort: bool) -> bool {
    let is_in = match scope.scope {
        Scope::Terminating => spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
        Scope::NotTerminating => spec.active_deadline_seconds.is_none_or(|seconds| seconds < 0),
        Scope::BestEffort => is_best_effort,
        Scope::NotBestEffort => !is_best_effort,
        Scope::CrossNamespacePodAffinity => crosses_namespaces(spec),
        Scope::VolumeAttributesClass => return false,
        Scope::PriorityClass => {
            let class = &spec.priority_class_name;
            return match scope.operator {
                ScopeOperator::In => scope.values.contains(class),
                ScopeOperator::NotIn => !scope.values.contains(class),
                ScopeOperator::Exists => !class.is_empty(),
                ScopeOperator::DoesNotExist => class.is_empty(),
            };
        }
    };
    is_in == (scope.operator != ScopeOperator::DoesNotExist)
}

/// Whether a term of affinity to pods names or selects namespaces.
fn crosses_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let crosses =
        |term: &PodAffinityTerm| !term.namespaces.is_empty() || term.namespace_selector.is_some();
    let near = affinity.pod_affinity.as_ref().is_some_and(|near| {
        let preferred = near.preferred_during_scheduling_ignored_during_execution.iter();
        near.required_during_scheduling_ignored_during_execution.iter().any(crosses)
            || preferred.filter_map(|it| it.pod_affinity_term.as_ref()).any(crosses)
    });
    near || affinity.pod_anti_affinity.as_ref().is_some_and(|far| {
        let preferred = far.preferred_during_scheduling_ignored_during_execution.iter();
        far.required_during_scheduling_ignored_during_execution.iter().any(crosses)
            || preferred.filter_map(|it| it.pod_affinity_term.as_ref()).any(crosses)
    })
}
