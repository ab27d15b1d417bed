//! RuntimeClass: overhead, node selector and tolerations of the pod's container runtime. Rules: A-RTC-1 to A-RTC-4.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::Quantity;
use berth_proto::core_v1::{Pod, PodSpec, Toleration};

use super::filling::Filling;
use super::outcome::AdmissionError;
use crate::model::label::clip;
use crate::model::object::ObjectFacts;
use crate::model::runtime_class::RuntimeClass;
use crate::model::{ObjectKey, ObjectKind};
use crate::snapshot::Snapshot;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Fills in what the pod's class gives it; returns the class.
pub(super) fn fill<'s>(
    pod: &mut Pod,
    snapshot: &'s Snapshot,
    filling: &mut Filling,
) -> Result<Option<&'s Arc<RuntimeClass>>, AdmissionError> {
    let Some(spec) = &mut pod.spec else { return Ok(None) };
    let name = spec.runtime_class_name.clone().unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let key = ObjectKey::new(ObjectKind::RuntimeClass, "", &name);
    let object = snapshot.objects.get(&key);
    let Some(ObjectFacts::RuntimeClass(class)) = object.map(|object| object.facts()) else {
        let reason = format!("pod rejected: RuntimeClass \"{}\" not found", clip(&name));
        let (field, kind) = ("spec.runtimeClassName", ObjectKind::RuntimeClass);
        return Err(AdmissionError::missing(field, kind, &name, reason));
    };
    let source = format!("RuntimeClass {}", clip(&name));
    set_overhead(spec, class, &source, filling)?;
    add_node_selector(spec, class, &source, filling)?;
    if !class.tolerations.is_empty() {
        add_tolerations(spec, &class.tolerations, &source, filling);
    }
    Ok(Some(class))
}

fn set_overhead(
    spec: &mut PodSpec,
    class: &RuntimeClass,
    source: &str,
    filling: &mut Filling,
) -> Result<(), AdmissionError> {
    let Some(overhead) = &class.overhead else { return Ok(()) };
    if spec.overhead.is_empty() {
        filling.amounts(&mut spec.overhead, overhead, "spec.overhead", source);
    } else if !is_equal(&spec.overhead, overhead) {
        return Err(AdmissionError::new("spec.overhead", MISMATCH));
    }
    Ok(())
}

/// Checks the overhead of a pod that was changed after its class had been applied (A-RTC-2).
pub(super) fn check_overhead(
    pod: &Pod,
    class: Option<&Arc<RuntimeClass>>,
) -> Result<(), AdmissionError> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    match class.and_then(|class| class.overhead.as_ref()) {
        Some(overhead) if is_equal(&spec.overhead, overhead) => Ok(()),
        Some(_) => Err(AdmissionError::new("spec.overhead", MISMATCH)),
        None if spec.overhead.is_empty() => Ok(()),
        None => Err(AdmissionError::new(
            "spec.overhead",
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        )),
    }
}

/// Whether two lists have the same amounts, rounded up to thousandths (A-DEF-9).
fn is_equal(left: &BTreeMap<String, Quantity>, right: &BTreeMap<String, Quantity>) -> bool {
    let amounts = |list: &BTreeMap<String, Quantity>| -> Vec<(String, Option<i64>)> {
        let one = |(name, quantity): (&String, &Quantity)| {
            (name.clone(), quantity.parse().ok().map(|amount| amount.milli_value()))
        };
        list.iter().map(one).collect()
    };
    amounts(left) == amounts(right)
}

/// Adds the class's node selector (A-RTC-3).
fn add_node_selector(
    spec: &mut PodSpec,
    class: &RuntimeClass,
    source: &str,
    filling: &mut Filling,
) -> Result<(), AdmissionError> {
    for (key, value) in &class.node_selector {
        match spec.node_selector.get(key) {
            Some(own) if own == value => {}
            Some(own) => {
                let field = format!("spec.nodeSelector[{}]", clip(key));
                let (key, own) = (clip(key), clip(own));
                let reason = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
                );
                return Err(AdmissionError::new(field, reason));
            }
            None => {
                spec.node_selector.insert(key.clone(), value.clone());
                filling.note(format!("spec.nodeSelector[{}]", clip(key)), value.as_str(), source);
            }
        }
    }
    Ok(())
}

/// Merges the class's tolerations with the pod's (A-RTC-4).
fn add_tolerations(
    spec: &mut PodSpec,
    tolerations: &[Toleration],
    source: &str,
    filling: &mut Filling,
) {
    let own = std::mem::take(&mut spec.tolerations);
    let all: Vec<Toleration> = own.iter().chain(tolerations).cloned().collect();
    for (index, toleration) in all.iter().enumerate() {
        let is_redundant = spec.tolerations.iter().any(|kept| includes(kept, toleration))
            || all[index + 1..]
                .iter()
                .any(|later| includes(later, toleration) && later != toleration);
        if !is_redundant {
            spec.tolerations.push(toleration.clone());
        }
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        if !own.contains(toleration) {
            filling.note(format!("spec.tolerations[{index}]"), text(toleration), source);
        }
    }
}

/// Whether `wider` tolerates every taint that `toleration` tolerates.
fn includes(wider: &Toleration, toleration: &Toleration) -> bool {
    if wider == toleration {
        return true;
    }
    let is_any_key = wider.key.is_empty() && wider.operator == "Exists";
    if wider.key != toleration.key && !is_any_key
        || wider.effect != toleration.effect && !wider.effect.is_empty()
    {
        return false;
    }
    if wider.effect == "NoExecute"
        && let Some(seconds) = wider.toleration_seconds
        && toleration.toleration_seconds.is_none_or(|its| its > seconds)
    {
        return false;
    }
    match &*wider.operator {
        "" | "Equal" => toleration.operator == "Equal" && toleration.value == wider.value,
        "Exists" => true,
        _ => false,
    }
}

/// A toleration as `key=value:Effect`.
fn text(toleration: &Toleration) -> String {
    let Toleration { key, value, effect, .. } = toleration;
    let equals = if value.is_empty() { "" } else { "=" };
    format!("{key}{equals}{value}:{effect}")
}
