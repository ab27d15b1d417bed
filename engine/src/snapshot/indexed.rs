//! Indexed: how the facts of each kind of object enter the indexes that rules look them up in.

use std::sync::Arc;

/// Facts of an object that an index has. The facts of every kind of the list implement it, beside their index.
pub(super) trait Indexed {
    /// The part of the snapshot that has the index.
    type Index;

    /// Enters `new` in place of `old`, the facts of the object of the same key; takes `old` out if there is no `new`.
    fn replace(
        index: &mut Self::Index,
        old: Option<&Arc<Self>>,
        new: Option<&Arc<Self>>,
        version: u64,
    );
}
