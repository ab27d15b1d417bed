//! Responses that a task makes after the handler has returned, as those of streams are.

use std::future::{Future, pending};

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::sleep_until;
use tonic::Status;

use crate::admission::User;
use crate::service::{CallContext, CallError, State};
use crate::shutdown;
use crate::telemetry::trace::followed;

/// The responses that `answer` makes, in a task in the trace of the current call and for its user. An error with which it
/// ends is the last of them. Up to `n_unread` responses wait for their reader.
pub(super) fn responses<T, F, E>(
    n_unread: usize,
    answer: impl FnOnce(Sender<Result<T, Status>>) -> F,
) -> Receiver<Result<T, Status>>
where
    T: Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Status> + Send,
{
    let (answers, receiver) = mpsc::channel(n_unread);
    let answering = answer(answers.clone());
    let task = async move {
        if let Err(error) = answering.await {
            // A closed channel means that the client is gone, so the error has no receiver.
            drop(answers.send(Err(error.into())).await);
        }
    };
    tokio::spawn(followed(User::current().carry(task)));
    receiver
}

/// Waits for the end of a stream that goes on by itself: its reader is gone.
///
/// # Errors
/// The server drains; the deadline of the call has passed.
pub(super) async fn end_of_watching<T>(
    state: &State,
    call: &CallContext,
    answers: &Sender<T>,
) -> Result<(), CallError> {
    let deadline = async {
        match call.deadline.0 {
            Some(at) => sleep_until(at.into()).await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = shutdown::requested(state.draining.clone()) => Err(CallError::Draining),
        () = answers.closed() => Ok(()),
        () = deadline => Err(CallError::DeadlineExceeded),
    }
}
