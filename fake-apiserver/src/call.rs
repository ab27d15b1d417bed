//! [`Call`]: a request with its body, media types and options.

use axum::body::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use serde_json::Value;

use crate::protobuf;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::target::Query;
use crate::validation::FieldValidation;

/// A request, completely read.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// Checks that the client accepts JSON.
    pub(crate) fn check_accept(&self) -> Result<(), Refusal> {
        let Some(accept) = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
            return Ok(());
        };
        let takes_json = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let plain =
                matches!(parts.next(), Some("application/json" | "application/*" | "*/*" | ""));
            plain && !parts.any(|parameter| parameter.starts_with("as="))
        });
        // Probes and discovery ignore the accepted types.
        if takes_json || !self.path.starts_with("/api") {
            return Ok(());
        }
        Err(Refusal::not_acceptable())
    }

    /// The media type of the body without parameters; empty if absent.
    pub(crate) fn media_type(&self) -> &str {
        let value = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
    }

    /// The body as a JSON object of `resource`.
    pub(crate) fn object(&self, resource: &Resource) -> Result<Value, Refusal> {
        self.object_of_kind(resource.kind, &resource.api_version())
    }

    /// The body as an object of this kind; the body may omit its kind.
    pub(crate) fn object_of_kind(&self, kind: &str, api_version: &str) -> Result<Value, Refusal> {
        let object: Value = match self.media_type() {
            "" | "application/json" => serde_json::from_slice(&self.body).map_err(|error| {
                let what = "couldn't get version/kind; json parse error";
                Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {what}: {error}"
                ))
            })?,
            protobuf::MEDIA_TYPE => protobuf::decode(&self.body)?,
            _ => return Err(Refusal::unsupported_media_type()),
        };
        if !object.is_object() {
            return Err(Refusal::bad_request(format!("the body must be an object of type {kind}")));
        }
        let stated = object["kind"].as_str().unwrap_or(kind);
        let version = object["apiVersion"].as_str().unwrap_or(api_version);
        if (stated, version) != (kind, api_version) {
            return Err(Refusal::bad_request(format!(
                "the API version in the data ({version}, {stated}) does not match the expected API version ({api_version}, {kind})"
            )));
        }
        Ok(object)
    }

    /// `DeleteOptions` from the body, or `gracePeriodSeconds` from the query.
    pub(crate) fn delete_options(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            let mut options = Value::Object(serde_json::Map::new());
            if let Ok(seconds) = self.query.get("gracePeriodSeconds").parse::<i64>() {
                options["gracePeriodSeconds"] = seconds.into();
            }
            return Ok(options);
        }
        if !matches!(self.media_type(), "" | "application/json") {
            return Err(Refusal::unsupported_media_type());
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Refusal::bad_request(format!("the delete options are no JSON object: {error}"))
        })
    }

    /// The treatment of unknown fields that the query asks for.
    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Refusal> {
        FieldValidation::parse(self.query.get("fieldValidation"))
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun") == "All"
    }
}
