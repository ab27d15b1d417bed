//! Listing: a list of one kind while it is read, and the objects of the cluster that it does not contain.
//!
//! Listed objects are applied as they come, so that no list is in memory as a whole; at its end, objects that it did
//! not contain are deleted. In between the cluster has too many objects rather than too few, so that no pod is placed
//! into used room.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use berth_engine::{Cluster, Delta, Object, ObjectKey, ObjectKind, Pod, PodKey};

use super::object_change::{ObjectChange, Who};
use super::page;
use super::resource::Resource;
use crate::clock;

/// A list that is being read.
#[derive(Debug)]
pub(super) struct Listing {
    resource: Resource,
    /// Time when the list was requested.
    pub(super) requested: Instant,
    nodes: HashSet<Arc<str>>,
    /// Pods, with the uid that is kept if the pod itself was refused: any other pod with its name is gone.
    pods: HashMap<PodKey, Option<Arc<str>>>,
    objects: HashSet<ObjectKey>,
    /// Pods that were assumed before the list was requested and that the server once had: if it no longer has them,
    /// they are deleted (S-CCH-5). Other assumed pods may be newer than the list, or not created yet, and stay.
    assumed: HashMap<PodKey, Arc<str>>,
    /// The highest version among the objects.
    pub(super) highest: u64,
    /// Version of the list, once it is complete.
    pub(super) version: u64,
    /// Whether the server's history began anew with it.
    pub(super) is_anew: bool,
}

/// An object in the cluster that is not in the list.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) delta: Delta,
    pub(super) what: What,
}

/// Identity of an object that is gone.
#[derive(Debug)]
pub(super) enum What {
    Node(Arc<str>),
    Pod(Pod),
    Object(ObjectKey),
}

impl Listing {
    /// Begins a listing; to be called before the list is requested.
    pub(super) fn begin(cluster: &Cluster, resource: Resource) -> Listing {
        let mut assumed = HashMap::new();
        if resource == Resource::Pods && cluster.snapshot().n_assumed() > 0 {
            let known = cluster
                .known_pods(|pod, is_assumed| is_assumed && pod.resource_version().is_some());
            assumed = known.iter().map(|pod| (pod.key().clone(), pod.uid().into())).collect();
        }
        Listing {
            resource,
            requested: clock::now(),
            nodes: HashSet::new(),
            pods: HashMap::new(),
            objects: HashSet::new(),
            assumed,
            highest: 0,
            version: 0,
            is_anew: false,
        }
    }

    pub(super) fn resource(&self) -> Resource {
        self.resource
    }

    /// Records an item, or an event among the items.
    pub(super) fn note(&mut self, object: &ObjectChange) {
        self.highest = self.highest.max(object.version.unwrap_or(0));
        let is_upsert = matches!(
            &object.delta,
            Ok(Delta::UpsertNode(_) | Delta::UpsertPod(_) | Delta::UpsertObject(_))
        );
        // A refused object exists all the same.
        let is_there = is_upsert || object.delta.is_err();
        match &object.who {
            Who::Node(name) if is_there => drop(self.nodes.insert(name.clone())),
            Who::Node(name) => drop(self.nodes.remove(name)),
            Who::Pod(key, uid) if is_there => {
                self.pods.insert(key.clone(), (!is_upsert).then(|| uid.clone()));
            }
            Who::Pod(key, _) => drop(self.pods.remove(key)),
            Who::Object(key) if is_there => drop(self.objects.insert(key.clone())),
            Who::Object(key) => drop(self.objects.remove(key)),
        }
    }

    /// Objects of the cluster that the list does not contain, once all listed objects are applied.
    pub(super) fn gone(&self, cluster: &Cluster) -> Vec<Gone> {
        match self.resource {
            Resource::Nodes => {
                let mut names = cluster.known_nodes();
                names.retain(|name| !self.nodes.contains(name));
                let gone = |name: Arc<str>| Gone {
                    delta: Delta::DeleteNode(name.clone()),
                    what: What::Node(name),
                };
                names.into_iter().map(gone).collect()
            }
            Resource::Pods => {
                let pods = cluster.known_pods(|pod, is_assumed| self.is_gone(pod, is_assumed));
                let gone = |pod: Pod| Gone {
                    delta: Delta::DeletePod { key: pod.key().clone(), uid: Some(pod.uid().into()) },
                    what: What::Pod(pod),
                };
                pods.into_iter().map(gone).collect()
            }
            Resource::Objects(kind) => self.gone_objects(cluster, kind),
        }
    }

    fn gone_objects(&self, cluster: &Cluster, kind: ObjectKind) -> Vec<Gone> {
        let mut objects = cluster.known_objects(kind);
        objects.retain(|object| !self.objects.contains(object.key()));
        let gone = |object: Object| Gone {
            delta: Delta::DeleteObject(object.key().clone()),
            what: What::Object(object.key().clone()),
        };
        objects.into_iter().map(gone).collect()
    }

    fn is_gone(&self, pod: &Pod, is_assumed: bool) -> bool {
        let is_listed = match self.pods.get(pod.key()) {
            Some(Some(uid)) => **uid == *pod.uid(),
            Some(None) => true,
            None => false,
        };
        let was_there = || self.assumed.get(pod.key()).is_some_and(|uid| **uid == *pod.uid());
        !is_listed && (!is_assumed || was_there())
    }

    /// Whether the list contains a pod of this name, refused or not.
    pub(super) fn holds_pod(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    /// Whether the list contains this object, refused or not.
    pub(super) fn holds(&self, who: &Who) -> bool {
        match who {
            Who::Node(name) => self.nodes.contains(name),
            Who::Pod(key, _) => self.holds_pod(key),
            Who::Object(key) => self.objects.contains(key),
        }
    }
}

/// Maximum number of items of a page: fewer if a page is too large for memory, more if lists expire before their end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct PageLimit(pub(super) u32);

impl PageLimit {
    pub(super) fn smaller(self) -> PageLimit {
        PageLimit((self.0 / 4).max(1))
    }

    pub(super) fn larger(self) -> PageLimit {
        PageLimit(self.0.saturating_mul(4).min(page::MAX_ITEMS))
    }
}

impl Default for PageLimit {
    fn default() -> PageLimit {
        PageLimit(page::ITEMS)
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::{PlaceRequest, Policy, TieBreak};

    use super::*;
    use crate::feed::kube::object_change::Change;

    fn object(cluster: &Cluster, resource: Resource, json: &str) -> ObjectChange {
        ObjectChange::read(cluster, resource, Change::Added, json, false).unwrap()
    }

    fn pod(name: &str, uid: &str, version: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"d","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{"containers":[{{"name":"c"}}]}}}}"#
        )
    }

    fn gone(listing: &Listing, cluster: &Cluster) -> Vec<String> {
        let gone = listing.gone(cluster).into_iter();
        gone.map(|gone| match gone.what {
            What::Node(name) => name.to_string(),
            What::Pod(pod) => format!("{}:{}", pod.key().name, pod.uid()),
            What::Object(key) => key.to_string(),
        })
        .collect()
    }

    #[test]
    fn what_was_not_listed_is_gone_and_what_was_refused_is_not() {
        let cluster = Cluster::new();
        for pod in [pod("a", "1", "1"), pod("b", "2", "2"), pod("c", "3", "3"), pod("d", "4", "4")]
        {
            cluster.apply(vec![object(&cluster, Resource::Pods, &pod).delta.unwrap()]);
        }
        let mut listing = Listing::begin(&cluster, Resource::Pods);
        listing.note(&object(&cluster, Resource::Pods, &pod("a", "1", "5")));
        let refused = |name, uid| pod(name, uid, "6").replace(r#"[{"name":"c"}]"#, "[7]");
        listing.note(&object(&cluster, Resource::Pods, &refused("b", "2")));
        // Another pod has the name: the known one is gone.
        listing.note(&object(&cluster, Resource::Pods, &refused("c", "33")));
        let over = pod("d", "44", "7").replace("}]}", r#"}]},"status":{"phase":"Succeeded"}"#);
        listing.note(&object(&cluster, Resource::Pods, &over));
        assert_eq!(gone(&listing, &cluster), ["c:3", "d:4"]);
        assert_eq!(listing.highest, 7);
    }

    #[test]
    fn other_kinds_go_by_name_and_kind() {
        let cluster = Cluster::new();
        let namespaces = Resource::Objects(ObjectKind::Namespace);
        for name in ["x", "y"] {
            let json = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            for resource in [Resource::Nodes, namespaces] {
                cluster.apply(vec![object(&cluster, resource, &json).delta.unwrap()]);
            }
        }
        for (resource, expected) in [(Resource::Nodes, "y"), (namespaces, "Namespace `y`")] {
            let mut listing = Listing::begin(&cluster, resource);
            listing.note(&object(&cluster, resource, r#"{"metadata":{"name":"x"}}"#));
            assert_eq!(gone(&listing, &cluster), [expected]);
        }
    }

    #[test]
    fn an_assumed_pod_goes_only_if_the_server_had_it_before_the_list() {
        let cluster = Cluster::new();
        let node = r#"{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4","pods":"9"}}}"#;
        cluster.apply(vec![object(&cluster, Resource::Nodes, node).delta.unwrap()]);
        let assume = |json: &str| {
            let Ok(Delta::UpsertPod(pod)) = object(&cluster, Resource::Pods, json).delta else {
                panic!("{json}")
            };
            let policy = Policy::default();
            let tie_break = TieBreak::Lexicographic;
            cluster
                .assume(&PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None })
                .unwrap();
        };
        assume(&pod("before", "1", "1"));
        assume(&pod("not-made-yet", "2", ""));
        let listing = Listing::begin(&cluster, Resource::Pods);
        assume(&pod("since", "3", "3"));
        assert_eq!(gone(&listing, &cluster), ["before:1"]);
        let mut listing = Listing::begin(&cluster, Resource::Pods);
        for (name, uid) in [("before", "1"), ("since", "3")] {
            listing.note(&object(&cluster, Resource::Pods, &pod(name, uid, "4")));
        }
        assert!(gone(&listing, &cluster).is_empty());
    }
}
