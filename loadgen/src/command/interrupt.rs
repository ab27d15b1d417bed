//! Ctrl-C and SIGTERM: the first ends a run early, the second ends the process.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{CommandError, print_message};

/// Listener for signals, from its creation on; before that, signals have their default effect.
#[derive(Debug)]
pub(super) struct Interrupt {
    has_come: watch::Receiver<bool>,
    number: Arc<AtomicU8>,
}

impl Interrupt {
    /// Starts to listen; `then` is printed on standard error at the first signal.
    pub(super) fn listen(then: &'static str) -> Result<Self, CommandError> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(CommandError::Signal)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(CommandError::Signal)?;
        let (sender, has_come) = watch::channel(false);
        let number = Arc::new(AtomicU8::new(0));
        let noted = Arc::clone(&number);
        tokio::spawn(async move {
            loop {
                let code = tokio::select! {
                    _ = interrupt.recv() => 130,
                    _ = terminate.recv() => 143,
                };
                if noted.swap(code, Ordering::Relaxed) != 0 {
                    std::process::exit(code.into());
                }
                print_message(format_args!("{then}; interrupt again to quit at once"));
                sender.send_replace(true);
            }
        });
        Ok(Self { has_come, number })
    }

    /// Waits for the first signal.
    pub(super) async fn received(&self) {
        let waited = self.has_come.clone().wait_for(|has_come| *has_come).await.is_ok();
        if !waited {
            // The listener ended with the runtime: no signal will come.
            std::future::pending::<()>().await;
        }
    }

    /// 128 plus the number of the received signal, as a shell reports it.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        match self.number.load(Ordering::Relaxed) {
            0 => None,
            code => Some(ExitCode::from(code)),
        }
    }
}
