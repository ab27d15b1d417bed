//! The shutdown signal: a flag that turns true once.

use tokio::sync::watch;

/// Resolves once shutdown is requested, or once the sender is dropped, since then the server is gone too.
pub(crate) async fn requested(mut signal: watch::Receiver<bool>) {
    drop(signal.wait_for(|&requested| requested).await);
}
