//! Subject: the workload itself, as the owner of its pods.

use berth_proto::meta_v1::{ObjectMeta, OwnerReference};

use super::kind::WorkloadKind;
use super::naming;
use crate::model::ModelError;
use crate::model::label::check_name;

/// Identity of a workload.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: WorkloadKind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object's uid, or one that follows from its kind and name.
    pub(super) uid: String,
}

impl Subject {
    /// Reads the metadata: without a namespace the object is in `default`, and with a `generateName` only it gets a
    /// name of that.
    pub(super) fn of(
        kind: WorkloadKind,
        metadata: Option<&ObjectMeta>,
    ) -> Result<Subject, ModelError> {
        let Some(metadata) = metadata else {
            return Err(ModelError::new("metadata", "is missing"));
        };
        let name = match (metadata.name.as_str(), metadata.generate_name.as_str()) {
            ("", prefix) if !prefix.is_empty() => naming::generated(prefix, 0),
            (name, _) => name.to_owned(),
        };
        check_name("metadata.name", &name)?;
        let namespace = match metadata.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        check_name("metadata.namespace", namespace)?;
        let mut subject = Subject::named(kind, namespace, name);
        if !metadata.uid.is_empty() {
            subject.uid.clone_from(&metadata.uid);
        }
        Ok(subject)
    }

    /// A workload that a controller creates.
    pub(super) fn named(kind: WorkloadKind, namespace: &str, name: String) -> Subject {
        let uid = naming::uid(kind.name(), namespace, &name);
        Subject { kind, namespace: namespace.to_owned(), name, uid }
    }

    /// The owner reference of what the workload's controller creates.
    pub(super) fn owner(&self) -> OwnerReference {
        OwnerReference {
            kind: self.kind.name().to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            api_version: self.kind.api_version().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Metadata of the workload as an object of the cluster.
    pub(super) fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            ..ObjectMeta::default()
        }
    }

    /// Name in remarks, such as ``Deployment `shop/web` ``.
    pub(super) fn text(&self) -> String {
        format!("{} `{}/{}`", self.kind, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities() {
        let of = |name: &str, generate_name: &str, namespace: &str, uid: &str| {
            let metadata = ObjectMeta {
                name: name.to_owned(),
                generate_name: generate_name.to_owned(),
                namespace: namespace.to_owned(),
                uid: uid.to_owned(),
                ..ObjectMeta::default()
            };
            Subject::of(WorkloadKind::Job, Some(&metadata))
        };
        let job = of("a", "", "", "").unwrap();
        assert_eq!((job.text().as_str(), job.uid.len()), ("Job `default/a`", 36));
        assert_eq!(of("a", "", "shop", "u1").unwrap().owner().uid, "u1");
        assert_eq!(of("", "load-", "", "").unwrap().name, "load-0");
        for (name, namespace, field) in [
            ("", "", "metadata.name"),
            ("A b", "", "metadata.name"),
            ("a", "B", "metadata.namespace"),
        ] {
            assert_eq!(of(name, "", namespace, "").unwrap_err().field, field);
        }
        assert_eq!(Subject::of(WorkloadKind::Job, None).unwrap_err().field, "metadata");
    }
}
