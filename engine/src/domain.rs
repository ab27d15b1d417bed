//! Domain: the small number of a topology domain, so that counts by domain are plain arrays.

/// A domain: one value of one label key. Ids are dense for each key, and reused once no node has the value.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct DomainId(pub(crate) u32);

impl DomainId {
    /// The domain of rows whose node does not have the key.
    pub(crate) const NONE: DomainId = DomainId(0);

    /// Whether the id is not [`DomainId::NONE`].
    pub(crate) fn is_some(self) -> bool {
        self != DomainId::NONE
    }

    /// Index into an array with an entry for each domain of the key.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
