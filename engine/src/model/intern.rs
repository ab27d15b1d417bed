//! Interner: string → `u32`, append-only. Inside the engine names are numbers; they become strings again when a
//! response is written.

use std::sync::{Arc, PoisonError, RwLock};

use dashmap::DashMap;
use rustc_hash::FxBuildHasher;

/// An interned string of one [`Interner`]. Equal symbols are equal strings.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Symbol(u32);

impl Symbol {
    /// The empty string.
    pub(crate) const EMPTY: Symbol = Symbol(0);
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

/// An interner that all threads share; a lookup takes one short read lock of a map shard.
#[derive(Debug)]
pub(crate) struct Interner {
    symbols: DashMap<Arc<str>, Symbol, FxBuildHasher>,
    names: RwLock<Vec<Arc<str>>>,
}

/// The largest number of distinct strings: label values, resource names, images and the like of the largest clusters
/// are some hundred thousand.
pub(crate) const MAX_SYMBOLS: usize = 1 << 24;

impl Interner {
    pub(crate) fn new() -> Interner {
        let interner = Interner { symbols: DashMap::default(), names: RwLock::default() };
        for name in WELL_KNOWN {
            interner.intern(name);
        }
        interner
    }

    /// The symbol of `text`, a new one if it is unknown.
    pub(crate) fn intern(&self, text: &str) -> Symbol {
        if let Some(symbol) = self.symbols.get(text) {
            return *symbol;
        }
        let name: Arc<str> = text.into();
        *self.symbols.entry(name.clone()).or_insert_with(|| {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            let id = u32::try_from(names.len()).unwrap_or(u32::MAX);
            names.push(name);
            Symbol(id)
        })
    }

    /// The symbol of `text`, if it is known.
    pub(crate) fn get(&self, text: &str) -> Option<Symbol> {
        self.symbols.get(text).map(|symbol| *symbol)
    }

    /// The string behind `symbol`.
    pub(crate) fn name(&self, symbol: Symbol) -> Arc<str> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)[symbol.0 as usize].clone()
    }

    /// Whether the interner accepts strings of another object.
    pub(crate) fn has_room(&self) -> bool {
        self.symbols.len() < MAX_SYMBOLS
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
}
