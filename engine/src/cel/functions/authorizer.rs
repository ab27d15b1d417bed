//! Kubernetes' functions for authorization. Expressions may call them on values of unknown type, and then fail, because
//! no variable of their types exists (S-DRA-115).

use crate::cel::cost::Cost;
use crate::cel::error::EvalError;
use crate::cel::function::{Evaluated, Function, function};
use crate::cel::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("path", &[("authorizer.(string) -> path", Cost::One)], refuse),
    function("group", &[("authorizer.(string) -> group", Cost::One)], refuse),
    function("serviceAccount", &[("authorizer.(string, string) -> authorizer", Cost::One)], refuse),
    function("resource", &[("group.(string) -> resource", Cost::One)], refuse),
    function("subresource", RESOURCE, refuse),
    function("namespace", RESOURCE, refuse),
    function("name", RESOURCE, refuse),
    function("fieldSelector", RESOURCE, refuse),
    function("labelSelector", RESOURCE, refuse),
    function(
        "check",
        &[("path.(string) -> decision", Cost::One), ("resource.(string) -> decision", Cost::One)],
        refuse,
    ),
    function("allowed", &[("decision.() -> bool", Cost::One)], refuse),
    function("errored", &[("decision.() -> bool", Cost::One)], refuse),
    function("error", &[("decision.() -> string", Cost::One)], refuse),
    function("reason", &[("decision.() -> string", Cost::One)], refuse),
];

const RESOURCE: &[(&str, Cost)] = &[("resource.(string) -> resource", Cost::One)];

fn refuse(_: &[&Value]) -> Evaluated {
    Err(EvalError::no_overload())
}
