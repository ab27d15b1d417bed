//! Connections of both ports, and the certificate that they are secured by.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::description::Description;
use super::{Counter, Gauge, Registry};

const CONNECTIONS: Description =
    Description::gauge("berth_connections", &["protocol"], "Open connections, by protocol.");
const REFUSED: Description = Description::counter(
    "berth_connections_refused_total",
    &["protocol", "reason"],
    "Connections that were closed before their first call, by protocol and reason: crowded, handshake.",
);
const RELOADS: Description = Description::counter(
    "berth_tls_reloads_total",
    &["outcome"],
    "Changes of the TLS files, by outcome: success, failure; after a failure the old ones stay in force.",
);
const EXPIRY: Description = Description::gauge(
    "berth_tls_certificate_expiry_timestamp_seconds",
    &[],
    "Unix time at which the served certificate expires; 0 without TLS.",
);

/// One server's connections, counted. Clones count together.
#[derive(Clone)]
pub struct ConnectionCounts {
    grpc: PortCounts,
    http: PortCounts,
    reloads_taken: Counter,
    reloads_refused: Counter,
    expiry: Gauge,
}

/// Those of one port.
#[derive(Clone)]
pub(crate) struct PortCounts {
    n_open: Arc<AtomicUsize>,
    open: Gauge,
    crowded: Counter,
    handshake: Counter,
}

/// Why a connection came to nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There are as many as there may be.
    Crowded,
    /// Its TLS handshake failed or took too long.
    Handshake,
}

impl ConnectionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&CONNECTIONS, &REFUSED, &RELOADS, &EXPIRY];

    pub(super) fn new(registry: &Registry) -> ConnectionCounts {
        let port = |protocol| PortCounts {
            n_open: Arc::default(),
            open: registry.gauge(&CONNECTIONS, &[protocol]),
            crowded: registry.counter(&REFUSED, &[protocol, "crowded"]),
            handshake: registry.counter(&REFUSED, &[protocol, "handshake"]),
        };
        let reloads = |outcome| registry.counter(&RELOADS, &[outcome]);
        ConnectionCounts {
            grpc: port("grpc"),
            http: port("http"),
            reloads_taken: reloads("success"),
            reloads_refused: reloads("failure"),
            expiry: registry.gauge(&EXPIRY, &[]),
        }
    }

    /// Sets what is not counted as it happens.
    pub(super) fn look(&self) {
        for port in [&self.grpc, &self.http] {
            port.open.set_count(port.n_open.load(Ordering::Relaxed));
        }
    }

    pub(crate) fn grpc(&self) -> &PortCounts {
        &self.grpc
    }

    pub(crate) fn http(&self) -> &PortCounts {
        &self.http
    }

    /// Counts TLS files that changed.
    pub(crate) fn count_reload(&self, is_taken: bool) {
        if is_taken { &self.reloads_taken } else { &self.reloads_refused }.increment(1);
    }

    /// Notes the last second at which the served certificate is valid.
    #[expect(clippy::cast_precision_loss, reason = "Unix times stay far below 2^53")]
    pub(crate) fn set_expiry(&self, not_after: i64) {
        self.expiry.set(not_after as f64);
    }
}

impl PortCounts {
    pub(crate) fn count_opened(&self) {
        self.n_open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_closed(&self) {
        self.n_open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self, reason: Refusal) {
        match reason {
            Refusal::Crowded => &self.crowded,
            Refusal::Handshake => &self.handshake,
        }
        .increment(1);
    }
}
