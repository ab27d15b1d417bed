//! Fences: keeps the cluster's fences equal to the ledger's. Rule: S-FNC-1.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use berth_engine::Cluster;
use tokio::sync::watch;

use crate::ledger::{GrantError, Grants};

/// Copies the ledger's fences into the cluster, so that placement refuses fenced nodes.
#[derive(Debug)]
pub(crate) struct Fences {
    is_on: bool,
    /// Held from reading a fence to copying it, so that the last copy is of the last change.
    copying: Mutex<()>,
    /// Whether a fence could not be read since the last complete copy.
    is_behind: AtomicBool,
    /// Number of changes that may have lifted a fence, so that pods may fit that did not.
    n_lifts: watch::Sender<u64>,
}

impl Fences {
    /// Fences that placement respects, or ignores if `is_on` is false.
    pub(crate) fn new(is_on: bool) -> Fences {
        let (copying, is_behind) = (Mutex::new(()), AtomicBool::new(false));
        Fences { is_on, copying, is_behind, n_lifts: watch::Sender::new(0) }
    }

    /// Copies the fence of one node after a call that may have changed it. If the ledger cannot be read, the fence is
    /// copied once it can be again. Blocks.
    pub(crate) fn follow(&self, grants: &Grants, cluster: &Cluster, node: &str) {
        if !self.is_on {
            return;
        }
        let _copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        match grants.is_fenced(node) {
            Ok(is_fenced) => {
                if cluster.set_fenced(node, is_fenced) {
                    tracing::info!(?node, is_fenced, "placement follows the ledger's fence");
                    self.n_lifts.send_if_modified(|n| {
                        *n += u64::from(!is_fenced);
                        !is_fenced
                    });
                }
            }
            Err(error) => self.note_behind(&error),
        }
    }

    /// Copies all fences. Blocks.
    pub(crate) fn follow_all(&self, grants: &Grants, cluster: &Cluster) {
        if !self.is_on {
            return;
        }
        let _copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        match grants.fenced_nodes() {
            Ok(nodes) => {
                self.is_behind.store(false, Ordering::Relaxed);
                if cluster.replace_fences(nodes.iter().map(String::as_str)) {
                    tracing::info!(n_fenced = nodes.len(), "placement follows the ledger's fences");
                    self.n_lifts.send_modify(|n| *n += 1);
                }
            }
            Err(error) => self.note_behind(&error),
        }
    }

    /// Whether the cluster's fences may differ from the ledger's.
    pub(crate) fn are_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Signal that changes when a fence may have been lifted.
    pub(crate) fn lifts(&self) -> watch::Receiver<u64> {
        self.n_lifts.subscribe()
    }

    fn note_behind(&self, error: &GrantError) {
        self.is_behind.store(true, Ordering::Relaxed);
        tracing::warn!("placement cannot follow the ledger's fences: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_proto::berth_v1::AdvanceFenceRequest;

    use super::*;
    use crate::ledger::{
        Blind, Call, CommitError, Entry, ForceRight, JournalPage, Key, Ledger, LedgerError, Memory,
        Revision, Transaction,
    };

    /// A ledger that cannot be read at times.
    struct Faulty {
        ledger: Memory,
        is_broken: AtomicBool,
    }

    impl Faulty {
        fn check(&self) -> Result<(), LedgerError> {
            match self.is_broken.load(Ordering::Relaxed) {
                true => Err(LedgerError::Unavailable { reason: "unplugged".to_owned() }),
                false => Ok(()),
            }
        }
    }

    impl Ledger for Faulty {
        fn read(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, LedgerError> {
            self.check().and_then(|()| self.ledger.read(keys))
        }

        fn list(&self, prefix: &str) -> Result<Vec<(Key, Entry)>, LedgerError> {
            self.check().and_then(|()| self.ledger.list(prefix))
        }

        fn commit(&self, transaction: Transaction) -> Result<Revision, CommitError> {
            self.ledger.commit(transaction)
        }

        fn journal(&self, after: Revision, limit: usize) -> Result<JournalPage, LedgerError> {
            self.ledger.journal(after, limit)
        }
    }

    fn advance(grants: &Grants, node: &str, r#type: &str) -> u64 {
        let request = AdvanceFenceRequest {
            node_name: node.to_owned(),
            r#type: r#type.to_owned(),
            scope: if r#type == "Decide" { "compute".to_owned() } else { String::new() },
            actor: "me".to_owned(),
            ..AdvanceFenceRequest::default()
        };
        let call = Call { user: "u", now: 0, witness: &Blind, force: ForceRight::All };
        let answer = grants.advance_fence(&request, &call).unwrap();
        assert_eq!(answer.outcome, "Ok");
        answer.record.unwrap().token
    }

    #[test]
    fn the_cluster_follows_the_ledger_and_catches_up() {
        let ledger = Faulty { ledger: Memory::new(Revision(7)), is_broken: AtomicBool::new(false) };
        let ledger = Arc::new(ledger);
        let (grants, cluster) = (Grants::new(ledger.clone()), Cluster::new());
        let fences = Fences::new(true);
        let fenced = || cluster.snapshot().fences().map(str::to_owned).collect::<Vec<_>>();
        for node in ["a", "b", "c"] {
            advance(&grants, node, "Decide");
        }
        let lifts = fences.lifts();
        fences.follow(&grants, &cluster, "b");
        assert_eq!((fenced(), lifts.has_changed().unwrap()), (vec!["b".to_owned()], false));
        fences.follow_all(&grants, &cluster);
        assert_eq!(fenced(), ["a", "b", "c"]);
        advance(&grants, "b", "FenceFailed");
        ledger.is_broken.store(true, Ordering::Relaxed);
        fences.follow(&grants, &cluster, "b");
        assert!(fences.are_behind());
        fences.follow_all(&grants, &cluster);
        assert_eq!(
            (fences.are_behind(), fenced().len()),
            (true, 3),
            "a fence is not lifted blindly"
        );
        ledger.is_broken.store(false, Ordering::Relaxed);
        fences.follow_all(&grants, &cluster);
        assert_eq!((fences.are_behind(), fenced()), (false, vec!["a".to_owned(), "c".to_owned()]));
        let mut lifts = fences.lifts();
        advance(&grants, "a", "FenceFailed");
        fences.follow(&grants, &cluster, "a");
        assert_eq!((fenced(), lifts.has_changed().unwrap()), (vec!["c".to_owned()], true));
        lifts.mark_unchanged();
        fences.follow(&grants, &cluster, "a");
        assert!(!lifts.has_changed().unwrap(), "nothing was lifted");
        let (ignored, other) = (Fences::new(false), Cluster::new());
        ignored.follow_all(&grants, &other);
        ignored.follow(&grants, &other, "a");
        assert_eq!(other.snapshot().fences().count(), 0);
    }
}
