//! Class: rows that the counts of other pods do not tell apart. A filter or score that reads nothing else treats them
//! alike.

use smallvec::{SmallVec, smallvec};

use super::Census;
use super::demand::{Demand, SoftConstraint};
use crate::domain::DomainId;
use crate::kernel::Kernels;
use crate::model::intern::Symbol;
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::shard::Shard;

/// A fact of a row by which counts of other pods tell it apart from other rows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Its domain by a topology key.
    Domain(Symbol),
    /// The weight of its own pods for a subject, where the node has a key.
    Weight { key: Symbol, subject: usize },
}

/// The readings of a demand, each once: rows that agree in all of them are a class.
pub(crate) type Readings = SmallVec<[Reading; 4]>;

/// The values that all rows of a class have in common, one for each of [`Readings`]: the index of a domain, or a weight, or
/// [`ABSENT`] where the nodes lack the topology key.
pub(crate) type Mark = SmallVec<[i32; 4]>;

/// More than any weight is away from 0.
const ABSENT: i32 = i32::MIN;

/// A class, of at least one row.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Class<'a> {
    /// Its number among those of an evaluation.
    pub(crate) id: usize,
    pub(crate) readings: &'a [Reading],
    pub(crate) mark: &'a [i32],
    /// Number of its rows.
    pub(crate) n_rows: u32,
}

impl Class<'_> {
    /// The index of the domain, or the weight, that all rows of the class have by a reading; `None` where their nodes lack
    /// the topology key.
    pub(crate) fn value(&self, reading: Reading) -> Option<i32> {
        let read = self.readings.iter().zip(self.mark).find(|(other, _)| **other == reading);
        read.map(|(_, value)| *value).filter(|value| *value != ABSENT)
    }
}

impl Reading {
    fn of_row(self, census: &Census, shard: &Shard, row: usize) -> i32 {
        match self {
            Reading::Domain(key) => value_of(shard.nodes.domain_of(row, key)),
            Reading::Weight { key, subject } => {
                let label = shard.nodes.labels.get(&key);
                if label.is_some_and(|label| label.rows.contains(row)) {
                    census.weight(subject, NodeRow::new(shard.index, row))
                } else {
                    ABSENT
                }
            }
        }
    }

    /// Splits rows by what is read of them.
    fn split(
        self,
        (census, kernels): (&Census, Kernels),
        shard: &Shard,
        rows: RowSet,
        mut found: impl FnMut(i32, RowSet),
    ) {
        let (key, subject) = match self {
            Reading::Domain(key) => (key, None),
            Reading::Weight { key, subject } => (key, Some(subject)),
        };
        let Some(label) = shard.nodes.labels.get(&key) else {
            return found(ABSENT, rows);
        };
        let unkeyed = rows.without(&label.rows);
        if !unkeyed.is_empty() {
            found(ABSENT, unkeyed);
        }
        let mut left = rows.without(&unkeyed);
        let Some(subject) = subject else {
            return label.for_each_domain(&left, |domain, part| found(value_of(domain), part));
        };
        let weights = census.on_shard(subject, shard).try_into();
        let next = |left: &RowSet| left.iter().next();
        while let Some(first) = next(&left) {
            let weight = census.weight(subject, NodeRow::new(shard.index, first));
            let part = match weights {
                Ok(weights) => kernels.rows_equal(weights, &left, weight),
                Err(_) => left,
            };
            found(weight, part);
            left.subtract(&part);
        }
    }
}

fn value_of(domain: DomainId) -> i32 {
    if domain.is_some() { domain.index() as i32 } else { ABSENT }
}

impl SoftConstraint {
    /// The reading by which a spread constraint that scores tells rows apart.
    pub(crate) fn reading(&self, census: &Census) -> Reading {
        match self.sum {
            Some(sum) => census.reading(sum),
            None => Reading::Weight { key: self.key, subject: self.subject },
        }
    }
}

impl Census {
    /// The readings by which the counts of a demand tell rows apart.
    pub(crate) fn readings(&self, demand: &Demand) -> Readings {
        let of_sums = (0..demand.sums.len()).map(|sum| self.reading(sum));
        let of_soft = demand.soft.list.iter().map(|constraint| constraint.reading(self));
        let mut readings = Readings::new();
        for reading in of_sums.chain(of_soft) {
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        readings
    }

    /// The reading by which one of the demand's sums, named by its index, tells rows apart.
    pub(crate) fn reading(&self, sum: usize) -> Reading {
        let by = &self.counted.sums[sum];
        if self.sums[sum].is_by_row() {
            Reading::Weight { key: by.key, subject: by.subject }
        } else {
            Reading::Domain(by.key)
        }
    }

    /// The sum, at an index of the demand's sums, of the domains of a class; `None` where nodes lack the key.
    pub(crate) fn of_class(&self, sum: usize, class: &Class<'_>) -> Option<i64> {
        let reading = self.reading(sum);
        let value = class.value(reading)?;
        Some(match reading {
            Reading::Domain(_) => self.sum(sum).of(DomainId(value as u32)),
            Reading::Weight { .. } => i64::from(value),
        })
    }

    /// The mark of a row's class.
    pub(crate) fn mark(&self, readings: &[Reading], shard: &Shard, row: usize) -> Mark {
        let mut mark = Mark::new();
        for reading in readings {
            mark.push(reading.of_row(self, shard, row));
        }
        mark
    }

    /// Splits rows of a shard into parts of one mark each; `None` for more than `most` parts. A mark may come in several.
    pub(crate) fn split(
        &self,
        readings: &[Reading],
        (shard, kernels): (&Shard, Kernels),
        rows: RowSet,
        most: usize,
    ) -> Option<SmallVec<[(Mark, RowSet); 8]>> {
        let mut parts: SmallVec<[(Mark, RowSet); 8]> = smallvec![(Mark::new(), rows)];
        for reading in readings {
            for (mark, rows) in std::mem::take(&mut parts) {
                reading.split((self, kernels), shard, rows, |value, part| {
                    let mut mark = mark.clone();
                    mark.push(value);
                    parts.push((mark, part));
                });
                if parts.len() > most {
                    return None;
                }
            }
        }
        Some(parts)
    }

    fn weight(&self, subject: usize, row: NodeRow) -> i32 {
        self.tallies[subject].by_row.get(row.index()).copied().unwrap_or(0)
    }
}
