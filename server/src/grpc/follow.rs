//! Tasks that go on with a call after its handler has returned, as those of streams do.

use std::future::Future;

use crate::admission::User;
use crate::telemetry::trace::followed;

/// Spawns a task in the trace of the current call, for its user.
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(followed(User::current().carry(task)));
}
