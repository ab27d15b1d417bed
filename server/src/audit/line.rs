//! Line: the audit line of a call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_proto::MicroTime;
use serde::Serialize;

use crate::auth::Caller;
use crate::clock;
use crate::net::Peer;
use crate::telemetry::code_name;

/// The line of a call that is over.
pub(crate) struct Line {
    pub(crate) caller: Arc<Caller>,
    pub(crate) peer: Option<Arc<Peer>>,
    /// `/SERVICE/METHOD`, or the path of a route.
    pub(crate) method: &'static str,
    /// Status code as in `grpc-status`, also for calls over HTTP.
    pub(crate) code: i32,
    pub(crate) elapsed: Duration,
    pub(crate) request_id: Option<Box<str>>,
    pub(crate) trace_id: Option<u128>,
    /// Time when the call ended, in microseconds since 1970 by the wall clock.
    pub(crate) time: u64,
    /// Number of changes that were begun, such as messages of a stream.
    pub(crate) n_changes: u64,
}

/// A line in its written form: one JSON object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    time: MicroTime,
    user: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'a [Box<str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roles: Vec<&'static str>,
    means: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    method: &'static str,
    code: &'static str,
    elapsed_ms: f64,
    #[serde(skip_serializing_if = "is_at_most_one")]
    changes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_at_most_one(n: &u64) -> bool {
    *n <= 1
}

impl Line {
    /// A line for a call of `method` that ended now with `code`; the caller fills in the rest.
    pub(crate) fn new(
        caller: Arc<Caller>,
        method: &'static str,
        code: i32,
        elapsed: Duration,
    ) -> Line {
        Line {
            caller,
            peer: None,
            method,
            code,
            elapsed,
            request_id: None,
            trace_id: None,
            time: clock::unix_micros(),
            n_changes: 0,
        }
    }

    fn written(&self) -> Written<'_> {
        let Line { caller, peer, method, code, elapsed, request_id, trace_id, time, n_changes } =
            self;
        Written {
            time: MicroTime::from_unix_microseconds(i64::try_from(*time).unwrap_or(i64::MAX)),
            user: &caller.user,
            groups: &caller.groups,
            roles: caller.roles.names().collect(),
            means: caller.means.name(),
            peer: peer.as_ref().and_then(|peer| peer.address),
            method,
            code: code_name(*code),
            // Rounded to whole microseconds.
            elapsed_ms: (elapsed.as_secs_f64() * 1e6).round() / 1e3,
            changes: *n_changes,
            request_id: request_id.as_deref(),
            trace_id: trace_id.map(|id| format!("{id:032x}")),
        }
    }

    /// Appends the line as JSON, with a line break behind it and none inside.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Err(error) = serde_json::to_writer(&mut *out, &self.written()) {
            // Text and numbers can always be written, a time after the year 9999 cannot.
            out.truncate(start);
            let text = serde_json::json!({ "error": error.to_string(), "method": self.method });
            out.extend_from_slice(text.to_string().as_bytes());
        }
        out.push(b'\n');
    }

    /// Writes the line to the log of this process.
    pub(super) fn log(&self) {
        let line = self.written();
        tracing::info!(
            target: "berth::audit",
            user = line.user,
            groups = (!line.groups.is_empty()).then(|| line.groups.join(",")),
            roles = (!line.roles.is_empty()).then(|| line.roles.join(",")),
            means = line.means,
            peer = line.peer.map(|address| address.to_string()),
            method = line.method,
            code = line.code,
            elapsed_ms = line.elapsed_ms,
            changes = (line.changes > 1).then_some(line.changes),
            request_id = line.request_id,
            trace_id = line.trace_id,
            "audit"
        );
    }
}
