//! Registry: one server's metrics by name and labels, as a [`metrics::Recorder`].
//!
//! Code that counts holds a handle of the `metrics` crate ([`Counter`], [`Gauge`], [`Histogram`]). Behind each handle
//! is a cell, and a scrape reads the same cells. No recorder is installed for the whole process: two servers in one
//! process, as in tests, count apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::atomics::AtomicU64;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit,
};

use super::description::{Buckets, Description, Kind};
use super::histogram::{Cells, Layout};

/// Most series of one metric. All labels have closed sets of values except profiles, which the operator names.
const MAX_SERIES: usize = 1_024;
/// Value of all labels beyond that limit.
const OTHER: &str = "other";

/// Metadata of every handle that the groups ask for. The registry does not filter by it.
const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// One server's metrics. Clones are one registry.
#[derive(Clone)]
pub(crate) struct Registry(Arc<Shared>);

struct Shared {
    /// Kinds of the metrics that the table names.
    kinds: BTreeMap<&'static str, Kind>,
    families: Mutex<BTreeMap<KeyName, Family>>,
}

struct Family {
    kind: Kind,
    help: SharedString,
    /// Cells that all histograms of this family share.
    layout: Option<Arc<Layout>>,
    /// Series by the values of their labels.
    series: Vec<Arc<Series>>,
}

/// One combination of a metric's labels.
pub(super) struct Series {
    pub(super) labels: Box<[Label]>,
    pub(super) cell: Cell,
}

/// Cell in which the samples of one series are counted.
pub(super) enum Cell {
    Counter(Arc<AtomicU64>),
    /// Holds the bits of a double.
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Cells>),
}

/// A metric with all its series, for one scrape.
pub(super) struct Gathered {
    pub(super) name: KeyName,
    pub(super) kind: Kind,
    pub(super) help: SharedString,
    /// Series by the values of their labels, at least one.
    pub(super) series: Vec<Arc<Series>>,
}

impl Registry {
    /// A registry that knows the metrics of `table`.
    pub(super) fn new(table: &[&[&'static Description]]) -> Registry {
        let rows = || table.iter().flat_map(|group| group.iter().copied());
        let kinds = rows().map(|row| (row.name, row.kind)).collect();
        let shared = Shared { kinds, families: Mutex::default() };
        let registry = Registry(Arc::new(shared));
        rows().for_each(|row| row.describe(&registry));
        registry
    }

    /// The counter with these label values, in the order of `description`'s labels; at 0 when it is new.
    pub(super) fn counter(&self, description: &'static Description, values: &[&str]) -> Counter {
        self.register_counter(&description.key(values), &METADATA)
    }

    /// The gauge with these label values.
    pub(super) fn gauge(&self, description: &'static Description, values: &[&str]) -> Gauge {
        self.register_gauge(&description.key(values), &METADATA)
    }

    /// The histogram with these label values.
    pub(super) fn histogram(
        &self,
        description: &'static Description,
        values: &[&str],
    ) -> Histogram {
        self.register_histogram(&description.key(values), &METADATA)
    }

    /// Everything that has series, by name. The lock delays only code that asks for a handle, and only while pointers
    /// are copied: counting takes no lock.
    pub(super) fn gather(&self) -> Vec<Gathered> {
        let families = self.families();
        let in_use = families.iter().filter(|(_, family)| !family.series.is_empty());
        let gathered = in_use.map(|(name, family)| Gathered {
            name: name.clone(),
            kind: family.kind,
            help: family.help.clone(),
            series: family.series.clone(),
        });
        gathered.collect()
    }

    fn families(&self) -> MutexGuard<'_, BTreeMap<KeyName, Family>> {
        self.0.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kind of a histogram called `name`.
    fn histogram_kind(&self, name: &str) -> Kind {
        match self.0.kinds.get(name) {
            Some(kind @ Kind::Histogram(_)) => *kind,
            _ => Kind::Histogram(Buckets::DEFAULT),
        }
    }

    /// The kind of a metric called `name` whose handle is a gauge.
    fn gauge_kind(&self, name: &str) -> Kind {
        match self.0.kinds.get(name) {
            Some(Kind::Sum) => Kind::Sum,
            _ => Kind::Gauge,
        }
    }

    /// Sets the help of a metric. A metric that exists keeps its kind.
    fn describe(&self, name: KeyName, kind: Kind, help: SharedString) {
        self.families().entry(name).or_insert_with(|| Family::new(kind)).help = help;
    }

    /// The series of `key`. A metric that was not described before becomes one of `kind`.
    fn series(&self, key: &Key, kind: Kind) -> Arc<Series> {
        let labels: Vec<Label> = key.labels().cloned().collect();
        let mut families = self.families();
        families.entry(key.name_shared()).or_insert_with(|| Family::new(kind)).series(labels)
    }
}

/// A handle of another kind than its metric counts nothing: two kinds under one name would be a fault of the
/// exposition.
impl Recorder for Registry {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.describe(name, Kind::Counter, help);
    }

    fn describe_gauge(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        let kind = self.gauge_kind(name.as_str());
        self.describe(name, kind, help);
    }

    fn describe_histogram(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        let kind = self.histogram_kind(name.as_str());
        self.describe(name, kind, help);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        match &self.series(key, Kind::Counter).cell {
            Cell::Counter(cell) => Counter::from_arc(cell.clone()),
            Cell::Gauge(_) | Cell::Histogram(_) => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        match &self.series(key, self.gauge_kind(key.name())).cell {
            Cell::Gauge(cell) => Gauge::from_arc(cell.clone()),
            Cell::Counter(_) | Cell::Histogram(_) => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        match &self.series(key, self.histogram_kind(key.name())).cell {
            Cell::Histogram(cells) => Histogram::from_arc(cells.clone()),
            Cell::Counter(_) | Cell::Gauge(_) => Histogram::noop(),
        }
    }
}

impl Family {
    fn new(kind: Kind) -> Family {
        let layout = match kind {
            Kind::Histogram(buckets) => Some(Arc::new(Layout::new(buckets))),
            Kind::Counter | Kind::Sum | Kind::Gauge => None,
        };
        Family { kind, help: SharedString::const_str(""), layout, series: Vec::new() }
    }

    fn series(&mut self, labels: Vec<Label>) -> Arc<Series> {
        match self.find(&labels) {
            Ok(at) => self.series[at].clone(),
            Err(at) if self.series.len() < MAX_SERIES => self.insert(at, labels),
            Err(_) => {
                let others =
                    labels.into_iter().map(|label| Label::new(label.into_parts().0, OTHER));
                let others: Vec<Label> = others.collect();
                match self.find(&others) {
                    Ok(at) => self.series[at].clone(),
                    Err(at) => self.insert(at, others),
                }
            }
        }
    }

    fn find(&self, labels: &[Label]) -> Result<usize, usize> {
        self.series.binary_search_by(|series| (*series.labels).cmp(labels))
    }

    fn insert(&mut self, at: usize, labels: Vec<Label>) -> Arc<Series> {
        let cell = match (self.kind, &self.layout) {
            (Kind::Counter, _) => Cell::Counter(Arc::default()),
            (Kind::Histogram(_), Some(layout)) => {
                Cell::Histogram(Arc::new(Cells::new(layout.clone())))
            }
            (Kind::Sum | Kind::Gauge | Kind::Histogram(_), _) => Cell::Gauge(Arc::default()),
        };
        let series = Arc::new(Series { labels: labels.into(), cell });
        self.series.insert(at, series.clone());
        series
    }
}

#[cfg(test)]
mod tests;
