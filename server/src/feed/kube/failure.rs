//! Failure: every way in which listing or watching a kind can end, the reaction to it, and the text for an operator.

use std::time::Duration;

use super::answer::Refusal;
use super::garbage::Garbage;
use super::page::BadPage;
use super::resource::Resource;

/// Reason why a list or a watch ended early.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the API server answered {0}")]
    Refused(Refusal),
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the connection broke: {0}")]
    Cut(String),
    #[error("nothing was heard for {} s", .0.as_secs())]
    Silent(Duration),
    #[error(transparent)]
    Garbage(#[from] Garbage),
    #[error(transparent)]
    BadPage(#[from] BadPage),
    #[error("a page of the list is longer than {0} bytes")]
    PageTooLong(usize),
    #[error("a line of the stream is longer than {0} bytes")]
    LineTooLong(usize),
    #[error("the server forgot the version to go on from")]
    Gone,
    #[error("an event without a resource version")]
    Unversioned,
    #[error("an event of version {version} after one of version {after}")]
    OutOfOrder { version: u64, after: u64 },
    #[error("a list of version {version} after version {after}: the server's history began anew")]
    Rewound { version: u64, after: u64 },
    #[error("a bound pod was reported on another node")]
    Contradicted,
    #[error("the server does not mark the end of a streaming list")]
    NoStreamingList,
    /// The receiver is gone: the feed was stopped.
    #[error("the feed has stopped")]
    Stopped,
}

impl Failure {
    /// Reason in metric labels.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Failure::Refused(_) => "refused",
            Failure::Unreachable(_) => "unreachable",
            Failure::Cut(_) => "cut",
            Failure::Silent(_) => "silent",
            Failure::Garbage(_) | Failure::BadPage(_) => "garbage",
            Failure::PageTooLong(_) | Failure::LineTooLong(_) => "too-long",
            Failure::Gone => "gone",
            Failure::Unversioned | Failure::OutOfOrder { .. } => "out-of-order",
            Failure::Rewound { .. } => "rewound",
            Failure::Contradicted => "contradicted",
            Failure::NoStreamingList => "no-streaming-list",
            Failure::Stopped => "stopped",
        }
    }

    /// Whether everything has to be listed again, since the watch cannot continue from its state.
    pub(super) fn wants_list(&self) -> bool {
        match self {
            Failure::Garbage(_)
            | Failure::BadPage(_)
            | Failure::PageTooLong(_)
            | Failure::LineTooLong(_)
            | Failure::Gone
            | Failure::Unversioned
            | Failure::OutOfOrder { .. }
            | Failure::Rewound { .. }
            | Failure::Contradicted => true,
            // A stream that fails with an unknown code may have lost something.
            Failure::Refused(refusal) => refusal.code == 0 || refusal.code == 410,
            Failure::Unreachable(_)
            | Failure::Cut(_)
            | Failure::Silent(_)
            | Failure::NoStreamingList
            | Failure::Stopped => false,
        }
    }

    /// Whether an operator has to act; all other failures are temporary.
    pub(super) fn needs_someone(&self) -> bool {
        matches!(self, Failure::Refused(Refusal { code: 401 | 403 | 404, .. }))
    }

    /// Delay that the server requests.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Whether the API server is away, or does not serve this client: what ends that for one kind ends it for others.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Failure::Unreachable(_) | Failure::Silent(_) | Failure::Cut(_) => true,
            Failure::Refused(Refusal { code, .. }) => matches!(code, 401 | 403 | 500..),
            _ => false,
        }
    }

    /// The failure, and how to fix it.
    pub(super) fn advice(&self, resource: Resource) -> String {
        let Failure::Refused(refusal) = self else { return self.to_string() };
        match refusal.code {
            401 => {
                format!("the API server does not know these credentials ({refusal}); renew them")
            }
            // An API server that starts says so while it does not know all roles yet.
            403 if !refusal.message.contains(": RBAC: ") => {
                format!("{self}; deploy/rbac/reader.yaml has the rights that are needed")
            }
            404 if resource.group().is_empty() => {
                format!("{self}; is this address an API server's?")
            }
            _ => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::ObjectKind;

    use super::*;

    fn refused(code: u16) -> Failure {
        Failure::Refused(Refusal { code, message: "no".to_owned(), retry_after: None })
    }

    #[test]
    fn the_advice_is_for_the_cause() {
        assert_eq!(
            refused(403).advice(Resource::Pods),
            "the API server answered 403: no; deploy/rbac/reader.yaml has the rights that are needed"
        );
        let starting =
            "pods is forbidden: RBAC: clusterrole.rbac.authorization.k8s.io \"r\" not found";
        let refusal = Refusal { code: 403, message: starting.to_owned(), retry_after: None };
        assert_eq!(
            Failure::Refused(refusal).advice(Resource::Pods),
            format!("the API server answered 403: {starting}")
        );
        assert!(refused(401).advice(Resource::Pods).contains("credentials"));
        assert!(refused(404).advice(Resource::Pods).contains("is this address an API server's?"));
        let budgets = Resource::Objects(ObjectKind::PodDisruptionBudget);
        assert_eq!(refused(404).advice(budgets), "the API server answered 404: no");
        assert_eq!(refused(503).advice(Resource::Pods), "the API server answered 503: no");
    }

    #[test]
    fn only_what_cannot_be_gone_on_from_is_listed_again() {
        assert!(refused(410).wants_list() && Failure::Gone.wants_list());
        for failure in [
            refused(429),
            refused(503),
            Failure::Silent(Duration::ZERO),
            Failure::Cut(String::new()),
        ] {
            assert!(!failure.wants_list(), "{failure}");
        }
    }
}
