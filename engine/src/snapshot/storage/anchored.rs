//! Anchored: things that are tied to nodes by labels, looked up from a label. See `model/storage/anchor.rs`.

use imbl::OrdMap;

use crate::model::intern::Symbol;
use crate::model::label_selector::value_of;
use crate::rows::RowSet;
use crate::snapshot::node_table::NodeTable;

/// Things by class and by the labels of the nodes that they are tied to, ordered by `K`; a thing with several labels
/// has an entry for each. A copy costs a few pointers.
#[derive(Clone, Debug)]
pub(crate) struct Anchored<K: Ord, V> {
    things: OrdMap<(Symbol, Anchor, K), V>,
    /// Number of entries of each class under each label key.
    keys: OrdMap<(Symbol, Symbol), usize>,
}

/// A label, or the empty key and value for things that are not tied to labels: no label has an empty key.
type Anchor = (Symbol, Symbol);

const ANYWHERE: Anchor = (Symbol::EMPTY, Symbol::EMPTY);

impl<K: Ord + Clone, V: Clone> Default for Anchored<K, V> {
    fn default() -> Anchored<K, V> {
        Anchored { things: OrdMap::new(), keys: OrdMap::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Anchored<K, V> {
    /// Adds a thing under its anchors; without a list it may be tied to any node.
    pub(crate) fn insert(
        &mut self,
        class: Symbol,
        anchors: Option<Vec<Anchor>>,
        key: &K,
        thing: &V,
    ) {
        for anchor in anchors.unwrap_or_else(|| vec![ANYWHERE]) {
            let entry = (class, anchor, key.clone());
            if self.things.insert(entry, thing.clone()).is_none() {
                *self.keys.entry((class, anchor.0)).or_insert(0) += 1;
            }
        }
    }

    /// Removes the entries that [`Anchored::insert`] added.
    pub(crate) fn remove(&mut self, class: Symbol, anchors: Option<Vec<Anchor>>, key: &K) {
        for anchor in anchors.unwrap_or_else(|| vec![ANYWHERE]) {
            if self.things.remove(&(class, anchor, key.clone())).is_none() {
                continue;
            }
            let of_key = (class, anchor.0);
            let n_left = self.keys.get(&of_key).map_or(0, |n| n.saturating_sub(1));
            if n_left == 0 {
                self.keys.remove(&of_key);
            } else {
                self.keys.insert(of_key, n_left);
            }
        }
    }

    /// Whether a class has any thing.
    pub(crate) fn has(&self, class: Symbol) -> bool {
        self.keys_of(class).next().is_some()
    }

    /// Visits the things of a class from `from` on that may be tied to nodes of `rows`: for each label of the rows, in
    /// the order of `K`, with the rows that have the label. The order of labels is arbitrary. `visit` returns the rows
    /// for which no more things under this label are to be visited.
    ///
    /// Cost: one lookup for each value that the rows have of a key in use, and one step for each thing.
    pub(crate) fn visit(
        &self,
        class: Symbol,
        from: &K,
        nodes: &NodeTable,
        rows: &RowSet,
        mut visit: impl FnMut(&V, &RowSet) -> RowSet,
    ) {
        for key in self.keys_of(class) {
            if key == Symbol::EMPTY {
                self.walk(class, ANYWHERE, from, *rows, &mut visit);
                continue;
            }
            if let Some(row) = only(rows) {
                let node = nodes.node(row).map(|node| &node.facts().labels);
                if let Some(value) = node.and_then(|labels| value_of(labels, key)) {
                    self.walk(class, (key, value), from, *rows, &mut visit);
                }
                continue;
            }
            let Some(label) = nodes.labels.get(&key) else { continue };
            #[expect(clippy::iter_over_hash_type, reason = "values of one key share no row")]
            for (value, holders) in &label.values {
                let mut group = *rows;
                group.intersect(holders);
                if !group.is_empty() {
                    self.walk(class, (key, *value), from, group, &mut visit);
                }
            }
        }
    }

    fn walk(
        &self,
        class: Symbol,
        anchor: Anchor,
        from: &K,
        mut group: RowSet,
        visit: &mut impl FnMut(&V, &RowSet) -> RowSet,
    ) {
        let things = self.things.range((class, anchor, from.clone())..);
        for (_, thing) in things.take_while(|((c, a, _), _)| *c == class && *a == anchor) {
            group.subtract(&visit(thing, &group));
            if group.is_empty() {
                return;
            }
        }
    }

    fn keys_of(&self, class: Symbol) -> impl Iterator<Item = Symbol> + '_ {
        let keys = self.keys.range((class, Symbol::EMPTY)..);
        keys.take_while(move |((of, _), _)| *of == class).map(|((_, key), _)| *key)
    }
}

/// The row of a set of exactly one.
fn only(rows: &RowSet) -> Option<usize> {
    let mut rows = rows.iter();
    rows.next().filter(|_| rows.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::snapshot::topology::Topology;

    fn nodes(model: &Model, zones: &[&str]) -> NodeTable {
        let (mut nodes, mut topology) = (NodeTable::default(), Topology::default());
        for (row, zone) in zones.iter().enumerate() {
            let json =
                format!(r#"{{"metadata": {{"name": "n{row}", "labels": {{"zone": "{zone}"}}}}}}"#);
            let node = model.compile_node(&serde_json::from_str(&json).unwrap()).unwrap();
            let domains = topology.add_node(&node.facts().labels);
            nodes.insert(row, node, &domains);
        }
        nodes
    }

    #[test]
    fn things_are_found_from_the_labels_of_rows() {
        let model = Model::new();
        let names = model.names();
        let [class, other, zone, a, b] =
            ["class", "other", "zone", "a", "b"].map(|name| names.intern(name));
        let nodes = nodes(&model, &["a", "b", "a"]);
        let mut things = Anchored::<u32, char>::default();
        things.insert(class, Some(vec![(zone, a), (zone, b)]), &1, &'x');
        things.insert(class, Some(vec![(zone, a)]), &2, &'y');
        things.insert(class, None, &3, &'z');
        things.insert(other, None, &0, &'o');
        things.insert(class, Some(vec![]), &0, &'n');
        let seen = |things: &Anchored<u32, char>, from: u32, rows: &[usize], ends: &[char]| {
            let rows = rows.iter().copied().collect();
            let mut seen = Vec::new();
            things.visit(class, &from, &nodes, &rows, |thing, rows| {
                seen.extend(rows.iter().map(|row| (row, *thing)));
                if ends.contains(thing) { *rows } else { RowSet::EMPTY }
            });
            seen.sort_unstable();
            seen
        };
        let all = [(0, 'x'), (0, 'y'), (0, 'z'), (1, 'x'), (1, 'z')];
        assert_eq!(seen(&things, 0, &[0, 1], &[]), all);
        assert_eq!(seen(&things, 2, &[0], &[]), [(0, 'y'), (0, 'z')]);
        assert_eq!(seen(&things, 0, &[0], &['x', 'z']), [(0, 'x'), (0, 'z')], "one ends a label");
        things.remove(class, Some(vec![(zone, a), (zone, b)]), &1);
        things.remove(class, Some(vec![(zone, a)]), &2);
        assert_eq!(seen(&things, 0, &[0, 1], &[]), [(0, 'z'), (1, 'z')]);
        things.remove(class, None, &3);
        assert!(!things.has(class) && things.has(other));
    }
}
