//! The objects, their one version counter and what happened to them: what etcd and the watch cache are to a real server.
//!
//! Every change takes the next resourceVersion and becomes one event of its resource. Readers and watchers share the
//! objects' text, so that a change costs one rendering however many watch it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

mod clock;
pub(crate) mod field;
pub(crate) mod shelf;
pub(crate) mod stored;

pub(crate) use clock::time;
use shelf::Shelf;
pub(crate) use shelf::{Change, Event};
pub(crate) use stored::Stored;

use crate::kubelet::Kubelet;
use crate::options::Options;
use crate::resource::{self, PODS, RESOURCES, Resource};
use crate::status::Refusal;
use crate::{admission, overcommit};

/// How many requests [`Store::requests`] remembers.
const MAX_REQUESTS: usize = 100_000;

/// All objects of a cluster, in memory. Clones share them; every call is one short critical section.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Mutex<State>>,
    requests: Arc<Mutex<VecDeque<Request>>>,
}

/// A Binding that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The node it was bound to.
    pub node: String,
    /// The pod's version with the binding in it.
    pub resource_version: u64,
}

/// A request that was answered, or carried out and its answer lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// The HTTP status of the answer, also of one that a fault kept from arriving.
    pub status: u16,
}

pub(crate) struct State {
    /// The version of the last change of anything.
    pub(crate) version: u64,
    shelves: Vec<Shelf>,
    pub(crate) bindings: Vec<Bound>,
    pub(crate) kubelet: Kubelet,
    n_uids: u64,
}

impl Store {
    /// An empty store with the bounds of `options`.
    pub fn new(options: &Options) -> Store {
        let shelves = RESOURCES.iter().map(|_| Shelf::new(options.history)).collect();
        let state = State {
            version: 0,
            shelves,
            bindings: Vec::new(),
            kubelet: Kubelet::new(options.grace_scale),
            n_uids: 0,
        };
        Store { shared: Arc::new(Mutex::new(state)), requests: Arc::default() }
    }

    /// Adds an object of a kind that is served; `apiVersion` and `kind` say which. Fills uid, resourceVersion,
    /// creationTimestamp and, for pods, the defaults that a server fills. Nothing else is checked, so that a test can set
    /// up what a server would only reach by steps, such as a pod that is bound already.
    pub fn create(&self, mut object: Value) -> Result<Value, Refusal> {
        let resource = resource_of(&object)?;
        let mut state = self.lock();
        admission::fill_defaults(resource, &mut object);
        Ok(state.create(resource, object)?.to_value(resource))
    }

    /// Puts a whole object in the place of the one of its name: MODIFIED under a new version, its uid and
    /// creationTimestamp kept. Versions and uids in `object` are not looked at.
    pub fn replace(&self, object: Value) -> Result<Value, Refusal> {
        let resource = resource_of(&object)?;
        let mut state = self.lock();
        let key = key_of(resource, &object)?;
        let Some(old) = state.stored(resource, &key) else {
            return Err(Refusal::not_found(resource, field::text(&object, "metadata.name")));
        };
        let mut object = resource.to_kept(object);
        let before = old.to_plain();
        for name in ["uid", "creationTimestamp"] {
            object["metadata"][name] = before["metadata"][name].clone();
        }
        Ok(state.put(resource, &key, object).to_value(resource))
    }

    /// The object, or `None`; `kind` as `Pod` or `CSINode`, `namespace` empty for what has none.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = resource::of_kind(kind)?;
        let stored = self.lock().stored(resource, &key(resource, namespace, name))?;
        Some(stored.to_value(resource))
    }

    /// All objects of a kind in the order of lists: by namespace, then name.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let Some(resource) = resource::of_kind(kind) else { return Vec::new() };
        let all: Vec<_> = self.lock().shelf(resource).objects().values().cloned().collect();
        all.iter().map(|stored| stored.to_value(resource)).collect()
    }

    /// Removes an object at once, whatever its finalizers and grace period: DELETED.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), Refusal> {
        let Some(resource) = resource::of_kind(kind) else { return Err(Refusal::no_such_path()) };
        let removed = self.lock().remove(resource, &key(resource, namespace, name));
        removed.map(drop).ok_or_else(|| Refusal::not_found(resource, name))
    }

    /// How many objects of a kind there are.
    pub fn n(&self, kind: &str) -> usize {
        resource::of_kind(kind).map_or(0, |resource| self.lock().shelf(resource).objects().len())
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Every Binding ever accepted, in order.
    pub fn bindings(&self) -> Vec<Bound> {
        self.lock().bindings.clone()
    }

    /// The last 100,000 requests that were answered, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().cloned().collect()
    }

    /// Forgets what happened: a watch, an exact list or a continue token from an older version is 410 from here on.
    pub fn compact(&self) {
        let state = &mut *self.lock();
        for shelf in &mut state.shelves {
            shelf.compact(state.version);
        }
    }

    /// Whether there is a kubelet on every node: pods that are bound turn Running, those marked for deletion go when
    /// their grace period, times [`Options::grace_scale`], has run out. Off at first. Pods that wait are seen to at once.
    pub fn set_auto_kubelet(&self, on: bool) {
        self.lock().set_auto_kubelet(on);
    }

    /// Nodes that hold more than they have, recounted from the objects alone: a line each, in the order of names, such
    /// as `node-1: 4100m of 4 cpu`. Counts what pods that are bound and not finished request.
    pub fn overcommitted(&self) -> Vec<String> {
        let (nodes, pods) = {
            let state = self.lock();
            let all = |resource| state.shelf(resource).objects().values().cloned().collect();
            (all(&resource::RESOURCES[1]), all(PODS))
        };
        overcommit::overcommitted(nodes, pods)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, request: Request) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() == MAX_REQUESTS {
            requests.pop_front();
        }
        requests.push_back(request);
    }
}

impl State {
    pub(crate) fn shelf(&self, resource: &Resource) -> &Shelf {
        &self.shelves[resource.shelf()]
    }

    pub(crate) fn shelf_mut(&mut self, resource: &Resource) -> &mut Shelf {
        &mut self.shelves[resource.shelf()]
    }

    pub(crate) fn stored(&self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        self.shelf(resource).objects().get(key).cloned()
    }

    /// Adds an object as it is but for uid, version and time of creation.
    pub(crate) fn create(
        &mut self,
        resource: &'static Resource,
        object: Value,
    ) -> Result<Arc<Stored>, Refusal> {
        let mut object = resource.to_kept(object);
        let key = key_of(resource, &object)?;
        if self.stored(resource, &key).is_some() {
            let name = field::text(&object, "metadata.name");
            return Err(Refusal::already_exists(resource, name));
        }
        let metadata = &mut object["metadata"];
        if metadata["uid"].as_str().is_none_or(str::is_empty) {
            metadata["uid"] = Value::String(self.next_uid());
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = Value::String(time(0));
        }
        let stored = self.put(resource, &key, object);
        if resource.kind == PODS.kind {
            self.kubelet_sees(&key);
        }
        Ok(stored)
    }

    /// Puts an object (as its shelf keeps it) under the next version: ADDED or MODIFIED.
    pub(crate) fn put(&mut self, resource: &Resource, key: &str, object: Value) -> Arc<Stored> {
        self.version += 1;
        let stored = Stored::new(resource.kept_as(), self.version, object);
        self.shelf_mut(resource).put(key, stored)
    }

    /// Removes an object under the next version; what is returned, and what DELETED shows, is its last state with that
    /// version (recording 03).
    pub(crate) fn remove(&mut self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        let old = self.stored(resource, key)?;
        self.version += 1;
        let last = Stored::new(resource.kept_as(), self.version, old.to_plain());
        Some(self.shelf_mut(resource).remove(key, old, last))
    }

    /// Uids only have to differ: these count, so that runs with the same steps have the same ones.
    fn next_uid(&mut self) -> String {
        self.n_uids += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.n_uids >> 24, self.n_uids)
    }
}

/// Where an object stands in its shelf, in etcd's order: `namespace/name`, or the name alone.
pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> String {
    if resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
}

fn key_of(resource: &Resource, object: &Value) -> Result<String, Refusal> {
    let name = field::text(object, "metadata.name");
    let namespace = field::text(object, "metadata.namespace");
    let missing =
        |field, why| Refusal::invalid(resource.kind, "", name, field, ("FieldValueRequired", why));
    if name.is_empty() {
        let why = "Required value: name or generateName is required";
        return Err(missing("metadata.name", why));
    }
    if resource.namespaced && namespace.is_empty() {
        return Err(missing("metadata.namespace", "Required value"));
    }
    Ok(key(resource, namespace, name))
}

fn resource_of(object: &Value) -> Result<&'static Resource, Refusal> {
    let (api_version, kind) = (field::text(object, "apiVersion"), field::text(object, "kind"));
    resource::by_kind(api_version, kind).ok_or_else(|| {
        let what = format!("no kind \"{kind}\" is registered for version \"{api_version}\"");
        Refusal::bad_request(format!("the object provided is unrecognized: {what}"))
    })
}
