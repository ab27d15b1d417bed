//! Description: a row of the table of metrics.

use metrics::{Key, Label, Recorder, Unit};

/// Upper bounds in seconds for what the engine needs: a microsecond to ten seconds, three a decade.
pub(super) const DURATION_BUCKETS: [f64; 22] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// One metric: a family of series that differ in the values of their labels.
#[derive(Debug, PartialEq)]
pub(crate) struct Description {
    /// Name in the exposition.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Unit of the values; where it is not a count, the name says it too.
    pub(super) unit: Unit,
    /// Names of the labels, in the order in which values are given.
    pub(super) labels: &'static [&'static str],
    /// One sentence, which `docs/metrics.md` repeats.
    pub(super) help: &'static str,
}

/// How a metric behaves over time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that only grows and is not whole. Its handle is a gauge, which is set.
    Sum,
    /// A number that goes up and down.
    Gauge,
    /// A distribution of samples.
    Histogram(Buckets),
}

/// The buckets of a histogram, classic and native.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Buckets {
    /// Upper bounds of the classic buckets, ascending.
    pub(super) bounds: &'static [f64],
    /// Powers of two between which the native buckets are fine. Samples below the first count as zero.
    pub(super) octaves: (i32, i32),
}

/// Octaves for seconds: an eighth of a microsecond to two hours.
const SECONDS: (i32, i32) = (-23, 13);
/// Octaves for whole numbers: one to 131,072.
const NUMBERS: (i32, i32) = (-1, 17);

impl Buckets {
    /// Buckets of a histogram that no table names: seconds, as the engine needs them.
    pub(super) const DEFAULT: Buckets = Buckets { bounds: &DURATION_BUCKETS, octaves: SECONDS };
}

impl Description {
    /// A metric that only grows; its name ends in `_total`.
    pub(super) const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Counter, unit: Unit::Count, labels, help }
    }

    /// A sum of seconds that only grows; its name ends in `_seconds_total`.
    pub(super) const fn sum_of_seconds(name: &'static str, help: &'static str) -> Description {
        Description { name, kind: Kind::Sum, unit: Unit::Seconds, labels: &[], help }
    }

    /// A metric that goes up and down.
    pub(super) const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Gauge, unit: Unit::Count, labels, help }
    }

    /// A distribution of seconds; its name ends in `_seconds`.
    pub(super) const fn seconds(
        name: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Description {
        let kind = Kind::Histogram(Buckets { bounds, octaves: SECONDS });
        Description { name, kind, unit: Unit::Seconds, labels, help }
    }

    /// A distribution of whole numbers.
    pub(super) const fn numbers(
        name: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Description {
        let kind = Kind::Histogram(Buckets { bounds, octaves: NUMBERS });
        Description { name, kind, unit: Unit::Count, labels, help }
    }

    /// Replaces the unit, for a gauge that is not a count.
    pub(super) const fn measured_in(self, unit: Unit) -> Description {
        Description { unit, ..self }
    }

    /// Describes the metric to `recorder`.
    pub(super) fn describe(&self, recorder: &impl Recorder) {
        let (name, unit, help) = (self.name.into(), Some(self.unit), self.help.into());
        match self.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Sum | Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram(_) => recorder.describe_histogram(name, unit, help),
        }
    }

    /// The key of the series with these label values, in the order of the labels.
    pub(super) fn key(&self, values: &[&str]) -> Key {
        debug_assert_eq!(values.len(), self.labels.len(), "labels of {}", self.name);
        let labels = self.labels.iter().zip(values);
        let labels = labels.map(|(label, value)| Label::new(*label, (*value).to_owned()));
        Key::from_parts(self.name, labels.collect::<Vec<_>>())
    }
}

impl Kind {
    /// Name of the kind in a `# TYPE` line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter | Kind::Sum => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}

/// `N` upper bounds, each twice the one before.
pub(super) const fn doubled<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut i = 1;
    while i < N {
        bounds[i] = bounds[i - 1] * 2.0;
        i += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_is_exact() {
        let bounds: [f64; 15] = doubled(0.001);
        assert_eq!(bounds[3].to_string(), "0.008");
        assert_eq!(bounds[14].to_string(), "16.384");
    }
}
