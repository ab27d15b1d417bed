//! Generation: the number of a published snapshot.

use std::fmt;

/// Number of a published snapshot; later ones are larger.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Generation(pub(crate) u64);

impl From<u64> for Generation {
    /// The generation of this number, as an earlier process has told it.
    fn from(number: u64) -> Generation {
        Generation(number)
    }
}

impl Generation {
    /// The number as an integer.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
