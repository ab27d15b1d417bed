//! Connections of both ports, and the certificate that secures them.

use metrics::{Counter, Gauge, Unit};

use super::Registry;
use super::description::Description;

const CONNECTIONS: Description =
    Description::gauge("berth_connections", &["protocol"], "Open connections, by protocol.");
const REFUSED: Description = Description::counter(
    "berth_connections_refused_total",
    &["protocol", "reason"],
    "Connections closed before their first call, by protocol and reason: crowded (too many are open), handshake.",
);
const CUT: Description = Description::counter(
    "berth_connections_cut_total",
    &["protocol", "reason"],
    "Open connections that the server ended, by protocol and reason: control_frames (too many of them), \
     displaced (another connection needed the slot).",
);
const RELOADS: Description = Description::counter(
    "berth_tls_reloads_total",
    &["outcome"],
    "Reloads of the TLS files, by outcome: success, failure; after a failure the previous files stay in force.",
);
const EXPIRY: Description = Description::gauge(
    "berth_tls_certificate_expiry_timestamp_seconds",
    &[],
    "Unix time at which the served certificate expires; 0 without TLS.",
)
.measured_in(Unit::Seconds);

/// Metrics of one server's connections. Clones count together.
#[derive(Clone)]
pub struct ConnectionCounts {
    grpc: PortCounts,
    http: PortCounts,
    reloads_succeeded: Counter,
    reloads_failed: Counter,
    expiry: Gauge,
}

/// Metrics of the connections of one port.
#[derive(Clone)]
pub(crate) struct PortCounts {
    open: Gauge,
    crowded: Counter,
    handshake: Counter,
    control_frames: Counter,
    displaced: Counter,
}

/// Why a connection was closed before its first call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The limit of open connections is reached.
    Crowded,
    /// The TLS handshake failed or took too long.
    Handshake,
}

/// Why an open connection was ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Too many frames of control came.
    ControlFrames,
    /// Another connection needed the slot.
    Displaced,
}

impl ConnectionCounts {
    pub(super) const DESCRIPTIONS: &'static [&'static Description] =
        &[&CONNECTIONS, &REFUSED, &CUT, &RELOADS, &EXPIRY];

    pub(super) fn new(registry: &Registry) -> ConnectionCounts {
        let port = |protocol| PortCounts {
            open: registry.gauge(&CONNECTIONS, &[protocol]),
            crowded: registry.counter(&REFUSED, &[protocol, "crowded"]),
            handshake: registry.counter(&REFUSED, &[protocol, "handshake"]),
            control_frames: registry.counter(&CUT, &[protocol, "control_frames"]),
            displaced: registry.counter(&CUT, &[protocol, "displaced"]),
        };
        let reloads = |outcome| registry.counter(&RELOADS, &[outcome]);
        ConnectionCounts {
            grpc: port("grpc"),
            http: port("http"),
            reloads_succeeded: reloads("success"),
            reloads_failed: reloads("failure"),
            expiry: registry.gauge(&EXPIRY, &[]),
        }
    }

    /// Metrics of the gRPC port.
    pub(crate) fn grpc(&self) -> &PortCounts {
        &self.grpc
    }

    /// Metrics of the HTTP port.
    pub(crate) fn http(&self) -> &PortCounts {
        &self.http
    }

    /// Counts a reload of the TLS files.
    pub(crate) fn count_reload(&self, is_success: bool) {
        if is_success { &self.reloads_succeeded } else { &self.reloads_failed }.increment(1);
    }

    /// Sets the last second at which the served certificate is valid.
    #[expect(clippy::cast_precision_loss, reason = "Unix times stay far below 2^53")]
    pub(crate) fn set_expiry(&self, not_after: i64) {
        self.expiry.set(not_after as f64);
    }
}

impl PortCounts {
    /// Counts a connection that opens.
    pub(crate) fn count_opened(&self) {
        self.open.increment(1.0);
    }

    /// Counts a connection that closes.
    pub(crate) fn count_closed(&self) {
        self.open.decrement(1.0);
    }

    /// Counts an open connection that is ended.
    pub(crate) fn count_cut(&self, reason: Cut) {
        match reason {
            Cut::ControlFrames => &self.control_frames,
            Cut::Displaced => &self.displaced,
        }
        .increment(1);
    }

    /// Counts a connection that is closed before its first call.
    pub(crate) fn count_refused(&self, reason: Refusal) {
        match reason {
            Refusal::Crowded => &self.crowded,
            Refusal::Handshake => &self.handshake,
        }
        .increment(1);
    }
}
