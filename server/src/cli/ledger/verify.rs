//! Verification: the journal has no gap, and each record is what the last changes of its subject say.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{LedgerRecord, VolumeGrant};
use serde::Serialize;

use super::journal;
use super::subject::{Record, Subject};
use crate::cli::asked::Asked;
use crate::cli::{CliError, output};

/// What was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    n_changes: usize,
    n_subjects: usize,
    /// Each disagreement as a sentence.
    faults: Vec<String>,
}

impl Report {
    pub(super) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let seen = format!(
            "{} of {}",
            output::count(self.n_changes, "change"),
            output::count(self.n_subjects, "subject")
        );
        if self.is_sound() {
            return format!("{seen}: the journal has no gap, and every record agrees with it");
        }
        format!(
            "{seen}, {}:\n{}",
            output::count(self.faults.len(), "fault"),
            self.faults.join("\n")
        )
    }
}

/// Reads the journal and compares every subject's present record with it.
///
/// Changes that are made meanwhile show as faults; then the comparison is made again, once.
pub(super) async fn verify(server: &Asked) -> Result<Report, CliError> {
    let report = compare(server).await?;
    if report.is_sound() { Ok(report) } else { compare(server).await }
}

async fn compare(server: &Asked) -> Result<Report, CliError> {
    let records = journal::after(server, 0).await?;
    let mut report = Report { n_changes: records.len(), ..Report::default() };
    report.faults.extend(gaps(&records));
    let mut by_subject: BTreeMap<&str, Vec<&LedgerRecord>> = BTreeMap::new();
    let fences: Vec<String> =
        records.iter().map(|record| format!("fence/{}", record.node_name)).collect();
    for (record, fence) in records.iter().zip(&fences) {
        by_subject.entry(&record.subject).or_default().push(record);
        // Breaking an attachment by a fence is a change of the fence, too.
        if is_break_by_fence(record) {
            by_subject.entry(fence).or_default().push(record);
        }
    }
    report.n_subjects = by_subject.len();
    for (name, changes) in by_subject {
        match Subject::parse(name) {
            Ok(subject) => {
                let now = subject.record(server).await?;
                report.faults.extend(disagreement(name, &changes, &now));
            }
            Err(why) => report.faults.push(format!("`{name}` {why}")),
        }
    }
    Ok(report)
}

/// Revisions that are missing, or come twice.
fn gaps(records: &[LedgerRecord]) -> Vec<String> {
    let pairs = records.windows(2).filter_map(|pair| match pair {
        [one, next] if one.revision != before(next) => {
            Some(format!("revision {} is followed by {}", one.revision, next.revision))
        }
        _ => None,
    });
    pairs.collect()
}

/// The revision before a record's; an older server does not name it.
fn before(record: &LedgerRecord) -> u64 {
    match record.previous_revision {
        0 => record.revision.saturating_sub(1),
        named => named,
    }
}

fn is_break_by_fence(record: &LedgerRecord) -> bool {
    record.outcome == "Broken" && record.entitlement == "FenceConfirmed"
}

/// How a record disagrees with the changes of its subject, the oldest first; `None` where the journal has too few of
/// them left to tell.
fn disagreement(name: &str, changes: &[&LedgerRecord], now: &Record) -> Option<String> {
    let (journal, record) = match now {
        Record::Identity(identity) => (holder_by(changes), identity.holder_uid.clone()),
        Record::Volume(volume) => {
            if (changes.len() as u64) < volume.version {
                return None;
            }
            let holder = |holder: &VolumeGrant| format!("{} on {}", holder.pod_uid, holder.node);
            let mut holders: Vec<String> = volume.holders.iter().map(holder).collect();
            holders.sort();
            (holders_by(changes).join(", "), holders.join(", "))
        }
        Record::Fence(fence) => (state_by(changes, fence.token)?, fence.state.clone()),
    };
    let or_nobody =
        |text: &str| if text.is_empty() { "nobody".to_owned() } else { text.to_owned() };
    (journal != record).then(|| {
        format!(
            "{name}: the journal says {}, the record {}",
            or_nobody(&journal),
            or_nobody(&record)
        )
    })
}

/// The holder of a name after its changes; empty if it is free.
fn holder_by(changes: &[&LedgerRecord]) -> String {
    let last = changes.last();
    let holds = |record: &&&LedgerRecord| matches!(&*record.outcome, "Granted" | "AlreadyHeld");
    last.filter(holds).map_or_else(String::new, |record| record.pod_uid.clone())
}

/// The holders of a volume after its changes, sorted.
fn holders_by(changes: &[&LedgerRecord]) -> Vec<String> {
    let mut holders: Vec<(&str, &str)> = Vec::new();
    for change in changes {
        let (pod, node) = (change.pod_uid.as_str(), change.node_name.as_str());
        match change.outcome.as_str() {
            "Attached" => holders.push((pod, node)),
            "Detached" => holders.retain(|holder| *holder != (pod, node)),
            "Broken" => holders.retain(|(of, on)| *on != node || (!pod.is_empty() && *of != pod)),
            _ => {}
        }
    }
    holders.sort_unstable();
    holders.dedup();
    holders.into_iter().map(|(pod, node)| format!("{pod} on {node}")).collect()
}

/// The state of a fence after the changes of the decision with this token; `None` if the journal has none of them.
fn state_by(changes: &[&LedgerRecord], token: u64) -> Option<String> {
    let of_decision = |record: &&&LedgerRecord| {
        record.fence_token == token && !matches!(&*record.outcome, "RemovePod" | "ReleaseIdentity")
    };
    let last = changes.iter().rfind(of_decision)?;
    Some(if is_break_by_fence(last) {
        "AttachmentsBroken".to_owned()
    } else {
        last.outcome.clone()
    })
}

#[cfg(test)]
mod tests {
    use berth_proto::berth_v1::{FenceRecord, IdentityRecord, VolumeRecord};

    use super::*;

    fn change(revision: u64, outcome: &str, pod: &str, node: &str) -> LedgerRecord {
        LedgerRecord {
            revision,
            outcome: outcome.to_owned(),
            pod_uid: pod.to_owned(),
            node_name: node.to_owned(),
            ..LedgerRecord::default()
        }
    }

    #[test]
    fn a_missing_revision_is_told() {
        let records = [change(4, "", "", ""), change(5, "", "", ""), change(7, "", "", "")];
        assert_eq!(gaps(&records), ["revision 5 is followed by 7"]);
        let restarted = LedgerRecord { previous_revision: 5, ..change(90, "", "", "") };
        assert_eq!(gaps(&[change(5, "", "", ""), restarted]), [""; 0]);
    }

    #[test]
    fn records_are_what_their_changes_say() {
        let changes = [
            change(1, "Attached", "p", "a"),
            change(2, "Attached", "q", "b"),
            change(3, "Broken", "", "a"),
        ];
        let changes: Vec<&LedgerRecord> = changes.iter().collect();
        let grant = |pod: &str, node: &str| VolumeGrant {
            node: node.to_owned(),
            pod_uid: pod.to_owned(),
            token: 0,
        };
        let record = |holders| Record::Volume(VolumeRecord { holders, ..VolumeRecord::default() });
        assert_eq!(disagreement("volume/v", &changes, &record(vec![grant("q", "b")])), None);
        let both = record(vec![grant("q", "b"), grant("p", "a")]);
        let expected = "volume/v: the journal says q on b, the record p on a, q on b";
        assert_eq!(disagreement("volume/v", &changes, &both).as_deref(), Some(expected));
        let released = [change(1, "Granted", "p", "a"), change(2, "Released", "p", "a")];
        let released: Vec<&LedgerRecord> = released.iter().collect();
        let held = IdentityRecord { holder_uid: "p".to_owned(), ..IdentityRecord::default() };
        let expected = "identity/x/y: the journal says nobody, the record p";
        let found = disagreement("identity/x/y", &released, &Record::Identity(held));
        assert_eq!(found.as_deref(), Some(expected));
    }

    /// A renewal that failed leaves the confirmed fence as it was; an attachment that it broke changes it.
    #[test]
    fn a_fence_is_what_its_decision_came_to() {
        let of = |revision, outcome: &str, token, entitlement: &str| LedgerRecord {
            fence_token: token,
            entitlement: entitlement.to_owned(),
            ..change(revision, outcome, "", "a")
        };
        let changes = [of(1, "Fencing", 1, ""), of(2, "Fenced", 1, ""), of(3, "Detected", 3, "")];
        let fence = |state: &str| {
            let state = state.to_owned();
            Record::Fence(FenceRecord { token: 1, state, ..FenceRecord::default() })
        };
        let mut changes: Vec<&LedgerRecord> = changes.iter().collect();
        assert_eq!(disagreement("fence/a", &changes, &fence("Fenced")), None);
        let broken = of(4, "Broken", 1, "FenceConfirmed");
        changes.push(&broken);
        assert_eq!(disagreement("fence/a", &changes, &fence("AttachmentsBroken")), None);
        assert!(disagreement("fence/a", &changes, &fence("Recovered")).is_some());
    }
}
