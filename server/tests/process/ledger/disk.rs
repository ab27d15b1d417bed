//! A disk that loses power: everything stops at a chosen operation, and any unsynced write may be lost.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use crate::ledger::workload::Chance;

/// The unit that a disk writes as a whole.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Unsynced {
    Write(usize, Vec<u8>),
    Length(usize),
}

#[derive(Debug, Default)]
struct State {
    /// The content that a running process sees.
    seen: Vec<u8>,
    /// The content that certainly survives a loss of power.
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
    n_operations: u64,
    stops_at: Option<u64>,
}

/// Handles of one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Lets the power fail at the `n`th write, sync or change of length from now.
    pub(crate) fn fail_after(&self, n: u64) {
        let state = &mut *self.0.lock().unwrap();
        state.stops_at = Some(state.n_operations + n);
    }

    pub(crate) fn has_failed(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.stops_at.is_some_and(|at| state.n_operations >= at)
    }

    /// The disk after power is back: each sector that was written and not synced is new with a chance of `percent`, and
    /// the length of the file likewise.
    pub(crate) fn restored(&self, chance: &mut Chance, percent: u64) -> Disk {
        let state = self.0.lock().unwrap();
        let mut bytes = state.synced.clone();
        for unsynced in &state.unsynced {
            match unsynced {
                Unsynced::Length(length) => {
                    if chance.is(percent) {
                        bytes.resize(*length, 0);
                    }
                }
                Unsynced::Write(offset, data) => {
                    let mut offset = *offset;
                    for sector in data.chunks(SECTOR) {
                        let end = offset + sector.len();
                        if chance.is(percent) {
                            if bytes.len() < end {
                                bytes.resize(end, 0);
                            }
                            bytes[offset..end].copy_from_slice(sector);
                        }
                        offset = end;
                    }
                }
            }
        }
        let restored = State { seen: bytes.clone(), synced: bytes, ..State::default() };
        Disk(Arc::new(Mutex::new(restored)))
    }

    /// Counts and runs an operation, unless there is no power.
    fn operate<T>(&self, operation: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        let state = &mut *self.0.lock().unwrap();
        if state.stops_at.is_some_and(|at| state.n_operations >= at) {
            return Err(io::Error::other("no power"));
        }
        state.n_operations += 1;
        Ok(operation(state))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        let bytes = state.seen.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = usize::try_from(len).unwrap();
        self.operate(|state| {
            state.seen.resize(length, 0);
            state.unsynced.push(Unsynced::Length(length));
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(|state| {
            state.synced = state.seen.clone();
            state.unsynced.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.operate(|state| {
            let end = offset + data.len();
            assert!(end <= state.seen.len(), "a write beyond the end");
            state.seen[offset..end].copy_from_slice(data);
            state.unsynced.push(Unsynced::Write(offset, data.to_vec()));
        })
    }
}
