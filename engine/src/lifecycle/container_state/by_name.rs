//! Lists whose elements have unique names: containers, their statuses, conditions.

use berth_proto::berth_v1::ObservedContainer;
use berth_proto::core_v1::{Container, ContainerStatus, EphemeralContainer, PodCondition};

/// An element with a name that is unique in its list.
pub(crate) trait Named {
    /// The name; for a condition, its type.
    fn name(&self) -> &str;
}

impl Named for Container {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for EphemeralContainer {
    fn name(&self) -> &str {
        self.ephemeral_container_common.as_ref().map_or("", |common| &common.name)
    }
}

impl Named for ContainerStatus {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for ObservedContainer {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for PodCondition {
    fn name(&self) -> &str {
        &self.r#type
    }
}

/// Lists up to this length are searched from the front, longer ones through a sorted index: no list costs the square of
/// its length.
const SHORT: usize = 64;

/// The elements of a list by their unique names.
///
/// Cost: nothing is allocated for a list of up to 64 elements.
#[derive(Clone, Debug)]
pub(crate) struct ByName<'a, T> {
    items: &'a [T],
    /// Positions in the order of the names; empty for short lists.
    order: Vec<usize>,
}

impl<'a, T: Named> ByName<'a, T> {
    /// # Errors
    /// The position of the first element with the name of an earlier one.
    pub(crate) fn new(items: &'a [T]) -> Result<ByName<'a, T>, usize> {
        let name = |at: usize| items[at].name();
        if items.len() <= SHORT {
            let is_repeated =
                |at: &usize| items[..*at].iter().any(|earlier| earlier.name() == name(*at));
            return match (1..items.len()).find(is_repeated) {
                Some(at) => Err(at),
                None => Ok(ByName { items, order: Vec::new() }),
            };
        }
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|&a, &b| name(a).cmp(name(b)));
        let neighbours = order.windows(2);
        let repeated = neighbours.filter(|pair| name(pair[0]) == name(pair[1])).map(|pair| pair[1]);
        match repeated.min() {
            Some(at) => Err(at),
            None => Ok(ByName { items, order }),
        }
    }

    /// Position of the element of this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        if self.items.len() <= SHORT {
            return self.items.iter().position(|item| item.name() == name);
        }
        let found = self.order.binary_search_by(|&at| self.items[at].name().cmp(name));
        found.ok().map(|at| self.order[at])
    }

    /// Position of the element of this name; `place` is tried first.
    pub(crate) fn position_near(&self, place: usize, name: &str) -> Option<usize> {
        match self.items.get(place) {
            Some(item) if item.name() == name => Some(place),
            _ => self.position(name),
        }
    }

    /// The list.
    pub(crate) fn items(&self) -> &'a [T] {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for String {
        fn name(&self) -> &str {
            self
        }
    }

    fn check(names: &[String]) {
        let index = ByName::new(names).unwrap();
        for (at, name) in names.iter().enumerate() {
            assert_eq!(index.position(name), Some(at));
            assert_eq!(index.position_near(at, name), Some(at));
            assert_eq!(index.position_near(0, name), Some(at));
        }
        assert_eq!(index.position("absent"), None);
        assert_eq!(index.position_near(0, "absent"), None);
        for at in 1..names.len() {
            let mut repeating = names.to_vec();
            repeating[at] = repeating[at - 1].clone();
            assert_eq!(ByName::new(&repeating).err(), Some(at));
        }
    }

    #[test]
    fn short_and_long_lists_answer_alike() {
        let names: Vec<String> = (0..200).map(|at| format!("c{}", (at * 7) % 200)).collect();
        check(&names);
        check(&names[..64]);
        check(&names[..1]);
        check(&[]);
    }
}
