//! User: who a call is for, as far as turns are concerned. A call carries it through everything that it waits in.

use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static CURRENT: User;
}

/// The user of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: Arc<str>,
    /// How many turns the user has for one of a user with 1.
    pub(crate) weight: u32,
}

impl User {
    /// The user of calls that nobody asked for a credential.
    fn nobody() -> User {
        User { name: Arc::default(), weight: 1 }
    }

    /// The user of the call that this task carries out.
    pub(crate) fn current() -> User {
        CURRENT.try_with(User::clone).unwrap_or_else(|_| User::nobody())
    }

    /// Carries a future out for this user.
    pub(crate) fn carry<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }
}
