//! Restores the assumptions that a ledger has of earlier runs. Their times to live begin anew: a promise may last longer
//! than was said, never shorter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use berth_engine::{self as engine, AssumeError, AssumptionStamp};

use super::book::Book;
use super::keeper::{Ending, Keeper};
use super::record::{self, Nomination, Stored, key_of};
use super::table::Entry;
use super::{Assumptions, HOLD};
use crate::ledger::{Key, Ledger, LedgerError};
use crate::telemetry::AssumptionEnd;

/// Assumptions that were read from a ledger.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pods: Vec<Stored>,
    nominations: Vec<Nomination>,
}

impl Kept {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nominations.is_empty()
    }
}

/// Why the assumptions of earlier runs are not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// There is no thread to write them.
    #[error("no thread can be started that writes reservations: {0}")]
    Thread(#[from] std::io::Error),
}

impl Assumptions {
    /// Keeps assumptions in a ledger from now on, and reads those that it has. Blocks.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub(crate) fn keep_in(self: &Arc<Self>, ledger: Arc<dyn Ledger>) -> Result<Kept, RestoreError> {
        let (mut book, mut pods) = (Book::default(), Vec::new());
        let mut states = ledger.list(Key::RESERVATION_STATES)?.into_iter();
        for (key, body) in ledger.list(Key::RESERVATIONS)? {
            // Both parts are written and removed together, and both lists are in the order of the numbers.
            let state = states.next().ok_or_else(|| unpaired(&key))?;
            let first = key.number_of_reservation().ok_or_else(|| unpaired(&key))?;
            if state.0 != Key::reservation_state(first) {
                return Err(unpaired(&key).into());
            }
            let stored = record::decode(&key, &body, &state.1)?;
            book.adopt(first, stored.iter().map(|pod| pod.standing.clone()).collect());
            // Also where the clock was set back, a later token is greater.
            self.next_token.fetch_max(first + stored.len() as u64, Ordering::Relaxed);
            pods.extend(stored.into_iter().filter(|pod| !pod.standing.has_ended));
        }
        if let Some((key, _)) = states.next() {
            return Err(unpaired(&key).into());
        }
        let mut nominations = Vec::new();
        for (key, entry) in ledger.list(Key::NOMINATIONS)? {
            nominations.push(record::decode_nomination(&key, &entry)?);
            book.adopt_nomination(key);
        }
        // Not held by the thread, which ends with them.
        let assumptions = Arc::downgrade(self);
        let take_out = move |pods: &[Ending], reason| {
            if let Some(assumptions) = assumptions.upgrade() {
                assumptions.finish(pods, reason);
            }
        };
        let keeper = Keeper::start(ledger, book, take_out)?;
        // The keeper is set once: `keep_in` is called once, before the server serves.
        drop(self.keeper.set(keeper));
        Ok(Kept { pods, nominations })
    }

    /// Assumes the pods again that the cluster does not know better. To be called once the cluster was fed. Blocks.
    pub(crate) fn restore(&self, kept: Kept, now: Instant) {
        let (mut n_restored, mut gone) = (0, Vec::new());
        let mut pods = kept.pods.into_iter().peekable();
        while pods.peek().is_some() {
            let pods: Vec<Stored> = pods.by_ref().take(HOLD).collect();
            let (stored, reservations) = self.compile(pods, &mut gone);
            for (stored, restored) in stored.iter().zip(self.cluster.restore(&reservations)) {
                match restored {
                    Ok(stamp) => {
                        self.add(stored, stamp, now);
                        n_restored += 1;
                    }
                    Err(reason) => {
                        let is_there = matches!(reason, AssumeError::AlreadyPlaced { .. });
                        match is_there {
                            true => tracing::debug!(pod = %stored.key(), %reason, "is bound"),
                            false => {
                                tracing::warn!(pod = %stored.key(), %reason, "a reservation is dropped")
                            }
                        }
                        gone.push(stored.token);
                    }
                }
            }
        }
        let n_gone = gone.len();
        if let Some(keeper) = self.keeper.get().filter(|_| n_gone > 0) {
            let gone = gone.into_iter().map(|token| Ending { token, assumed: None }).collect();
            // Nobody waits for it.
            drop(keeper.end(gone, AssumptionEnd::Released, None));
        }
        if n_restored + n_gone > 0 {
            tracing::info!(n_restored, n_gone, "reservations of earlier runs were restored");
        }
        self.restore_nominations(kept.nominations);
    }

    fn restore_nominations(&self, nominations: Vec<Nomination>) {
        let mut pods = Vec::with_capacity(nominations.len());
        for Nomination { object, node } in nominations {
            let object = object.unwrap_or_default();
            match self.cluster.compile_kept_pod(&object) {
                Ok(pod) => {
                    self.cluster.restore_nomination(&pod, &node.into());
                    pods.push(pod.key().clone());
                }
                Err(error) => {
                    let pod = key_of(&object);
                    tracing::warn!(%pod, %error, "a nomination is dropped");
                    pods.push(pod);
                }
            }
        }
        // Nominations that were not restored are removed from the ledger; no caller waits for that.
        drop(self.keep_nominations(pods));
    }

    /// Compiles pods; the tokens of those that cannot be compiled come to `gone`.
    fn compile(
        &self,
        pods: Vec<Stored>,
        gone: &mut Vec<u64>,
    ) -> (Vec<Stored>, Vec<engine::Reservation>) {
        let mut reservations = Vec::with_capacity(pods.len());
        let compile = |stored: &Stored| match self.cluster.compile_kept_pod(&stored.object) {
            Ok(pod) => {
                let (node, volumes) = (stored.node.clone(), stored.volumes.clone());
                let devices = stored.devices.clone();
                reservations.push(engine::Reservation { pod, node, volumes, devices });
                true
            }
            // This version may refuse a pod that an earlier version accepted.
            Err(error) => {
                tracing::warn!(pod = %stored.key(), %error, "a reservation is dropped");
                gone.push(stored.token);
                false
            }
        };
        let stored: Vec<Stored> = pods.into_iter().filter(compile).collect();
        (stored, reservations)
    }

    fn add(&self, stored: &Stored, stamp: AssumptionStamp, now: Instant) {
        let until = stored.standing.ttl.and_then(|ttl| now.checked_add(ttl));
        let (token, user, since) = (stored.token, stored.user.clone(), now);
        let entry = Entry { token, stamp, user, since, until, is_ending: false };
        self.table().add(stored.key(), entry);
    }
}

fn unpaired(key: &Key) -> LedgerError {
    let reason = format!("`{}` is one half of a record, and the other is missing", key.as_str());
    LedgerError::Damaged { reason }
}
