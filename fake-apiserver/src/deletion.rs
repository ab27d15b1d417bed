//! Deletion: immediate, or by a mark that leaves the end to the kubelet or a finalizer (recordings 03, 10).

use serde_json::{Value, json};

use crate::call::Call;
use crate::clock::time;
use crate::field;
use crate::list;
use crate::resource::{PODS, Resource};
use crate::response::ApiResponse;
use crate::selector::Selector;
use crate::status::Refusal;
use crate::store::{State, Store, key};
use crate::target::Target;
use crate::write::found;

/// Handles a DELETE of one object. The response is the pod, or a `Status` for other kinds.
pub(crate) fn delete(
    store: &Store,
    target: &Target,
    name: &str,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let options = call.delete_options()?;
    let mut state = store.lock();
    let stored = found(&state, target, name)?;
    let key = key(target.resource, &target.namespace, name);
    let is_dry_run = call.is_dry_run() || field::at(&options, "dryRun") == &json!(["All"]);
    check_preconditions(target.resource, name, &stored.to_plain(), &options)?;
    let last = if is_dry_run { stored } else { state.delete(target.resource, &key, &options)? };
    if target.resource.kind == PODS.kind {
        return Ok(ApiResponse::object(200, PODS, &last));
    }
    let mut details = json!({"name": name, "kind": target.resource.plural, "uid": last.to_plain()["metadata"]["uid"]});
    if !target.resource.group.is_empty() {
        details["group"] = target.resource.group.into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    Ok(ApiResponse::json(200, &status))
}

/// Handles a DELETE of a collection: deletes each selected object like a single one.
pub(crate) fn delete_collection(
    store: &Store,
    target: &Target,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let options = call.delete_options()?;
    let (labels, fields) = (call.query.get("labelSelector"), call.query.get("fieldSelector"));
    let selector = Selector::parse(target.resource, labels, fields)?;
    let mut state = store.lock();
    for object in list::all(&state, target, &selector) {
        let metadata = &object.to_plain()["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        state.delete(target.resource, &key(target.resource, namespace, name), &options)?;
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    Ok(ApiResponse::json(200, &status))
}

/// Checks that the uid and version in `DeleteOptions`, if any, are the object's.
pub(crate) fn check_preconditions(
    resource: &Resource,
    name: &str,
    object: &Value,
    options: &Value,
) -> Result<(), Refusal> {
    let preconditions = field::at(options, "preconditions");
    for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, is) =
            (field::text(preconditions, field), field::text(&object["metadata"], field));
        if !wanted.is_empty() && wanted != is {
            let why = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({is}). The object might have \
                 been deleted and then recreated"
            );
            return Err(Refusal::conflict(resource.kind, name, &why));
        }
    }
    Ok(())
}

impl State {
    /// Marks the object at `key` for deletion, removes it if neither grace period nor finalizer holds it, and returns
    /// its last state.
    pub(crate) fn delete(
        &mut self,
        resource: &'static Resource,
        key: &str,
        options: &Value,
    ) -> Result<std::sync::Arc<crate::stored::Stored>, Refusal> {
        let gone = || Refusal::not_found(resource, key.rsplit('/').next().unwrap_or(key));
        let stored = self.stored(resource, key).ok_or_else(gone)?;
        let mut object = stored.to_plain();
        let is_held = has_finalizers(&object);
        if resource.kind != PODS.kind {
            if !is_held {
                return self.remove(resource, key).ok_or_else(gone);
            }
            if field::at(&object, "metadata.deletionTimestamp").is_null() {
                mark(&mut object, 0);
                return Ok(self.put(resource, key, object));
            }
            return Ok(stored);
        }
        let seconds = grace_period(&object, options);
        let marked = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        // A second deletion can only shorten the remaining time.
        let stored = if marked.is_none_or(|marked| seconds < marked) {
            mark(&mut object, seconds);
            self.put(resource, key, object)
        } else {
            stored
        };
        if seconds == 0 && !is_held {
            return self.remove(resource, key).ok_or_else(gone);
        }
        self.kubelet_update(key);
        Ok(stored)
    }

    /// Whether a marked object has no finalizers left and nothing else holds it.
    pub(crate) fn is_released(&self, resource: &Resource, key: &str) -> bool {
        self.stored(resource, key).is_some_and(|stored| {
            let object = stored.to_plain();
            let marked = !field::at(&object, "metadata.deletionTimestamp").is_null();
            let waits = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
            marked && !waits && !has_finalizers(&object)
        })
    }
}

/// Grace period of a pod in seconds: that of the request, else that of its spec; zero if no kubelet runs the pod.
fn grace_period(pod: &Value, options: &Value) -> i64 {
    if field::text(pod, "spec.nodeName").is_empty()
        || matches!(field::text(pod, "status.phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    let requested = options["gracePeriodSeconds"].as_i64();
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    requested.or(own).unwrap_or(30).max(0)
}

fn mark(object: &mut Value, seconds: i64) {
    let metadata = field::object(object, "metadata");
    if !metadata.contains_key("deletionTimestamp")
        && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
    {
        metadata.insert("generation".into(), (generation + 1).into());
    }
    metadata.insert("deletionTimestamp".into(), time(seconds).into());
    metadata.insert("deletionGracePeriodSeconds".into(), seconds.into());
}

fn has_finalizers(object: &Value) -> bool {
    field::at(object, "metadata.finalizers").as_array().is_some_and(|all| !all.is_empty())
}
