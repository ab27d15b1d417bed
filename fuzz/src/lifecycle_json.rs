//! Lifecycle requests as JSON: the first byte chooses the function.

use berth_server::lifecycle::{FUNCTIONS, Function, FunctionError};

use crate::work::bounded;

/// Checks a function and its request.
pub fn run(data: &[u8]) {
    let Some((index, json)) = data.split_first() else { return };
    let function = &FUNCTIONS[usize::from(*index) % FUNCTIONS.len()];
    let Ok(request) = serde_json::from_slice(json) else { return };
    let answer = bounded(json.len(), 16 << 10, || function.decide(&request));
    assert_eq!(answer, function.decide(&request), "{}", function.name);
    match answer {
        Ok(answer) => check_answer(function, &answer),
        Err(error) => check_refusal(&error),
    }
}

/// Checks that a response has only fields of the function's response.
fn check_answer(function: &Function, answer: &serde_json::Value) {
    let fields = answer.as_object().expect("an answer is an object");
    assert_eq!(function.check_fields(fields), Ok(()), "{}", function.name);
}

pub(crate) fn check_refusal(error: &FunctionError) {
    match error {
        FunctionError::Refused(error) => drop(crate::world::checked_message(error)),
        FunctionError::Request(reason) | FunctionError::Answer(reason) => {
            assert!(!reason.is_empty() && reason.len() < 4 << 10, "{} bytes", reason.len());
        }
    }
}
