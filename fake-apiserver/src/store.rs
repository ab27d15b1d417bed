//! [`Store`]: the objects, their version counter and their recent events, like etcd and the watch cache of a real
//! server.
//!
//! Every change takes the next resourceVersion and becomes one event of its resource. Readers and watchers share the
//! objects' text, so that a change is rendered once, independent of the number of watchers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub(crate) mod collection;
pub(crate) mod kubelet_state;

use collection::Collection;
pub(crate) use collection::{Change, Event};
use kubelet_state::KubeletState;

use crate::clock::time;
use crate::defaults::fill_defaults;
use crate::field;
use crate::options::Options;
use crate::overcommit;
use crate::resource::{self, PODS, RESOURCES, Resource};
use crate::status::Refusal;
use crate::stored::Stored;

/// Limit of the requests that [`Store::requests`] returns.
const MAX_REQUESTS: usize = 100_000;

/// All objects of a cluster, in memory. Clones share the objects. Every call is one short critical section.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Mutex<State>>,
    requests: Arc<Mutex<VecDeque<Request>>>,
}

/// An accepted Binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// Name of the node.
    pub node: String,
    /// The pod's version after the binding.
    pub resource_version: u64,
}

/// A request that was handled, with or without a response that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method: `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// HTTP status of the response, even if a fault kept the response from arriving.
    pub status: u16,
}

pub(crate) struct State {
    /// Version of the last change.
    pub(crate) version: u64,
    collections: Vec<Collection>,
    pub(crate) bindings: Vec<Bound>,
    pub(crate) kubelet: KubeletState,
    n_uids: u64,
}

impl Store {
    /// An empty store with the limits of `options`.
    pub fn new(options: &Options) -> Store {
        let collections = RESOURCES.iter().map(|_| Collection::new(options.history)).collect();
        let state = State {
            version: 0,
            collections,
            bindings: Vec::new(),
            kubelet: KubeletState::new(options.grace_scale),
            n_uids: 0,
        };
        Store { shared: Arc::new(Mutex::new(state)), requests: Arc::default() }
    }

    /// Adds an object, whose `apiVersion` and `kind` must be served. Fills uid, resourceVersion, creationTimestamp and,
    /// for pods, the defaults of a server. Other checks are omitted, so that a test can add objects that a server
    /// reaches only in steps, such as a bound pod.
    pub fn create(&self, mut object: Value) -> Result<Value, Refusal> {
        let resource = resource_of(&object)?;
        let mut state = self.lock();
        fill_defaults(resource, &mut object);
        Ok(state.create(resource, object)?.to_value(resource))
    }

    /// Replaces the object with the same name: a MODIFIED event under a new version, with uid and creationTimestamp
    /// kept. The version and uid in `object` are ignored.
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

    /// The object, if it exists. `kind` is a kind such as `Pod` or `CSINode`; `namespace` is empty for kinds without
    /// one.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = resource::of_kind(kind)?;
        let stored = self.lock().stored(resource, &key(resource, namespace, name))?;
        Some(stored.to_value(resource))
    }

    /// All objects of a kind, by namespace, then by name.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        let Some(resource) = resource::of_kind(kind) else { return Vec::new() };
        let all: Vec<_> = self.lock().collection(resource).objects().values().cloned().collect();
        all.iter().map(|stored| stored.to_value(resource)).collect()
    }

    /// Removes an object immediately, with a DELETED event, regardless of finalizers and grace period.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), Refusal> {
        let Some(resource) = resource::of_kind(kind) else { return Err(Refusal::no_such_path()) };
        let removed = self.lock().remove(resource, &key(resource, namespace, name));
        removed.map(drop).ok_or_else(|| Refusal::not_found(resource, name))
    }

    /// Number of objects of a kind.
    pub fn n(&self, kind: &str) -> usize {
        resource::of_kind(kind)
            .map_or(0, |resource| self.lock().collection(resource).objects().len())
    }

    /// Version of the last change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// All accepted Bindings, in order.
    pub fn bindings(&self) -> Vec<Bound> {
        self.lock().bindings.clone()
    }

    /// Number of accepted Bindings.
    pub fn n_bindings(&self) -> usize {
        self.lock().bindings.len()
    }

    /// The last 100,000 requests, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().cloned().collect()
    }

    /// Drops all events: from now on a watch, an exact list or a continue token from an older version fails with 410.
    pub fn compact(&self) {
        let state = &mut *self.lock();
        for collection in &mut state.collections {
            collection.compact(state.version);
        }
    }

    /// Switches an automatic kubelet on or off, initially off. It sets bound pods to Running, and removes marked pods
    /// when their grace period, times [`Options::grace_scale`], is over. Switching on handles existing pods
    /// immediately.
    pub fn set_auto_kubelet(&self, on: bool) {
        self.lock().set_auto_kubelet(on);
    }

    /// Overcommitted nodes, recounted from the objects: a line each, in the order of names, such as `node-1: 4100m of 4
    /// cpu`. Counts the requests of bound pods that have not finished.
    pub fn overcommitted(&self) -> Vec<String> {
        let (nodes, pods) = {
            let state = self.lock();
            let all = |resource| state.collection(resource).objects().values().cloned().collect();
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
    pub(crate) fn collection(&self, resource: &Resource) -> &Collection {
        &self.collections[resource.position()]
    }

    pub(crate) fn collection_mut(&mut self, resource: &Resource) -> &mut Collection {
        &mut self.collections[resource.position()]
    }

    pub(crate) fn stored(&self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        self.collection(resource).objects().get(key).cloned()
    }

    /// Adds an object, with uid, version and creation time filled in.
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
            self.kubelet_update(&key);
        }
        Ok(stored)
    }

    /// Stores an object (in its stored form) under the next version, with an ADDED or MODIFIED event.
    pub(crate) fn put(&mut self, resource: &Resource, key: &str, object: Value) -> Arc<Stored> {
        self.version += 1;
        let stored = Stored::new(resource.kept_as(), self.version, object);
        self.collection_mut(resource).put(key, stored)
    }

    /// Removes an object under the next version. Returns its last state with that version, as in the DELETED event
    /// (recording 03).
    pub(crate) fn remove(&mut self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        let old = self.stored(resource, key)?;
        self.version += 1;
        let last = Stored::new(resource.kept_as(), self.version, old.to_plain());
        Some(self.collection_mut(resource).remove(key, old, last))
    }

    /// The next uid. Uids are numbered, so that equal runs have equal uids.
    fn next_uid(&mut self) -> String {
        self.n_uids += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.n_uids >> 24, self.n_uids)
    }
}

/// Key of an object in its collection, in etcd's order: `namespace/name`, or the name alone.
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
