//! What is recorded comes out the same again, from wherever it is read, and what was changed is found.

use std::fs;
use std::sync::Arc;

use berth_engine::{
    BatchRequest, Cluster, ClusterState, Delta, Gang, PlaceRequest, PreemptOptions, PreemptRequest,
    TieBreak,
};
use berth_testing::object;

use super::*;
use crate::journal::directory;
use crate::journal::reader::{Block, Reader};
use crate::journal::writer::Writer;
use crate::policy::Profiles;
use crate::service::recorder::record::{Columns, Kind, Record};
use crate::service::{Header, Journal, JournalOptions, Recorder};
use crate::telemetry::Metrics;

/// A cluster with a journal.
struct Recorded {
    cluster: Arc<Cluster>,
    recorder: Arc<Recorder>,
    journal: Journal,
    profiles: Profiles,
}

impl Recorded {
    fn start(directory: &Path, max_bytes: u64) -> Recorded {
        let recorder = Arc::new(Recorder::new());
        let cluster = Arc::new(Cluster::observed_by(recorder.clone()));
        let profiles = Profiles::default();
        let max_age = Duration::from_secs(3_600);
        let options = JournalOptions { directory: directory.to_owned(), max_bytes, max_age };
        let counts = Metrics::new().journal().clone();
        let header = Header::of(&profiles);
        let journal = Journal::start(&cluster, recorder.clone(), options, header, counts).unwrap();
        Recorded { cluster, recorder, journal, profiles }
    }

    fn report(&self, nodes: usize) {
        let node = |i| {
            let text = format!("n{i} cpu=4 memory=16Gi pods=6 label:zone=z{}", i % 3);
            self.cluster.compile_node(&object::node(&text)).unwrap()
        };
        let (nodes, objects, pods) = ((0..nodes).map(node).collect(), Vec::new(), Vec::new());
        self.cluster.replace(ClusterState { nodes, objects, pods });
    }

    /// Places, evicts and deletes pods in many ways.
    fn round(&self, round: usize) {
        let (cluster, cancelled, now) = (&self.cluster, &|| false, Some(7));
        let policy = self.profiles.get("").unwrap();
        let tie_break = TieBreak::Seeded(round as u64);
        let pod = |text: String| cluster.compile_pod(&object::pod(&text)).unwrap();
        let one = pod(format!("a{round} cpu=1 label:app=a spread=zone,1,DoNotSchedule,app:a"));
        drop(cluster.place(&PlaceRequest { pod: &one, policy, tie_break, now }));
        drop(cluster.assume(&PlaceRequest { pod: &one, policy, tie_break, now }));
        let pods: Vec<_> =
            (0..3).map(|i| pod(format!("b{round}-{i} cpu=1 priority={i}"))).collect();
        for (assume, gang) in [(false, None), (true, None)] {
            let pods = &pods;
            cluster.place_batch(&BatchRequest {
                pods,
                policy,
                tie_break,
                assume,
                gang,
                cancelled,
                now,
            });
        }
        let members: Vec<_> =
            (0..2).map(|i| pod(format!("g{round}-{i} cpu=2 priority=5"))).collect();
        let gang = Some(Gang { min_count: 1, preempt: Some(PreemptOptions::default()) });
        let (pods, assume) = (&members, true);
        cluster.place_batch(&BatchRequest {
            pods,
            policy,
            tie_break,
            assume,
            gang,
            cancelled,
            now,
        });
        let urgent = pod(format!("u{round} cpu=4 priority=9"));
        let options = PreemptOptions::default();
        let asked = PreemptRequest { pod: &urgent, policy, tie_break, options, cancelled, now };
        let attempt = cluster.preempt(&asked).unwrap();
        if let Some(post_filter) = &attempt.post_filter {
            cluster.nominate(&urgent, post_filter).unwrap();
        }
        let reported = format!("r{round} cpu=1 node=n{} version={round}", round % 5);
        let reported = cluster.compile_reported_pod(&object::pod(&reported)).unwrap();
        let gone =
            |name: String| Delta::DeletePod { key: PodKey::new("default", &name), uid: None };
        let before = round.saturating_sub(2);
        cluster.apply(vec![
            Delta::UpsertPod(reported),
            gone(format!("a{before}")),
            gone(format!("u{before}")),
            gone(format!("b{before}-1")),
            gone(format!("g{before}-0")),
            gone(format!("r{before}")),
        ]);
    }
}

fn record(directory: &Path, n_rounds: usize) {
    let recorded = Recorded::start(directory, 1 << 30);
    recorded.report(7);
    (0..n_rounds).for_each(|round| recorded.round(round));
    recorded.journal.close();
}

fn all(directory: &Path) -> Report {
    replay(directory, &Selection::default()).unwrap()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    directory::segments(directory).unwrap()
}

/// The records of a segment.
fn records(path: &Path) -> Vec<Record> {
    let mut reader = Reader::open(path).unwrap();
    let mut records = Vec::new();
    while let Block::Records(block) = reader.next().unwrap() {
        reader.records(&block, |record| records.push(record)).unwrap();
    }
    records
}

fn rewrite(path: &Path, records: &[Record]) {
    fs::remove_file(path).unwrap();
    let micros = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let mut writer = Writer::create(path.parent().unwrap(), micros).unwrap();
    records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish().unwrap();
}

#[test]
fn decisions_are_the_same_again() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 30);
    let report = all(directory.path());
    assert!(report.first.is_none(), "{:?}", report.first);
    assert_eq!((report.n_different, report.n_unknown, report.n_gaps), (0, 0, 0));
    assert_eq!((report.n_segments, report.n_attempts), (1, 6 * 30));
    assert_eq!(report.n_decisions, (1 + 1 + 3 + 3 + 2 + 1) * 30);
    let pod = Some(PodKey::new("default", "g4-1"));
    let of_pod = replay(directory.path(), &Selection { pod, ..Selection::default() }).unwrap();
    assert_eq!((of_pod.n_attempts, of_pod.of_pod.len()), (1, 1));
    let (_, last) = report.span.unwrap();
    let later = Selection { from: Some(last + 10_000_000), ..Selection::default() };
    assert_eq!(replay(directory.path(), &later).unwrap().n_attempts, 0);
    let earlier = Selection { to: Some(1), ..Selection::default() };
    assert_eq!(replay(directory.path(), &earlier).unwrap().n_attempts, 0);
}

/// A journal that is turned over again and again is read from any of its segments.
#[test]
fn any_segment_is_a_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let recorded = Recorded::start(directory.path(), 8 * 4_096);
    recorded.report(7);
    let mut found = Vec::new();
    for round in 0..400 {
        recorded.round(round);
        // A segment has all that waits when it is full.
        while recorded.recorder.n_waiting_bytes() > 0 {
            std::thread::yield_now();
        }
        found.extend(segments(directory.path()));
    }
    recorded.journal.close();
    found.sort_unstable();
    found.dedup();
    let left = segments(directory.path());
    assert!(
        found.len() > left.len(),
        "the first ones are removed: {} of {}",
        left.len(),
        found.len()
    );
    let n_bytes: u64 = left.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(left.len() > 1, "{left:?}, {n_bytes} bytes");
    let n_left = left.len();
    for (n_removed, path) in left.into_iter().enumerate() {
        let report = all(directory.path());
        assert!(report.first.is_none(), "{:?}", report.first);
        assert_eq!((report.n_segments, report.n_gaps), (n_left - n_removed, 0));
        assert!(report.n_attempts > 0);
        fs::remove_file(path).unwrap();
    }
    let error = replay(directory.path(), &Selection::default()).unwrap_err();
    assert!(matches!(error, ReplayError::Empty { .. }));
}

#[test]
fn runs_of_a_server_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 5);
    record(directory.path(), 3);
    let report = all(directory.path());
    assert!(report.first.is_none(), "{:?}", report.first);
    assert_eq!((report.n_segments, report.n_gaps, report.n_attempts), (2, 1, 6 * 8));
}

#[test]
fn what_was_changed_is_found() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 6);
    let path = &segments(directory.path())[0];
    let original = records(path);
    let attempts = original.iter().enumerate().filter_map(|(at, record)| match &record.kind {
        Some(Kind::Attempt(attempt)) => Some((at, attempt.clone())),
        _ => None,
    });
    for (number, (at, attempt)) in attempts.enumerate() {
        let mut attempt = attempt;
        match (&mut attempt.preemption, &mut attempt.results) {
            (Some(preemption), _) => match &mut preemption.post_filter {
                Some(post_filter) => post_filter.n_candidates += 1,
                None => preemption.decision = None,
            },
            (None, Some(Columns { n_best, .. })) if !n_best.is_empty() => n_best[0] += 1,
            (None, results) => drop(results.as_mut().unwrap().others.pop().unwrap()),
        }
        let mut changed = original.clone();
        changed[at].kind = Some(Kind::Attempt(attempt));
        rewrite(path, &changed);
        let report = all(directory.path());
        assert_eq!(report.n_different, 1);
        assert_eq!(report.first.unwrap().attempted.sequence, number as u64);
    }
    // Without a node that is chosen, or without a change.
    let without = |is_it: fn(&Kind) -> bool| -> Vec<Record> {
        let at =
            original.iter().rposition(|record| record.kind.as_ref().is_some_and(is_it)).unwrap();
        original.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, it)| it.clone()).collect()
    };
    rewrite(path, &without(|kind| matches!(kind, Kind::UpsertNode(_))));
    assert!(replay(directory.path(), &Selection::default()).is_ok_and(|it| it.n_different > 0));
    rewrite(path, &without(|kind| matches!(kind, Kind::Start(_))));
    let error = replay(directory.path(), &Selection::default()).unwrap_err();
    assert!(matches!(error, ReplayError::NoStart { .. }), "{error}");
    rewrite(path, &without(|kind| matches!(kind, Kind::ReplaceBegin(_))));
    let error = replay(directory.path(), &Selection::default()).unwrap_err();
    assert!(matches!(error, ReplayError::Record { .. }), "{error}");
}

/// A server that is killed leaves whole blocks, and all that is in them.
#[test]
fn a_torn_end_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), 4);
    let path = &segments(directory.path())[0];
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 5]).unwrap();
    let report = all(directory.path());
    assert_eq!(report.torn.len(), 1);
    assert_eq!((report.n_different, report.n_segments), (0, 1));
}
