//! Timed ledger: a ledger whose commits are counted and timed.

use std::sync::Arc;

use tokio::sync::watch;

use crate::clock;
use crate::ledger::{
    CommitError, Entry, JournalPage, Key, Ledger, LedgerError, Revision, Transaction,
};
use crate::telemetry::{CommitOutcome, LedgerCounts};

/// The ledger, and where its commits are counted.
pub(crate) struct TimedLedger {
    ledger: Arc<dyn Ledger>,
    counts: LedgerCounts,
}

impl TimedLedger {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, counts: LedgerCounts) -> TimedLedger {
        TimedLedger { ledger, counts }
    }
}

impl Ledger for TimedLedger {
    fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
        let began = clock::now();
        let committed = self.ledger.commit(transaction);
        let outcome = match &committed {
            Ok(_) => CommitOutcome::Committed,
            Err(CommitError::Conflict { .. }) => CommitOutcome::Conflict,
            Err(CommitError::OtherTerm) => CommitOutcome::OtherTerm,
            Err(CommitError::Full { .. } | CommitError::TooLarge { .. }) => CommitOutcome::Full,
            Err(CommitError::Ledger(_)) => CommitOutcome::Failed,
        };
        self.counts.record_commit(outcome, clock::now() - began);
        committed
    }

    fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
        self.ledger.read(keys)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
        self.ledger.list(prefix)
    }

    fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
        self.ledger.journal(after, limit)
    }

    fn fault(&self) -> Option<String> {
        self.ledger.fault()
    }

    fn probe(&self) -> Result<(), LedgerError> {
        self.ledger.probe()
    }

    fn look(&self) {
        self.ledger.look();
    }

    fn n_bytes(&self) -> u64 {
        self.ledger.n_bytes()
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        self.ledger.changes()
    }

    fn resign(&self) {
        self.ledger.resign();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Memory;
    use crate::service::fixture;

    #[test]
    fn commits_are_counted_by_their_outcome() {
        let state = fixture::state(&[]);
        let memory = Arc::new(Memory::new(Revision(1)));
        let ledger = TimedLedger::new(memory, state.metrics.ledger().clone());
        let write = |expected| Transaction {
            expectations: vec![(Key::volume("v"), expected)],
            writes: vec![(Key::volume("v"), Some(vec![1]))],
            ..Transaction::default()
        };
        let revision = ledger.commit(write(None)).unwrap();
        assert!(ledger.commit(write(None)).is_err());
        ledger.commit(write(Some(revision))).unwrap();
        let text = state.metrics.render(&state.cluster.snapshot(), 0, None);
        for line in [
            "berth_ledger_commits_total{outcome=\"committed\"} 2",
            "berth_ledger_commits_total{outcome=\"conflict\"} 1",
            "berth_ledger_commit_duration_seconds_count 2",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
