//! The section `tracing`, with the fields of Kubernetes' TracingConfiguration: the collector for spans of calls.

use crate::document::decode::{self, Cursor};
use crate::telemetry::TracingOptions;

/// Default address of the collector.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const MILLION: u32 = 1_000_000;

/// Decodes the section; errors are reported to the cursor's reader.
pub(super) fn decode(section: Cursor<'_>) -> Option<TracingOptions> {
    section.object(|fields| TracingOptions {
        endpoint: fields.take("endpoint", endpoint).unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
        sampling_rate_per_million: fields.take("samplingRatePerMillion", rate).unwrap_or(0),
    })
}

fn endpoint(value: Cursor<'_>) -> Option<String> {
    let text = decode::text(value)?;
    let (host, port) = text.rsplit_once(':').unwrap_or((&text, ""));
    let is_host = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'));
    if !is_host || port.parse::<u16>().is_err() {
        value.report("must be a host and a port, such as `localhost:4317`");
        return None;
    }
    Some(text)
}

fn rate(value: Cursor<'_>) -> Option<u32> {
    let rate = decode::integer::<u32>(value)?;
    if rate > MILLION {
        value.report(format!("must be at most {MILLION}"));
        return None;
    }
    Some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::decode::read_text;

    fn read(text: &str) -> Result<TracingOptions, Vec<String>> {
        read_text(text, decode)
    }

    #[test]
    fn what_is_not_said_is_kubernetes_default() {
        let options = read("{}").unwrap();
        assert_eq!(options.endpoint, "localhost:4317");
        assert_eq!(options.sampling_rate_per_million, 0);
        let options = read("{endpoint: 'otel.monitoring.svc:4317', samplingRatePerMillion: 100}");
        let options = options.unwrap();
        assert_eq!(options.endpoint, "otel.monitoring.svc:4317");
        assert_eq!(options.sampling_rate_per_million, 100);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, field) in [
            ("{endpoint: 'http://localhost:4317'}", "endpoint"),
            ("{endpoint: localhost}", "endpoint"),
            ("{endpoint: 'localhost:99999'}", "endpoint"),
            ("{samplingRatePerMillion: 1000001}", "samplingRatePerMillion"),
            ("{samplingRatePerMillion: -1}", "samplingRatePerMillion"),
            ("{samplingRate: 1}", "samplingRate"),
        ] {
            let errors = read(text).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(field), "{text}: {errors:?}");
        }
    }
}
