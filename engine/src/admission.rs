//! Admission: what kube-apiserver gives a pod when it is created, or why it refuses to create it. Defaults of the API,
//! then the default admission plugins, one file for each. Rules: `docs/spec/admission.md`.
//!
//! A pod becomes what the API server would store, as far as a decision reads it. The rule about priorities is that of
//! [`crate::lifecycle::priority`].

mod affinity;
mod claim;
mod context;
mod default_tolerations;
mod defaults;
mod filling;
mod label_keys;
mod limit_bounds;
mod limit_ranger;
mod name;
mod outcome;
mod priority;
mod quota;
mod requests;
mod runtime_class;
mod service_account;
mod validation;

use berth_proto::core_v1::Pod;

use filling::Filling;

pub use claim::admit_claim;
pub use context::AdmissionContext;
pub use outcome::{AdmissionError, AdmissionWarning, Admitted, Filled, QuotaExcess};
pub use quota::Charged;

/// Makes a pod what kube-apiserver would store, in its order (A-DEF-1). Admitting the result again changes nothing
/// (A-DEF-2). The status and the fields that no message has stay as they are (A-DEF-4).
///
/// # Errors
/// [`AdmissionError`] with the field if the API server would not create the pod; the pod is then left half admitted.
pub fn admit_pod(pod: &mut Pod, context: AdmissionContext<'_>) -> Result<Admitted, AdmissionError> {
    admit_next(pod, context, &mut Charged::default())
}

/// Admits the next pod of a request, as [`admit_pod`] does; what the pods before it charge to quotas counts.
///
/// # Errors
/// As [`admit_pod`].
pub fn admit_next(
    pod: &mut Pod,
    context: AdmissionContext<'_>,
    charged: &mut Charged,
) -> Result<Admitted, AdmissionError> {
    let snapshot = context.snapshot;
    let mut filling = Filling::default();
    if pod.metadata.as_ref().is_some_and(|metadata| !metadata.resource_version.is_empty()) {
        defaults::fill(pod, &mut filling);
        priority::compare_stored(pod, snapshot, &mut filling);
        return Ok(filling.finish());
    }
    let namespace = name::namespace(pod, &mut filling);
    defaults::fill(pod, &mut filling);
    limit_ranger::fill(pod, &namespace, snapshot, &mut filling);
    service_account::fill(pod, &mut filling);
    priority::fill(pod, snapshot, &mut filling)?;
    default_tolerations::fill(pod, &mut filling);
    let class = runtime_class::fill(pod, snapshot, &mut filling)?;
    name::generate(pod, context.position, &mut filling);
    label_keys::fill(pod, &mut filling);
    validation::check(pod)?;
    limit_bounds::check(pod, &namespace, snapshot)?;
    runtime_class::check_overhead(pod, class)?;
    quota::check(pod, &namespace, context, charged, &mut filling)?;
    defaults::fill(pod, &mut filling);
    Ok(filling.finish())
}

#[cfg(test)]
mod tests;
