//! Lease: leader election. One of several instances holds a Lease and renews it; the others watch how long it is
//! unchanged.
//!
//! Only the instance's own monotonic clock decides: a Lease is free once this instance has not seen it change for its
//! duration, and the holder stops before that, counted from when it *sent* its last successful renewal. A watch of the
//! Lease only says when to look: without it an instance looks at every interval.

mod options;
mod election;
mod lookout;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::leadership::{Leadership, Term};
use crate::clock;
use crate::escape::printable;
use election::Election;
use lookout::Lookout;
pub use options::LeaseOptions;

/// An instance that takes part in the election. Dropped without [`Candidate::resign`] it lets the Lease expire.
pub struct Candidate {
    task: JoinHandle<()>,
    resigned: watch::Sender<bool>,
}

impl Candidate {
    /// Takes part in the election from now on, whenever this instance may lead.
    #[must_use]
    pub fn stand(
        client: kube::Client,
        options: LeaseOptions,
        may_lead: watch::Receiver<bool>,
    ) -> (Candidate, Leadership) {
        let (terms, term) = watch::channel(Term::UNKNOWN);
        let (resigned, resigning) = watch::channel(false);
        let lookout = Lookout::begin(client.clone(), &options);
        let election = Election::new(client, options);
        let task = tokio::spawn(run(election, lookout, terms, may_lead, resigning));
        (Candidate { task, resigned }, Leadership(term))
    }

    /// Stops and, if this instance leads, releases the Lease, so that another need not wait for it to expire. To be
    /// called when nothing that needs the leadership is under way any more.
    pub async fn resign(mut self) {
        self.resigned.send_replace(true);
        drop((&mut self.task).await);
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    mut election: Election,
    lookout: Lookout,
    terms: watch::Sender<Term>,
    mut may_lead: watch::Receiver<bool>,
    mut resigning: watch::Receiver<bool>,
) {
    let (renew_deadline, retry_period) =
        (election.options().renew_deadline, election.options().retry_period);
    let mut held_until: Option<Instant> = None;
    let mut number = 0;
    let mut trouble = Trouble::default();
    loop {
        if !*may_lead.borrow_and_update() {
            tell(&terms, &Term::UNKNOWN);
            if held_until.take().is_some() {
                give_up(&mut election, renew_deadline).await;
            }
            tokio::select! {
                Ok(()) = may_lead.changed() => {}
                _ = resigning.wait_for(|&resigning| resigning) => break,
            }
            continue;
        }
        let sent = clock::now();
        // A connection that is silently lost must leave time for another one.
        let asking = tokio::time::timeout(renew_deadline / 3, election.acquire_or_renew());
        let outcome = tokio::select! {
            outcome = asking => outcome,
            _ = resigning.wait_for(|&resigning| resigning) => break,
        };
        let is_known = matches!(outcome, Ok(Ok(_)));
        match outcome {
            Ok(Ok(true)) => {
                // A term that expired, even for a moment, is over.
                let goes_on = held_until.is_some_and(|until| clock::now() < until);
                number += u64::from(!goes_on);
                held_until = Some(sent + renew_deadline);
            }
            Ok(Ok(false)) => held_until = None,
            Ok(Err(failed)) => trouble.note(&failed.text(election.options())),
            Err(_) => trouble.note("the API server is silent about the Lease"),
        }
        if is_known {
            trouble = Trouble::default();
        }
        let now = clock::now();
        let term = match held_until {
            Some(until) if now < until => Term::Held { until, number },
            _ => Term::Elsewhere {
                holder: election.other_holder(),
                trouble: trouble.lasting(now, renew_deadline),
            },
        };
        let is_held = matches!(term, Term::Held { .. });
        tell(&terms, &term);
        let interval = if is_held && !is_known { retry_period / 4 } else { retry_period };
        // Another one's Lease is looked at in the moment in which it runs out.
        let runs_out = election.runs_out().filter(|&at| !is_held && at > now);
        let look_at = runs_out.map_or(now + interval, |at| at.min(now + interval));
        tokio::select! {
            () = tokio::time::sleep_until(look_at.into()) => {}
            () = lookout.changed(), if !is_held && is_known => {}
            Ok(()) = may_lead.changed() => {}
            _ = resigning.wait_for(|&resigning| resigning) => break,
        }
    }
    terms.send_replace(Term::UNKNOWN);
    if held_until.is_some() {
        give_up(&mut election, renew_deadline).await;
    }
}

async fn give_up(election: &mut Election, patience: Duration) {
    if tokio::time::timeout(patience, election.release()).await.is_err() {
        tracing::warn!("the Lease runs out by itself: the API server is silent");
    }
}

/// Reason why the Lease cannot be read or renewed, logged when it changes.
#[derive(Default)]
struct Trouble(Option<(Instant, Arc<str>)>);

impl Trouble {
    fn note(&mut self, reason: &str) {
        match &self.0 {
            Some((_, known)) if **known == *reason => {}
            known => {
                tracing::warn!("{reason}");
                let since = known.as_ref().map_or_else(clock::now, |(since, _)| *since);
                self.0 = Some((since, reason.into()));
            }
        }
    }

    /// The reason, if there has been one for that long.
    fn lasting(&self, now: Instant, time: Duration) -> Option<Arc<str>> {
        let (since, reason) = self.0.as_ref()?;
        (now.saturating_duration_since(*since) >= time).then(|| reason.clone())
    }
}

/// Updates the state, and logs the leader when it changes.
fn tell(terms: &watch::Sender<Term>, term: &Term) {
    let leads = |term: &Term| matches!(term, Term::Always | Term::Held { .. });
    let old = terms.send_replace(term.clone());
    match (leads(&old), term) {
        (false, Term::Always | Term::Held { .. }) => tracing::info!("leading"),
        (true, Term::Elsewhere { .. }) => tracing::warn!("no longer leading"),
        (_, Term::Elsewhere { holder: Some(holder), .. }) if old.holder() != Some(holder) => {
            tracing::info!(holder = &*printable(holder), "another instance leads");
        }
        _ => {}
    }
}
