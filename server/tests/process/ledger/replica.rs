//! Ledgers on a real etcd.

use std::thread;
use std::time::{Duration, Instant};

use berth_server::ledger::{Bounds, Etcd, EtcdOptions, Ledger, Revision};
use berth_testing::etcd;
use tokio::runtime::Runtime;

/// Longest time to wait for a change of state.
const PATIENCE: Duration = Duration::from_secs(60);

/// A ledger on an etcd of its own.
pub(super) struct Replica {
    ledger: Option<Etcd>,
    runtime: Option<Runtime>,
    /// The etcd, unless the replicas of a test share one.
    _etcd: Option<etcd::Etcd>,
}

impl Replica {
    /// The only replica, committing, on an empty etcd of one member; `None` if the check has to be skipped.
    pub(super) fn alone(start: Revision, bounds: Bounds) -> Option<Replica> {
        let etcd = etcd::Etcd::start(1, &[])?;
        let mut replica = Replica::on(&etcd, "alone", start, bounds);
        replica._etcd = Some(etcd);
        replica.await_committing();
        Some(replica)
    }

    /// A replica on an etcd.
    pub(super) fn on(etcd: &etcd::Etcd, name: &str, start: Revision, bounds: Bounds) -> Replica {
        let runtime = Runtime::new().unwrap();
        let options = EtcdOptions {
            endpoints: etcd.endpoints(),
            name: name.to_owned(),
            ..EtcdOptions::default()
        };
        let start_at = move || start;
        let entered = runtime.enter();
        let ledger = Etcd::start(&options, start_at, bounds).unwrap();
        drop(entered);
        Replica { ledger: Some(ledger), runtime: Some(runtime), _etcd: None }
    }

    pub(super) fn ledger(&self) -> &dyn Ledger {
        self.etcd()
    }

    pub(super) fn etcd(&self) -> &Etcd {
        self.ledger.as_ref().unwrap()
    }

    /// Waits until this replica commits.
    pub(super) fn await_committing(&self) {
        await_true("the replica commits", || self.etcd().role().borrow().is_committer());
    }

    /// Ends the replica as a crash does: it says nothing to etcd any more.
    pub(super) fn crash(mut self) {
        self.runtime.take().unwrap().shutdown_background();
        self.ledger.take();
    }
}

/// Waits until something is so.
pub(super) fn await_true(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
