//! UsageTable: sums over the pods of each node of a shard. Changes with every pod.

use smallvec::SmallVec;

use crate::kernel::NativeColumns;
use crate::model::intern::Symbol;
use crate::model::port::HostPort;
use crate::model::resources::MAX_SUM;
use crate::model::shape::Footprint;
use crate::rows::{Column, RowSet, column_of};

/// Sums in the units of [`crate::model::resources::Resources`] (S-CCH-8). Rows without a node are all 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UsageTable {
    pub(crate) milli_cpu: Column<i64>,
    pub(crate) memory: Column<i64>,
    pub(crate) ephemeral_storage: Column<i64>,
    /// Sums with the scoring defaults (S-RS-3).
    pub(crate) non_zero_milli_cpu: Column<i64>,
    pub(crate) non_zero_memory: Column<i64>,
    /// Number of pods on the node, whatever their state (S-FIT-9).
    pub(crate) pods: Column<i64>,
    /// Balance of current CPU and memory use (S-BA-3), for rows where the kernels are exact; 0 elsewhere.
    pub(crate) balance: Column<f64>,
    /// Version that changes with the row's node and pods: commits compare it.
    pub(crate) version: Column<u64>,
    /// Sums by symbol; a missing column is all 0.
    pub(crate) scalars: Vec<(Symbol, Box<Column<i64>>)>,
    /// Rows by used port; a set, not a count (S-PRT-5).
    pub(crate) ports: SmallVec<[(HostPort, RowSet); 0]>,
}

impl UsageTable {
    /// Adds a pod's footprint and ports.
    pub(crate) fn add(&mut self, row: usize, footprint: &Footprint, ports: &[HostPort]) {
        self.accumulate(row, footprint, 1);
        for port in ports {
            match self.ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, rows)) => rows.insert(row),
                None => self.ports.push((*port, [row].into_iter().collect())),
            }
        }
    }

    /// Whether the sums stay within [`MAX_SUM`] with this footprint.
    pub(crate) fn has_range_for(&self, row: usize, footprint: &Footprint) -> bool {
        let requested = &footprint.requested;
        let fits = |sum: i64, amount: i64| sum.saturating_add(amount) <= MAX_SUM;
        fits(self.milli_cpu[row], requested.milli_cpu)
            && fits(self.memory[row], requested.memory)
            && fits(self.ephemeral_storage[row], requested.ephemeral_storage)
            && fits(self.non_zero_milli_cpu[row], footprint.non_zero_milli_cpu)
            && fits(self.non_zero_memory[row], footprint.non_zero_memory)
            && requested.scalars.iter().all(|(name, amount)| {
                fits(self.scalar(*name).map_or(0, |column| column[row]), *amount)
            })
    }

    /// Subtracts exactly what [`UsageTable::add`] added (S-CCH-9).
    pub(crate) fn subtract(&mut self, row: usize, footprint: &Footprint, ports: &[HostPort]) {
        self.accumulate(row, footprint, -1);
        self.free_ports(row, ports);
    }

    /// Makes ports count as free, whoever has them.
    pub(crate) fn free_ports(&mut self, row: usize, ports: &[HostPort]) {
        if !ports.is_empty() {
            self.ports.retain(|(port, rows)| {
                if ports.contains(port) {
                    rows.remove(row);
                }
                !rows.is_empty()
            });
        }
    }

    /// Whether a port counts as used.
    pub(crate) fn is_used(&self, row: usize, port: &HostPort) -> bool {
        self.ports.iter().any(|(used, rows)| used == port && rows.contains(row))
    }

    /// Empties a row.
    pub(crate) fn clear(&mut self, row: usize) {
        for column in [
            &mut self.milli_cpu,
            &mut self.memory,
            &mut self.ephemeral_storage,
            &mut self.non_zero_milli_cpu,
            &mut self.non_zero_memory,
            &mut self.pods,
        ] {
            column[row] = 0;
        }
        for (_, column) in &mut self.scalars {
            column[row] = 0;
        }
        self.ports.retain(|(_, rows)| {
            rows.remove(row);
            !rows.is_empty()
        });
    }

    /// Takes some rows of a newer table, which differ from this one's, and what is not kept by row.
    pub(crate) fn follow(&mut self, newer: &UsageTable, rows: &RowSet) {
        for row in rows.iter() {
            self.milli_cpu[row] = newer.milli_cpu[row];
            self.memory[row] = newer.memory[row];
            self.ephemeral_storage[row] = newer.ephemeral_storage[row];
            self.non_zero_milli_cpu[row] = newer.non_zero_milli_cpu[row];
            self.non_zero_memory[row] = newer.non_zero_memory[row];
            self.pods[row] = newer.pods[row];
            self.balance[row] = newer.balance[row];
            self.version[row] = newer.version[row];
        }
        for (name, column) in &newer.scalars {
            let own = column_of(&mut self.scalars, *name);
            rows.iter().for_each(|row| own[row] = column[row]);
        }
        self.ports.clone_from(&newer.ports);
    }

    /// The column of a scalar; `None` when no pod of the shard ever had any of it.
    pub(crate) fn scalar(&self, name: Symbol) -> Option<&Column<i64>> {
        self.scalars.iter().find(|(symbol, _)| *symbol == name).map(|(_, column)| &**column)
    }

    /// The columns of the resources that every node has.
    #[inline]
    pub(crate) fn native(&self) -> NativeColumns<'_> {
        NativeColumns {
            milli_cpu: &self.milli_cpu.0,
            memory: &self.memory.0,
            ephemeral_storage: &self.ephemeral_storage.0,
            pods: &self.pods.0,
        }
    }

    /// Adds or subtracts a footprint. Sums wrap rather than saturate, so that subtracting restores them exactly;
    /// callers check [`UsageTable::has_range_for`] before adding.
    fn accumulate(&mut self, row: usize, footprint: &Footprint, sign: i64) {
        let requested = &footprint.requested;
        let add =
            |cell: &mut i64, amount: i64| *cell = cell.wrapping_add(sign.wrapping_mul(amount));
        add(&mut self.milli_cpu[row], requested.milli_cpu);
        add(&mut self.memory[row], requested.memory);
        add(&mut self.ephemeral_storage[row], requested.ephemeral_storage);
        add(&mut self.non_zero_milli_cpu[row], footprint.non_zero_milli_cpu);
        add(&mut self.non_zero_memory[row], footprint.non_zero_memory);
        add(&mut self.pods[row], 1);
        for (name, amount) in &requested.scalars {
            if *amount != 0 {
                add(&mut column_of(&mut self.scalars, *name)[row], *amount);
            }
        }
    }
}
