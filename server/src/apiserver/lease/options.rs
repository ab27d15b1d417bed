//! Options of the election.

use std::time::Duration;

/// Name of the Lease, identity of the instance, and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this instance; no two may share it.
    pub identity: String,
    /// How long a Lease that is not renewed keeps other instances out; whole seconds.
    pub lease_duration: Duration,
    /// How long a holder continues without a successful renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Interval of renewals, and of checks between changes; less than `renew_deadline`.
    pub retry_period: Duration,
}

impl Default for LeaseOptions {
    /// Lease `berth-scheduler` in `berth`, without an identity, with times with which a killed leader costs about 5 s:
    /// 4 s, 3 s, 0.5 s (kube-scheduler's are 15 s, 10 s, 2 s).
    fn default() -> LeaseOptions {
        LeaseOptions {
            namespace: "berth".to_owned(),
            name: "berth-scheduler".to_owned(),
            identity: String::new(),
            lease_duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(3),
            retry_period: Duration::from_millis(500),
        }
    }
}
