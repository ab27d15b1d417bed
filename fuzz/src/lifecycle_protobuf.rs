//! Lifecycle requests as protobuf: the first byte chooses the function. Both encodings have the same outcome.

use berth_server::lifecycle::{FUNCTIONS, FunctionError};
use serde_json::Value;

use crate::lifecycle_json::check_refusal;
use crate::work::bounded;

/// Checks a function and its request.
pub fn run(data: &[u8]) {
    let Some((index, request)) = data.split_first() else { return };
    let function = &FUNCTIONS[usize::from(*index) % FUNCTIONS.len()];
    let answer = bounded(request.len(), 16 << 10, || function.decide_message(request));
    assert_eq!(answer, function.decide_message(request), "{}", function.name);
    if let Err(error) = &answer {
        check_refusal(error);
    }
    // White space around a quantity is ignored in JSON and an error in protobuf (W-QTY).
    if String::from_utf8_lossy(request).contains(char::is_whitespace) {
        return;
    }
    let Ok(json) = function.as_json(request) else { return };
    match (function.decide(&json), &answer) {
        (Ok(_), Ok(_)) | (Err(FunctionError::Refused(_)), Err(FunctionError::Refused(_))) => {}
        // A time after the year 9999 has no JSON form.
        (Err(FunctionError::Answer(_)), Ok(_)) => {}
        // JSON writes `null` for a number that is not finite.
        (Ok(_), Err(FunctionError::Refused(_))) if has_null(&json) => {}
        (of_json, of_message) => panic!("{}: {of_json:?} and {of_message:?}", function.name),
    }
}

/// Whether a value is `null`; fields that a message does not have are omitted instead.
fn has_null(json: &Value) -> bool {
    match json {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}
