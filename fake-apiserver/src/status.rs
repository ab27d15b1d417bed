//! Refusals in the form of a Kubernetes API server's `Status` objects (recordings 02, 06, 08, 10, 12).

use serde_json::{Map, Value, json};

use crate::resource::Resource;

/// A refused request: the HTTP status and the contents of its `Status` body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// HTTP status, for example 409.
    pub code: u16,
    /// Machine-readable reason, for example `Conflict`; empty if the server gives none (some 500s).
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// Object and causes.
    pub details: Option<Box<Details>>,
    /// `metadata.continue`: for an expired token, a token for the rest of the list.
    pub continue_token: Option<String>,
}

/// `details` of a `Status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The resource's API group; empty for core.
    pub group: String,
    /// The resource, plural (`pods`), or for validation the kind (`Pod`).
    pub kind: String,
    /// The single causes.
    pub causes: Vec<Cause>,
    /// Delay before a retry; also sent as the `Retry-After` header.
    pub retry_after_seconds: Option<u32>,
}

/// One of `details.causes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Reason, for example `FieldValueInvalid` or `DisruptionBudget`.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// Path of the field; empty if the cause is not a field.
    pub field: &'static str,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, reason, message: message.into(), details: None, continue_token: None }
    }

    fn about(mut self, name: &str, group: &str, kind: &str) -> Refusal {
        let details = self.details.get_or_insert_default();
        (details.name, details.group, details.kind) = (name.into(), group.into(), kind.into());
        self
    }

    fn because(mut self, reason: &'static str, message: &str, field: &'static str) -> Refusal {
        let cause = Cause { reason, message: message.into(), field };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Refusal {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Refusal {
        Refusal::new(500, "", message)
    }

    /// Refusal of a path that is not served.
    pub(crate) fn no_such_path() -> Refusal {
        let message = "the server could not find the requested resource";
        Refusal { details: Some(Box::default()), ..Refusal::new(404, "NotFound", message) }
    }

    pub(crate) fn method_not_allowed() -> Refusal {
        let message = "the server does not allow this method on the requested resource";
        Refusal { details: Some(Box::default()), ..Refusal::new(405, "MethodNotAllowed", message) }
    }

    pub(crate) fn unsupported_media_type() -> Refusal {
        let message = "415: Unsupported Media Type";
        Refusal {
            details: Some(Box::default()),
            ..Refusal::new(415, "UnsupportedMediaType", message)
        }
    }

    pub(crate) fn not_acceptable() -> Refusal {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        Refusal { details: Some(Box::default()), ..Refusal::new(406, "NotAcceptable", message) }
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Refusal {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Refusal::new(404, "NotFound", message).about(name, resource.group, resource.plural)
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Refusal {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Refusal::new(409, "AlreadyExists", message).about(name, resource.group, resource.plural)
    }

    /// Refusal because the object has a newer version than the request names.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Refusal {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Refusal::new(409, "Conflict", message).about(name, resource.group, resource.plural)
    }

    /// Refusal for a conflict on a subresource or a kind, for example `pods/binding` or `Pod`.
    pub(crate) fn conflict(kind: &str, name: &str, why: &str) -> Refusal {
        let message = format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}");
        Refusal::new(409, "Conflict", message).about(name, "", kind)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Refusal {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Refusal::new(403, "Forbidden", message).about(name, resource.group, resource.plural)
    }

    /// Refusal of one field's value, with a reason such as `FieldValueInvalid` and its text.
    pub(crate) fn invalid(
        kind: &str,
        group: &str,
        name: &str,
        field: &'static str,
        (reason, why): (&'static str, &str),
    ) -> Refusal {
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{subject} \"{name}\" is invalid: {field}: {why}");
        let refusal = Refusal::new(422, "Invalid", message).about(name, group, kind);
        refusal.because(reason, why, field)
    }

    /// Refusal of a combination of list options.
    pub(crate) fn list_options(field: &'static str, why: &str) -> Refusal {
        Refusal::invalid(
            "ListOptions",
            "meta.k8s.io",
            "",
            field,
            ("FieldValueForbidden", &format!("Forbidden: {why}")),
        )
    }

    /// Refusal of a version that the server has not reached.
    pub(crate) fn future_version(requested: u64, current: u64) -> Refusal {
        let message =
            format!("Timeout: Too large resource version: {requested}, current: {current}");
        Refusal::new(504, "Timeout", message)
            .because("ResourceVersionTooLarge", "Too large resource version", "")
            .retry_after(1)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Refusal {
        Refusal::new(410, "Expired", message)
    }

    /// Refusal of an eviction with 429 and the budget's cause.
    pub(crate) fn disruption_budget(cause: &str) -> Refusal {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Refusal::new(429, "TooManyRequests", message).because("DisruptionBudget", cause, "")
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), json!(token));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut value = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind)] {
            if !text.is_empty() {
                value.insert(key.into(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_value).collect();
            value.insert("causes".into(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds {
            value.insert("retryAfterSeconds".into(), json!(seconds));
        }
        Value::Object(value)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut value = json!({"reason": self.reason, "message": self.message});
        if !self.field.is_empty() {
            value["field"] = json!(self.field);
        }
        value
    }
}
