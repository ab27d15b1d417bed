//! PATCH requests: merge, strategic merge and JSON patch (recordings 09, 11, 18).

use serde_json::Value;

mod json_patch;
mod merge;
mod strategic;

use crate::call::Call;
use crate::micro_time;
use crate::response::ApiResponse;
use crate::status::Refusal;
use crate::store::Store;
use crate::target::Target;
use crate::write::found;

/// Handles a PATCH of an object or of its status.
pub(crate) fn patch(
    store: &Store,
    target: &Target,
    name: &str,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let apply: fn(&mut Value, &Value) -> Result<(), String> = match call.media_type() {
        "application/merge-patch+json" => merge::apply,
        "application/strategic-merge-patch+json" => strategic::apply,
        "application/json-patch+json" => json_patch::apply,
        _ => return Err(Refusal::unsupported_media_type()),
    };
    let patch: Value = serde_json::from_slice(&call.body).map_err(|error| {
        Refusal::bad_request(format!("error decoding patch: json parse error: {error}"))
    })?;
    let resource = target.resource;
    let mut state = store.lock();
    let old = found(&state, target, name)?;
    let mut object = resource.shown(old.to_plain());
    // A version that the patch does not name is not compared.
    let metadata = object["metadata"].as_object_mut();
    metadata.map(|metadata| metadata.remove("resourceVersion"));
    apply(&mut object, &patch).map_err(|why| {
        Refusal::new(
            422,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {why}"),
        )
    })?;
    micro_time::check(resource, &object).map_err(|why| {
        let why = format!("Invalid value: {}: {why}", Value::String(object.to_string()));
        Refusal::invalid("", "", "", "patch", ("FieldValueInvalid", &why))
    })?;
    let warnings = call.field_validation()?.check(resource, &object)?;
    let object = resource.to_kept(object);
    let stored = state.update(target, name, &old, object, call.is_dry_run())?;
    Ok(ApiResponse::object(200, resource, &stored).warning(warnings))
}
