//! `SameIncarnation` and `CreatePod`: the identity of a pod, and when its name is free (L-GATE-7 to L-GATE-9).

use berth_proto::berth_v1::{
    CreatePodRequest, CreatePodResponse, SameIncarnationRequest, SameIncarnationResponse,
};
use berth_proto::meta_v1::ObjectMeta;

use crate::lifecycle::reading::{given, meta, namespace};
use crate::model::ModelError;
use crate::model::label::clip;

/// `SameIncarnation`: equal UIDs mean the same pod (L-GATE-7). Objects that live as long as a pod live as long as its
/// UID and are created anew for a replacement (L-GATE-8).
///
/// # Errors
/// [`ModelError`] for a missing object or UID, and for one UID under two names.
pub fn same_incarnation(
    request: &SameIncarnationRequest,
) -> Result<SameIncarnationResponse, ModelError> {
    let a = given(request.a.as_ref(), "a")?;
    let b = given(request.b.as_ref(), "b")?;
    let same_pod = uid(a, "a.uid")? == uid(b, "b.uid")?;
    if same_pod {
        one_place(&a.namespace, &b.namespace, "b.namespace")?;
        one_place(&a.name, &b.name, "b.name")?;
    }
    Ok(SameIncarnationResponse { same_pod, shares_lifetime: same_pod })
}

fn uid<'a>(meta: &'a ObjectMeta, field: &str) -> Result<&'a str, ModelError> {
    match meta.uid.as_str() {
        "" => Err(ModelError::new(field, "required")),
        uid => Ok(uid),
    }
}

/// Checks that two objects with one UID have the same name or namespace, which never changes.
fn one_place(a: &str, b: &str, field: &str) -> Result<(), ModelError> {
    if a.is_empty() || b.is_empty() || a == b {
        return Ok(());
    }
    let reason = format!("`{}`, but the other of the same uid has `{}`", clip(b), clip(a));
    Err(ModelError::new(field, reason))
}

/// `CreatePod`: a name is free once no object has it; the phase of the object makes no difference (L-GATE-9).
///
/// # Errors
/// [`ModelError`] if `name` is missing.
pub fn create_pod(request: &CreatePodRequest) -> Result<CreatePodResponse, ModelError> {
    if request.name.is_empty() {
        return Err(ModelError::new("name", "required"));
    }
    let place = namespace(&request.namespace);
    let is_taken =
        request.existing.iter().map(meta).any(|existing| {
            existing.name == request.name && namespace(&existing.namespace) == place
        });
    let reason = if is_taken { "AlreadyExists" } else { "" };
    Ok(CreatePodResponse { allowed: !is_taken, reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn same(a: &Value, b: &Value) -> Result<bool, String> {
        let request: SameIncarnationRequest =
            serde_json::from_value(json!({"a": a, "b": b})).unwrap();
        let answer = same_incarnation(&request).map_err(|error| error.to_string())?;
        assert_eq!(answer.same_pod, answer.shares_lifetime);
        Ok(answer.same_pod)
    }

    #[test]
    fn a_uid_has_one_name() {
        // L-GATE-7
        assert_eq!(same(&json!({"uid": "u1", "name": "a"}), &json!({"uid": "u1"})), Ok(true));
        let error = same(&json!({"uid": "u1", "name": "a"}), &json!({"uid": "u1", "name": "b"}));
        let reason = "`b.name`: `b`, but the other of the same uid has `a`";
        assert_eq!(error.unwrap_err(), reason);
        // Without UIDs, nothing says that two pods are the same.
        assert_eq!(same(&json!({}), &json!({})).unwrap_err(), "`a.uid`: required");
        assert_eq!(same(&json!({"uid": "u1"}), &json!({})).unwrap_err(), "`b.uid`: required");
        assert_eq!(same(&json!(null), &json!({})).unwrap_err(), "`a`: required");
    }

    #[test]
    fn a_name_belongs_to_its_namespace() {
        let answer = |request| {
            let request: CreatePodRequest = serde_json::from_value(request).unwrap();
            create_pod(&request).map(|answer| answer.allowed).map_err(|error| error.to_string())
        };
        // L-GATE-9
        let there = json!([{"metadata": {"name": "a", "namespace": "other"}}]);
        assert_eq!(answer(json!({"name": "a", "existing": there})), Ok(true));
        let there = json!([{"metadata": {"name": "a", "namespace": "default"}}]);
        assert_eq!(answer(json!({"name": "a", "existing": there})), Ok(false));
        assert_eq!(answer(json!({})).unwrap_err(), "`name`: required");
    }
}
