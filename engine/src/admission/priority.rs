//! Priority: the priority of a pod by its class. Rules: A-PRIO-1 to A-PRIO-4, by the rule of `AdmitPod`.

use berth_proto::core_v1::{Pod, PodSpec};

use super::filling::{DEFAULT, Filling};
use super::outcome::{AdmissionError, AdmissionWarning};
use crate::lifecycle::priority::{
    Class, PodRefusal, PreemptionPolicy, SYSTEM_CLASSES, Terms, created, default_of,
};
use crate::model::label::clip;
use crate::model::object::ObjectFacts;
use crate::model::priority_class::PriorityClass;
use crate::model::{ObjectKey, ObjectKind};
use crate::snapshot::Snapshot;

/// Fills in class, priority and preemption policy.
pub(super) fn fill(
    pod: &mut Pod,
    snapshot: &Snapshot,
    filling: &mut Filling,
) -> Result<(), AdmissionError> {
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    let (terms, source) = terms_of(spec, snapshot, filling)?;
    if spec.priority != terms.priority {
        spec.priority = terms.priority;
        let priority = terms.priority.unwrap_or_default().to_string();
        filling.note("spec.priority", priority, &*source);
    }
    if spec.preemption_policy.as_deref().unwrap_or_default().is_empty()
        && let Some(policy) = terms.policy
    {
        spec.preemption_policy = Some(policy.word().to_owned());
        filling.note("spec.preemptionPolicy", policy.word(), &*source);
    }
    if spec.priority_class_name.is_empty() && !terms.class.is_empty() {
        terms.class.clone_into(&mut spec.priority_class_name);
        filling.note("spec.priorityClassName", terms.class, source);
    }
    Ok(())
}

/// Class, priority and policy that the pod gets, and the source of those that it lacks.
fn terms_of<'a>(
    spec: &'a PodSpec,
    snapshot: &'a Snapshot,
    filling: &mut Filling,
) -> Result<(OwnedTerms, String), AdmissionError> {
    let brought = Terms::read(Some(spec), "spec")?;
    let admitted = created(brought, |name| class(snapshot, name), || default(snapshot));
    let refusal = match admitted {
        Ok(terms) => {
            let source = match terms.class {
                "" => DEFAULT.to_owned(),
                class => format!("PriorityClass {}", clip(class)),
            };
            return Ok((OwnedTerms::of(&terms), source));
        }
        Err(refusal) => refusal,
    };
    let name = &*spec.priority_class_name;
    let computed = if name.is_empty() { default(snapshot) } else { class(snapshot, name) };
    let error = refused(refusal, &brought, computed);
    if name.is_empty() && brought.priority.is_some() {
        // The pod asks for a priority without a class: it gets it (A-PRIO-4).
        if snapshot.n_objects(ObjectKind::PriorityClass) > 0 {
            let (source, message) = ("Priority".to_owned(), error.reason);
            filling.warn(AdmissionWarning { source, message, quota: None });
        }
        let policy = brought.policy.unwrap_or(PreemptionPolicy::PreemptLowerPriority);
        let terms = Terms { policy: Some(policy), ..brought };
        return Ok((OwnedTerms::of(&terms), DEFAULT.to_owned()));
    }
    Err(error)
}

/// [`Terms`] that borrow nothing from the pod.
struct OwnedTerms {
    class: String,
    priority: Option<i32>,
    policy: Option<PreemptionPolicy>,
}

impl OwnedTerms {
    fn of(terms: &Terms<'_>) -> OwnedTerms {
        OwnedTerms { class: terms.class.to_owned(), priority: terms.priority, policy: terms.policy }
    }
}

/// The refusal in the API server's words (A-PRIO-2, A-PRIO-3).
fn refused(
    refusal: PodRefusal,
    brought: &Terms<'_>,
    computed: Option<Class<'_>>,
) -> AdmissionError {
    let (value, policy) = computed
        .map_or((0, PreemptionPolicy::PreemptLowerPriority), |class| (class.value, class.policy));
    let given = "from the given PriorityClass name";
    match refusal {
        PodRefusal::PriorityClassNotFound => {
            let name = brought.class;
            let reason = format!("no PriorityClass with name {} was found", clip(name));
            let field = "spec.priorityClassName";
            AdmissionError::missing(field, ObjectKind::PriorityClass, name, reason)
        }
        PodRefusal::PriorityMismatch => AdmissionError::new(
            "spec.priority",
            format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} {given}",
                brought.priority.unwrap_or_default()
            ),
        ),
        PodRefusal::PreemptionPolicyMismatch => AdmissionError::new(
            "spec.preemptionPolicy",
            format!(
                "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller computed {} {given}",
                brought.policy.map_or("", PreemptionPolicy::word),
                policy.word()
            ),
        ),
    }
}

/// The class of this name; the system's exist in every cluster (A-PRIO-2).
fn class<'a>(snapshot: &'a Snapshot, name: &str) -> Option<Class<'a>> {
    let key = ObjectKey::new(ObjectKind::PriorityClass, "", name);
    if let Some(ObjectFacts::PriorityClass(class)) =
        snapshot.objects.get(&key).map(|object| object.facts())
    {
        return Some(of_facts(class));
    }
    let (name, value) = SYSTEM_CLASSES.into_iter().find(|(system, _)| *system == name)?;
    let policy = PreemptionPolicy::PreemptLowerPriority;
    Some(Class { name, value, is_default: false, policy })
}

/// The cluster's default class.
fn default(snapshot: &Snapshot) -> Option<Class<'_>> {
    let objects = snapshot.objects.of_kind(ObjectKind::PriorityClass, "");
    default_of(objects.filter_map(|object| match object.facts() {
        ObjectFacts::PriorityClass(class) => Some(of_facts(class)),
        _ => None,
    }))
}

fn of_facts(class: &PriorityClass) -> Class<'_> {
    let policy = if class.may_preempt {
        PreemptionPolicy::PreemptLowerPriority
    } else {
        PreemptionPolicy::Never
    };
    Class { name: &class.name, value: class.value, is_default: class.is_default, policy }
}

/// Warns if the class of a stored pod has another priority now (A-DEF-3).
pub(super) fn compare_stored(pod: &Pod, snapshot: &Snapshot, filling: &mut Filling) {
    let Some(spec) = &pod.spec else { return };
    let Some(class) = class(snapshot, &spec.priority_class_name) else { return };
    let priority = spec.priority.unwrap_or_default();
    if priority != class.value {
        let message = format!(
            "the pod was admitted with priority {priority} and keeps it; its PriorityClass has {}",
            class.value
        );
        let source = format!("PriorityClass {}", clip(class.name));
        filling.warn(AdmissionWarning { source, message, quota: None });
    }
}
