//! Group commit: waiting transactions are written together, since a sync costs the same for one and for fifty.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ledger::{CommitError, LedgerError, Revision, Transaction};

/// Maximum number of transactions that are written together.
const MAX_TOGETHER: usize = 256;

/// The waiting transactions, and the lock of the one writer.
#[derive(Debug, Default)]
pub(super) struct Group {
    waiting: Mutex<Vec<Arc<Waiting>>>,
    writer: Mutex<()>,
}

/// A transaction and, once it has been written or refused, its outcome.
#[derive(Debug)]
struct Waiting {
    transaction: Transaction,
    answer: Mutex<Option<Result<Revision, CommitError>>>,
}

impl Group {
    /// Has the transaction written by `write`, on this thread or on that of another waiting commit. `write` takes
    /// transactions in their order and returns the outcome of each, after all are on the disk.
    pub(super) fn commit(
        &self,
        transaction: Transaction,
        write: impl FnOnce(
            &mut dyn Iterator<Item = &Transaction>,
        ) -> Result<Vec<Result<Revision, CommitError>>, LedgerError>,
    ) -> Result<Revision, CommitError> {
        let own = Arc::new(Waiting { transaction, answer: Mutex::new(None) });
        locked(&self.waiting).push(own.clone());
        // A thread that gets the lock either finds its outcome, or is still in the list: only the holder of the lock
        // takes transactions from there, and it stores the outcomes of all that it took before it releases the lock.
        let writer = locked(&self.writer);
        if let Some(answer) = locked(&own.answer).take() {
            return answer;
        }
        let together = self.take(&own);
        let answers = write(&mut together.iter().map(|waiting| &waiting.transaction));
        answer(&together, answers);
        drop(writer);
        // A writer that panicked has taken transactions without an outcome.
        let lost = || LedgerError::Unavailable { reason: "a commit was cut short".to_owned() };
        locked(&own.answer).take().unwrap_or_else(|| Err(lost().into()))
    }

    /// Takes the transactions that have waited longest, in their order, with `own` among them.
    fn take(&self, own: &Arc<Waiting>) -> Vec<Arc<Waiting>> {
        let mut waiting = locked(&self.waiting);
        let place = waiting.iter().position(|waiting| Arc::ptr_eq(waiting, own));
        let n_before = place.map_or(0, |place| place + 1);
        let n_together = waiting.len().min(MAX_TOGETHER.max(n_before));
        waiting.drain(..n_together).collect()
    }
}

fn answer(
    together: &[Arc<Waiting>],
    answers: Result<Vec<Result<Revision, CommitError>>, LedgerError>,
) {
    match answers {
        Ok(answers) => {
            for (waiting, answer) in together.iter().zip(answers) {
                *locked(&waiting.answer) = Some(answer);
            }
        }
        Err(error) => {
            for waiting in together {
                *locked(&waiting.answer) = Some(Err(error.clone().into()));
            }
        }
    }
}

/// Locks a mutex. The data stays consistent at every moment, also if a thread panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn waiting_transactions_are_written_together_and_each_gets_its_own_answer() {
        let group = Group::default();
        let (entered, has_entered) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let line = |n: u8| Transaction { journal: Some(vec![n]), ..Transaction::default() };
        let answers = |transactions: &mut dyn Iterator<Item = &Transaction>| {
            Ok(transactions
                .map(|t| Ok(Revision(t.journal.as_ref().unwrap()[0].into())))
                .collect::<Vec<_>>())
        };
        let n_writes = Mutex::new(0);
        std::thread::scope(|scope| {
            let (group, n_writes) = (&group, &n_writes);
            scope.spawn(move || {
                let first = group.commit(line(1), |transactions| {
                    let written = answers(transactions);
                    entered.send(()).unwrap();
                    released.recv().unwrap();
                    written
                });
                assert_eq!(first, Ok(Revision(1)));
            });
            has_entered.recv().unwrap();
            for n in 2..=9 {
                scope.spawn(move || {
                    let own = group.commit(line(n), |transactions| {
                        *locked(n_writes) += 1;
                        answers(transactions)
                    });
                    assert_eq!(own, Ok(Revision(n.into())));
                });
            }
            while locked(&group.waiting).len() < 8 {
                std::thread::yield_now();
            }
            release.send(()).unwrap();
        });
        assert_eq!(*locked(&n_writes), 1);
    }

    #[test]
    fn a_failure_concerns_all_and_a_panic_loses_no_transaction() {
        let group = Group::default();
        let error = LedgerError::Unavailable { reason: "full".to_owned() };
        let failed = group.commit(Transaction::default(), |_| Err(error.clone()));
        assert_eq!(failed, Err(CommitError::Ledger(error)));
        std::thread::scope(|scope| {
            let panicking =
                scope.spawn(|| group.commit(Transaction::default(), |_| panic!("on purpose")));
            assert!(panicking.join().is_err());
        });
        let next = group.commit(Transaction::default(), |transactions| {
            Ok(transactions.map(|_| Ok(Revision(7))).collect())
        });
        assert_eq!(next, Ok(Revision(7)));
    }
}
