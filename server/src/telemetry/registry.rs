//! Registry: one server's metrics by name and labels. Whoever counts holds its counter; this is where it comes from, and where
//! a scrape finds it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::description::{Description, Kind};
use super::histogram::{Histogram, Layout};

/// Most series of one metric. All labels have closed sets of values but for profiles, which the operator names.
const MAX_SERIES: usize = 1_024;
/// Stands for all label values beyond that.
const OTHER: &str = "other";

/// A number that only grows. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    pub fn increment(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes over what was counted elsewhere; less than before changes nothing.
    pub fn raise_to(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Sets it to a count.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
    pub fn set_count(&self, n: usize) {
        self.set(n as f64);
    }

    pub(super) fn read(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// One server's metrics. Clones are one registry.
#[derive(Clone)]
pub(crate) struct Registry(Arc<Mutex<BTreeMap<&'static str, Family>>>);

struct Family {
    description: &'static Description,
    /// What its histograms share.
    layout: Option<Arc<Layout>>,
    /// By their labels' values.
    series: Vec<Arc<Series>>,
}

/// One combination of a metric's label values.
pub(super) struct Series {
    /// As many as the description has labels.
    pub(super) values: Box<[Box<str>]>,
    pub(super) metric: Metric,
}

pub(super) enum Metric {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

/// A metric and all that was counted of it.
pub(super) struct Gathered {
    pub(super) description: &'static Description,
    /// At least one, by their labels' values.
    pub(super) series: Vec<Arc<Series>>,
}

impl Registry {
    /// One for the metrics of `table`.
    pub(super) fn new(table: &[&[&'static Description]]) -> Registry {
        let rows = table.iter().flat_map(|group| group.iter().copied());
        let families = rows.map(|description| (description.name, Family::new(description)));
        Registry(Arc::new(Mutex::new(families.collect())))
    }

    /// The counter with these label values, in the order of `description`'s labels; at 0 when it is new.
    pub(super) fn counter(&self, description: &'static Description, values: &[&str]) -> Counter {
        match &self.series(description, values).metric {
            Metric::Counter(counter) => counter.clone(),
            _ => Counter::default(),
        }
    }

    /// The gauge with these label values.
    pub(super) fn gauge(&self, description: &'static Description, values: &[&str]) -> Gauge {
        match &self.series(description, values).metric {
            Metric::Gauge(gauge) => gauge.clone(),
            _ => Gauge::default(),
        }
    }

    /// The histogram with these label values.
    pub(super) fn histogram(
        &self,
        description: &'static Description,
        values: &[&str],
    ) -> Histogram {
        match &self.series(description, values).metric {
            Metric::Histogram(histogram) => histogram.clone(),
            _ => Histogram::new(Arc::new(Layout::new(&[], (0, 0)))),
        }
    }

    /// Everything that has series, by name. Held up is only who asks for a series meanwhile, and only while pointers are
    /// copied: whoever holds one counts on.
    pub(super) fn gather(&self) -> Vec<Gathered> {
        let families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = families.values().filter(|family| !family.series.is_empty());
        let gathered = in_use.map(|family| Gathered {
            description: family.description,
            series: family.series.clone(),
        });
        gathered.collect()
    }

    fn series(&self, description: &'static Description, values: &[&str]) -> Arc<Series> {
        debug_assert_eq!(values.len(), description.labels.len(), "labels of {}", description.name);
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let family = families.entry(description.name).or_insert_with(|| {
            debug_assert!(false, "{} is not in the table", description.name);
            Family::new(description)
        });
        family.series(values)
    }
}

impl Family {
    fn new(description: &'static Description) -> Family {
        let layout = match description.kind {
            Kind::Histogram { bounds, octaves } => Some(Arc::new(Layout::new(bounds, octaves))),
            Kind::Counter | Kind::Gauge => None,
        };
        Family { description, layout, series: Vec::new() }
    }

    fn series(&mut self, values: &[&str]) -> Arc<Series> {
        let others = [OTHER; 8];
        match self.find(values) {
            Ok(at) => self.series[at].clone(),
            Err(at) if self.series.len() < MAX_SERIES => self.insert(at, values),
            Err(_) => {
                let values = &others[..values.len().min(others.len())];
                match self.find(values) {
                    Ok(at) => self.series[at].clone(),
                    Err(at) => self.insert(at, values),
                }
            }
        }
    }

    fn find(&self, values: &[&str]) -> Result<usize, usize> {
        self.series.binary_search_by(|series| {
            series.values.iter().map(|value| &**value).cmp(values.iter().copied())
        })
    }

    fn insert(&mut self, at: usize, values: &[&str]) -> Arc<Series> {
        let metric = match (self.description.kind, &self.layout) {
            (Kind::Counter, _) => Metric::Counter(Counter::default()),
            (Kind::Histogram { .. }, Some(layout)) => {
                Metric::Histogram(Histogram::new(layout.clone()))
            }
            (Kind::Gauge | Kind::Histogram { .. }, _) => Metric::Gauge(Gauge::default()),
        };
        let values = values.iter().map(|value| Box::from(*value)).collect();
        let series = Arc::new(Series { values, metric });
        self.series.insert(at, series.clone());
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: Description = Description::counter("calls_total", &["who", "what"], "Calls.");
    const DEPTH: Description = Description::gauge("depth", &[], "Depth.");

    #[test]
    fn equal_labels_are_one_series() {
        let registry = Registry::new(&[&[&CALLS, &DEPTH]]);
        registry.counter(&CALLS, &["b", "x"]).increment(1);
        registry.counter(&CALLS, &["a", "y"]).increment(2);
        registry.counter(&CALLS, &["b", "x"]).increment(3);
        registry.gauge(&DEPTH, &[]).set_count(7);
        let gathered = registry.gather();
        let names: Vec<_> = gathered.iter().map(|family| family.description.name).collect();
        assert_eq!(names, ["calls_total", "depth"]);
        let read = gathered[0].series.iter().map(|series| match &series.metric {
            Metric::Counter(counter) => (series.values.join("/"), counter.read()),
            _ => panic!("no counter"),
        });
        let read: Vec<_> = read.collect();
        assert_eq!(read, [("a/y".to_owned(), 2), ("b/x".to_owned(), 4)]);
    }

    #[test]
    fn series_are_bounded() {
        let registry = Registry::new(&[&[&CALLS, &DEPTH]]);
        for i in 0..MAX_SERIES + 10 {
            registry.counter(&CALLS, &[&i.to_string(), "x"]).increment(1);
        }
        let gathered = registry.gather();
        assert_eq!(gathered[0].series.len(), MAX_SERIES + 1);
        let others = registry.counter(&CALLS, &[OTHER, OTHER]);
        assert_eq!(others.read(), 10);
    }

    #[test]
    fn a_counter_never_goes_back() {
        let counter = Counter::default();
        counter.raise_to(5);
        counter.raise_to(3);
        assert_eq!(counter.read(), 5);
    }
}
