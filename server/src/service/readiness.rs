//! Readiness: whether the server can place pods.

use super::replicas::Replicas;
use super::state::State;
use crate::apiserver::leadership::Leadership;
use crate::feed::NotReady;
use crate::ledger::Role;
use crate::{clock, escape};

/// A check: its name, and a note or the reason why it failed.
pub(crate) type Check = (&'static str, Result<Option<String>, String>);

/// The readiness checks; gRPC health is their conjunction.
pub(crate) fn readiness(state: &State) -> Vec<Check> {
    let feed = match state.freshness.watches() {
        Some(watches) => watches.report(clock::now()).map(Some),
        None => {
            state.freshness.check_decidable().map(|()| None).map_err(|reason| reason.to_string())
        }
    };
    let restoring = state.freshness.check_decidable().err().filter(|it| *it == NotReady::Restoring);
    let contradictions = contradictions(state.cluster.snapshot().n_contradictions());
    let drain =
        if *state.draining.borrow() { Err("the server is draining".to_owned()) } else { Ok(None) };
    let mut checks =
        vec![("feed", feed), ("contradictions", contradictions.map(|()| None)), ("drain", drain)];
    checks.extend(restoring.map(|reason| ("reservations", Err(reason.to_string()))));
    checks.extend(state.audit.fault().map(|reason| ("audit", Err(reason.to_string()))));
    // The ledger's fault is only a note: a server that cannot grant still places pods.
    let note = |fault: String| ledger(&fault, state.assumptions.are_kept());
    checks.extend(state.grants.fault().map(|fault| ("ledger", Ok(Some(note(fault))))));
    // Neither: a replica that does not commit, or cannot, still answers what only reads.
    checks.extend(state.replicas.as_ref().map(|it| ("replicas", Ok(Some(replicas(it))))));
    checks.extend(state.leadership.get().map(|it| ("leader", leader(it).map(Some))));
    checks
}

/// A standby is as ready as the leader, as long as it could take over.
fn leader(leadership: &Leadership) -> Result<String, String> {
    if let Some(trouble) = leadership.trouble() {
        return Err(format!("this instance cannot lead: {trouble}"));
    }
    Ok(match (leadership.is_held(clock::now()), leadership.holder()) {
        (true, _) => "this instance leads".to_owned(),
        (false, Some(holder)) => {
            format!("`{}` leads, this instance stands by", escape::printable(&holder))
        }
        (false, None) => "no leader is known, this instance stands by".to_owned(),
    })
}

fn replicas(replicas: &Replicas) -> String {
    let role = match replicas.role() {
        Role::Unknown => "no replica is known to commit".to_owned(),
        Role::Follower { committer } => {
            format!("`{}` commits", escape::printable(&committer.name))
        }
        Role::Elected => "this replica is about to commit".to_owned(),
        Role::Committer { .. } => "this replica commits".to_owned(),
        Role::Resigned => "this replica has resigned".to_owned(),
    };
    let age = match replicas.staleness(clock::now()) {
        Some(age) => format!("all reservations were known {:.1} s ago", age.as_secs_f64()),
        None => "reservations were never known".to_owned(),
    };
    match replicas.trouble() {
        Some(trouble) => format!("{role}; {age}; {}", escape::printable(&trouble)),
        None => format!("{role}; {age}"),
    }
}

fn ledger(fault: &str, keeps_assumptions: bool) -> String {
    let fault = escape::printable(fault);
    let effect = match keeps_assumptions {
        true => "dry runs go on, but nothing is granted or assumed",
        false => "pods are placed, but nothing is granted",
    };
    format!("{effect}: {fault}; it is tried again every few seconds")
}

/// S-CCH-6: a feed that contradicts itself makes the instance unhealthy until the feed sends the cluster anew.
fn contradictions(n: u64) -> Result<(), String> {
    let what = match n {
        0 => return Ok(()),
        1 => "1 contradiction; a snapshot over `Sync`, SIGHUP (the files are read again), or a list of the API server clears it"
            .to_owned(),
        n => format!(
            "{n} contradictions; a snapshot over `Sync`, SIGHUP (the files are read again), or a list of the API server clears them"
        ),
    };
    Err(format!("a feed has sent {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_counted_in_grammar() {
        assert_eq!(contradictions(0), Ok(()));
        assert!(contradictions(1).unwrap_err().starts_with("a feed has sent 1 contradiction;"));
        assert!(contradictions(2).unwrap_err().starts_with("a feed has sent 2 contradictions;"));
    }
}
