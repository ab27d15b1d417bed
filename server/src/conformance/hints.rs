//! Recorded queueing hints of DynamicResources: which change of a claim or a pod wakes a pod that it rejected.

use berth_engine::{Cluster, Delta, WireObject};
use berth_proto::{core_v1, resource_v1};
use serde::Deserialize;

use super::report::CaseReport;
use super::tally::{Aspect, Place};

/// A recorded event and its hint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Recorded {
    id: String,
    pod: core_v1::Pod,
    /// All claims after the event.
    #[serde(default)]
    claims: Vec<resource_v1::ResourceClaim>,
    event: Event,
    old_claim: Option<resource_v1::ResourceClaim>,
    new_claim: Option<resource_v1::ResourceClaim>,
    new_pod: Option<core_v1::Pod>,
    hint: Hint,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
enum Event {
    ClaimAdd,
    ClaimUpdate,
    PodUpdate,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
enum Hint {
    Queue,
    QueueSkip,
}

/// Decides one recorded hint. The error says why it cannot be replayed.
pub(super) fn replay(line: &str) -> Result<Result<CaseReport, String>, serde_json::Error> {
    let recorded: Recorded = serde_json::from_str(line)?;
    Ok(decide(&recorded).map(|got| {
        let mut report = CaseReport::new(&recorded.id);
        report.n_attempts = 1;
        let place = || Place::Step { step: 0, node: None };
        let texts = || (format!("{:?}", recorded.hint), format!("{got:?}"));
        report.note(Aspect::Hints, got == recorded.hint, place, texts);
        report
    }))
}

fn decide(recorded: &Recorded) -> Result<Hint, String> {
    let cluster = Cluster::new();
    for claim in &recorded.claims {
        let object =
            cluster.compile_object(WireObject::from(claim)).map_err(|error| error.to_string())?;
        cluster.apply(vec![Delta::UpsertObject(object)]);
    }
    let pod = cluster.compile_pod(&recorded.pod).map_err(|error| error.to_string())?;
    let helps = match (recorded.event, &recorded.new_claim, &recorded.new_pod) {
        (Event::ClaimAdd, Some(new), _) => cluster.claim_helps(&pod, None, new),
        (Event::ClaimUpdate, Some(new), _) => {
            cluster.claim_helps(&pod, recorded.old_claim.as_ref(), new)
        }
        (Event::PodUpdate, _, Some(new)) => {
            let new = cluster.compile_pod(new).map_err(|error| error.to_string())?;
            cluster.update_helps(&pod, &new)
        }
        _ => return Err("an event without its object".to_owned()),
    };
    Ok(if helps { Hint::Queue } else { Hint::QueueSkip })
}
