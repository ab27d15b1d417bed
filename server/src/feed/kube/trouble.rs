//! Trouble: what is wrong with the watches, told in one sentence for all kinds that fail for the same cause.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::answer::Refusal;
use super::failure::Failure;
use super::resource::Resource;

/// Number of consecutive failures from which they are told: one or two are usual.
const FAILURES_BEFORE_WARNING: u32 = 3;
/// Number of kinds that a sentence names.
const MAX_NAMED: usize = 3;

/// The failed requests for one kind since the API server was last heard of about it.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// Time of the first refusal since the last sign of life that only an operator can end.
    pub(super) refused_since: Option<Instant>,
    /// Verb of the request, as in RBAC.
    pub(super) verb: &'static str,
    /// The last failure.
    pub(super) failure: Failure,
    /// Number of failures since the last sign of life.
    pub(super) n_failures: u32,
}

impl Trouble {
    /// One more failure of a request with this verb, after those of `known`.
    pub(super) fn after(
        known: Option<Trouble>,
        verb: &'static str,
        failure: Failure,
        now: Instant,
    ) -> Trouble {
        let refused_since = known.as_ref().and_then(|known| known.refused_since);
        Trouble {
            refused_since: refused_since.or(failure.needs_someone().then_some(now)),
            verb,
            failure,
            n_failures: known.map_or(0, |known| known.n_failures).saturating_add(1),
        }
    }

    /// Whether the kind was refused that long ago, and has not been heard of since.
    pub(super) fn is_refused_for(&self, time: Duration, now: Instant) -> bool {
        self.refused_since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    /// Whether it is worth a warning. A kind that was listed before may be refused for a moment: an API server that
    /// starts does not know all rights at once.
    fn is_grave(&self, was_listed: bool, grace: Duration, now: Instant) -> bool {
        let is_refusal = self.failure.needs_someone();
        if is_refusal && was_listed {
            return self.is_refused_for(grace, now);
        }
        // A silence has lasted for minutes already.
        let is_silent = matches!(self.failure, Failure::Silent(_));
        is_silent || is_refusal || self.n_failures >= FAILURES_BEFORE_WARNING
    }
}

/// Class of failures that have the same cause for every kind: reason and HTTP status.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CauseId(&'static str, u16);

/// Kinds that cannot be read for one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) id: CauseId,
    pub(super) kinds: Vec<Resource>,
    /// Verbs, kinds, and the failure of the first kind.
    pub(super) text: String,
}

/// The troubles that are worth a warning, by cause. `troubles` has each kind with whether it was listed before.
pub(super) fn causes<'a>(
    troubles: impl Iterator<Item = (Resource, bool, &'a Trouble)>,
    grace: Duration,
    now: Instant,
) -> Vec<Cause> {
    let mut by_id: BTreeMap<CauseId, Vec<(Resource, &Trouble)>> = BTreeMap::new();
    for (resource, was_listed, trouble) in troubles {
        if trouble.is_grave(was_listed, grace, now) {
            by_id.entry(id_of(&trouble.failure)).or_default().push((resource, trouble));
        }
    }
    let cause = |(id, of_cause): (CauseId, Vec<(Resource, &Trouble)>)| {
        let kinds: Vec<Resource> = of_cause.iter().map(|(resource, _)| *resource).collect();
        let mut verbs: Vec<&str> = of_cause.iter().map(|(_, trouble)| trouble.verb).collect();
        verbs.sort_unstable();
        verbs.dedup();
        let first = of_cause.first().map(|(kind, trouble)| trouble.failure.advice(*kind));
        let (verbs, first) = (verbs.join(" or "), first.unwrap_or_default());
        Cause { id, text: format!("cannot {verbs} {}: {first}", named(&kinds)), kinds }
    };
    by_id.into_iter().map(cause).collect()
}

/// Names of the kinds, cut short if they are many.
pub(super) fn named(kinds: &[Resource]) -> String {
    let names: Vec<&str> = kinds.iter().take(MAX_NAMED).map(|resource| resource.kind()).collect();
    match kinds.len().saturating_sub(MAX_NAMED) {
        0 => names.join(", "),
        1 => format!("{} and 1 more kind", names.join(", ")),
        n => format!("{} and {n} more kinds", names.join(", ")),
    }
}

fn id_of(failure: &Failure) -> CauseId {
    let code = match failure {
        Failure::Refused(Refusal { code, .. }) => *code,
        _ => 0,
    };
    CauseId(failure.reason(), code)
}

#[cfg(test)]
mod tests {
    use berth_engine::ObjectKind;

    use super::*;
    use crate::clock;

    const GRACE: Duration = Duration::from_secs(10);

    fn refused(code: u16, message: &str) -> Failure {
        Failure::Refused(Refusal { code, message: message.to_owned(), retry_after: None })
    }

    fn trouble(since: Instant, verb: &'static str, failure: Failure, n_failures: u32) -> Trouble {
        Trouble { n_failures, ..Trouble::after(None, verb, failure, since) }
    }

    #[test]
    fn kinds_that_fail_for_one_cause_are_one_sentence() {
        let now = clock::now();
        let away = trouble(now, "watch", Failure::Unreachable("refused".to_owned()), 3);
        let listing = Trouble { verb: "list", ..away.clone() };
        let mut troubles: Vec<(Resource, bool, &Trouble)> =
            Resource::ALL.into_iter().map(|resource| (resource, true, &away)).collect();
        troubles[2].2 = &listing;
        let unknown = trouble(now, "list", refused(401, "Unauthorized"), 1);
        troubles[1] = (Resource::Pods, false, &unknown);
        let found = causes(troubles.into_iter(), GRACE, now);
        let texts: Vec<&str> = found.iter().map(|cause| &*cause.text).collect();
        let n_more = Resource::N - 1 - MAX_NAMED;
        let kinds = ObjectKind::ALL[0].name().to_owned() + ", " + ObjectKind::ALL[1].name();
        assert_eq!(
            texts,
            [
                "cannot list Pod: the API server does not know these credentials (401: Unauthorized); renew them"
                    .to_owned(),
                format!(
                    "cannot list or watch Node, {kinds} and {n_more} more kinds: the API server cannot be reached: refused"
                ),
            ]
        );
        assert_eq!(found[1].kinds.len(), Resource::N - 1);
    }

    #[test]
    fn a_passing_failure_is_not_told() {
        let began = clock::now();
        let told = |was_listed, trouble: &Trouble, seconds| {
            let now = began + Duration::from_secs(seconds);
            !causes([(Resource::Pods, was_listed, trouble)].into_iter(), GRACE, now).is_empty()
        };
        let forbidden = trouble(began, "watch", refused(403, "pods is forbidden"), 9);
        assert!(!told(true, &forbidden, 9), "a server that starts does not know all rights");
        assert!(told(true, &forbidden, 10));
        assert!(told(false, &forbidden, 0), "the rights were never there");
        let cut = |n| trouble(began, "watch", Failure::Cut("reset".to_owned()), n);
        assert!(!told(true, &cut(2), 60) && told(true, &cut(3), 0));
        assert!(told(true, &trouble(began, "list", Failure::Silent(GRACE), 1), 0));
    }
}
