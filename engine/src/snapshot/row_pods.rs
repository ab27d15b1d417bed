//! RowPods: the pods of a row, as a list that snapshots share and the few changes since it was made.
//!
//! Copying a list touches each of its pods. So changes are kept beside a list for as long as others share it; the first
//! reader makes a list of both.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::by_importance::{ByImportance, KeptOrder};
use super::placed_pod::{PlacedPod, hash_of};
use crate::model::PodKey;

/// Maximum number of changes beside a list; with more the list is made anew.
const MAX_CHANGES: usize = 8;

/// The pods of a row in order of arrival; when a pod is removed the last one takes its position (S-PRE-12, S-CCH-6).
#[derive(Clone, Debug, Default)]
pub(super) struct RowPods {
    list: Arc<List>,
    changes: Option<Arc<Changes>>,
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

/// The difference between the pods of a row and a list: some of the list's last pods are gone, some positions hold other
/// pods, and further pods follow.
#[derive(Debug, Default)]
struct Changes {
    /// Number of the list's first pods that are left.
    n_left: usize,
    /// The pods at positions of the list that hold others by now, unordered.
    moved: SmallVec<[(usize, PlacedPod); 1]>,
    /// The pods behind those of the list.
    late: SmallVec<[PlacedPod; 1]>,
    /// All pods of the row in one list, made by the first reader.
    all: OnceLock<Arc<List>>,
}

impl Changes {
    fn new(list: &List) -> Changes {
        Changes { n_left: list.pods.len(), ..Changes::default() }
    }

    /// A copy to be changed.
    fn copy(&self) -> Changes {
        let Changes { n_left, moved, late, all: _ } = self;
        Changes { n_left: *n_left, moved: moved.clone(), late: late.clone(), all: OnceLock::new() }
    }

    /// Number of changes of a list: a removal makes it shorter, and may move a pod.
    fn len(&self, list: &List) -> usize {
        (list.pods.len() - self.n_left).max(self.moved.len()) + self.late.len()
    }

    fn n_pods(&self) -> usize {
        self.n_left + self.late.len()
    }

    fn get<'a>(&'a self, list: &'a List, at: usize) -> &'a PlacedPod {
        match at.checked_sub(self.n_left) {
            Some(at) => &self.late[at],
            None => match self.moved.iter().find(|(position, _)| *position == at) {
                Some((_, placed)) => placed,
                None => &list.pods[at],
            },
        }
    }

    fn set(&mut self, at: usize, placed: PlacedPod) {
        match at.checked_sub(self.n_left) {
            Some(at) => self.late[at] = placed,
            None => match self.moved.iter_mut().find(|(position, _)| *position == at) {
                Some((_, moved)) => *moved = placed,
                None => self.moved.push((at, placed)),
            },
        }
    }

    /// Removes the pod at a position, which the last one takes.
    fn remove(&mut self, list: &List, at: usize) -> PlacedPod {
        let removed = self.get(list, at).clone();
        let last = self.pop(list);
        if at < self.n_pods() {
            self.set(at, last);
        }
        removed
    }

    fn pop(&mut self, list: &List) -> PlacedPod {
        if let Some(last) = self.late.pop() {
            return last;
        }
        self.n_left -= 1;
        match self.moved.iter().position(|(position, _)| *position == self.n_left) {
            Some(index) => self.moved.swap_remove(index).1,
            None => list.pods[self.n_left].clone(),
        }
    }

    /// The position of the pod of this name. The latest pods are looked at first: they leave soonest.
    fn position(&self, list: &List, key: &PodKey, hash: u32) -> Option<usize> {
        if let Some(at) = position(&self.late, key, hash) {
            return Some(self.n_left + at);
        }
        if let Some((at, _)) = self.moved.iter().find(|(_, placed)| placed.is(key, hash)) {
            return Some(*at);
        }
        let at = position(&list.pods[..self.n_left], key, hash)?;
        let is_moved = self.moved.iter().any(|(position, _)| *position == at);
        (!is_moved).then_some(at)
    }

    /// Makes the changes in the list itself.
    fn enter(self, pods: &mut Vec<PlacedPod>) {
        pods.truncate(self.n_left);
        for (at, placed) in self.moved {
            pods[at] = placed;
        }
        pods.extend(self.late);
    }

    /// All pods in one list.
    fn together(&self, list: &List) -> List {
        let mut all = Vec::with_capacity(self.n_pods() + 1);
        all.extend_from_slice(&list.pods[..self.n_left]);
        for (at, placed) in &self.moved {
            all[*at].clone_from(placed);
        }
        all.extend_from_slice(&self.late);
        List::new(all)
    }
}

/// The position of the pod of this name, the last ones looked at first.
fn position(pods: &[PlacedPod], key: &PodKey, hash: u32) -> Option<usize> {
    pods.iter().rposition(|placed| placed.is(key, hash))
}

impl RowPods {
    pub(super) fn pods(&self) -> &[PlacedPod] {
        &self.all().pods
    }

    /// The pods by importance, if that was wanted before.
    pub(super) fn by_importance(&self) -> Option<&ByImportance> {
        let List { pods, order } = &**self.all();
        order.of(pods)
    }

    fn all(&self) -> &Arc<List> {
        match &self.changes {
            None => &self.list,
            Some(changes) => changes.all.get_or_init(|| Arc::new(changes.together(&self.list))),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.changes.as_ref().map_or(self.list.pods.len(), |changes| changes.n_pods())
    }

    /// The pod of this name.
    pub(super) fn find(&self, key: &PodKey) -> Option<&PlacedPod> {
        let hash = hash_of(key);
        match &self.changes {
            None => position(&self.list.pods, key, hash).map(|at| &self.list.pods[at]),
            Some(changes) => {
                let at = changes.position(&self.list, key, hash)?;
                Some(changes.get(&self.list, at))
            }
        }
    }

    pub(super) fn push(&mut self, placed: PlacedPod) {
        match self.begin() {
            None => self.pods_mut().push(placed),
            Some(mut changes) => {
                changes.late.push(placed);
                self.keep(changes);
            }
        }
    }

    /// Removes the pod of this name: the last one takes its position.
    pub(super) fn remove(&mut self, key: &PodKey) -> Option<PlacedPod> {
        let hash = hash_of(key);
        match self.begin() {
            None => {
                let at = position(&self.list.pods, key, hash)?;
                Some(self.pods_mut().swap_remove(at))
            }
            Some(mut changes) => {
                let at = changes.position(&self.list, key, hash);
                let removed = at.map(|at| changes.remove(&self.list, at));
                self.keep(changes);
                removed
            }
        }
    }

    /// Replaces the pod of this name by what is made of it, in its position; returns whether it is there.
    pub(super) fn replace(
        &mut self,
        key: &PodKey,
        with: impl FnOnce(&PlacedPod) -> PlacedPod,
    ) -> bool {
        let hash = hash_of(key);
        let mut changes = self.begin().unwrap_or_else(|| Changes::new(&self.list));
        let at = changes.position(&self.list, key, hash);
        if let Some(at) = at {
            let placed = with(changes.get(&self.list, at));
            changes.set(at, placed);
        }
        self.keep(changes);
        at.is_some()
    }

    /// All pods in one list, for changing them.
    pub(super) fn pods_mut(&mut self) -> &mut Vec<PlacedPod> {
        if let Some(changes) = self.changes.take() {
            self.list = Arc::new(changes.together(&self.list));
        }
        Arc::make_mut(&mut self.list).pods_mut()
    }

    /// Whether both are the same list with the same changes, not only equal ones. For assertions.
    pub(super) fn is_same_as(&self, other: &RowPods) -> bool {
        let changes = |row: &RowPods| row.changes.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.list, &other.list) && changes(self) == changes(other)
    }

    /// The changes, to be changed and kept; `None` if the list itself can be changed, which no other has.
    fn begin(&mut self) -> Option<Changes> {
        match self.changes.take() {
            None if Arc::get_mut(&mut self.list).is_some() => return None,
            None => {}
            Some(changes) => match changes.all.get() {
                Some(all) => self.list = all.clone(),
                None => {
                    let changes = Arc::try_unwrap(changes);
                    return Some(changes.unwrap_or_else(|shared| shared.copy()));
                }
            },
        }
        Some(Changes::new(&self.list))
    }

    fn keep(&mut self, changes: Changes) {
        let n = changes.len(&self.list);
        if n == 0 {
            return;
        }
        match Arc::get_mut(&mut self.list) {
            Some(list) => changes.enter(list.pods_mut()),
            None if n > MAX_CHANGES => self.list = Arc::new(changes.together(&self.list)),
            None => self.changes = Some(Arc::new(changes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::{core_v1, meta_v1};
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::Cluster;

    fn placed(name: &str) -> PlacedPod {
        let metadata = meta_v1::ObjectMeta { name: name.to_owned(), ..Default::default() };
        let pod = core_v1::Pod {
            metadata: Some(metadata),
            spec: Some(core_v1::PodSpec::default()),
            ..Default::default()
        };
        PlacedPod::new(Cluster::new().compile_pod(&pod).unwrap(), None)
    }

    fn started(placed: &PlacedPod, start_time: i64) -> PlacedPod {
        let mut placed = placed.clone();
        placed.start_time = start_time;
        placed
    }

    fn key(name: usize) -> PodKey {
        PodKey::new("default", &format!("p{name}"))
    }

    /// Name and start time, by which a replaced pod can be told from the one before.
    fn told(pods: &[PlacedPod]) -> Vec<(PodKey, i64)> {
        pods.iter().map(|placed| (placed.pod.key().clone(), placed.start_time)).collect()
    }

    proptest! {
        /// Any changes: a row that is copied and read at odd times is as a plain list, and no copy changes.
        #[test]
        fn a_row_is_as_a_plain_list(
            steps in prop::collection::vec((0_usize..12, 0_u8..4, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let made: Vec<PlacedPod> = (0..12).map(|name| placed(&format!("p{name}"))).collect();
            let (mut row, mut list) = (RowPods::default(), Vec::<PlacedPod>::new());
            let mut copies = Vec::new();
            for (step, (name, what, is_read, is_copied)) in (0..).zip(steps) {
                let key = key(name);
                let at = list.iter().position(|placed| *placed.pod.key() == key);
                let changed = started(&made[name], step);
                match (what, at) {
                    (0 | 1, None) => {
                        row.push(changed.clone());
                        list.push(changed);
                    }
                    (0 | 2, Some(at)) => {
                        let gone = list.swap_remove(at);
                        let removed = row.remove(&key);
                        prop_assert_eq!(removed.map(|it| it.start_time), Some(gone.start_time));
                        prop_assert!(row.remove(&key).is_none());
                    }
                    (1, Some(at)) => {
                        let is_there = row.replace(&key, |placed| {
                            assert_eq!(placed.start_time, list[at].start_time);
                            changed.clone()
                        });
                        prop_assert!(is_there);
                        list[at] = changed;
                    }
                    (2, None) => prop_assert!(!row.replace(&key, |_| changed)),
                    _ => {
                        row.pods_mut().reverse();
                        list.reverse();
                    }
                }
                prop_assert_eq!(row.len(), list.len());
                let found = row.find(&key).map(|placed| placed.start_time);
                let listed = list.iter().find(|placed| *placed.pod.key() == key);
                prop_assert_eq!(found, listed.map(|placed| placed.start_time));
                if is_read {
                    prop_assert_eq!(told(row.pods()), told(&list));
                }
                if is_copied {
                    copies.push((row.clone(), told(&list)));
                }
            }
            for (row, list) in copies {
                prop_assert_eq!(told(row.pods()), list);
            }
        }
    }

    /// Pods that come and go copy no list: one that was there before stays the same.
    #[test]
    fn what_comes_and_goes_copies_no_list() {
        let mut row = RowPods::default();
        (0..30).for_each(|name| row.push(placed(&format!("p{name}"))));
        row.pods_mut();
        let published = row.clone();
        for step in 0..100 {
            let earlier = row.clone();
            row.push(started(&placed("new"), step));
            assert!(row.remove(&PodKey::new("default", "new")).is_some());
            assert!(Arc::ptr_eq(&row.list, &published.list));
            drop(earlier);
        }
        assert!(row.is_same_as(&published), "nothing is left of them");
        for name in 0..=MAX_CHANGES {
            assert!(Arc::ptr_eq(&row.list, &published.list), "{name}");
            row.remove(&key(name));
        }
        assert!(!Arc::ptr_eq(&row.list, &published.list), "these are many changes");
        assert_eq!((row.len(), published.len()), (29 - MAX_CHANGES, 30));
    }
}
