//! Trace: W3C Trace Context. A caller's `traceparent` names the trace that a call belongs to. The server's work for the
//! call is a span of that trace: its ids are in every log line of the call and in requests to the API server.
//!
//! A call without `traceparent` costs one look-up in its headers. Headers are read strictly by the recommendation
//! (<https://www.w3.org/TR/trace-context/>); a malformed one is ignored.

mod export;
mod ids;
mod span;
mod state;

use http::{HeaderMap, HeaderName};

pub use export::TracingError;
pub(crate) use span::{Scope, Span, Tracer, followed, outgoing};

/// Collector of spans, and the fraction of calls that are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingOptions {
    /// Host and port of a collector's OTLP receiver for gRPC (`endpoint`, default `localhost:4317`). Spans are sent in
    /// plain text.
    pub endpoint: String,
    /// Number of calls in a million without a trace that begin one (`samplingRatePerMillion`, default 0, at most
    /// 1,000,000). A call that belongs to a trace is sent if its caller's part is.
    pub sampling_rate_per_million: u32,
}

/// The trace that a call belongs to, from its caller's headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; never 0.
    pub trace_id: u128,
    /// Id of the caller's span; never 0.
    pub parent_id: u64,
    /// Whether the caller may have recorded its span.
    pub is_sampled: bool,
}

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Length of a `traceparent` of version 00, and the least of any later version.
const LENGTH: usize = 55;
/// A version that the recommendation forbids.
const NO_VERSION: u128 = 0xff;
const SAMPLED: u128 = 1;

impl TraceContext {
    /// Reads the headers; `None` unless there is exactly one `traceparent` and it is well formed.
    pub fn of(headers: &HeaderMap) -> Option<TraceContext> {
        let mut values = headers.get_all(&TRACEPARENT).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => TraceContext::read(value.as_bytes()),
            _ => None,
        }
    }

    /// Reads `version-trace_id-parent_id-flags`, all in lower-case hexadecimal. A later version is read as far as its
    /// layout is that of version 00.
    fn read(text: &[u8]) -> Option<TraceContext> {
        let version = hex(text.get(..2)?)?;
        let is_laid_out = match text.len() {
            LENGTH => version != NO_VERSION,
            longer => {
                longer > LENGTH && version != 0 && version != NO_VERSION && text[LENGTH] == b'-'
            }
        };
        if !is_laid_out || [2, 35, 52].iter().any(|&at| text[at] != b'-') {
            return None;
        }
        let trace_id = hex(&text[3..35])?;
        let parent_id = u64::try_from(hex(&text[36..52])?).ok()?;
        let flags = hex(&text[53..55])?;
        (trace_id != 0 && parent_id != 0).then_some(TraceContext {
            trace_id,
            parent_id,
            is_sampled: flags & SAMPLED != 0,
        })
    }

    /// The value of a `traceparent` header.
    fn written(self) -> String {
        let TraceContext { trace_id, parent_id, is_sampled } = self;
        format!("00-{trace_id:032x}-{parent_id:016x}-{:02x}", u8::from(is_sampled))
    }
}

fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_of_version_0_is_read_and_written() {
        let context = TraceContext::read(GOOD.as_bytes()).unwrap();
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.parent_id, 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled);
        assert_eq!(context.written(), GOOD);
        // Flags that version 00 does not know are not passed on.
        let unknown = TraceContext::read(GOOD.replace("-01", "-fe").as_bytes()).unwrap();
        assert!(unknown.written().ends_with("-00"), "{}", unknown.written());
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-follows",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        for good in [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        ] {
            assert_eq!(TraceContext::read(good.as_bytes()), TraceContext::read(GOOD.as_bytes()));
        }
    }

    #[test]
    fn two_parents_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceContext::of(&headers), None);
        headers.append(&TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(TraceContext::of(&headers).is_some());
        headers.append(&TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(TraceContext::of(&headers), None);
    }

    proptest! {
        #[test]
        fn anything_can_be_read(text in prop::collection::vec(any::<u8>(), 0..70)) {
            let _ = TraceContext::read(&text);
        }

        #[test]
        fn a_written_traceparent_is_read_back(trace_id in 1..u128::MAX, parent_id in 1..u64::MAX, is_sampled: bool) {
            let context = TraceContext { trace_id, parent_id, is_sampled };
            prop_assert_eq!(TraceContext::read(context.written().as_bytes()), Some(context));
        }
    }
}
