//! Deleting: at once, or marked and left to the kubelet or a finalizer (recordings 03, 10).

use serde_json::{Value, json};

use crate::http::{Answer, Call};
use crate::list;
use crate::resource::{PODS, Resource};
use crate::selector::Selector;
use crate::status::Refusal;
use crate::store::{State, Store, field, key, time};
use crate::target::Target;
use crate::write::found;

/// DELETE of one object. A pod is answered with the pod, all else with a `Status`.
pub(crate) fn delete(
    store: &Store,
    target: &Target,
    name: &str,
    call: &Call,
) -> Result<Answer, Refusal> {
    let options = call.delete_options()?;
    let mut state = store.lock();
    let stored = found(&state, target, name)?;
    let key = key(target.resource, &target.namespace, name);
    let is_dry_run = call.is_dry_run() || field::at(&options, "dryRun") == &json!(["All"]);
    check_preconditions(target.resource, name, &stored.to_plain(), &options)?;
    let last = if is_dry_run { stored } else { state.delete(target.resource, &key, &options)? };
    if target.resource.kind == PODS.kind {
        return Ok(Answer::object(200, PODS, &last));
    }
    let mut details = json!({"name": name, "kind": target.resource.plural, "uid": last.to_plain()["metadata"]["uid"]});
    if !target.resource.group.is_empty() {
        details["group"] = target.resource.group.into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    Ok(Answer::json(200, &status))
}

/// DELETE of a collection: each object that is selected, as by itself.
pub(crate) fn delete_collection(
    store: &Store,
    target: &Target,
    call: &Call,
) -> Result<Answer, Refusal> {
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
    Ok(Answer::json(200, &status))
}

/// The uid and version that `DeleteOptions` name, if any, must be the object's.
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
    /// Marks the object at `key`, and removes it where nothing holds it; its last state.
    pub(crate) fn delete(
        &mut self,
        resource: &'static Resource,
        key: &str,
        options: &Value,
    ) -> Result<std::sync::Arc<crate::store::Stored>, Refusal> {
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
        // A second deletion can only shorten the time that is left.
        let stored = if marked.is_none_or(|marked| seconds < marked) {
            mark(&mut object, seconds);
            self.put(resource, key, object)
        } else {
            stored
        };
        if seconds == 0 && !is_held {
            return self.remove(resource, key).ok_or_else(gone);
        }
        self.kubelet_sees(key);
        Ok(stored)
    }

    /// Whether an object was waiting for its finalizers only, and has none left.
    pub(crate) fn is_released(&self, resource: &Resource, key: &str) -> bool {
        self.stored(resource, key).is_some_and(|stored| {
            let object = stored.to_plain();
            let marked = !field::at(&object, "metadata.deletionTimestamp").is_null();
            let waits = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
            marked && !waits && !has_finalizers(&object)
        })
    }
}

/// The seconds that a pod has: as asked for, else as its spec says; none where no kubelet runs it.
fn grace_period(pod: &Value, options: &Value) -> i64 {
    if field::text(pod, "spec.nodeName").is_empty()
        || matches!(field::text(pod, "status.phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    let asked = options["gracePeriodSeconds"].as_i64();
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    asked.or(own).unwrap_or(30).max(0)
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
