//! Wording: why a replica is the next to go, as text.

use super::level::{Level, domain_name};
use super::preference::{Choice, DecidedBy, Readiness};
use super::replica::Replica;
use crate::snapshot::Snapshot;

/// A message of one line, without a full stop.
pub(super) fn message(
    snapshot: &Snapshot,
    replica: &Replica,
    levels: &[Level],
    choice: &Choice,
) -> String {
    let node = replica.node(snapshot);
    match choice.decided_by {
        DecidedBy::Readiness(Readiness::NotStarted) => "it has not started".to_owned(),
        DecidedBy::Readiness(_) => "it is not ready".to_owned(),
        DecidedBy::Excess => {
            "without any other, hard spread constraints are violated by more".to_owned()
        }
        DecidedBy::Crowding { level, number } => {
            let level = &levels[level];
            let key = snapshot.model.names().name(level.key());
            let name = domain_name(snapshot, replica.row, level.key());
            match name {
                Some(name) => format!("`{key}` `{name}` has {number} of them, the most"),
                None => format!("its node has no label `{key}`"),
            }
        }
        DecidedBy::LeavingNode => format!("node `{node}` is cordoned or being removed"),
        DecidedBy::EmptierNode { n_others: 0 } => format!("nothing else holds node `{node}`"),
        DecidedBy::EmptierNode { n_others } => {
            format!("only {n_others} others hold node `{node}`, the fewest")
        }
        DecidedBy::Budget => "no disruption budget forbids it".to_owned(),
        DecidedBy::Younger => "it started last".to_owned(),
        DecidedBy::Name => "nothing but its name tells it from the next".to_owned(),
    }
}
