//! [`Collection`]: the objects of one kind and their recent events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use crate::stored::Stored;

/// Kind of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    /// The type of the watch event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// One change: the object before and after it. After a deletion, `object` is the last state under the version of the
/// deletion.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) change: Change,
    pub(crate) key: Arc<str>,
    pub(crate) object: Arc<Stored>,
    pub(crate) before: Option<Arc<Stored>>,
}

pub(crate) type Objects = BTreeMap<Arc<str>, Arc<Stored>>;

/// Events that a watcher has not received.
pub(crate) struct Batch {
    pub(crate) events: Vec<Arc<Event>>,
    /// Whether no further events exist.
    pub(crate) is_last: bool,
}

/// The objects of one kind with their history.
///
/// Invariant: `history` holds exactly the events after `forgotten`, in the order of versions.
pub(crate) struct Collection {
    objects: Objects,
    history: VecDeque<Arc<Event>>,
    max_history: usize,
    /// Version up to which events are dropped.
    forgotten: u64,
    /// Recently requested past states by version, so that the pages of a list share one.
    rewound: VecDeque<(u64, Arc<Objects>)>,
    changed: watch::Sender<u64>,
}

/// Number of past states that are kept, each for one paged list.
const MAX_REWOUND: usize = 4;

impl Collection {
    pub(crate) fn new(max_history: usize) -> Collection {
        Collection {
            objects: Objects::new(),
            history: VecDeque::new(),
            max_history: max_history.max(1),
            forgotten: 0,
            rewound: VecDeque::new(),
            changed: watch::Sender::new(0),
        }
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Receives the version of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn put(&mut self, key: &str, stored: Stored) -> Arc<Stored> {
        let object = Arc::new(stored);
        let (key, before) = match self.objects.get_key_value(key) {
            Some((key, before)) => (key.clone(), Some(before.clone())),
            None => (Arc::from(key), None),
        };
        self.objects.insert(key.clone(), object.clone());
        let change = if before.is_some() { Change::Modified } else { Change::Added };
        self.remember(Event { change, key, object: object.clone(), before });
        object
    }

    pub(super) fn remove(&mut self, key: &str, before: Arc<Stored>, last: Stored) -> Arc<Stored> {
        let object = Arc::new(last);
        self.objects.remove(key);
        self.remember(Event {
            change: Change::Deleted,
            key: key.into(),
            object: object.clone(),
            before: Some(before),
        });
        object
    }

    fn remember(&mut self, event: Event) {
        if self.history.len() == self.max_history
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.object.version;
        }
        let version = event.object.version;
        self.history.push_back(Arc::new(event));
        self.changed.send_replace(version);
    }

    pub(super) fn compact(&mut self, version: u64) {
        self.history.clear();
        self.rewound.clear();
        self.forgotten = version;
    }

    /// Up to `limit` events after `version`. If some of them are dropped, the error is the version up to which events
    /// are dropped.
    pub(crate) fn after(&self, version: u64, limit: usize) -> Result<Batch, u64> {
        if version < self.forgotten {
            return Err(self.forgotten);
        }
        let start = self.history.partition_point(|event| event.object.version <= version);
        let events: Vec<_> = self.history.iter().skip(start).take(limit).cloned().collect();
        let is_last = start + events.len() == self.history.len();
        Ok(Batch { events, is_last })
    }

    /// All objects at `version`; `None` if its events are dropped. The caller has checked that the version is not in
    /// the future. Cost: a copy of the map for the first call with a past version.
    pub(crate) fn at(&mut self, version: u64) -> Option<Arc<Objects>> {
        if version < self.forgotten {
            return None;
        }
        if let Some((_, objects)) = self.rewound.iter().find(|(at, _)| *at == version) {
            return Some(objects.clone());
        }
        let mut objects = self.objects.clone();
        let later = self.history.iter().rev().take_while(|event| event.object.version > version);
        for event in later {
            match &event.before {
                Some(before) => objects.insert(event.key.clone(), before.clone()),
                None => objects.remove(&event.key),
            };
        }
        let objects = Arc::new(objects);
        if self.rewound.len() == MAX_REWOUND {
            self.rewound.pop_front();
        }
        self.rewound.push_back((version, objects.clone()));
        Some(objects)
    }

    /// Whether no object has changed since `version`.
    pub(crate) fn is_unchanged_since(&self, version: u64) -> bool {
        self.history.back().map_or(self.forgotten, |event| event.object.version) <= version
    }
}
