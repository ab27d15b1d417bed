//! What is answered: an object, a list, a stream, or why not.

use axum::body::{Body, Bytes};
use axum::response::Response;
use serde_json::{Value, json};
use tokio_stream::iter;

use super::{response, retry_after};
use crate::list::Page;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::Stored;

const JSON: &str = "application/json";

/// How much of a list is rendered at a time.
const LIST_CHUNK: usize = 64 * 1024;

/// An answer, ready to be sent.
pub(crate) struct Answer(Response);

impl Answer {
    pub(crate) fn json(status: u16, value: &Value) -> Answer {
        Answer(response(status, JSON, Body::from(value.to_string())))
    }

    pub(crate) fn text(text: &'static str) -> Answer {
        Answer(response(200, "text/plain; charset=utf-8", Body::from(text)))
    }

    /// An object, whole.
    pub(crate) fn object(status: u16, resource: &Resource, object: &Stored) -> Answer {
        let mut text = Vec::with_capacity(object.n_bytes() + 64);
        object.write(resource, &mut text);
        Answer(response(status, JSON, Body::from(text)))
    }

    /// A bare `Status` of a success (recording 08).
    pub(crate) fn success(code: u16) -> Answer {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
        Answer::json(code, &status)
    }

    pub(crate) fn refused(refusal: &Refusal) -> Answer {
        let mut answer = Answer::json(refusal.code, &refusal.to_status());
        retry_after(&mut answer.0, refusal);
        answer
    }

    pub(crate) fn stream(body: Body) -> Answer {
        Answer(response(200, JSON, body))
    }

    /// A list, rendered while it is sent: its text is never whole in memory.
    pub(crate) fn list(resource: &'static Resource, page: Page) -> Answer {
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
        Answer(response(200, JSON, Body::from_stream(iter(chunks))))
    }

    pub(super) fn into_response(self) -> Response {
        self.0
    }
}
