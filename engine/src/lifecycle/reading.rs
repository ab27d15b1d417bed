//! Readers of the facts that decision groups take from Kubernetes' objects, one function for each fact. Errors name
//! fields relative to the object.

use berth_proto::Time;
use berth_proto::core_v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, Node, Pod, PodCondition, PodSpec, PodStatus,
};
use berth_proto::meta_v1::ObjectMeta;

use super::vocabulary::{ConditionStatus, ContainerKind, PodPhase, RestartPolicy};
use crate::model::ModelError;

/// Seconds since the epoch.
pub(crate) type Seconds = i64;

/// The last second of the year 9999, the last one that Kubernetes' format of times can express. Later events never
/// happen.
pub(crate) const END_OF_TIME: Seconds = 253_402_300_799;

/// Reason for refusing a quantity of a request without its text, which would read as zero.
pub(crate) const UNSET_QUANTITY: &str = "the quantity has no `string`";

/// Adds seconds to a time; `None` if the sum is after the end of time.
pub(crate) fn after(time: Seconds, seconds: Seconds) -> Option<Seconds> {
    Some(time.saturating_add(seconds)).filter(|at| *at <= END_OF_TIME)
}

/// Reads a required time.
///
/// # Errors
/// [`ModelError`] at `field` if it is absent.
pub(crate) fn required(time: Option<&Time>, field: &str) -> Result<Seconds, ModelError> {
    time.and_then(Time::unix_seconds).ok_or_else(|| ModelError::new(field, "required"))
}

/// Reads an optional time; the zero time counts as absent.
pub(crate) fn optional(time: Option<&Time>) -> Option<Seconds> {
    time.and_then(Time::unix_seconds)
}

/// Converts seconds into the wire's time.
pub(crate) fn time(seconds: Seconds) -> Time {
    Time::from_unix_seconds(seconds)
}

/// The metadata; absent fields read as empty.
pub(crate) fn meta(pod: &Pod) -> &ObjectMeta {
    static EMPTY: std::sync::LazyLock<ObjectMeta> = std::sync::LazyLock::new(ObjectMeta::default);
    pod.metadata.as_ref().unwrap_or(&EMPTY)
}

/// The namespace of an object; absent is `default`.
pub(crate) fn namespace(given: &str) -> &str {
    if given.is_empty() { "default" } else { given }
}

/// The spec; absent fields read as empty.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// The status; absent fields read as empty.
pub(crate) fn status(pod: &Pod) -> &PodStatus {
    static EMPTY: std::sync::LazyLock<PodStatus> = std::sync::LazyLock::new(PodStatus::default);
    pod.status.as_ref().unwrap_or(&EMPTY)
}

/// The recorded phase; absent is `Pending` (L-PHASE-1).
pub(crate) fn phase(pod: &Pod) -> Result<PodPhase, ModelError> {
    PodPhase::parse_or(&status(pod).phase, PodPhase::Pending, "status.phase")
}

/// The pod's restart policy; absent is `Always` (L-RESTART-1).
pub(crate) fn restart_policy(spec: &PodSpec) -> Result<RestartPolicy, ModelError> {
    RestartPolicy::parse_or(&spec.restart_policy, RestartPolicy::Always, "restartPolicy")
}

/// The container's own restart policy, if it has one (L-RESTART-5).
pub(crate) fn own_restart_policy(
    container: &Container,
) -> Result<Option<RestartPolicy>, ModelError> {
    match container.restart_policy.as_deref() {
        None | Some("") => Ok(None),
        Some(word) => RestartPolicy::parse(word, "restartPolicy").map(Some),
    }
}

/// Whether an entry of `spec.initContainers` is a sidecar (L-PHASE-3) or an ordinary one (L-PHASE-2).
pub(crate) fn init_kind(container: &Container) -> Result<ContainerKind, ModelError> {
    Ok(match own_restart_policy(container)? {
        Some(RestartPolicy::Always) => ContainerKind::Sidecar,
        _ => ContainerKind::Init,
    })
}

/// Refuses a kind that the container's own policy contradicts: an init container with policy `Always` is a sidecar, and
/// only such a container is (L-PHASE-2, L-PHASE-3).
///
/// # Errors
/// [`ModelError`] at `restartPolicy`.
pub(crate) fn check_kind(container: &Container, kind: ContainerKind) -> Result<(), ModelError> {
    let reason = match (kind, own_restart_policy(container)?) {
        (ContainerKind::Init, Some(RestartPolicy::Always)) => {
            "an init container of policy `Always` is a `sidecar`"
        }
        (ContainerKind::Sidecar, Some(RestartPolicy::OnFailure | RestartPolicy::Never)) => {
            "a `sidecar` is of policy `Always`"
        }
        _ => return Ok(()),
    };
    Err(ModelError::new("restartPolicy", reason))
}

/// Whether deletion has been requested.
pub(crate) fn is_marked(pod: &Pod) -> bool {
    optional(meta(pod).deletion_timestamp.as_ref()).is_some()
}

/// The node that the pod is bound to; `None` before binding.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    Some(spec(pod).node_name.as_str()).filter(|name| !name.is_empty())
}

/// Whether the pod is static: it comes from a file on the node, or mirrors such a pod, and the node would start it
/// again after an eviction (L-PRESS-12).
pub(crate) fn is_static(pod: &Pod) -> bool {
    let annotations = &meta(pod).annotations;
    annotations.contains_key("kubernetes.io/config.mirror")
        || annotations.get("kubernetes.io/config.source").is_some_and(|source| source != "api")
}

/// The recorded condition of a type.
pub(crate) fn condition<'a>(pod: &'a Pod, r#type: &str) -> Option<&'a PodCondition> {
    status(pod).conditions.iter().find(|condition| condition.r#type == r#type)
}

/// Whether the pod's recorded `Ready` condition is True.
///
/// # Errors
/// [`ModelError`] relative to the pod for an unknown status, and for a second `Ready` condition (L-COND-19).
pub(crate) fn is_ready(pod: &Pod) -> Result<bool, ModelError> {
    let conditions = status(pod).conditions.iter();
    let ready = ready(conditions.map(|condition| (&*condition.r#type, &*condition.status)))?;
    Ok(ready == Some(ConditionStatus::True))
}

/// The status of the node's recorded `Ready` condition; `None` without one, which means that nothing is known
/// (L-GEN-4).
///
/// # Errors
/// [`ModelError`] relative to the node, as [`is_ready`].
pub(crate) fn node_ready(node: &Node) -> Result<Option<ConditionStatus>, ModelError> {
    let conditions = node.status.as_ref().map_or(&[][..], |status| &status.conditions).iter();
    ready(conditions.map(|condition| (&*condition.r#type, &*condition.status)))
}

/// The status of `Ready` among conditions that are given as type and status.
fn ready<'a>(
    conditions: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Option<ConditionStatus>, ModelError> {
    let mut found = None;
    for (index, (_, status)) in conditions.enumerate().filter(|(_, (kind, _))| *kind == "Ready") {
        let status = in_list("status.conditions", index, ConditionStatus::parse(status, "status"))?;
        if found.replace(status).is_some() {
            let field = format!("status.conditions[{index}].type");
            return Err(ModelError::new(field, "duplicate `Ready`"));
        }
    }
    Ok(found)
}

/// Whether the node carries a taint of this key, with any value and effect.
pub(crate) fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.as_ref().map_or(&[][..], |spec| &spec.taints);
    taints.iter().any(|taint| taint.key == key)
}

/// Key of the taint by which an administrator declares a node's pods dead (L-DEL-6, L-FENCE-11, L-GC-5).
pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A container's state, exactly one of three (L-CSTATE-1).
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum State<'a> {
    /// The container has not started, or waits for its back-off.
    Waiting(&'a ContainerStateWaiting),
    /// The container's process runs.
    Running(&'a ContainerStateRunning),
    /// The container's process has ended.
    Terminated(&'a ContainerStateTerminated),
}

/// Reads which of the three states is set; `None` without any.
///
/// # Errors
/// [`ModelError`] at `field` if more than one is set (L-CSTATE-1).
pub(crate) fn state<'a>(
    state: Option<&'a ContainerState>,
    field: &str,
) -> Result<Option<State<'a>>, ModelError> {
    let Some(state) = state else { return Ok(None) };
    match (&state.waiting, &state.running, &state.terminated) {
        (None, None, None) => Ok(None),
        (Some(waiting), None, None) => Ok(Some(State::Waiting(waiting))),
        (None, Some(running), None) => Ok(Some(State::Running(running))),
        (None, None, Some(terminated)) => Ok(Some(State::Terminated(terminated))),
        (waiting, running, terminated) => {
            let held = [
                waiting.as_ref().map(|_| "waiting"),
                running.as_ref().map(|_| "running"),
                terminated.as_ref().map(|_| "terminated"),
            ];
            let held: Vec<&str> = held.into_iter().flatten().collect();
            let reason = format!("is {} at once", held.join(" and "));
            Err(ModelError::new(field, reason))
        }
    }
}

/// Makes the error of a result about one element of the list `field` relative to the object that holds the list.
pub(crate) fn in_list<T>(
    field: &str,
    index: usize,
    result: Result<T, ModelError>,
) -> Result<T, ModelError> {
    result.map_err(|error| error.under(&format!("{field}[{index}]")))
}

/// Reads a required message.
///
/// # Errors
/// [`ModelError`] at `field` if it is absent.
pub(crate) fn given<'a, T>(message: Option<&'a T>, field: &str) -> Result<&'a T, ModelError> {
    message.ok_or_else(|| ModelError::new(field, "required"))
}

/// Reads a required name or UID.
///
/// # Errors
/// [`ModelError`] at `field` if it is empty.
pub(crate) fn given_text<'a>(text: &'a str, field: &str) -> Result<&'a str, ModelError> {
    if text.is_empty() { Err(ModelError::new(field, "required")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// L-COND-19: an unknown word and a contradiction are refused; without the condition nothing is known.
    #[test]
    fn readiness_is_read_or_refused() {
        let read = |conditions: Value| {
            let object = json!({"status": {"conditions": conditions}});
            let node = node_ready(&serde_json::from_value(object.clone()).unwrap());
            let pod = is_ready(&serde_json::from_value(object).unwrap());
            assert_eq!(pod, node.clone().map(|ready| ready == Some(ConditionStatus::True)));
            node.map_err(|error| error.to_string())
        };
        assert_eq!(read(json!([])), Ok(None));
        let other = json!({"type": "Other", "status": "yes"});
        let ready = |status: &str| json!({"type": "Ready", "status": status});
        assert_eq!(read(json!([other, ready("True")])), Ok(Some(ConditionStatus::True)));
        assert_eq!(read(json!([ready("Unknown")])), Ok(Some(ConditionStatus::Unknown)));
        let error = "`status.conditions[1].status`: unknown value `true`: not one of `True`, `False`, `Unknown`";
        assert_eq!(read(json!([other, ready("true")])), Err(error.to_owned()));
        let error = "`status.conditions[2].type`: duplicate `Ready`";
        assert_eq!(read(json!([ready("False"), other, ready("True")])), Err(error.to_owned()));
    }
}
