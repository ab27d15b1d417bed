//! `AdmitPod`: the priority that a pod is admitted with.

use berth_proto::berth_v1::{AdmitPodRequest, AdmitPodResponse};
use berth_proto::core_v1::PodSpec;

use super::PreemptionPolicy;
use super::class::{Class, by_name, default_of};
use crate::lifecycle::reading;
use crate::lifecycle::vocabulary::AdmissionOperation;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Reason why a pod is refused.
    enum PodRefusal {
        /// The pod's class does not exist (L-PRIO-2).
        PriorityClassNotFound = "PriorityClassNotFound",
        /// The pod's priority differs from that of its class (L-PRIO-5).
        PriorityMismatch = "PriorityMismatch",
        /// The pod's preemption policy differs from that of its class (L-PRIO-7).
        PreemptionPolicyMismatch = "PreemptionPolicyMismatch",
    }
}

/// Priority of a pod without a class if there is no default class (L-PRIO-3).
const NO_CLASS_PRIORITY: i32 = 0;

/// Class, priority and preemption policy of a pod's spec.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Terms<'a> {
    pub(crate) class: &'a str,
    pub(crate) priority: Option<i32>,
    pub(crate) policy: Option<PreemptionPolicy>,
}

/// Returns the priority of a new pod: the values of the class that it names, of the default class, or those of a pod
/// without a class (L-PRIO-1 to L-PRIO-5, L-PRIO-7). `AdmitPod` and the admission of pods to place both ask here.
pub(crate) fn created<'a>(
    brought: Terms<'a>,
    class: impl Fn(&str) -> Option<Class<'a>>,
    default: impl FnOnce() -> Option<Class<'a>>,
) -> Result<Terms<'a>, PodRefusal> {
    let class = match brought.class {
        "" => default(),
        name => Some(class(name).ok_or(PodRefusal::PriorityClassNotFound)?),
    };
    brought.accept(match class {
        Some(class) => (class.name, class.value, class.policy),
        None => ("", NO_CLASS_PRIORITY, PreemptionPolicy::PreemptLowerPriority),
    })
}

/// `AdmitPod`: a pod's class, priority and preemption policy after admission (L-PRIO-1 to L-PRIO-5, L-PRIO-7,
/// L-PRIO-11).
///
/// # Errors
/// [`ModelError`] for an unknown operation or policy, a missing `podSpec`, a missing `oldPodSpec` of an update, and for
/// a create a class without a name or a duplicate class.
pub fn admit_pod(request: &AdmitPodRequest) -> Result<AdmitPodResponse, ModelError> {
    let operation = AdmissionOperation::parse(&request.operation, "operation")?;
    let brought = Terms::read(request.pod_spec.as_ref(), "podSpec")?;
    let admitted = match operation {
        AdmissionOperation::Create => {
            let classes = by_name(&request.priority_classes, "priorityClasses")?;
            let default = || default_of(classes.values().copied());
            created(brought, |name| classes.get(name).copied(), default)
        }
        AdmissionOperation::Update => {
            let stored = Terms::read(request.old_pod_spec.as_ref(), "oldPodSpec")?;
            Ok(brought.filled_from(stored))
        }
    };
    Ok(match admitted {
        Ok(terms) => AdmitPodResponse {
            allowed: true,
            reason: String::new(),
            priority: terms.priority,
            priority_class_name: Some(terms.class.to_owned()),
            preemption_policy: terms.policy.map_or("", PreemptionPolicy::word).to_owned(),
        },
        Err(refusal) => {
            AdmitPodResponse { reason: refusal.word().to_owned(), ..AdmitPodResponse::default() }
        }
    })
}

impl<'a> Terms<'a> {
    /// Reads the terms of a spec at `field`.
    ///
    /// # Errors
    /// [`ModelError`] for a missing spec and an unknown policy.
    pub(crate) fn read(spec: Option<&'a PodSpec>, field: &str) -> Result<Terms<'a>, ModelError> {
        let spec = reading::given(spec, field)?;
        let policy = match spec.preemption_policy.as_deref() {
            None | Some("") => None,
            Some(word) => {
                let policy = PreemptionPolicy::parse(word, "preemptionPolicy");
                Some(policy.map_err(|error| error.under(field))?)
            }
        };
        Ok(Terms { class: &spec.priority_class_name, priority: spec.priority, policy })
    }

    /// Takes the values of the class, and refuses a pod whose own values differ (L-PRIO-1, L-PRIO-5, L-PRIO-7).
    fn accept(
        self,
        (class, priority, policy): (&'a str, i32, PreemptionPolicy),
    ) -> Result<Terms<'a>, PodRefusal> {
        if self.priority.is_some_and(|brought| brought != priority) {
            Err(PodRefusal::PriorityMismatch)
        } else if self.policy.is_some_and(|brought| brought != policy) {
            Err(PodRefusal::PreemptionPolicyMismatch)
        } else {
            Ok(Terms { class, priority: Some(priority), policy: Some(policy) })
        }
    }

    /// Fills absent values of an update from the stored pod; classes are not looked up again (L-PRIO-11).
    fn filled_from(self, stored: Terms<'_>) -> Terms<'a> {
        Terms {
            class: self.class,
            priority: self.priority.or(stored.priority),
            policy: self.policy.or(stored.policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admit(request: Value) -> Result<AdmitPodResponse, ModelError> {
        admit_pod(&serde_json::from_value(request).unwrap())
    }

    fn check(request: Value, expected: Result<(&str, Option<i32>, &str), &str>) {
        let answer = admit(request).unwrap();
        let admitted = match &answer.priority_class_name {
            Some(class) => Ok((&**class, answer.priority, &*answer.preemption_policy)),
            None => Err(&*answer.reason),
        };
        assert_eq!(admitted, expected);
        assert_eq!(answer.allowed, expected.is_ok());
    }

    fn create(spec: &Value) -> Value {
        let class = |name: &str, value: i32, is_default: bool, policy: &str| {
            json!({
                "metadata": {"name": name},
                "value": value,
                "globalDefault": is_default,
                "preemptionPolicy": policy,
            })
        };
        json!({"operation": "Create", "podSpec": spec, "priorityClasses": [
            class("high", 9, false, "PreemptLowerPriority"),
            class("later", -5, true, "PreemptLowerPriority"),
            class("base", -5, true, "Never"),
        ]})
    }

    /// L-PRIO-3, L-PRIO-4: of two defaults with equal values the first by name counts; a pod's own values must match
    /// the default.
    #[test]
    fn defaults() {
        check(create(&json!({})), Ok(("base", Some(-5), "Never")));
        check(create(&json!({"priority": -5})), Ok(("base", Some(-5), "Never")));
        check(create(&json!({"priority": 0})), Err("PriorityMismatch"));
        let policy = json!({"preemptionPolicy": "PreemptLowerPriority"});
        check(create(&policy), Err("PreemptionPolicyMismatch"));
        let none = |spec| json!({"operation": "Create", "podSpec": spec});
        check(none(json!({})), Ok(("", Some(0), "PreemptLowerPriority")));
        check(none(json!({"priority": 1})), Err("PriorityMismatch"));
    }

    /// L-PRIO-1, L-PRIO-2, L-PRIO-5, L-PRIO-7: a priority mismatch is reported before a policy mismatch.
    #[test]
    fn mismatches() {
        let of = |class: &str, priority: i32, policy: &str| {
            create(&json!({
                "priorityClassName": class, "priority": priority, "preemptionPolicy": policy,
            }))
        };
        check(of("high", 9, "PreemptLowerPriority"), Ok(("high", Some(9), "PreemptLowerPriority")));
        check(of("high", 8, "Never"), Err("PriorityMismatch"));
        check(of("high", 9, "Never"), Err("PreemptionPolicyMismatch"));
        check(of("gone", 8, "Never"), Err("PriorityClassNotFound"));
    }

    /// L-PRIO-11: values of the update go before stored ones; an older pod without a priority stays without one.
    #[test]
    fn updates() {
        let update = |new, old| json!({"operation": "Update", "podSpec": new, "oldPodSpec": old});
        let stored =
            json!({"priorityClassName": "gone", "priority": 4, "preemptionPolicy": "Never"});
        let named = json!({"priorityClassName": "gone"});
        check(update(named.clone(), stored.clone()), Ok(("gone", Some(4), "Never")));
        let brought = json!({"priorityClassName": "gone", "priority": 5});
        check(update(brought, stored), Ok(("gone", Some(5), "Never")));
        check(update(json!({}), named), Ok(("", None, "")));
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |request| admit(request).unwrap_err().to_string();
        assert_eq!(
            refused(json!({"podSpec": {}})),
            "`operation`: required: one of `Create`, `Update`"
        );
        assert_eq!(refused(json!({"operation": "Create"})), "`podSpec`: required");
        assert_eq!(
            refused(json!({"operation": "Update", "podSpec": {}})),
            "`oldPodSpec`: required"
        );
        assert_eq!(
            refused(create(&json!({"preemptionPolicy": "never"}))),
            "`podSpec.preemptionPolicy`: unknown value `never`: not one of `PreemptLowerPriority`, \
             `Never`"
        );
        let mut twice = create(&json!({}));
        let first = twice["priorityClasses"][0].clone();
        twice["priorityClasses"].as_array_mut().unwrap().push(first);
        assert_eq!(refused(twice), "`priorityClasses[3].metadata.name`: duplicate `high`");
        // L-PRIO-6: a class that is given as stored must be storable.
        let mut big = create(&json!({}));
        big["priorityClasses"][0]["value"] = json!(i32::MAX);
        assert_eq!(
            refused(big),
            "`priorityClasses[0]`: `high` cannot be stored: ValueAboveUserMaximum"
        );
        let nameless = json!({"operation": "Create", "podSpec": {}, "priorityClasses": [{}]});
        assert_eq!(refused(nameless), "`priorityClasses[0].metadata.name`: required");
    }
}
