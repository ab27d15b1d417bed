//! `/metrics`: everything that [`crate::telemetry`] counts, in the format that the scraper prefers: Prometheus' text,
//! or its protobuf messages, which alone hold native histograms.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use axum::response::Response;

use crate::clock;
use crate::service::State;
use crate::telemetry::{protobuf, text};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Protobuf,
}

pub(super) async fn metrics(Shared(state): Shared<Arc<State>>, headers: HeaderMap) -> Response {
    if let Some(watches) = state.freshness.watches() {
        let ages = watches.ages(clock::now());
        let feed = state.metrics.feed();
        ages.into_iter().for_each(|(kind, age)| feed.kind(kind.kind()).set_staleness(age));
    }
    state.admission.publish();
    state.metrics.admission().publish_buffered(state.bytes.n_taken());
    let (snapshot, n_shapes) = (state.cluster.snapshot(), state.cluster.n_shapes());
    let staleness = state.freshness.staleness();
    let (content_type, body) = match preferred(&headers) {
        Format::Text => {
            let text = state.metrics.render(&snapshot, n_shapes, staleness);
            (text::CONTENT_TYPE, Body::from(text))
        }
        Format::Protobuf => {
            let messages = state.metrics.render_protobuf(&snapshot, n_shapes, staleness);
            (protobuf::CONTENT_TYPE, Body::from(messages))
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// The accepted format of the highest weight, of two equal ones the first; text if neither is accepted, since a person
/// reads it.
fn preferred(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut best = (0, Format::Text);
    for (weight, format) in accepted.flat_map(|value| value.split(',')).filter_map(offered) {
        if weight > best.0 {
            best = (weight, format);
        }
    }
    best.1
}

/// The format of one element of an `Accept` header, with its weight in thousandths.
fn offered(element: &str) -> Option<(u32, Format)> {
    let mut parts = element.split(';').map(str::trim);
    let format = match parts.next()?.to_ascii_lowercase().as_str() {
        "application/vnd.google.protobuf" => Format::Protobuf,
        "text/plain" | "text/*" | "*/*" => Format::Text,
        _ => return None,
    };
    let mut weight = 1_000;
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        let is_ours = match (format, name.to_ascii_lowercase().as_str()) {
            (_, "q") => {
                weight = thousandths(value)?;
                true
            }
            (Format::Protobuf, "proto") => value == "io.prometheus.client.MetricFamily",
            (Format::Protobuf, "encoding") => value == "delimited",
            (Format::Text, "version") => matches!(value, "0.0.4" | "1.0.0"),
            _ => true,
        };
        if !is_ours {
            return None;
        }
    }
    Some((weight, format))
}

/// Parses a weight: `0.25` is 250; `None` if the text is no weight.
fn thousandths(text: &str) -> Option<u32> {
    let weight: f64 = text.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 1000")]
    Some((weight * 1_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str) -> Format {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        preferred(&headers)
    }

    #[test]
    fn a_scraper_gets_what_it_prefers() {
        // Headers of Prometheus with and without native histograms.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
            application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let classic = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
            encoding=delimited;q=0.2,*/*;q=0.1";
        assert_eq!(of(native), Format::Protobuf);
        assert_eq!(of(classic), Format::Text);
        assert_eq!(of("*/*"), Format::Text);
        assert_eq!(of("text/plain, application/vnd.google.protobuf"), Format::Text);
        assert_eq!(preferred(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn other_messages_and_weights_of_nothing_are_not_offered() {
        for accept in [
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "application/vnd.google.protobuf;proto=other.Message;encoding=delimited",
            "application/vnd.google.protobuf;q=0",
            "application/vnd.google.protobuf;q=2",
            "application/vnd.google.protobuf;q=NaN",
            "image/png",
            ";;;=,",
        ] {
            assert_eq!(of(accept), Format::Text, "{accept}");
        }
    }
}
