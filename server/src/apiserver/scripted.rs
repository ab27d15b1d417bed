//! Scripted: an API server for unit tests, implemented by one function.

use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

/// A client whose requests the function answers.
pub(super) fn client<F, Answer>(answer: F) -> kube::Client
where
    F: FnMut(Request<Body>) -> Answer + Send + 'static,
    Answer: Future<Output = std::io::Result<Response<Body>>> + Send + 'static,
{
    kube::Client::new(Scripted(answer), "default")
}

struct Scripted<F>(F);

impl<F, Answer> Service<Request<Body>> for Scripted<F>
where
    F: FnMut(Request<Body>) -> Answer,
    Answer: Future<Output = std::io::Result<Response<Body>>>,
{
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        self.0(request)
    }
}
