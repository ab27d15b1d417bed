//! Restores the assumptions that a ledger has of earlier runs. Their times to live begin anew: a promise may last longer
//! than was said, never shorter.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use berth_engine::{self as engine, AssumeError, AssumptionStamp, PodKey};
use berth_proto::core_v1;

use super::Assumptions;
use super::keeper::{Ending, Keeper, Place};
use super::mirror::{Mirror, Step};
use super::record::{Nomination, Stored, key_of};
use super::request::Requests;
use super::table::Entry;
use super::undoing::Undoing;
use crate::clock;
use crate::ledger::{Key, Ledger, LedgerError};
use crate::service::response_cache::ResponseCache;
use crate::telemetry::AssumptionEnd;

/// Number of pods that are assumed again together.
const TOGETHER: usize = super::HOLD;

/// Start of the keys of all records that are about assumptions.
pub(crate) const PREFIXES: [&str; 4] =
    [Key::RESERVATIONS, Key::RESERVATION_STATES, Key::NOMINATIONS, Key::POSITION];

/// Assumptions that were read from a ledger.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pods: Vec<Stored>,
    nominations: Vec<Nomination>,
    requests: Requests,
}

impl Kept {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.nominations.is_empty() && self.requests.is_empty()
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
    /// Keeps assumptions in a ledger from now on that no other server writes, and reads those that it has. Blocks.
    ///
    /// # Errors
    /// [`RestoreError`].
    pub(crate) fn keep_in(self: &Arc<Self>, ledger: Arc<dyn Ledger>) -> Result<Kept, RestoreError> {
        let mut records = Vec::new();
        for prefix in PREFIXES {
            let listed = ledger.list(prefix)?.into_iter();
            records.extend(listed.map(|(key, entry)| (key, Some(entry.value))));
        }
        let (mut mirror, mut kept) = (Mirror::default(), Kept::default());
        for step in mirror.apply(records)? {
            match step {
                Step::Add(mut pods) => kept.pods.append(&mut pods),
                Step::Nominate(nomination) => kept.nominations.push(*nomination),
                // Nothing ends in what is read for the first time.
                Step::End(_) | Step::SetTtl { .. } | Step::Withdraw(_) => {}
            }
        }
        let mut requests = Vec::new();
        for prefix in Requests::PREFIXES {
            let listed = ledger.list(prefix)?.into_iter();
            requests.extend(listed.map(|(key, entry)| (key, entry.value)));
        }
        kept.requests = Requests::read(requests)?;
        self.raise_next_token(mirror.next_token());
        let mut book = mirror.into_book();
        book.adopt_requests(&kept.requests, clock::now());
        let place = Place {
            ledger,
            term: None,
            note_written: Box::new(self.noting_written()),
            take_out: Box::new(self.taking_out()),
            position: Box::new(|| None),
        };
        self.set_keeper(Some(Keeper::start(place, book)?));
        Ok(kept)
    }

    /// Assumes the pods again that the cluster does not know better, and remembers responses again. Pods of a request
    /// that has no response end. To be called once the cluster was fed. Blocks.
    pub(crate) fn restore(&self, mut kept: Kept, responses: &Arc<ResponseCache>, now: Instant) {
        responses.restore(&kept.requests.answered, now);
        let mut undoing = Undoing::begin(&kept.requests.unanswered, responses);
        kept.pods.retain(|pod| match undoing.ends_with(pod.token) {
            Some(ends) => {
                ends.push(Ending { token: pod.token, assumed: None });
                false
            }
            None => true,
        });
        undoing.finish(self);
        let n_pods = kept.pods.len();
        let gone = self.assume_again(kept.pods, now);
        if n_pods > 0 {
            let n_gone = gone.len();
            tracing::info!(n_restored = n_pods - n_gone, n_gone, "reservations are restored");
        }
        // Nobody waits for it.
        drop(self.end_gone(&gone));
        // Nominations that were not restored are removed from the ledger; no caller waits for that.
        drop(self.keep_nominations(self.nominate_again(kept.nominations)));
    }

    /// Has the ends written of pods that are not assumed here.
    pub(super) fn end_gone(&self, gone: &[u64]) -> super::Written {
        let gone: Vec<Ending> = gone.iter().map(|&token| Ending { token, assumed: None }).collect();
        self.at_keeper(|keeper| keeper.end(&gone, AssumptionEnd::Released, None))
    }

    /// Assumes pods again; returns the tokens of those that are not, since a feed has reported them or they are refused.
    /// Blocks.
    pub(super) fn assume_again(&self, pods: Vec<Stored>, now: Instant) -> Vec<u64> {
        let mut gone = Vec::new();
        let mut pods = pods.into_iter().peekable();
        while pods.peek().is_some() {
            let pods: Vec<Stored> = pods.by_ref().take(TOGETHER).collect();
            let (stored, reservations) = self.compile(pods, &mut gone);
            for (stored, restored) in stored.iter().zip(self.cluster.restore(&reservations)) {
                match restored {
                    Ok(stamp) => self.add(stored, stamp, now),
                    Err(reason) => {
                        match matches!(reason, AssumeError::AlreadyPlaced { .. }) {
                            true => tracing::debug!(pod = %stored.key, %reason, "is bound"),
                            false => {
                                tracing::warn!(pod = %stored.key, %reason, "a reservation is dropped")
                            }
                        }
                        gone.push(stored.token);
                    }
                }
            }
        }
        gone
    }

    /// Nominates pods again; returns all of them.
    pub(super) fn nominate_again(&self, nominations: Vec<Nomination>) -> Vec<PodKey> {
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
        pods
    }

    /// Compiles pods; the tokens of those that cannot be compiled come to `gone`.
    fn compile(
        &self,
        pods: Vec<Stored>,
        gone: &mut Vec<u64>,
    ) -> (Vec<Stored>, Vec<engine::Reservation>) {
        let mut reservations = Vec::with_capacity(pods.len());
        // The first pod of each object.
        let mut firsts: HashMap<*const core_v1::Pod, engine::Pod> = HashMap::new();
        let compile = |stored: &Stored| {
            let compiled = match firsts.get(&Arc::as_ptr(&stored.object)) {
                Some(pod) => Ok(pod.with_identity(stored.key.clone(), &stored.uid)),
                None => self.compile_stored(stored),
            };
            match compiled {
                Ok(pod) => {
                    if pod.is_copied_whole() {
                        firsts.entry(Arc::as_ptr(&stored.object)).or_insert_with(|| pod.clone());
                    }
                    let (node, volumes) = (stored.node.clone(), stored.volumes.clone());
                    let devices = stored.devices.clone();
                    reservations.push(engine::Reservation { pod, node, volumes, devices });
                    true
                }
                // This version may refuse a pod that an earlier version accepted.
                Err(error) => {
                    tracing::warn!(pod = %stored.key, %error, "a reservation is dropped");
                    gone.push(stored.token);
                    false
                }
            }
        };
        let stored: Vec<Stored> = pods.into_iter().filter(compile).collect();
        (stored, reservations)
    }

    fn compile_stored(&self, stored: &Stored) -> Result<engine::Pod, engine::ModelError> {
        let mut object = core_v1::Pod::clone(&stored.object);
        let metadata = object.metadata.get_or_insert_default();
        metadata.name = stored.key.name.to_string();
        metadata.uid.clone_from(&stored.uid);
        self.cluster.compile_kept_pod(&object)
    }

    fn add(&self, stored: &Stored, stamp: AssumptionStamp, now: Instant) {
        let until = stored.standing.ttl.and_then(|ttl| now.checked_add(ttl));
        let entry = Entry::new(stored.token, stamp, stored.user.clone(), (now, until));
        self.table().add(stored.key.clone(), Entry { is_recorded: true, ..entry });
    }
}
