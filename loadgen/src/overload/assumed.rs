//! The pods that calls assumed, compared at the end with those of the server: it must hold every pod of an accepted
//! call and no pod of a refused call.

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

/// The namespace of the assumed pods, which the overload has to itself.
pub const NAMESPACE: &str = "berth-overload";

/// Time that the server is given to release the pods of calls whose callers went away.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The assumed pods of a run, as far as responses tell. Shared by all callers.
#[derive(Debug, Default)]
pub struct AssumedPods {
    claims: Mutex<Claims>,
}

/// The claims of all pods by name, with counts of the calls.
#[derive(Debug, Default)]
struct Claims {
    pods: HashMap<String, Claim>,
    n_calls_accepted: u64,
    n_calls_refused: u64,
    n_calls_unknown: u64,
    n_unplaced: u64,
    n_malformed: u64,
}

/// Whether the server should hold a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// The response granted the pod.
    Granted,
    /// The call failed with an unknown effect.
    Unknown,
}

/// Comparison of the granted pods with the server's pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Balance {
    /// Accepted calls that assumed pods.
    pub n_calls_accepted: u64,
    /// Refused calls that would have assumed pods.
    pub n_calls_refused: u64,
    /// Calls that would have assumed pods and failed with an unknown effect.
    pub n_calls_unknown: u64,
    /// Pods that responses granted.
    pub n_granted: u64,
    /// Pods of accepted calls that fit no node or were refused individually.
    pub n_unplaced: u64,
    /// Accepted calls whose response could not be decoded.
    pub n_malformed: u64,
    /// Pods of the run that the server holds.
    pub n_held: u64,
    /// Granted pods that the server does not hold.
    pub n_lost: u64,
    /// Pods that the server holds although their call was refused.
    pub n_taken: u64,
    /// Pods that the server holds of calls with an unknown effect.
    pub n_unknown_held: u64,
}

impl Balance {
    /// Whether the server holds every granted pod and no pod of a refused call.
    pub fn is_exact(&self) -> bool {
        self.n_lost == 0 && self.n_taken == 0 && self.n_malformed == 0
    }
}

impl AssumedPods {
    /// Deletes the pods that an earlier run left in the namespace, and starts without claims.
    pub async fn open(client: &Client) -> Result<Self, ClientError> {
        let left = list(client).await?;
        client.delete_pods(&left).await?;
        Ok(Self::default())
    }

    /// Records the response to a call that assumes pods.
    pub fn record(&self, work: &Work, sequence: u64, response: &Result<Bytes, Status>) {
        match response {
            Ok(bytes) => {
                let decisions = decisions(work.assumes_one_by_one(), bytes);
                self.claims().accept(decisions);
            }
            Err(status) if Effect::of(status.code()) == Effect::Known => {
                self.claims().n_calls_refused += 1;
            }
            Err(_) => {
                let mut claims = self.claims();
                claims.n_calls_unknown += 1;
                for key in work.keys(sequence) {
                    claims.pods.insert(key.name, Claim::Unknown);
                }
            }
        }
    }

    /// Compares the claims with the pods that the server holds, and deletes those pods.
    pub async fn close(&self, client: &Client) -> Result<Balance, ClientError> {
        let deadline = Instant::now() + RELEASE_TIMEOUT;
        loop {
            let held = list(client).await?;
            let balance = self.claims().compare(&held);
            if balance.n_unknown_held == 0 || Instant::now() >= deadline {
                client.delete_pods(&held).await?;
                return Ok(balance);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// A poisoned lock is taken all the same: a panic leaves counts and map valid.
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
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
        let held_claims = || held.iter().map(|key| self.pods.get(&key.name));
        let count = |claim| self.pods.values().filter(|own| **own == claim).count() as u64;
        let count_held = |claim| held_claims().filter(|own| own.copied() == claim).count() as u64;
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

/// The decision for each pod; `None` for a response that cannot be decoded.
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

/// The key of the pod, if the server assumed it.
fn assumed(decision: Decision) -> Option<PodKey> {
    match decision.outcome {
        Some(decision::Outcome::Placement(placement)) if placement.assumed => decision.pod,
        _ => None,
    }
}

/// The keys of all pods in the namespace.
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
    fn lost_pods_and_pods_of_refused_calls_are_counted() {
        let mut claims = Claims::default();
        claims.accept(Some(vec![decided("a", true), decided("b", true), decided("c", false)]));
        claims.accept(None);
        claims.pods.insert("d".to_owned(), Claim::Unknown);
        let balance = claims.compare(&["a", "b", "d"].map(key));
        assert_eq!((balance.n_granted, balance.n_held, balance.n_unplaced), (2, 3, 1));
        assert_eq!((balance.n_lost, balance.n_taken, balance.n_unknown_held), (0, 0, 1));
        assert!(!balance.is_exact(), "a response could not be decoded");
        claims.n_malformed = 0;
        assert!(claims.compare(&["a", "b"].map(key)).is_exact());
        let lost = claims.compare(&[key("a")]);
        assert_eq!((lost.n_lost, lost.is_exact()), (1, false));
        let taken = claims.compare(&["a", "b", "of-a-refused-call"].map(key));
        assert_eq!((taken.n_taken, taken.is_exact()), (1, false));
    }
}
