//! Request: one GET to the API server, whose response is read chunk by chunk, with a timeout for every wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use http::header::{ACCEPT, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body::Body as _;
use kube::Client;
use kube::client::Body;

use super::answer::Refusal;
use super::failure::Failure;
use crate::apiserver::causes::with_causes;
use crate::escape::printable;

/// Maximum number of bytes of a refusal that are read.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
const AGENT: &str = concat!("berth/", env!("CARGO_PKG_VERSION"));

/// Sends requests to the API server.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) client: Client,
    /// Maximum wait for the next bytes.
    pub(super) silence: Duration,
}

/// The body of a response that is being read.
pub(super) struct Stream {
    body: Body,
    silence: Duration,
}

impl Requests {
    /// Requests a target; returns the body as a stream.
    pub(super) async fn get(&self, target: &str) -> Result<Stream, Failure> {
        let request = Request::builder()
            .method(Method::GET)
            .uri(target)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, AGENT)
            .body(Body::empty())
            .map_err(|error| Failure::Unreachable(error.to_string()))?;
        let sent = tokio::time::timeout(self.silence, self.client.send(request));
        let response = sent.await.map_err(|_| Failure::Silent(self.silence))?;
        let response = response.map_err(|error| Failure::Unreachable(readable(&error)))?;
        let (parts, body) = response.into_parts();
        let mut stream = Stream { body, silence: self.silence };
        match parts.status {
            StatusCode::OK => return Ok(stream),
            StatusCode::GONE => return Err(Failure::Gone),
            _ => {}
        }
        // The status suffices if the text does not arrive.
        let text = stream.read_some(MAX_REFUSAL_BYTES).await;
        Err(Failure::Refused(Refusal::of_response(parts.status.as_u16(), &parts.headers, &text)))
    }

    /// Requests a target; returns the whole body, if it has at most `limit` bytes.
    pub(super) async fn get_whole(&self, target: &str, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut stream = self.get(target).await?;
        let mut whole = Vec::new();
        while let Some(chunk) = stream.next_chunk().await? {
            if whole.len() + chunk.as_ref().len() > limit {
                return Err(Failure::PageTooLong(limit));
            }
            whole.extend_from_slice(chunk.as_ref());
        }
        Ok(whole)
    }
}

impl Stream {
    /// Returns the next bytes; `None` after a proper end. Dropping the future loses none.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, Failure> {
        loop {
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let frame = tokio::time::timeout(self.silence, frame);
            let frame = frame.await.map_err(|_| Failure::Silent(self.silence))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Failure::Cut(readable(&error)))?;
            // Trailers are irrelevant.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    async fn read_some(&mut self, limit: usize) -> Vec<u8> {
        let mut text = Vec::new();
        while let Ok(Some(chunk)) = self.next_chunk().await {
            text.extend_from_slice(chunk.as_ref());
            if text.len() >= limit {
                break;
            }
        }
        text
    }
}

fn readable(error: &kube::Error) -> String {
    printable(&with_causes(error)).into_owned()
}
