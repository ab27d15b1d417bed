//! Topology: small numbers for the domains of each node label, so that counts by domain are plain arrays.

use imbl::OrdMap;

use crate::domain::DomainId;
use crate::model::intern::Symbol;
use crate::model::label::Labels;

/// The domains of every label that nodes have. A copy costs a few pointers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    domains: OrdMap<(Symbol, Symbol), Domain>,
    keys: OrdMap<Symbol, KeyDomains>,
}

#[derive(Copy, Clone, Debug)]
struct Domain {
    id: DomainId,
    n_nodes: u32,
}

/// Domain ids of one key.
#[derive(Clone, Debug)]
struct KeyDomains {
    /// The lowest id that was never used; 0 stands for no domain.
    next: u32,
    free: Vec<u32>,
    /// Number of nodes that are not alone in their domain.
    n_together: usize,
}

impl Topology {
    /// One more than the highest id of a key; at least 1.
    pub(crate) fn n_domains(&self, key: Symbol) -> usize {
        self.keys.get(&key).map_or(1, |key| key.next as usize)
    }

    /// Whether each node that has the key is alone in its domain, as with the key of host names.
    pub(crate) fn is_by_node(&self, key: Symbol) -> bool {
        self.keys.get(&key).is_none_or(|key| key.n_together == 0)
    }

    /// Adds a node with these labels; returns the id of each.
    pub(crate) fn add_node(&mut self, labels: &Labels) -> Vec<DomainId> {
        labels.iter().map(|(key, value)| self.add(*key, *value)).collect()
    }

    /// Removes a node with these labels.
    pub(crate) fn remove_node(&mut self, labels: &Labels) {
        for (key, value) in labels {
            let Some(domain) = self.domains.get_mut(&(*key, *value)) else {
                continue;
            };
            domain.n_nodes -= 1;
            let Domain { id, n_nodes } = *domain;
            let Some(of_key) = self.keys.get_mut(key) else { continue };
            match n_nodes {
                0 => {
                    of_key.free.push(id.0);
                    self.domains.remove(&(*key, *value));
                }
                1 => of_key.n_together -= 2,
                _ => of_key.n_together -= 1,
            }
        }
    }

    fn add(&mut self, key: Symbol, value: Symbol) -> DomainId {
        let of_key = self.keys.entry(key).or_insert_with(|| KeyDomains {
            next: 1,
            free: Vec::new(),
            n_together: 0,
        });
        if let Some(domain) = self.domains.get_mut(&(key, value)) {
            domain.n_nodes += 1;
            of_key.n_together += if domain.n_nodes == 2 { 2 } else { 1 };
            return domain.id;
        }
        let id = of_key.free.pop().unwrap_or_else(|| {
            of_key.next += 1;
            of_key.next - 1
        });
        let id = DomainId(id);
        self.domains.insert((key, value), Domain { id, n_nodes: 1 });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Interner;

    #[test]
    fn ids_are_dense_and_used_again() {
        let names = Interner::new();
        let [zone, a, b] = ["zone", "a", "b"].map(|name| names.intern(name));
        let labels = |value| -> Labels { [(zone, value)].into() };
        let mut topology = Topology::default();
        assert_eq!(topology.n_domains(zone), 1);
        assert!(topology.is_by_node(zone), "no node has the key");
        let of_a = topology.add_node(&labels(a));
        assert_eq!(topology.add_node(&labels(a)), of_a);
        let of_b = topology.add_node(&labels(b));
        assert!(of_a != of_b && of_a[0] != DomainId::NONE);
        assert_eq!(topology.n_domains(zone), 3);
        topology.add_node(&labels(a));
        topology.remove_node(&labels(a));
        assert!(!topology.is_by_node(zone), "two nodes are in one domain");
        topology.remove_node(&labels(a));
        assert!(topology.is_by_node(zone));
        assert_eq!(topology.add_node(&labels(a)), of_a, "still in use");
        topology.remove_node(&labels(b));
        assert_eq!(topology.add_node(&labels(names.intern("c"))), of_b, "free again");
        assert_eq!(topology.n_domains(zone), 3);
    }
}
