//! Requests that read, create and replace single objects (recordings 03, 11, 12).

use std::sync::Arc;

use http::HeaderValue;
use serde_json::Value;

use crate::call::Call;
use crate::defaults::fill_defaults;
use crate::field;
use crate::options::Options;
use crate::resource::PODS;
use crate::response::ApiResponse;
use crate::status::Refusal;
use crate::store::{State, Store, key};
use crate::stored::Stored;
use crate::target::Target;
use crate::{admission, micro_time};

/// Handles a GET of one object.
pub(crate) fn get(store: &Store, target: &Target, name: &str) -> Result<Arc<Stored>, Refusal> {
    found(&store.lock(), target, name)
}

/// The object that `target` names.
pub(crate) fn found(state: &State, target: &Target, name: &str) -> Result<Arc<Stored>, Refusal> {
    let resource = target.resource;
    let stored = state.stored(resource, &key(resource, &target.namespace, name));
    stored.ok_or_else(|| Refusal::not_found(resource, name))
}

/// The object in the body, in the namespace of `target`, and warnings about its fields.
fn object_of(target: &Target, call: &Call) -> Result<(Value, Vec<HeaderValue>), Refusal> {
    let resource = target.resource;
    let mut object = call.object(resource)?;
    let warnings = call.field_validation()?.check(resource, &object)?;
    micro_time::check(resource, &object).map_err(|why| {
        let (version, kind) = (resource.version, resource.kind);
        Refusal::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    })?;
    set_namespace(target, &mut object)?;
    Ok((object, warnings))
}

/// Handles a POST to a collection.
pub(crate) fn create(
    store: &Store,
    options: &Options,
    target: &Target,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let resource = target.resource;
    let (mut object, warnings) = object_of(target, call)?;
    let mut state = store.lock();
    name_generated(&state, &mut object);
    admission::check(&state, options, resource, &object)?;
    admission::remove_status(resource, &mut object);
    admission::resolve_priority(&state, options, resource, &mut object)?;
    fill_defaults(resource, &mut object);
    let metadata = field::object(&mut object, "metadata");
    for unset in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"]
    {
        metadata.remove(unset);
    }
    if resource.counts_generations {
        metadata.insert("generation".into(), 1.into());
    }
    if call.is_dry_run() {
        let kept = resource.to_kept(object);
        let dry = Stored::new(resource.kept_as(), 0, kept);
        return Ok(ApiResponse::object(201, resource, &dry).warning(warnings));
    }
    let stored = state.create(resource, object)?;
    Ok(ApiResponse::object(201, resource, &stored).warning(warnings))
}

fn set_namespace(target: &Target, object: &mut Value) -> Result<(), Refusal> {
    if !target.resource.namespaced {
        return Ok(());
    }
    let given = field::text(object, "metadata.namespace").to_owned();
    if given.is_empty() {
        field::object(object, "metadata")
            .insert("namespace".into(), target.namespace.clone().into());
    } else if given != target.namespace {
        return Err(Refusal::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request: {given}, {}",
            target.namespace
        )));
    }
    Ok(())
}

/// Completes `generateName` with five characters derived from the version.
fn name_generated(state: &State, object: &mut Value) {
    let prefix = field::text(object, "metadata.generateName").to_owned();
    if prefix.is_empty() || !field::text(object, "metadata.name").is_empty() {
        return;
    }
    // The alphabet of Kubernetes' generated names, without vowels and similar characters.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = state.version.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let mut name = prefix;
    for _ in 0..5 {
        let n = ALPHABET.len() as u64;
        name.push(char::from(ALPHABET[(rest % n) as usize]));
        rest /= n;
    }
    field::object(object, "metadata").insert("name".into(), name.into());
}

/// Handles a PUT of an object or of its status.
pub(crate) fn replace(
    store: &Store,
    target: &Target,
    name: &str,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let resource = target.resource;
    let (object, warnings) = object_of(target, call)?;
    let given = field::text(&object, "metadata.name");
    if given != name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let mut state = store.lock();
    let old = found(&state, target, name)?;
    let version = field::text(&object, "metadata.resourceVersion");
    if version.is_empty() && resource.conditional_update {
        let why = ("FieldValueInvalid", "Invalid value: 0: must be specified for an update");
        let field = "metadata.resourceVersion";
        return Err(Refusal::invalid(resource.plural, resource.group, name, field, why));
    }
    let object = resource.to_kept(object);
    let stored = state.update(target, name, &old, object, call.is_dry_run())?;
    Ok(ApiResponse::object(200, resource, &stored).warning(warnings))
}

impl State {
    /// Replaces `old` with `object` under the rules for clients: uid and version must match if named, a subresource
    /// changes only its part, and a write without a change keeps the version (recording 09).
    pub(crate) fn update(
        &mut self,
        target: &Target,
        name: &str,
        old: &Stored,
        mut object: Value,
        is_dry_run: bool,
    ) -> Result<Arc<Stored>, Refusal> {
        let resource = target.resource;
        let before = old.to_plain();
        let version = field::text(&object, "metadata.resourceVersion");
        if !matches!(version, "" | "0") && version != old.version.to_string() {
            return Err(Refusal::modified(resource, name));
        }
        let uid = field::text(&object, "metadata.uid");
        if !uid.is_empty() && uid != field::text(&before, "metadata.uid") {
            let why = format!("Invalid value: \"{uid}\": field is immutable");
            let why = ("FieldValueInvalid", why.as_str());
            return Err(Refusal::invalid(resource.kind, "", name, "metadata.uid", why));
        }
        keep_what_servers_own(&mut object, &before);
        if target.subresource.as_deref() == Some("status") {
            copy("spec", &before, &mut object);
        } else if resource.subresources.contains(&"status") && resource.kind != "Node" {
            copy("status", &before, &mut object);
        }
        if resource.kind == PODS.kind {
            admission::check_pod_update(name, &before, &object)?;
        }
        if resource.counts_generations && before["spec"] != object["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let key = key(resource, &target.namespace, name);
        if is_dry_run {
            return Ok(Arc::new(Stored::new(resource.kept_as(), old.version, object)));
        }
        if before == object {
            return self.stored(resource, &key).ok_or_else(|| Refusal::not_found(resource, name));
        }
        let stored = self.put(resource, &key, object);
        if self.is_released(resource, &key) {
            // The write removed the last finalizer of a marked object.
            return self.remove(resource, &key).ok_or_else(|| Refusal::not_found(resource, name));
        }
        if resource.kind == PODS.kind {
            self.kubelet_update(&key);
        }
        Ok(stored)
    }
}

fn keep_what_servers_own(object: &mut Value, before: &Value) {
    if let Value::Object(fields) = object {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    let metadata = field::object(object, "metadata");
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        match &before["metadata"][name] {
            Value::Null => metadata.remove(name),
            value => metadata.insert(name.into(), value.clone()),
        };
    }
}

fn copy(name: &str, from: &Value, to: &mut Value) {
    if let Value::Object(fields) = to {
        match &from[name] {
            Value::Null => fields.remove(name),
            value => fields.insert(name.into(), value.clone()),
        };
    }
}
