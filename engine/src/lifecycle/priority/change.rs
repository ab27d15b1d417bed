//! `PriorityClassChange`: the effect of a new or deleted class on pods, which is none on existing pods.

use berth_proto::berth_v1::{
    PrioritizedPod, PriorityClassChangeRequest, PriorityClassChangeResponse, PriorityClassEvent,
};
use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::ObjectMeta;

use super::class::Class;
use crate::lifecycle::reading;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Type of a change of a class.
    enum PriorityClassEventType {
        /// The class was created.
        Add = "Add",
        /// The class was deleted.
        Delete = "Delete",
    }

    /// Outcome for a new pod that names the class.
    enum NewPodFate {
        /// The pod gets the class's priority (L-PRIO-1).
        Admitted = "Admitted",
        /// The pod is refused (L-PRIO-2).
        Rejected = "Rejected",
    }
}

/// `PriorityClassChange`: existing pods keep the priority that they were admitted with; only new pods see the change
/// (L-PRIO-12, L-PRIO-13). The priority of a new pod without a class is known only if the added class is the default.
///
/// # Errors
/// [`ModelError`] for an unknown type, a missing class or name, and an added class that cannot be stored.
pub fn priority_class_change(
    request: &PriorityClassChangeRequest,
) -> Result<PriorityClassChangeResponse, ModelError> {
    let change = reading::given(request.change.as_ref(), "change")?;
    let (fate, default) = outcome(change).map_err(|error| error.under("change"))?;
    Ok(PriorityClassChangeResponse {
        pods: request.pods.iter().cloned().chain(request.objects.iter().map(prioritized)).collect(),
        new_pod_with_class: fate.word().to_owned(),
        new_pod_without_class: default,
    })
}

/// What the stored pod has of its class.
fn prioritized(pod: &Pod) -> PrioritizedPod {
    let metadata = pod.metadata.as_ref();
    let spec = pod.spec.as_ref();
    let namespaced = |it: &ObjectMeta| match it.namespace.as_str() {
        "" => it.name.clone(),
        namespace => format!("{namespace}/{}", it.name),
    };
    PrioritizedPod {
        name: metadata.map(namespaced).unwrap_or_default(),
        priority_class_name: spec
            .map(|spec| spec.priority_class_name.clone())
            .filter(|name| !name.is_empty()),
        priority: spec.and_then(|spec| spec.priority),
    }
}

fn outcome(change: &PriorityClassEvent) -> Result<(NewPodFate, Option<i32>), ModelError> {
    match PriorityClassEventType::parse(&change.r#type, "type")? {
        PriorityClassEventType::Delete => {
            reading::given_text(&change.name, "name")?;
            Ok((NewPodFate::Rejected, None))
        }
        PriorityClassEventType::Add => {
            let class = reading::given(change.class.as_ref(), "class")?;
            let class = Class::read(class).map_err(|error| error.under("class"))?;
            if let Some(refusal) = class.refusal() {
                let reason = format!("no such class can be stored: `{}`", refusal.word());
                return Err(ModelError::new("class", reason));
            }
            Ok((NewPodFate::Admitted, class.is_default.then_some(class.value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn change(change: &Value) -> Result<PriorityClassChangeResponse, ModelError> {
        let pods = json!([{"name": "a", "priorityClassName": "x", "priority": 7}, {"name": "b"}]);
        let request = json!({"change": change, "pods": pods});
        let request: PriorityClassChangeRequest = serde_json::from_value(request).unwrap();
        let answer = priority_class_change(&request)?;
        assert_eq!(answer.pods, request.pods);
        Ok(answer)
    }

    /// L-PRIO-12, L-PRIO-13: existing pods stay as they are; an unknown priority is absent (L-GEN-4).
    #[test]
    fn new_pods() {
        let outcome = |event: Value| {
            let answer = change(&event).unwrap();
            (answer.new_pod_with_class, answer.new_pod_without_class)
        };
        let add = |is_default: bool| {
            let class = json!({"metadata": {"name": "x"}, "value": 3, "globalDefault": is_default});
            json!({"type": "Add", "class": class})
        };
        assert_eq!(outcome(add(false)), ("Admitted".to_owned(), None));
        assert_eq!(outcome(add(true)), ("Admitted".to_owned(), Some(3)));
        assert_eq!(outcome(json!({"type": "Delete", "name": "x"})), ("Rejected".to_owned(), None));
    }

    #[test]
    fn stored_pods_keep_their_priority_too() {
        let stored = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
            "spec": {"priority": 7, "priorityClassName": "x", "containers": [{"name": "c"}]}});
        let bare = json!({"metadata": {"name": "q"}});
        let request = json!({"change": {"type": "Delete", "name": "x"}, "objects": [stored, bare]});
        let request = serde_json::from_value(request).unwrap();
        let pods = serde_json::to_value(priority_class_change(&request).unwrap().pods).unwrap();
        let expected =
            json!([{"name": "shop/p", "priorityClassName": "x", "priority": 7}, {"name": "q"}]);
        assert_eq!(pods, expected);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |event| change(&event).unwrap_err().to_string();
        assert_eq!(refused(Value::Null), "`change`: required");
        assert_eq!(
            refused(json!({"type": "Update"})),
            "`change.type`: unknown value `Update`: not one of `Add`, `Delete`"
        );
        assert_eq!(refused(json!({"type": "Delete"})), "`change.name`: required");
        assert_eq!(refused(json!({"type": "Add", "name": "x"})), "`change.class`: required");
        let class = json!({"metadata": {"name": "system-x"}});
        assert_eq!(
            refused(json!({"type": "Add", "class": class})),
            "`change.class`: no such class can be stored: `ReservedPrefix`"
        );
    }
}
