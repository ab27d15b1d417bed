//! The account of what was assumed: every pod of an accepted call holds its room at the end, and no pod of a refused one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::code::Effect;
use berth_client::{Client, ClientError};
use berth_proto::berth_v1::{
    Decision, ListPodsRequest, PlaceBatchResponse, PlaceResponse, PodKey, decision, place_result,
};
use prost::Message as _;
use prost::bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use super::work::Work;

/// The namespace of the pods that are assumed: nobody else's are in it.
pub const NAMESPACE: &str = "berth-overload";

/// A server that has just stopped hearing of callers that went away gives their pods back; for so long it may.
const PATIENCE: Duration = Duration::from_secs(10);

/// What callers were told of the pods that they had assumed.
#[derive(Debug, Default)]
pub struct Account {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    pods: HashMap<String, Claim>,
    n_calls_accepted: u64,
    n_calls_refused: u64,
    n_calls_unknown: u64,
    n_unplaced: u64,
    n_malformed: u64,
}

/// What is known of a pod by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Its caller was told that it holds its room.
    Granted,
    /// Its caller was told nothing.
    Unknown,
}

/// How the account and the server's pods compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Balance {
    /// Accepted calls that assume.
    pub n_calls_accepted: u64,
    /// Refused calls that would have assumed.
    pub n_calls_refused: u64,
    /// Calls that would have assumed and ended without saying whether they did.
    pub n_calls_unknown: u64,
    /// Pods whose callers were told that they hold their room.
    pub n_granted: u64,
    /// Pods of accepted calls that fitted nowhere, or were refused one by one.
    pub n_unplaced: u64,
    /// Accepted calls whose answer could not be read.
    pub n_malformed: u64,
    /// Pods of the run that the server holds.
    pub n_held: u64,
    /// Granted pods that the server does not hold.
    pub n_lost: u64,
    /// Pods that the server holds although their call was refused.
    pub n_taken: u64,
    /// Pods that the server holds of calls that ended without an answer.
    pub n_unknown_held: u64,
}

impl Balance {
    /// Whether nothing accepted is lost, and nothing refused took room.
    pub fn is_exact(&self) -> bool {
        self.n_lost == 0 && self.n_taken == 0 && self.n_malformed == 0
    }
}

impl Account {
    /// An empty account over a namespace without pods: what an earlier run left there is deleted.
    pub async fn open(client: &Client) -> Result<Self, ClientError> {
        let left = list(client).await?;
        client.delete_pods(&left).await?;
        Ok(Self::default())
    }

    /// Notes how a call that assumes ended.
    pub fn note(&self, work: &Work, sequence: u64, answer: &Result<Bytes, Status>) {
        match answer {
            Ok(bytes) => {
                let decisions = decisions(work.assumes_one_by_one(), bytes);
                self.told().accept(decisions);
            }
            Err(status) if Effect::of(status.code()) == Effect::Known => {
                self.told().n_calls_refused += 1
            }
            Err(_) => {
                let mut told = self.told();
                told.n_calls_unknown += 1;
                for key in work.keys(sequence) {
                    told.pods.insert(key.name, Claim::Unknown);
                }
            }
        }
    }

    /// Compares with the pods that the server holds, and deletes those.
    pub async fn close(&self, client: &Client) -> Result<Balance, ClientError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let held = list(client).await?;
            let balance = self.told().compare(&held);
            if balance.n_unknown_held == 0 || Instant::now() >= deadline {
                client.delete_pods(&held).await?;
                return Ok(balance);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What is in it is whole even if a thread panicked while holding it.
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn accept(&mut self, decisions: Option<Vec<Option<Decision>>>) {
        self.n_calls_accepted += 1;
        let Some(decisions) = decisions else {
            self.n_malformed += 1;
            return;
        };
        for decision in decisions {
            match decision.and_then(assumed) {
                Some(pod) => drop(self.pods.insert(pod.name, Claim::Granted)),
                None => self.n_unplaced += 1,
            }
        }
    }

    fn compare(&self, held: &[PodKey]) -> Balance {
        let claims = || held.iter().map(|key| self.pods.get(&key.name));
        let count = |claim| self.pods.values().filter(|own| **own == claim).count() as u64;
        let count_held = |claim| claims().filter(|own| own.copied() == claim).count() as u64;
        let n_granted = count(Claim::Granted);
        Balance {
            n_calls_accepted: self.n_calls_accepted,
            n_calls_refused: self.n_calls_refused,
            n_calls_unknown: self.n_calls_unknown,
            n_granted,
            n_unplaced: self.n_unplaced,
            n_malformed: self.n_malformed,
            n_held: held.len() as u64,
            n_lost: n_granted - count_held(Some(Claim::Granted)).min(n_granted),
            n_taken: count_held(None),
            n_unknown_held: count_held(Some(Claim::Unknown)),
        }
    }
}

/// What was decided for each pod; `None` for an answer that cannot be read.
fn decisions(one_by_one: bool, bytes: &Bytes) -> Option<Vec<Option<Decision>>> {
    if one_by_one {
        return Some(vec![PlaceResponse::decode(bytes.clone()).ok()?.decision]);
    }
    let results = PlaceBatchResponse::decode(bytes.clone()).ok()?.results;
    let decided = |result| match result {
        Some(place_result::Result::Decision(decision)) => Some(decision),
        Some(place_result::Result::Error(_)) | None => None,
    };
    Some(results.into_iter().map(|result| decided(result.result)).collect())
}

/// The pod, where it took its room.
fn assumed(decision: Decision) -> Option<PodKey> {
    match decision.outcome {
        Some(decision::Outcome::Placement(placement)) if placement.assumed => decision.pod,
        _ => None,
    }
}

/// Every pod of the namespace.
async fn list(client: &Client) -> Result<Vec<PodKey>, ClientError> {
    const METHOD: &str = "ClusterService.ListPods";
    let mut pods = Vec::new();
    let mut page_token = String::new();
    loop {
        let namespace = NAMESPACE.to_owned();
        let request =
            ListPodsRequest { page_size: 5_000, page_token, namespace, ..Default::default() };
        let answer = client.cluster().list_pods(request).await.map_err(ClientError::rpc(METHOD))?;
        let answer = answer.into_inner();
        pods.extend(answer.pods.into_iter().filter_map(|pod| pod.key));
        if answer.next_page_token.is_empty() {
            return Ok(pods);
        }
        page_token = answer.next_page_token;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::berth_v1::Placement;

    fn key(name: &str) -> PodKey {
        PodKey { namespace: NAMESPACE.into(), name: name.into(), uid: name.into() }
    }

    fn decided(name: &str, assumed: bool) -> Option<Decision> {
        let placement = Placement { assumed, ..Placement::default() };
        let outcome = Some(decision::Outcome::Placement(placement));
        Some(Decision { pod: Some(key(name)), outcome, ..Decision::default() })
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_is_told_apart() {
        let mut told = Told::default();
        told.accept(Some(vec![decided("a", true), decided("b", true), decided("c", false)]));
        told.accept(None);
        told.pods.insert("d".to_owned(), Claim::Unknown);
        let balance = told.compare(&["a", "b", "d"].map(key));
        assert_eq!((balance.n_granted, balance.n_held, balance.n_unplaced), (2, 3, 1));
        assert_eq!((balance.n_lost, balance.n_taken, balance.n_unknown_held), (0, 0, 1));
        assert!(!balance.is_exact(), "an answer could not be read");
        told.n_malformed = 0;
        assert!(told.compare(&["a", "b"].map(key)).is_exact());
        let lost = told.compare(&[key("a")]);
        assert_eq!((lost.n_lost, lost.is_exact()), (1, false));
        let taken = told.compare(&["a", "b", "of-a-refused-call"].map(key));
        assert_eq!((taken.n_taken, taken.is_exact()), (1, false));
    }
}
