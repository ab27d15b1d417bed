//! [`ApiResponse`]: an object, a list, a stream, or a refusal.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio_stream::iter;

use crate::list::Page;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::stored::Stored;

const JSON: &str = "application/json";

/// Size of the chunks in which a list is rendered.
const LIST_CHUNK: usize = 64 * 1024;

/// A complete HTTP response.
pub(crate) struct ApiResponse(Response);

impl ApiResponse {
    pub(crate) fn json(status: u16, value: &Value) -> ApiResponse {
        ApiResponse(response(status, JSON, Body::from(value.to_string())))
    }

    pub(crate) fn text(text: &'static str) -> ApiResponse {
        ApiResponse(response(200, "text/plain; charset=utf-8", Body::from(text)))
    }

    /// A response with one object.
    pub(crate) fn object(status: u16, resource: &Resource, object: &Stored) -> ApiResponse {
        let mut text = Vec::with_capacity(object.n_bytes() + 64);
        object.write(resource, &mut text);
        ApiResponse(response(status, JSON, Body::from(text)))
    }

    /// A response with a `Status` of success (recording 08).
    pub(crate) fn success(code: u16) -> ApiResponse {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
        ApiResponse::json(code, &status)
    }

    pub(crate) fn refused(refusal: &Refusal) -> ApiResponse {
        let mut answer = ApiResponse::json(refusal.code, &refusal.to_status());
        retry_after(&mut answer.0, refusal);
        answer
    }

    pub(crate) fn stream(body: Body) -> ApiResponse {
        ApiResponse(response(200, JSON, body))
    }

    /// A response with a list, rendered in chunks while it is sent, so that its whole text is never in memory.
    pub(crate) fn list(resource: &'static Resource, page: Page) -> ApiResponse {
        let mut text = page.opening(resource).into_bytes();
        let mut items = page.items.into_iter();
        let mut is_first = true;
        let mut is_done = false;
        let chunks = std::iter::from_fn(move || {
            while !is_done && text.len() < LIST_CHUNK {
                let Some(item) = items.next() else {
                    text.extend_from_slice(b"]}\n");
                    is_done = true;
                    break;
                };
                text.extend_from_slice(if is_first { b"{" } else { b",{" });
                is_first = false;
                item.write_rest(resource, &mut text);
            }
            let chunk = Bytes::from(std::mem::take(&mut text));
            (!chunk.is_empty()).then_some(Ok::<_, std::convert::Infallible>(chunk))
        });
        ApiResponse(response(200, JSON, Body::from_stream(iter(chunks))))
    }

    /// The response with `Warning` headers.
    pub(crate) fn warning(mut self, warnings: Vec<HeaderValue>) -> ApiResponse {
        for warning in warnings {
            self.0.headers_mut().append(WARNING, warning);
        }
        self
    }

    pub(crate) fn into_response(self) -> Response {
        self.0
    }
}

/// A response with the headers that all responses have.
fn response(status: u16, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn retry_after(response: &mut Response, refusal: &Refusal) {
    if let Some(seconds) = refusal.details.as_ref().and_then(|details| details.retry_after_seconds)
    {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
}
