//! PodTable: the pods of each node of a shard, in blocks so that a change copies little.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::by_importance::{ByImportance, KeptOrder};
use super::placed_pod::{PlacedPod, hash_of};
use crate::model::PodKey;
use crate::rows::{ROWS, RowSet};

const BLOCK: usize = 16;

/// Pods by row, in order of arrival; when a pod is removed the last one takes its position (S-PRE-12, S-CCH-6).
#[derive(Clone, Debug)]
pub(crate) struct PodTable([Arc<Block>; ROWS / BLOCK]);

#[derive(Clone, Debug, Default)]
struct Block([RowPods; BLOCK]);

/// The pods of a row. Copying the list touches each pod, so new pods are kept apart as long as others share the list.
#[derive(Clone, Debug, Default)]
struct RowPods {
    pods: Arc<List>,
    late: Option<Arc<Late>>,
}

/// A list of pods, with what is kept of all of them.
#[derive(Debug, Default)]
struct List {
    pods: Vec<PlacedPod>,
    order: KeptOrder,
}

/// A copy is made to be changed.
impl Clone for List {
    fn clone(&self) -> List {
        List::new(self.pods.clone())
    }
}

impl List {
    fn new(pods: Vec<PlacedPod>) -> List {
        List { pods, order: KeptOrder::default() }
    }

    /// The pods, for changing them.
    fn pods_mut(&mut self) -> &mut Vec<PlacedPod> {
        self.order = KeptOrder::default();
        &mut self.pods
    }
}

/// The pods added last.
#[derive(Debug)]
struct Late {
    pods: SmallVec<[PlacedPod; 1]>,
    /// All pods of the row, merged into one list by the first reader.
    all: OnceLock<Arc<List>>,
}

/// The largest number of pods kept apart; with more the lists are merged.
const MAX_LATE: usize = 8;

impl Default for PodTable {
    fn default() -> PodTable {
        let block = Arc::new(Block::default());
        PodTable(std::array::from_fn(|_| block.clone()))
    }
}

impl PodTable {
    pub(crate) fn of(&self, row: usize) -> &[PlacedPod] {
        &self.list(row).pods
    }

    /// The pods of a row by importance, if that was wanted before.
    pub(crate) fn by_importance(&self, row: usize) -> Option<&ByImportance> {
        let List { pods, order } = self.list(row);
        order.of(pods)
    }

    fn list(&self, row: usize) -> &List {
        let RowPods { pods, late } = self.row(row);
        match late {
            None => pods,
            Some(late) => late.all.get_or_init(|| Arc::new(together(&pods.pods, &late.pods))),
        }
    }

    /// Number of pods of a row.
    pub(crate) fn count(&self, row: usize) -> usize {
        let RowPods { pods, late } = self.row(row);
        pods.pods.len() + late.as_ref().map_or(0, |late| late.pods.len())
    }

    /// The pod of this name on a row.
    pub(crate) fn find(&self, row: usize, key: &PodKey) -> Option<&PlacedPod> {
        let hash = hash_of(key);
        let RowPods { pods, late } = self.row(row);
        let late = late.iter().flat_map(|late| &late.pods);
        pods.pods.iter().chain(late).find(|placed| placed.is(key, hash))
    }

    /// Adds a pod to a row.
    pub(crate) fn push(&mut self, row: usize, pod: PlacedPod) {
        let row = self.row_mut(row);
        let mut late = SmallVec::new();
        if let Some(mut others) = row.late.take() {
            if let Some(all) = others.all.get() {
                row.pods = all.clone();
            } else if let Some(others) = Arc::get_mut(&mut others) {
                late = std::mem::take(&mut others.pods);
            } else {
                late.extend(others.pods.iter().cloned());
            }
        }
        late.push(pod);
        match Arc::get_mut(&mut row.pods) {
            Some(list) => list.pods_mut().extend(late),
            None if late.len() > MAX_LATE => row.pods = Arc::new(together(&row.pods.pods, &late)),
            None => row.late = Some(Arc::new(Late { pods: late, all: OnceLock::new() })),
        }
    }

    /// Removes the pod of this name from a row: the last one takes its position.
    pub(crate) fn remove(&mut self, row: usize, key: &PodKey) -> Option<PlacedPod> {
        let hash = hash_of(key);
        let pods = self.of_mut(row);
        let at = pods.iter().position(|placed| placed.is(key, hash))?;
        Some(pods.swap_remove(at))
    }

    /// Takes the lists of some rows of a newer table, which differ from this one's.
    pub(crate) fn follow(&mut self, newer: &PodTable, rows: &RowSet) {
        for row in rows.iter() {
            let (block, newer_block) = (&mut self.0[row / BLOCK], &newer.0[row / BLOCK]);
            match Arc::get_mut(block) {
                Some(block) => block.0[row % BLOCK].clone_from(newer.row(row)),
                None => *block = newer_block.clone(),
            }
        }
    }

    /// Whether each row has the same list, not only an equal one. For assertions.
    pub(crate) fn lists_the_same_as(&self, other: &PodTable) -> bool {
        let late = |row: &RowPods| row.late.as_ref().map(Arc::as_ptr);
        (0..ROWS).all(|row| {
            let (own, other) = (self.row(row), other.row(row));
            Arc::ptr_eq(&own.pods, &other.pods) && late(own) == late(other)
        })
    }

    /// The list of a row, for changing it.
    pub(crate) fn of_mut(&mut self, row: usize) -> &mut Vec<PlacedPod> {
        let row = self.row_mut(row);
        if let Some(late) = row.late.take() {
            row.pods = match late.all.get() {
                Some(all) => all.clone(),
                None => Arc::new(together(&row.pods.pods, &late.pods)),
            };
        }
        Arc::make_mut(&mut row.pods).pods_mut()
    }

    fn row(&self, row: usize) -> &RowPods {
        &self.0[row / BLOCK].0[row % BLOCK]
    }

    fn row_mut(&mut self, row: usize) -> &mut RowPods {
        &mut Arc::make_mut(&mut self.0[row / BLOCK]).0[row % BLOCK]
    }
}

fn together(pods: &[PlacedPod], late: &[PlacedPod]) -> List {
    let mut all = Vec::with_capacity(pods.len() + late.len() + 1);
    all.extend(pods.iter().chain(late).cloned());
    List::new(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use berth_proto::{core_v1, meta_v1};

    fn placed(name: &str) -> PlacedPod {
        let metadata = meta_v1::ObjectMeta { name: name.to_owned(), ..Default::default() };
        let pod = core_v1::Pod {
            metadata: Some(metadata),
            spec: Some(core_v1::PodSpec::default()),
            ..Default::default()
        };
        PlacedPod::new(Cluster::new().compile_pod(&pod).unwrap(), None)
    }

    /// Checks that a table that is copied and read at odd times equals a plain list, and that copies do not change.
    #[test]
    fn late_pods_keep_their_order() {
        let (mut table, mut list) = (PodTable::default(), Vec::new());
        let mut copies = Vec::new();
        let names = |pods: &[PlacedPod]| -> Vec<String> {
            pods.iter().map(|placed| placed.pod.key().name.to_string()).collect()
        };
        for step in 0_usize..200 {
            let name = format!("p{step}");
            table.push(3, placed(&name));
            list.push(name);
            if step % 7 == 3 {
                let gone = list.swap_remove(step * 31 % list.len());
                assert!(table.remove(3, &PodKey::new("default", &gone)).is_some());
                assert!(table.remove(3, &PodKey::new("default", &gone)).is_none());
            }
            if step % 5 < 2 {
                assert_eq!(names(table.of(3)), list, "{step}");
            }
            if step % 3 != 1 {
                copies.push((table.clone(), list.clone()));
            }
            assert_eq!((table.count(3), table.count(4)), (list.len(), 0));
            assert!(table.find(3, &PodKey::new("default", &list[step / 2 % list.len()])).is_some());
        }
        for (table, list) in copies {
            assert_eq!(names(table.of(3)), list);
        }
    }
}
