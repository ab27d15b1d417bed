//! A wall clock that jumps. Durations are measured by the monotonic clock (`berth_server::clock::now`), which does not
//! jump; every use of the wall clock must be correct whatever it says.

use std::sync::Arc;

use berth_proto::berth_v1::{
    AcquireIdentityRequest, ListLedgerRecordsRequest, RecordIdentityEventRequest,
};
use berth_server::ledger::{Embedded, Grants, Revision};

use crate::ledger::workload::call;

fn acquire(grants: &Grants, uid: &str, now: i64) -> (String, u64) {
    let request = AcquireIdentityRequest {
        namespace: "d".into(),
        name: "pet-0".into(),
        uid: uid.into(),
        node_name: "n".into(),
        actor: "me".into(),
    };
    let answer = grants.acquire_identity(&request, &call(now)).unwrap();
    (answer.outcome, answer.token)
}

fn release(grants: &Grants, uid: &str, token: u64, now: i64) -> String {
    let request = RecordIdentityEventRequest {
        namespace: "d".into(),
        name: "pet-0".into(),
        uid: uid.into(),
        r#type: "RemovedByNodeAgent".into(),
        token,
        actor: "me".into(),
        ..RecordIdentityEventRequest::default()
    };
    grants.record_identity_event(&request, &call(now)).unwrap().outcome
}

const NOON: i64 = 1_795_000_000;
const CENTURY: i64 = 3_155_760_000;

/// Through jumps and restarts no grant expires, none is given twice, and tokens and revisions grow.
#[test]
fn grants_do_not_depend_on_the_wall_clock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let jumps = [NOON, NOON + CENTURY, NOON - CENTURY, 0, -1, i64::MIN, i64::MAX, NOON];
    let mut last = 0;
    for (n, now) in jumps.into_iter().enumerate() {
        // A restart at the time of the clock, whatever it says: only a new file begins at that revision.
        let start = Revision(now.max(0).unsigned_abs());
        let grants = Grants::new(Arc::new(Embedded::open(&path, start).unwrap()));
        let (outcome, token) = acquire(&grants, &format!("u-{n}"), now);
        assert_eq!(outcome, "Granted", "at {now}");
        assert!(token > last, "at {now}: {token} after {last}");
        for later in jumps {
            assert_eq!(acquire(&grants, "other", later).0, "HeldByOther", "at {later}");
        }
        assert_eq!(release(&grants, &format!("u-{n}"), token, now), "Released", "at {now}");
        last = token;
    }
    let grants = Grants::new(Arc::new(Embedded::open(&path, Revision(0)).unwrap()));
    let lines = grants.list_ledger_records(&ListLedgerRecordsRequest::default(), &call(0)).unwrap();
    let revisions: Vec<u64> = lines.records.iter().map(|line| line.revision).collect();
    assert_eq!(revisions.len(), 2 * jumps.len());
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
}

/// `clock.rs` is the only reader of clocks, and everything that needs the time uses it, so the list of uses below is
/// complete.
#[test]
fn the_wall_clock_is_read_where_it_is_known_to_be_harmless() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    look(&sources, &mut found);
    found.sort();
    let known = [
        // The time of an audit line, on which no decision depends.
        "audit/line.rs",
        // Whether a certificate is valid: a question about wall-clock time, answered anew at each call.
        "auth.rs",
        // Names and times of events and leases in the API server; whether a lease is held depends on the monotonic
        // clock.
        "apiserver/event_writer.rs",
        "apiserver/event_writer/series.rs",
        "apiserver/lease/election.rs",
        // Times that are shown to people, or compared with times that people typed.
        "cli/lifecycle/delete.rs",
        "cli/lifecycle/moment.rs",
        // When a decision was told, for people who watch.
        "grpc/decisions/watch.rs",
        "http/console/live.rs",
        // The default time of a request, which is compared with times in Kubernetes objects.
        "service/autoscaler/drain.rs",
        "grpc/lifecycle/evaluate.rs",
        // The time of a journal line, on which no decision depends.
        "service/lifecycle.rs",
        // The first revision of a new ledger. An existing ledger continues from its last revision.
        "ledger.rs",
        // The first token of a server's assumptions, which end with the server. After a clock was set back, a later
        // server's tokens may be smaller; each counts only together with its pod.
        "service/state.rs",
        // Tells people when pods were reserved.
        "service/assumptions/record.rs",
        // A committer's first token is also above all that were told, whatever the clock says.
        "runtime/replica.rs",
        // The name of a file that is renamed before anybody looks for it; an existing name is an error.
        "ledger/embedded/open.rs",
        // Reminders of a certificate's expiry, which is checked again and again.
        "net/tls.rs",
        // The time that decisions compare with when a device was allocated: a device that is not ready counts as
        // overdue earlier or later, until the clock is right again.
        "cli/backend/local.rs",
        "scheduler/run.rs",
        "service/cluster/pending.rs",
        "service/placement.rs",
        "service/placement/entries.rs",
        "service/placement/gang.rs",
        "service/placement/reserve.rs",
        "service/preemption.rs",
        // The time of an allocation that is written to claims.
        "scheduler/claims.rs",
        // When something was recorded, for people. Segments are named by it, each after the one before.
        "service/recorder/queue.rs",
        "service/recorder/recording.rs",
        "service/recorder/told.rs",
        // Times of conditions that are written to pods.
        "scheduler/evict.rs",
        "scheduler/report.rs",
    ];
    let unknown: Vec<&String> =
        found.iter().filter(|path| !known.contains(&path.as_str())).collect();
    assert!(unknown.is_empty(), "say here why a jump of the wall clock does no harm: {unknown:?}");
}

fn look(directory: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            look(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let uses = ["unix_seconds()", "unix_micros()", "SystemTime::now", "Timestamp::now"];
            let is_clock = path.ends_with("src/clock.rs");
            // `Time::unix_seconds()` of an object does not read a clock.
            let reads = |text: &str| {
                text.lines().any(|line| {
                    uses.iter().any(|used| line.contains(&format!("clock::{used}")))
                        || uses[2..].iter().any(|used| line.contains(used))
                })
            };
            if !is_clock && reads(&text) {
                let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
}
