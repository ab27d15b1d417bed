//! Remembered: results of a pure function, for the arguments that were asked for last.

use std::borrow::Borrow;
use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

/// Results by argument, the last ones that were asked for. A copy starts with nothing, and any two are equal: what is
/// remembered changes no result.
#[derive(Debug)]
pub(crate) struct Remembered<K, V: ?Sized>(Mutex<Known<K, V>>);

type Known<K, V> = SmallVec<[(K, Arc<V>); 2]>;

/// Most results that are remembered.
const MAX: usize = 32;

impl<K: PartialEq, V: ?Sized> Remembered<K, V> {
    /// The result for an argument, made if it is not remembered.
    ///
    /// Cost: a look at a short list.
    pub(crate) fn get<Q>(&self, key: &Q, make: impl FnOnce() -> (K, Arc<V>)) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: PartialEq + ?Sized,
    {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(known, _)| known.borrow() == key) {
            known[at..].rotate_left(1);
        } else {
            if known.len() == MAX {
                known.remove(0);
            }
            known.push(make());
        }
        known[known.len() - 1].1.clone()
    }
}

impl<K, V: ?Sized> Default for Remembered<K, V> {
    fn default() -> Remembered<K, V> {
        Remembered(Mutex::default())
    }
}

impl<K, V: ?Sized> Clone for Remembered<K, V> {
    fn clone(&self) -> Remembered<K, V> {
        Remembered::default()
    }
}

impl<K, V: ?Sized> PartialEq for Remembered<K, V> {
    fn eq(&self, _: &Remembered<K, V>) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_last_is_remembered() {
        let remembered: Remembered<usize, usize> = Remembered::default();
        let is_made = |key: usize| {
            let mut is_made = false;
            let got = remembered.get(&key, || {
                is_made = true;
                (key, Arc::new(key * 2))
            });
            assert_eq!(*got, key * 2);
            is_made
        };
        assert!((0..MAX).all(is_made));
        assert!(!is_made(0), "and it is the last one now");
        assert!(is_made(MAX));
        assert!(!is_made(0) && is_made(1) && !is_made(MAX));
        assert_eq!(remembered, remembered.clone());
    }
}
