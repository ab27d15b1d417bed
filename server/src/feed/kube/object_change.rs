//! Object change: one object as the API server sent it, compiled, without its text. Only fields that decisions read are
//! parsed; all others are skipped.

use std::sync::Arc;

use berth_engine::{Cluster, Delta, ModelError, ObjectKey, PodKey};
use berth_proto::{core_v1, meta_v1};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::garbage::NoObject;
use super::resource::Resource;
use crate::feed::file::{self, WrittenObject};
use crate::feed::object_name;

/// Change of an object.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The object exists: an item of a list, or `ADDED`.
    Added,
    /// The object was modified (`MODIFIED`).
    Modified,
    /// The object was deleted (`DELETED`).
    Deleted,
}

/// One object with its change.
#[derive(Debug)]
pub struct ObjectChange {
    /// The change.
    pub change: Change,
    /// Version in `metadata.resourceVersion`, if that is a number.
    pub version: Option<u64>,
    /// Identity of the object.
    pub who: Who,
    /// Change of the cluster, or the error in a field of the object.
    pub delta: Result<Delta, ModelError>,
    /// The pod as it was sent, if an observer needs it.
    pub pod: Option<Box<core_v1::Pod>>,
}

/// Identity of an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    /// A node, by name.
    Node(Arc<str>),
    /// A pod, by key and uid.
    Pod(PodKey, Arc<str>),
    /// Any other object.
    Object(ObjectKey),
}

#[derive(serde::Deserialize)]
struct Skeleton {
    metadata: Option<meta_v1::ObjectMeta>,
}

impl ObjectChange {
    /// Reads the JSON of one object of a kind. A pod that has ended counts as deleted (S-Q-1), whatever its other
    /// fields.
    ///
    /// # Errors
    /// [`NoObject`]. An object with a bad field is no error here: its [`ObjectChange::delta`] has it.
    pub fn read(
        cluster: &Cluster,
        resource: Resource,
        change: Change,
        json: &str,
        keeps_pods: bool,
    ) -> Result<ObjectChange, NoObject> {
        match (resource, change) {
            (Resource::Pods, Change::Deleted) if keeps_pods => {
                match serde_json::from_str::<core_v1::Pod>(json) {
                    Ok(pod) => ObjectChange::of_pod(cluster, change, pod, keeps_pods),
                    Err(_) => ObjectChange::deleted(resource, json),
                }
            }
            (_, Change::Deleted) => ObjectChange::deleted(resource, json),
            (Resource::Pods, _) => match parse::<core_v1::Pod>(json)? {
                Ok(pod) => ObjectChange::of_pod(cluster, change, pod, keeps_pods),
                Err(error) => ObjectChange::refused(resource, change, json, error),
            },
            (Resource::Nodes, _) => match parse::<core_v1::Node>(json)? {
                Ok(node) => {
                    let delta = cluster.compile_node(&node).map(Delta::UpsertNode);
                    ObjectChange::of(resource, change, node.metadata.as_ref(), delta)
                }
                Err(error) => ObjectChange::refused(resource, change, json, error),
            },
            (Resource::Objects(kind), _) => match WrittenObject::parse(kind, json) {
                Ok(object) => {
                    let object = object.as_wire();
                    let delta = cluster.compile_object(object).map(Delta::UpsertObject);
                    ObjectChange::of(resource, change, object.metadata(), delta)
                }
                Err(error) => {
                    ObjectChange::refused(resource, change, json, described(json, &error)?)
                }
            },
        }
    }

    fn of_pod(
        cluster: &Cluster,
        change: Change,
        pod: core_v1::Pod,
        keeps_pods: bool,
    ) -> Result<ObjectChange, NoObject> {
        let metadata = pod.metadata.as_ref();
        let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
        let is_over = change == Change::Deleted || matches!(phase, "Succeeded" | "Failed");
        let who = Who::of(Resource::Pods, metadata)?;
        let delta = if is_over {
            Ok(who.deletion())
        } else {
            cluster.compile_reported_pod(&pod).map(Delta::UpsertPod)
        };
        let version = version_of(metadata);
        let pod = keeps_pods.then(|| Box::new(pod));
        Ok(ObjectChange { change, version, who, delta, pod })
    }

    fn of(
        resource: Resource,
        change: Change,
        metadata: Option<&meta_v1::ObjectMeta>,
        delta: Result<Delta, ModelError>,
    ) -> Result<ObjectChange, NoObject> {
        let who = Who::of(resource, metadata)?;
        Ok(ObjectChange { change, version: version_of(metadata), who, delta, pod: None })
    }

    /// Reads a deleted object. Only its name counts, since it may be one that could never be read.
    fn deleted(resource: Resource, json: &str) -> Result<ObjectChange, NoObject> {
        let metadata = skeleton(json)?.metadata;
        let who = Who::of(resource, metadata.as_ref())?;
        let delta = Ok(who.deletion());
        let version = version_of(metadata.as_ref());
        Ok(ObjectChange { change: Change::Deleted, version, who, delta, pod: None })
    }

    fn refused(
        resource: Resource,
        change: Change,
        json: &str,
        error: ModelError,
    ) -> Result<ObjectChange, NoObject> {
        ObjectChange::of(resource, change, skeleton(json)?.metadata.as_ref(), Err(error))
    }
}

impl Who {
    fn of(resource: Resource, metadata: Option<&meta_v1::ObjectMeta>) -> Result<Who, NoObject> {
        let metadata =
            metadata.filter(|metadata| !metadata.name.is_empty()).ok_or(NoObject::Nameless)?;
        let meta_v1::ObjectMeta { namespace, name, uid, .. } = metadata;
        Ok(match resource {
            Resource::Nodes => Who::Node(name.as_str().into()),
            Resource::Pods => {
                let namespace = if namespace.is_empty() { "default" } else { namespace };
                Who::Pod(PodKey::new(namespace, name), uid.as_str().into())
            }
            Resource::Objects(kind) => Who::Object(ObjectKey::new(kind, namespace, name)),
        })
    }

    /// Kind of the object.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match self {
            Who::Node(_) => Resource::Nodes,
            Who::Pod(..) => Resource::Pods,
            Who::Object(key) => Resource::Objects(key.kind),
        }
    }

    /// The delta that removes the object.
    #[must_use]
    pub fn deletion(&self) -> Delta {
        match self {
            Who::Node(name) => Delta::DeleteNode(name.clone()),
            Who::Pod(key, uid) => Delta::DeletePod { key: key.clone(), uid: Some(uid.clone()) },
            Who::Object(key) => Delta::DeleteObject(key.clone()),
        }
    }

    /// Name for messages, such as ``Pod `default/web-0` ``.
    #[must_use]
    pub fn text(&self) -> String {
        let named = |kind: &str, namespace: &str, name: &str| {
            let metadata = meta_v1::ObjectMeta {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..meta_v1::ObjectMeta::default()
            };
            object_name(kind, Some(&metadata))
        };
        match self {
            Who::Node(name) => named("Node", "", name),
            Who::Pod(PodKey { namespace, name }, _) => named("Pod", namespace, name),
            Who::Object(ObjectKey { kind, namespace, name }) => named(kind.name(), namespace, name),
        }
    }
}

fn version_of(metadata: Option<&meta_v1::ObjectMeta>) -> Option<u64> {
    metadata?.resource_version.parse().ok()
}

/// Parses an object, or returns the error in it; whether it is JSON at all is checked only if it does not parse.
fn parse<T: DeserializeOwned>(json: &str) -> Result<Result<T, ModelError>, NoObject> {
    match serde_json::from_str(json) {
        Ok(object) => Ok(Ok(object)),
        Err(error) => described(json, &error).map(Err),
    }
}

fn described(json: &str, error: &serde_json::Error) -> Result<ModelError, NoObject> {
    if let Err(syntax) = serde_json::from_str::<IgnoredAny>(json) {
        return Err(NoObject::NotJson(syntax.to_string()));
    }
    let text = file::describe(error);
    let split = text.strip_prefix('`').and_then(|text| text.split_once("`: "));
    let (field, reason) = split.unwrap_or(("object", &text));
    Ok(ModelError { field: field.to_owned(), reason: reason.to_owned() })
}

fn skeleton(json: &str) -> Result<Skeleton, NoObject> {
    serde_json::from_str(json).map_err(|error: serde_json::Error| {
        if serde_json::from_str::<IgnoredAny>(json).is_ok() {
            NoObject::Nameless
        } else {
            NoObject::NotJson(error.to_string())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: Change, json: &str) -> Result<ObjectChange, NoObject> {
        ObjectChange::read(&Cluster::new(), Resource::Pods, change, json, false)
    }

    #[test]
    fn a_bad_field_is_told_with_the_name_of_its_object() {
        let json = r#"{"metadata":{"name":"p","namespace":"d","uid":"u","resourceVersion":"5"},
            "spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}}"#;
        let object = read(Change::Added, json).unwrap();
        assert_eq!((object.version, object.who.text().as_str()), (Some(5), "Pod `d/p`"));
        assert_eq!(object.delta.unwrap_err().field, "spec.containers[0].resources.requests[cpu]");
        let object = read(Change::Modified, &json.replace("[{\"res", "[7,{\"res")).unwrap();
        let error = object.delta.unwrap_err();
        assert!(error.field.starts_with("spec.containers"), "{error:?}");
    }

    #[test]
    fn what_is_over_is_deleted_whatever_else_it_says() {
        let bad = r#"{"metadata":{"name":"p","uid":"u","resourceVersion":"5"},
            "spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]},"status":{"phase":"Failed"}}"#;
        for change in [Change::Added, Change::Modified, Change::Deleted] {
            let object = read(change, bad).unwrap();
            assert!(
                matches!(&object.delta, Ok(Delta::DeletePod { key, uid: Some(uid) })
                if &*key.namespace == "default" && &**uid == "u"),
                "{object:?}"
            );
        }
        let odd = r#"{"metadata":{"name":"p","uid":"u"},"spec":{"containers":7}}"#;
        for keeps_pods in [false, true] {
            let object = ObjectChange::read(
                &Cluster::new(),
                Resource::Pods,
                Change::Deleted,
                odd,
                keeps_pods,
            );
            assert!(object.unwrap().delta.is_ok());
        }
    }

    #[test]
    fn what_has_no_name_is_no_object() {
        assert_eq!(read(Change::Added, "{}").unwrap_err(), NoObject::Nameless);
        assert_eq!(read(Change::Deleted, "[]").unwrap_err(), NoObject::Nameless);
        assert!(matches!(read(Change::Added, "{\"meta"), Err(NoObject::NotJson(_))));
        assert!(matches!(read(Change::Deleted, "{]"), Err(NoObject::NotJson(_))));
    }
}
