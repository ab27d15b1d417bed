//! Changes that a request makes to the assumption of a pod that it names: confirm, extend, release. And the end of a
//! nomination.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::{AssumptionStamp, PodKey, PodStanding};

use super::error::AssumptionError;
use super::keeper::Ending;
use super::table::Table;
use super::{Assumptions, Written};
use crate::ledger::GrantError;
use crate::telemetry::AssumptionEnd;

/// The assumption that a request names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) key: PodKey,
    /// The pod's uid; empty for any.
    pub(crate) uid: String,
    pub(crate) token: u64,
}

/// An assumption whose time to live was changed.
#[derive(Debug)]
pub(crate) struct Renewed {
    pub(crate) node: Arc<str>,
    /// Whether the pod is still assumed.
    pub(crate) is_assumed: bool,
    /// The caller may hear of the change once it is written.
    pub(crate) written: Written,
}

impl Renewed {
    /// A feed has reported the pod: it has no time to live any more.
    fn reported(node: Arc<str>) -> Renewed {
        Renewed { node, is_assumed: false, written: Written::default() }
    }
}

/// The pod of a request about an assumption.
enum Found {
    /// The pod is assumed under the token of the request.
    Assumed { node: Arc<str>, stamp: AssumptionStamp },
    /// A feed has reported it.
    Reported { node: Arc<str> },
}

impl Assumptions {
    /// Takes the time to live of an assumption away.
    ///
    /// # Errors
    /// [`AssumptionError`], except [`AssumptionError::Reported`].
    pub(crate) fn confirm(&self, named: &Named) -> Result<Renewed, AssumptionError> {
        let renewed = self.renew(named, None, None)?;
        if renewed.is_assumed {
            self.counts.count_confirmed();
            tracing::debug!(pod = %named.key, token = named.token, "an assumption is confirmed");
        }
        Ok(renewed)
    }

    /// Gives an assumption a new time to live.
    ///
    /// # Errors
    /// [`AssumptionError`], except [`AssumptionError::Reported`].
    pub(crate) fn extend(
        &self,
        named: &Named,
        ttl: Option<Duration>,
        now: Instant,
    ) -> Result<Renewed, AssumptionError> {
        let renewed = self.renew(named, ttl, ttl.and_then(|ttl| now.checked_add(ttl)))?;
        if renewed.is_assumed {
            self.counts.count_extended();
            tracing::debug!(pod = %named.key, token = named.token, ?ttl, "an assumption is extended");
        }
        Ok(renewed)
    }

    fn renew(
        &self,
        named: &Named,
        ttl: Option<Duration>,
        until: Option<Instant>,
    ) -> Result<Renewed, AssumptionError> {
        Ok(match self.change_until(named, until)? {
            Found::Reported { node } => Renewed::reported(node),
            Found::Assumed { node, .. } => {
                let written = self.at_keeper(|keeper| keeper.set_ttl(named.token, ttl));
                Renewed { node, is_assumed: true, written }
            }
        })
    }

    /// Ends an assumption; returns whether it was not over before. The caller may hear of it once that is written.
    ///
    /// # Errors
    /// [`AssumptionError`], except [`AssumptionError::Over`].
    pub(crate) fn release(&self, named: &Named) -> Result<(bool, Written), AssumptionError> {
        let found = self.standing_of(named).and_then(|pod| find(named, pod, &self.table()));
        let stamp = match found {
            Ok(Found::Assumed { stamp, .. }) => stamp,
            Ok(Found::Reported { node }) => {
                return Err(AssumptionError::Reported { pod: named.key.clone(), node });
            }
            Err(AssumptionError::Over { .. }) => return Ok((false, self.settled())),
            Err(error) => return Err(error),
        };
        let pod = (named.key.clone(), named.token, stamp);
        let released = self.with_keeper(|keeper| match keeper {
            Some(keeper) => {
                let is_first = self.table().begin_to_end(&pod.0, pod.1);
                let pods = [Ending::of(pod.clone())];
                (is_first, keeper.end(&pods, AssumptionEnd::Released, None))
            }
            None => (false, Written::refused(GrantError::OtherTerm)),
        });
        Ok(released.unwrap_or_else(|| {
            let n_released = self.end(std::slice::from_ref(&pod), AssumptionEnd::Released);
            (n_released > 0, Written::default())
        }))
    }

    /// Withdraws a nomination that no feed reports, of a pod of this uid, or of any if it is empty; returns whether there
    /// was one. The caller may hear of it once that is written.
    ///
    /// # Errors
    /// [`AssumptionError::OtherPod`].
    pub(crate) fn withdraw(
        &self,
        pod: PodKey,
        uid: String,
    ) -> Result<(bool, Written), AssumptionError> {
        let Some((nominated, _)) = self.cluster.own_nomination(&pod) else {
            return Ok((false, self.settled()));
        };
        if !uid.is_empty() && uid != nominated.uid() {
            let known = nominated.uid().into();
            return Err(AssumptionError::OtherPod { pod, known, requested: uid });
        }
        self.cluster.withdraw_nominations(&[(pod.clone(), nominated.uid().into())]);
        Ok((true, self.keep_nominations([pod])))
    }

    /// Sets when the named assumption ends.
    fn change_until(
        &self,
        named: &Named,
        until: Option<Instant>,
    ) -> Result<Found, AssumptionError> {
        let standing = self.standing_of(named)?;
        let mut table = self.table();
        let found = find(named, standing, &table)?;
        if let Found::Assumed { .. } = &found {
            table.set_until(&named.key, until);
        }
        Ok(found)
    }

    fn standing_of(&self, named: &Named) -> Result<PodStanding, AssumptionError> {
        let standing = self.cluster.standing_of(std::slice::from_ref(&named.key)).pop().flatten();
        let Some(standing) = standing else {
            return Err(AssumptionError::Over { pod: named.key.clone() });
        };
        if !named.uid.is_empty() && named.uid != standing.pod.uid() {
            let (pod, requested) = (named.key.clone(), named.uid.clone());
            return Err(AssumptionError::OtherPod {
                pod,
                known: standing.pod.uid().into(),
                requested,
            });
        }
        Ok(standing)
    }
}

/// Compares the pod on its node with the assumption that the request names.
fn find(named: &Named, standing: PodStanding, table: &Table) -> Result<Found, AssumptionError> {
    let PodStanding { pod: _, node, stamp } = standing;
    let Some(stamp) = stamp else { return Ok(Found::Reported { node }) };
    let entry = table.get(&named.key).filter(|entry| entry.stamp == stamp);
    match entry {
        Some(entry) if entry.token != named.token => {
            Err(AssumptionError::OtherToken { pod: named.key.clone(), token: named.token })
        }
        Some(entry) if entry.is_ending => Err(AssumptionError::Over { pod: named.key.clone() }),
        Some(_) => Ok(Found::Assumed { node, stamp }),
        // The server assumed it on its own account, or has not given its token away yet.
        None => Err(AssumptionError::OtherToken { pod: named.key.clone(), token: named.token }),
    }
}
