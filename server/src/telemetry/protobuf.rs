//! Protobuf: writes the messages of `io.prometheus.client`, each behind its length. Histograms have both native and
//! classic buckets. Only the fields that are written are declared.

use std::sync::atomic::Ordering;

use prost::Message;

use super::description::Kind;
use super::histogram::{Distribution, SCHEMA};
use super::registry::{Cell, Gathered, Series};

/// Value of `Content-Type` for this format.
pub(crate) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Up to this many empty buckets between two others are cheaper than another span.
const MAX_GAP: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    /// Type of the family: 0 counter, 1 gauge, 4 histogram.
    #[prost(int32, optional, tag = "3")]
    r#type: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<MetricMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct MetricMessage {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// Value of a counter or a gauge.
#[derive(Copy, Clone, PartialEq, Message)]
struct Value {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Copy, Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

#[derive(Copy, Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

pub(super) fn write(families: &[Gathered]) -> Vec<u8> {
    let mut out = Vec::new();
    for family in families {
        let message = MetricFamily {
            name: Some(family.name.as_str().to_owned()),
            help: (!family.help.is_empty()).then(|| family.help.to_string()),
            r#type: Some(match family.kind {
                Kind::Counter | Kind::Sum => 0,
                Kind::Gauge => 1,
                Kind::Histogram(_) => 4,
            }),
            metric: family.series.iter().map(|series| metric(family.kind, series)).collect(),
        };
        // Writing to a vector does not fail.
        let _ = message.encode_length_delimited(&mut out);
    }
    out
}

fn metric(kind: Kind, series: &Series) -> MetricMessage {
    let label = series.labels.iter().map(|label| LabelPair {
        name: Some(label.key().to_owned()),
        value: Some(label.value().to_owned()),
    });
    let mut message = MetricMessage { label: label.collect(), ..MetricMessage::default() };
    match &series.cell {
        Cell::Counter(cell) => message.counter = Some(count(cell.load(Ordering::Relaxed))),
        Cell::Gauge(cell) => {
            let value = f64::from_bits(cell.load(Ordering::Relaxed));
            let value = Some(Value { value: Some(value) });
            match kind {
                Kind::Sum => message.counter = value,
                _ => message.gauge = value,
            }
        }
        Cell::Histogram(cells) => message.histogram = Some(histogram(&cells.read())),
    }
    message
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format has doubles; counts stay far below 2^53"
)]
fn count(n: u64) -> Value {
    Value { value: Some(n as f64) }
}

fn histogram(read: &Distribution) -> HistogramMessage {
    let infinite = [(f64::INFINITY, read.n)];
    let bucket = read
        .classic
        .iter()
        .chain(&infinite)
        .map(|&(bound, n)| Bucket { cumulative_count: Some(n), upper_bound: Some(bound) });
    let (positive_span, positive_delta) = spans(&read.native);
    HistogramMessage {
        sample_count: Some(read.n),
        sample_sum: Some(read.sum),
        bucket: bucket.collect(),
        schema: Some(SCHEMA),
        zero_threshold: Some(read.zero_threshold),
        zero_count: Some(read.n_zero),
        positive_span,
        positive_delta,
    }
}

/// Returns the runs of buckets, each with its distance from the one before, and for each bucket the difference between
/// its number of samples and that of the bucket before it.
fn spans(native: &[(i32, u64)]) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut last) = (0, 0);
    for &(index, n) in native {
        let gap = index - next;
        match spans.last_mut() {
            Some((_, length)) if gap <= MAX_GAP => {
                for _ in 0..gap {
                    deltas.push(-last);
                    last = 0;
                }
                *length += gap.unsigned_abs() + 1;
            }
            _ => spans.push((gap, 1)),
        }
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        deltas.push(n - last);
        (next, last) = (index + 1, n);
    }
    let spans = spans
        .into_iter()
        .map(|(offset, length)| BucketSpan { offset: Some(offset), length: Some(length) });
    (spans.collect(), deltas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads spans the way Prometheus does.
    fn read(spans: &[BucketSpan], deltas: &[i64]) -> Vec<(i32, u64)> {
        let (mut index, mut n, mut deltas) = (0, 0, deltas.iter());
        let mut native = Vec::new();
        for span in spans {
            index += span.offset();
            for _ in 0..span.length() {
                n += deltas.next().unwrap();
                native.push((index, u64::try_from(n).unwrap()));
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        native.retain(|(_, n)| *n > 0);
        native
    }

    #[test]
    fn small_gaps_are_filled_and_large_ones_begin_a_span() {
        let (spans, deltas) = spans(&[(-5, 2), (-4, 3), (-1, 1), (3, 7)]);
        let spans: Vec<_> = spans.iter().map(|span| (span.offset(), span.length())).collect();
        assert_eq!(spans, [(-5, 5), (3, 1)]);
        assert_eq!(deltas, [2, 1, -3, 0, 1, 6]);
    }

    proptest! {
        #[test]
        fn spans_survive_writing_and_reading(
            native in prop::collection::btree_map(-200..200i32, 1..1_000u64, 0..60)
        ) {
            let native: Vec<_> = native.into_iter().collect();
            let (spans, deltas) = spans(&native);
            prop_assert_eq!(read(&spans, &deltas), native);
        }
    }
}
