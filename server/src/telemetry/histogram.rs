//! Cells of a histogram: a distribution in classic buckets, which its description names, and in native buckets at once.
//!
//! The bounds of both are merged into one list of cells. A sample is one step of one cell, and both forms are read from
//! the same cells, so they never contradict each other: Prometheus refuses a native histogram that contradicts itself.
//! Memory is fixed, because no sample is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::HistogramFn;

use super::description::Buckets;

/// Native buckets per power of two are `2^SCHEMA`: each ends 9 % above where it begins.
pub(super) const SCHEMA: i32 = 3;
const PER_OCTAVE: i32 = 1 << SCHEMA;

/// The samples of one series.
pub(super) struct Cells {
    layout: Arc<Layout>,
    /// Samples by cell. There is one cell more than there are edges, for samples above all of them.
    counts: Box<[AtomicU64]>,
    /// Sum of all samples, as the bits of a double.
    sum: AtomicU64,
}

/// The bounds of the cells, which all series of a metric share.
pub(super) struct Layout {
    /// Upper bounds of native and of classic buckets, ascending, each once.
    edges: Box<[f64]>,
    /// The native bucket of each cell; `None` for a cell that counts as zero.
    native: Box<[Option<i32>]>,
    bounds: &'static [f64],
    zero_threshold: f64,
}

/// The distribution at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Distribution {
    pub(super) n: u64,
    pub(super) sum: f64,
    /// Upper bounds of the classic buckets with the number of samples up to each; without the infinite bound.
    pub(super) classic: Vec<(f64, u64)>,
    /// Samples up to this value count as zero.
    pub(super) zero_threshold: f64,
    pub(super) n_zero: u64,
    /// Index and samples of each native bucket that has any, ascending.
    pub(super) native: Vec<(i32, u64)>,
}

impl Layout {
    /// Merges the bounds of both kinds of buckets.
    pub(super) fn new(Buckets { bounds, octaves }: Buckets) -> Layout {
        let (first, last) = (octaves.0 * PER_OCTAVE, octaves.1 * PER_OCTAVE);
        let zero_threshold = native_bound(first);
        let mut edges: Vec<f64> =
            (first..=last).map(native_bound).chain(bounds.iter().copied()).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let mut index = first;
        let mut native: Vec<Option<i32>> = Vec::with_capacity(edges.len() + 1);
        for edge in &edges {
            while native_bound(index) < *edge {
                index += 1;
            }
            native.push((*edge > zero_threshold).then_some(index));
        }
        // Samples above all edges count as just above the last.
        native.push(Some(index + 1));
        Layout { edges: edges.into(), native: native.into(), bounds, zero_threshold }
    }
}

/// The upper bound of native bucket `index`.
fn native_bound(index: i32) -> f64 {
    let within = f64::from(index.rem_euclid(PER_OCTAVE)) / f64::from(PER_OCTAVE);
    2f64.powi(index.div_euclid(PER_OCTAVE)) * within.exp2()
}

impl HistogramFn for Cells {
    fn record(&self, sample: f64) {
        let Cells { layout, counts, sum } = self;
        let at = layout.edges.partition_point(|edge| *edge < sample);
        counts[at].fetch_add(1, Ordering::Relaxed);
        // The update always has a result, so it cannot fail.
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
            Some((f64::from_bits(bits) + sample).to_bits())
        });
    }
}

impl Cells {
    pub(super) fn new(layout: Arc<Layout>) -> Cells {
        let counts = layout.native.iter().map(|_| AtomicU64::new(0)).collect();
        Cells { layout, counts, sum: AtomicU64::new(0) }
    }

    /// Reads the distribution. Samples recorded meanwhile may be missing, but both forms have the same ones.
    pub(super) fn read(&self) -> Distribution {
        let Cells { layout, counts, sum } = self;
        let mut read = Distribution {
            n: 0,
            sum: f64::from_bits(sum.load(Ordering::Relaxed)),
            classic: Vec::with_capacity(layout.bounds.len()),
            zero_threshold: layout.zero_threshold,
            n_zero: 0,
            native: Vec::new(),
        };
        let mut bounds = layout.bounds.iter().copied().peekable();
        for (i, (cell, native)) in counts.iter().zip(&layout.native).enumerate() {
            let n = cell.load(Ordering::Relaxed);
            read.n += n;
            match native {
                None => read.n_zero += n,
                Some(_) if n == 0 => {}
                Some(index) => match read.native.last_mut() {
                    Some((last, count)) if last == index => *count += n,
                    _ => read.native.push((*index, n)),
                },
            }
            if let Some(bound) = bounds.next_if(|bound| layout.edges.get(i) == Some(bound)) {
                read.classic.push((bound, read.n));
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: [f64; 5] = [0.001, 0.003, 0.25, 1.0, 5.0];

    fn histogram() -> Cells {
        Cells::new(Arc::new(Layout::new(Buckets { bounds: &BOUNDS, octaves: (-10, 4) })))
    }

    /// Whether a sample belongs to a bucket by the definition: `base^(index - 1) < sample <= base^index`.
    fn is_in(index: i32, sample: f64) -> bool {
        native_bound(index - 1) < sample && sample <= native_bound(index)
    }

    #[test]
    fn bounds_belong_to_the_bucket_that_they_end() {
        for sample in [BOUNDS[0], 0.25, 1.0, 5.0, native_bound(-3), native_bound(17)] {
            let histogram = histogram();
            histogram.record(sample);
            let read = histogram.read();
            let classic: Vec<u64> =
                BOUNDS.iter().map(|bound| u64::from(sample <= *bound)).collect();
            assert_eq!(
                read.classic.iter().map(|(_, n)| *n).collect::<Vec<_>>(),
                classic,
                "{sample}"
            );
            assert!(is_in(read.native[0].0, sample), "{sample}: {:?}", read.native);
        }
    }

    #[test]
    fn native_bounds_double_every_eighth() {
        assert_eq!(native_bound(0), 1.0);
        assert_eq!(native_bound(-24), 0.125);
        assert_eq!(native_bound(16), 4.0);
        assert!((native_bound(4) - std::f64::consts::SQRT_2).abs() < 1e-15);
    }

    #[test]
    fn samples_beyond_the_octaves_are_counted() {
        let histogram = histogram();
        for sample in [0.0, -1.0, 1e-9, 1e9, f64::INFINITY] {
            histogram.record(sample);
        }
        let read = histogram.read();
        assert_eq!((read.n, read.n_zero), (5, 3));
        assert_eq!(read.native, [(33, 2)]);
        assert_eq!(read.classic, BOUNDS.map(|bound| (bound, 3)));
    }

    #[test]
    fn threads_lose_nothing() {
        let histogram = histogram();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| histogram.record(0.5)));
            }
        });
        let read = histogram.read();
        assert_eq!((read.n, read.sum), (40_000, 20_000.0));
    }

    proptest! {
        #[test]
        fn both_forms_have_the_same_samples(samples in prop::collection::vec(0.0..16.0f64, 0..200)) {
            let histogram = histogram();
            samples.iter().for_each(|sample| histogram.record(*sample));
            let read = histogram.read();
            prop_assert_eq!(read.n, samples.len() as u64);
            prop_assert_eq!(read.n_zero + read.native.iter().map(|(_, n)| n).sum::<u64>(), read.n);
            for (bound, n) in read.classic {
                prop_assert_eq!(n, samples.iter().filter(|sample| **sample <= bound).count() as u64);
            }
            for (index, n) in read.native {
                let within = samples.iter().filter(|sample| is_in(index, **sample) && **sample > read.zero_threshold);
                prop_assert_eq!(n, within.count() as u64);
            }
        }
    }
}
