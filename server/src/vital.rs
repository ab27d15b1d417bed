//! Vital: tasks without which the process is of no use. One that ends by an error of its own fails `/livez`, so that the process
//! is restarted instead of looking well.

use tokio::task::JoinSet;

use crate::grpc::State;

/// Carries the task out; `None` where it ended by an error of its own. Ends with whoever waits for it.
pub(crate) async fn carry_out<T: Send + 'static>(
    state: &State,
    what: &'static str,
    task: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    // Dropped, it ends what it holds.
    let mut tasks = JoinSet::new();
    tasks.spawn(task);
    match tasks.join_next().await? {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            if error.is_panic() {
                note_broken(state, what);
            }
            None
        }
    }
}

/// Notes that something vital ended by an error of its own.
pub(crate) fn note_broken(state: &State, what: &'static str) {
    tracing::error!("{what} ended by an error of its own: this process is to be restarted");
    // The first one counts.
    let _ = state.broken.set(what);
}
