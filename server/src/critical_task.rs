//! Critical tasks: tasks that the process cannot do without. If one crashes, `/livez` fails, so that the process is
//! restarted.

use std::sync::{Arc, OnceLock};

use tokio::task::JoinSet;

/// The critical tasks of a server. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct CriticalTasks {
    crashed: Arc<OnceLock<&'static str>>,
}

impl CriticalTasks {
    /// Runs `task`; `None` if it crashed. Dropping the future ends the task.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        // When dropped, the set ends its task.
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        match tasks.join_next().await? {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                if error.is_panic() {
                    self.note_crashed(name);
                }
                None
            }
        }
    }

    /// Records that a task crashed; only the first one is kept.
    pub(crate) fn note_crashed(&self, name: &'static str) {
        tracing::error!("{name} crashed: restart the process");
        let _ = self.crashed.set(name);
    }

    /// The first task that crashed.
    pub(crate) fn crashed(&self) -> Option<&'static str> {
        self.crashed.get().copied()
    }
}
