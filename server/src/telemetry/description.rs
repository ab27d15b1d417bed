//! Description: what there is to know of a metric before it is counted: its row in the table.

/// Upper bounds in seconds of what the engine needs: a microsecond to ten seconds, three a decade.
pub(super) const DURATION_BUCKETS: [f64; 22] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// One metric: a family of series that differ in their labels' values.
#[derive(Debug, PartialEq)]
pub(crate) struct Description {
    /// As in the exposition.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Names, in the order in which values are given.
    pub(super) labels: &'static [&'static str],
    /// One sentence; it also stands in `docs/metrics.md`.
    pub(super) help: &'static str,
}

/// What a metric does over time.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution.
    Histogram {
        /// Upper bounds of the classic buckets, ascending.
        bounds: &'static [f64],
        /// Powers of two between which the native buckets are fine: what is below the first counts as zero.
        octaves: (i32, i32),
    },
}

/// An eighth of a microsecond to two hours.
const SECONDS: (i32, i32) = (-23, 13);
/// One to 131,072.
const NUMBERS: (i32, i32) = (-1, 17);

impl Description {
    /// A metric that only grows; its name ends in `_total`.
    pub(super) const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Counter, labels, help }
    }

    /// A metric that goes up and down.
    pub(super) const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Gauge, labels, help }
    }

    /// A distribution of seconds; its name ends in `_seconds`.
    pub(super) const fn seconds(
        name: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Histogram { bounds, octaves: SECONDS }, labels, help }
    }

    /// A distribution of whole numbers.
    pub(super) const fn numbers(
        name: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Description {
        Description { name, kind: Kind::Histogram { bounds, octaves: NUMBERS }, labels, help }
    }
}

impl Kind {
    /// As in a `# TYPE` line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { .. } => "histogram",
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
