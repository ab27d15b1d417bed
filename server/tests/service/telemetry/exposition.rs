//! Readers of both formats of `/metrics`, strict by the formats' definitions and not by the server's output: a line or
//! a message that Prometheus would refuse fails the test.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

/// Labels without `le`, by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// A histogram of the text format: its buckets by upper bound, its sum, its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Classic {
    pub(crate) buckets: Vec<(f64, f64)>,
    pub(crate) sum: f64,
    pub(crate) count: f64,
}

/// A whole scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub(crate) kinds: BTreeMap<String, String>,
    pub(crate) values: BTreeMap<(String, Labels), f64>,
    pub(crate) histograms: BTreeMap<(String, Labels), Classic>,
}

/// Reads the text form, version 0.0.4.
pub(crate) fn text(text: &str) -> Scrape {
    assert!(text.ends_with('\n'), "the last line must end");
    let (mut scrape, mut current, mut helped) = (Scrape::default(), String::new(), String::new());
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(!help.is_empty() && is_name(name), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
            assert_eq!(name, helped, "help and type belong together: {line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let before = scrape.kinds.insert(name.to_owned(), kind.to_owned());
            assert_eq!(before, None, "all lines of a metric stand together: {line}");
            current = name.to_owned();
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
            let (name, mut labels, value) = sample(line);
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            let kind = &scrape.kinds[&current];
            if kind != "histogram" {
                assert_eq!(name, current, "{line}");
                scrape.values.insert((name, labels), value);
                continue;
            }
            let suffix = name.strip_prefix(&current).unwrap_or_else(|| panic!("{line}"));
            let bound = labels.remove("le");
            let histogram = scrape.histograms.entry((current.clone(), labels)).or_default();
            match (suffix, bound) {
                ("_bucket", Some(bound)) => histogram.buckets.push((number(&bound), value)),
                ("_sum", None) => histogram.sum = value,
                ("_count", None) => histogram.count = value,
                other => panic!("{other:?} in {line}"),
            }
        }
    }
    for (name, Classic { buckets, count, .. }) in &scrape.histograms {
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{name:?}");
        let ascend = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        assert!(buckets.windows(2).all(ascend), "{name:?}: {buckets:?}");
    }
    scrape
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    chars.next().is_some_and(begins) && chars.all(|c| begins(c) || c.is_ascii_digit())
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        text => {
            assert!(text.starts_with(|c: char| c.is_ascii_digit() || c == '-'), "{text}");
            text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
        }
    }
}

fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (value, after) = unquote(quoted).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(labels.insert(label.to_owned(), value), None, "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
            assert!(after.starts_with(['}', ',']), "{line}");
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    (name.to_owned(), labels, number(value))
}

/// A label value up to its closing quote, and the rest of the text.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricFamily {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) help: String,
    #[prost(enumeration = "MetricType", tag = "3")]
    pub(crate) r#type: i32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) metric: Vec<Metric>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum MetricType {
    Counter = 0,
    Gauge = 1,
    Summary = 2,
    Untyped = 3,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(crate) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(crate) gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    pub(crate) counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    pub(crate) histogram: Option<Native>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelPair {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Copy, Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(double, tag = "1")]
    pub(crate) value: f64,
}

/// `Histogram`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Native {
    #[prost(uint64, tag = "1")]
    pub(crate) sample_count: u64,
    #[prost(double, tag = "2")]
    pub(crate) sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    pub(crate) schema: i32,
    #[prost(double, tag = "6")]
    pub(crate) zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    pub(crate) zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    pub(crate) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(crate) positive_delta: Vec<i64>,
}

#[derive(Copy, Clone, PartialEq, Message)]
pub(crate) struct Bucket {
    #[prost(uint64, tag = "1")]
    pub(crate) cumulative_count: u64,
    #[prost(double, tag = "2")]
    pub(crate) upper_bound: f64,
}

#[derive(Copy, Clone, PartialEq, Message)]
pub(crate) struct BucketSpan {
    #[prost(sint32, tag = "1")]
    pub(crate) offset: i32,
    #[prost(uint32, tag = "2")]
    pub(crate) length: u32,
}

impl Metric {
    pub(crate) fn labels(&self) -> Labels {
        self.label.iter().map(|label| (label.name.clone(), label.value.clone())).collect()
    }
}

impl Native {
    /// Upper bound and samples of each native bucket.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let (mut index, mut n, mut deltas) = (0, 0, self.positive_delta.iter());
        let mut buckets = Vec::new();
        for span in &self.positive_span {
            index += span.offset;
            for _ in 0..span.length {
                n += deltas.next().expect("as many deltas as the spans are long");
                let bound = 2f64.powf(f64::from(index) / 2f64.powi(self.schema));
                buckets.push((bound, u64::try_from(n).expect("no bucket has less than nothing")));
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None, "more deltas than the spans are long");
        buckets
    }
}

/// Reads the protobuf form: length-delimited messages.
pub(crate) fn protobuf(mut bytes: &[u8]) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    while !bytes.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut bytes).unwrap());
    }
    families
}
