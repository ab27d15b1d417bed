//! Resources: requests of pods and resources of nodes, in the integers that the filters compare. Rules: S-FIT-1
//! (units), S-FIT-6 (which names count).

use std::sync::Arc;

use berth_proto::Amount;
use smallvec::SmallVec;

use super::intern::{Interner, Symbol};
use super::label::is_qualified_name;

/// Larger amounts are reduced to this one (W-QTY-6, policy): an exbibyte is more than any node has, and sums stay
/// within 64 bits.
pub(crate) const MAX_AMOUNT: i64 = 1 << 60;

/// The largest sum over the pods of one node; a pod that would take a sum past it is refused.
pub(crate) const MAX_SUM: i64 = 1 << 62;

/// Amounts by resource. CPU in milli-units, everything else in whole units; all from 0 to [`MAX_AMOUNT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resources {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    /// Extended resources and the other tracked names, sorted by symbol, each once. An absent name is 0.
    pub(crate) scalars: SmallVec<[(Symbol, i64); 2]>,
}

/// One tracked resource.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    Scalar(Symbol),
}

impl Resource {
    /// The tracked resource of this name; `None` for names that are ignored everywhere, and for `pods` (S-FIT-6).
    pub(crate) fn from_name(name: &str, names: &Interner) -> Option<Resource> {
        match name {
            "cpu" => Some(Resource::Cpu),
            "memory" => Some(Resource::Memory),
            "ephemeral-storage" => Some(Resource::EphemeralStorage),
            _ if is_scalar_name(name) => Some(Resource::Scalar(names.intern(name))),
            _ => None,
        }
    }

    /// The resource's name.
    pub(crate) fn name(self, names: &Interner) -> Arc<str> {
        match self {
            Resource::Cpu => "cpu".into(),
            Resource::Memory => "memory".into(),
            Resource::EphemeralStorage => "ephemeral-storage".into(),
            Resource::Scalar(name) => names.name(name),
        }
    }

    /// An exact amount ≥ 0 in units of the resource, rounded up (S-FIT-1).
    pub(crate) fn units(self, amount: Amount) -> i64 {
        let units = if self == Resource::Cpu { amount.milli_value() } else { amount.value() };
        units.min(MAX_AMOUNT)
    }
}

impl Resources {
    pub(crate) fn get(&self, resource: Resource) -> i64 {
        match resource {
            Resource::Cpu => self.milli_cpu,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.ephemeral_storage,
            Resource::Scalar(name) => self.scalar(name),
        }
    }

    pub(crate) fn scalar(&self, name: Symbol) -> i64 {
        self.scalars.iter().find(|(symbol, _)| *symbol == name).map_or(0, |(_, amount)| *amount)
    }

    /// Sets one amount; a scalar keeps its place in symbol order.
    pub(crate) fn set(&mut self, resource: Resource, amount: i64) {
        match resource {
            Resource::Cpu => self.milli_cpu = amount,
            Resource::Memory => self.memory = amount,
            Resource::EphemeralStorage => self.ephemeral_storage = amount,
            Resource::Scalar(name) => {
                match self.scalars.binary_search_by_key(&name, |(symbol, _)| *symbol) {
                    Ok(at) => self.scalars[at].1 = amount,
                    Err(at) => self.scalars.insert(at, (name, amount)),
                }
            }
        }
    }

    /// Names and non-zero amounts for output: native resources first, then scalars by name.
    pub(crate) fn listed(&self, names: &Interner) -> Vec<(Arc<str>, i64)> {
        let native = [
            ("cpu", self.milli_cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.ephemeral_storage),
        ];
        let mut listed: Vec<_> =
            native.into_iter().map(|(name, amount)| (name.into(), amount)).collect();
        let mut scalars: Vec<_> =
            self.scalars.iter().map(|(name, amount)| (names.name(*name), *amount)).collect();
        scalars.sort();
        listed.append(&mut scalars);
        listed.retain(|(_, amount)| *amount != 0);
        listed
    }
}

/// Whether a name other than the native ones is tracked (S-FIT-6).
pub(crate) fn is_scalar_name(name: &str) -> bool {
    is_extended_name(name)
        || name.starts_with("hugepages-")
        || name.contains("kubernetes.io/")
        || name.starts_with("attachable-volumes-")
}

/// Whether a name is that of an extended resource: `domain/name` outside of `kubernetes.io`, usable in a quota
/// (S-FIT-6).
pub(crate) fn is_extended_name(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && is_qualified_name(&format!("requests.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_names_count() {
        for name in
            ["example.com/gpu", "hugepages-2Mi", "a.kubernetes.io/x", "attachable-volumes-csi-x"]
        {
            assert!(is_scalar_name(name), "{name}");
        }
        for name in ["foo", "pods", "requests.example.com/gpu", "example.com/", "Ex ample/gpu"] {
            assert!(!is_scalar_name(name), "{name}");
        }
        assert!(!is_extended_name("hugepages-2Mi"));
    }

    #[test]
    fn scalars_stay_sorted_and_unique() {
        let names = Interner::new();
        let (a, b) = (names.intern("example.com/a"), names.intern("example.com/b"));
        let mut resources = Resources::default();
        resources.set(Resource::Scalar(b), 2);
        resources.set(Resource::Scalar(a), 1);
        resources.set(Resource::Scalar(b), 3);
        assert_eq!(resources.scalars.as_slice(), [(a, 1), (b, 3)]);
        assert_eq!(resources.get(Resource::Scalar(b)), 3);
    }
}
