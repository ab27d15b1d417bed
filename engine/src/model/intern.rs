//! Interner: string → `u32`. Inside the engine names are numbers; they become strings again when a response is written.
//!
//! The names of the cluster's objects are kept. What a request names is lent: a [`Lease`] holds its strings, and a
//! string that nothing holds any more is forgotten, so that questions leave no trace. A lent name that an object of the
//! cluster brings too is kept from then on, under the same symbol.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// An interned string of one [`Interner`]. Equal symbols are equal strings, as long as something holds them.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Symbol(u32);

impl Symbol {
    /// The empty string.
    pub(crate) const EMPTY: Symbol = Symbol(0);
    /// Not below any symbol, for ranges.
    pub(crate) const MAX: Symbol = Symbol(u32::MAX);
    /// The taint that stands for a cordon (S-UNS-1).
    pub(crate) const UNSCHEDULABLE_TAINT: Symbol = Symbol(1);
    /// The host address that means every address (S-PRT-3).
    pub(crate) const ANY_IP: Symbol = Symbol(2);
    /// The label that names a node (S-TS-3).
    pub(crate) const HOSTNAME: Symbol = Symbol(3);
    /// The label that names a node's zone (S-PTS-12).
    pub(crate) const ZONE: Symbol = Symbol(4);
}

/// Strings whose symbols are constants, in the constants' order.
const WELL_KNOWN: [&str; 5] = [
    "",
    "node.kubernetes.io/unschedulable",
    "0.0.0.0",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
];

/// An interner that all threads share; a lookup takes one short read lock of a map shard. A clone interns in the same
/// table.
#[derive(Clone, Debug)]
pub(crate) struct Interner {
    table: Arc<Table>,
    /// The lease of the strings that this clone has interned; `None` where they are kept.
    lease: Option<OnceLock<Arc<Lease>>>,
}

#[derive(Debug, Default)]
struct Table {
    symbols: DashMap<Arc<str>, Known, FxBuildHasher>,
    /// Names that were kept from the beginning, by symbol.
    names: RwLock<Vec<Arc<str>>>,
    /// Names that are lent, and those that were when they became kept, by symbol.
    lent: DashMap<u32, Arc<str>, FxBuildHasher>,
    next_lent: AtomicU32,
    /// Number of strings, counted apart: the map counts its shards one by one.
    n_strings: AtomicUsize,
}

/// The symbol of a string, and who holds it.
#[derive(Debug)]
struct Known {
    symbol: Symbol,
    /// Number of leases, with [`KEPT`] where the string stays without one.
    holds: AtomicU32,
}

/// Mark of a string that is kept. Leases beside it are counted as before.
const KEPT: u32 = 1 << 31;

/// Mark of the symbols of lent strings.
const LENT: u32 = 1 << 31;

/// The largest number of distinct strings: label values, resource names, images and the like of the largest clusters
/// are some hundred thousand.
pub(crate) const MAX_SYMBOLS: usize = 1 << 24;

/// Bytes of a lent string besides its characters, in its table and its lease.
const LENT_BYTES: usize = 160;

/// Holds the strings that were interned for one object.
#[derive(Debug)]
pub(crate) struct Lease {
    table: Arc<Table>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    names: SmallVec<[(Symbol, Arc<str>); 4]>,
    n_bytes: usize,
}

impl Lease {
    /// About as many bytes as the strings take.
    pub(crate) fn n_bytes(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).n_bytes
    }

    fn hold(&self, symbol: Symbol, name: Arc<str>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.n_bytes += name.len() + LENT_BYTES;
        held.names.push((symbol, name));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (symbol, name) in std::mem::take(&mut held.names) {
            self.table.give_back(symbol, &name);
        }
    }
}

impl Interner {
    /// An interner that keeps its strings.
    pub(crate) fn new() -> Interner {
        let interner = Interner { table: Arc::default(), lease: None };
        for name in WELL_KNOWN {
            interner.intern(name);
        }
        interner
    }

    /// A clone whose strings are lent, until the clone and everything that holds its lease are dropped.
    pub(crate) fn lending(&self) -> Interner {
        Interner { table: self.table.clone(), lease: Some(OnceLock::new()) }
    }

    /// The lease of the strings that were interned here so far; `None` if all of them are kept.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.as_ref()?.get().cloned()
    }

    /// The symbol of `text`, a new one if it is unknown.
    pub(crate) fn intern(&self, text: &str) -> Symbol {
        match &self.lease {
            None => self.table.keep(text),
            Some(lease) => self.lend(text, lease),
        }
    }

    fn lend(&self, text: &str, lease: &OnceLock<Arc<Lease>>) -> Symbol {
        let (symbol, lent) = self.table.lend(text);
        if let Some(name) = lent {
            let new = || Arc::new(Lease { table: self.table.clone(), held: Mutex::default() });
            lease.get_or_init(new).hold(symbol, name);
        }
        symbol
    }

    /// The symbol of `text`, if it is known.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.table.symbols.get(text).map(|known| known.symbol)
    }

    /// The string behind `symbol`; empty where nothing holds it any more.
    pub(crate) fn name(&self, symbol: Symbol) -> Arc<str> {
        self.table.name(symbol).unwrap_or_default()
    }

    /// Whether the interner accepts strings of another object.
    pub(crate) fn has_room(&self) -> bool {
        self.table.n_strings.load(Ordering::Relaxed) < MAX_SYMBOLS
    }

    /// Number of strings that are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.symbols.len()
    }
}

impl Table {
    /// The symbol of a string that stays.
    fn keep(&self, text: &str) -> Symbol {
        if let Some(known) = self.symbols.get(text) {
            if known.holds.load(Ordering::Relaxed) & KEPT == 0 {
                known.holds.fetch_or(KEPT, Ordering::Relaxed);
            }
            return known.symbol;
        }
        let name: Arc<str> = text.into();
        let make = || {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            let id = u32::try_from(names.len()).unwrap_or(u32::MAX);
            names.push(name.clone());
            self.n_strings.fetch_add(1, Ordering::Relaxed);
            Known { symbol: Symbol(id), holds: AtomicU32::new(KEPT) }
        };
        let known = self.symbols.entry(name.clone()).or_insert_with(make);
        known.holds.fetch_or(KEPT, Ordering::Relaxed);
        known.symbol
    }

    /// The symbol of a string; and, unless it is kept, the string, which is lent once more.
    fn lend(&self, text: &str) -> (Symbol, Option<Arc<str>>) {
        // A string leaves the table under the write lock of its shard, so that it cannot leave meanwhile.
        let count = |name: &Arc<str>, known: &Known| {
            let is_kept = known.holds.load(Ordering::Relaxed) & KEPT != 0;
            if !is_kept {
                known.holds.fetch_add(1, Ordering::Relaxed);
            }
            (known.symbol, (!is_kept).then(|| name.clone()))
        };
        if let Some(known) = self.symbols.get(text) {
            return count(known.key(), &known);
        }
        let name: Arc<str> = text.into();
        let make = || Known { symbol: self.lent_symbol(name.clone()), holds: AtomicU32::new(0) };
        count(&name, &self.symbols.entry(name.clone()).or_insert_with(make))
    }

    /// A symbol for a lent name. Symbols go round: one that nothing holds is used again after all others.
    fn lent_symbol(&self, name: Arc<str>) -> Symbol {
        loop {
            let id = LENT | self.next_lent.fetch_add(1, Ordering::Relaxed);
            if let Entry::Vacant(free) = self.lent.entry(id) {
                free.insert(name);
                self.n_strings.fetch_add(1, Ordering::Relaxed);
                return Symbol(id);
            }
        }
    }

    /// Ends one lease of a symbol; the last one forgets the string, unless it is kept.
    fn give_back(&self, symbol: Symbol, name: &str) {
        // Mostly others hold the string, too: a shape that is remembered does. Then no lock is taken for writing.
        let is_not_last = |holds: u32| (holds & KEPT != 0 || holds > 1).then(|| holds - 1);
        let is_done = self.symbols.get(name).is_none_or(|known| {
            known.holds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_not_last).is_ok()
        });
        if is_done {
            return;
        }
        let is_last = |_: &Arc<str>, known: &Known| {
            known.symbol == symbol && known.holds.fetch_sub(1, Ordering::Relaxed) == 1
        };
        if self.symbols.remove_if(name, is_last).is_some() {
            self.lent.remove(&symbol.0);
            self.n_strings.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn name(&self, symbol: Symbol) -> Option<Arc<str>> {
        if symbol.0 & LENT != 0 {
            return self.lent.get(&symbol.0).map(|name| name.clone());
        }
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(symbol.0 as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_a_symbol_across_threads() {
        let interner = Interner::new();
        let all: Vec<Vec<Symbol>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..1000).map(|i| interner.intern(&format!("name-{i}"))).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(&*interner.name(all[0][7]), "name-7");
        assert_eq!(interner.get("name-1000"), None);
        assert_eq!(interner.get(""), Some(Symbol::EMPTY));
        assert_eq!(
            interner.get("node.kubernetes.io/unschedulable"),
            Some(Symbol::UNSCHEDULABLE_TAINT)
        );
        assert_eq!(interner.get("0.0.0.0"), Some(Symbol::ANY_IP));
        assert_eq!(interner.get("kubernetes.io/hostname"), Some(Symbol::HOSTNAME));
        assert_eq!(interner.get("topology.kubernetes.io/zone"), Some(Symbol::ZONE));
    }

    #[test]
    fn a_lent_string_is_forgotten_with_its_last_lease() {
        let interner = Interner::new();
        let n_known = interner.len();
        let (one, two) = (interner.lending(), interner.lending());
        let name = one.intern("guest");
        assert_eq!(two.intern("guest"), name);
        assert_eq!(one.intern(""), Symbol::EMPTY);
        let held = two.lease();
        drop((one, two));
        assert_eq!((interner.get("guest"), &*interner.name(name)), (Some(name), "guest"));
        drop(held);
        assert_eq!((interner.get("guest"), interner.len()), (None, n_known));
        assert_eq!(&*interner.name(name), "");
        assert!(interner.table.lent.is_empty());
    }

    #[test]
    fn a_lent_string_that_the_cluster_brings_is_kept_under_its_symbol() {
        let interner = Interner::new();
        let guest = interner.lending();
        let name = guest.intern("guest");
        assert_eq!(interner.intern("guest"), name);
        let later = interner.lending();
        assert_eq!(later.intern("guest"), name);
        assert!(later.lease().is_none(), "nothing is lent");
        drop(guest);
        assert_eq!((interner.get("guest"), &*interner.name(name)), (Some(name), "guest"));
    }

    /// Threads that borrow and give back the same strings never see two symbols of one string at a time.
    #[test]
    fn strings_are_lent_across_threads() {
        let interner = Interner::new();
        let n_known = interner.len();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let (one, two) = (interner.lending(), interner.lending());
                        let text = format!("name-{}", round % 7);
                        let symbol = one.intern(&text);
                        assert_eq!(two.intern(&text), symbol);
                        assert_eq!(&*interner.name(symbol), text);
                    }
                });
            }
        });
        assert_eq!((interner.len(), interner.table.lent.len()), (n_known, 0));
    }

    #[test]
    fn symbols_go_round_without_meeting_one_that_is_held() {
        let interner = Interner::new();
        let held = interner.lending();
        let first = held.intern("held");
        interner.table.next_lent.store(u32::MAX - 1, Ordering::Relaxed);
        let guest = interner.lending();
        let symbols: Vec<Symbol> = ["a", "b", "c", "d"].map(|name| guest.intern(name)).into();
        assert!(symbols.iter().all(|symbol| *symbol != first && symbol.0 & LENT != 0));
        assert_eq!(&*interner.name(first), "held");
    }
}
