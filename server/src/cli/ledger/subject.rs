//! What a record of the ledger is about: a pod's name, a volume or a node's fence.

use std::fmt;

use berth_proto::berth_v1::{
    FenceRecord, GetFenceRequest, GetIdentityRequest, GetVolumeRequest, IdentityRecord,
    VolumeRecord,
};
use serde::Serialize;

use crate::cli::CliError;
use crate::cli::asked::Asked;

/// A subject as the journal names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Identity { namespace: String, name: String },
    Volume(String),
    Fence(String),
}

/// The present record of a subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Record {
    Identity(IdentityRecord),
    Volume(VolumeRecord),
    Fence(FenceRecord),
}

impl Subject {
    /// Parses `identity/NAMESPACE/POD`, `volume/NAME` or `fence/NODE`.
    pub(super) fn parse(text: &str) -> Result<Subject, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        match (kind, name.split_once('/')) {
            ("identity", Some((namespace, name))) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Subject::Identity { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            ("volume", _) if !name.is_empty() => Ok(Subject::Volume(name.to_owned())),
            ("fence", None) if !name.is_empty() => Ok(Subject::Fence(name.to_owned())),
            _ => Err("is neither identity/NAMESPACE/POD, volume/NAME nor fence/NODE".to_owned()),
        }
    }

    /// Asks for the present record.
    pub(super) async fn record(&self, server: &Asked) -> Result<Record, CliError> {
        let mut lifecycle = server.client.lifecycle();
        Ok(match self.clone() {
            Subject::Identity { namespace, name } => {
                let request = GetIdentityRequest { namespace, name };
                let answer = server.answer(lifecycle.get_identity(request).await)?;
                Record::Identity(answer.record.unwrap_or_default())
            }
            Subject::Volume(volume) => {
                let request = GetVolumeRequest { volume };
                let answer = server.answer(lifecycle.get_volume(request).await)?;
                Record::Volume(answer.record.unwrap_or_default())
            }
            Subject::Fence(node_name) => {
                let request = GetFenceRequest { node_name };
                let answer = server.answer(lifecycle.get_fence(request).await)?;
                Record::Fence(answer.record.unwrap_or_default())
            }
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Identity { namespace, name } => write!(f, "identity/{namespace}/{name}"),
            Subject::Volume(name) => write!(f, "volume/{name}"),
            Subject::Fence(node) => write!(f, "fence/{node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_named_as_in_the_journal() {
        for text in ["identity/shop/db-0", "volume/pv-1", "volume/a/b", "fence/n1"] {
            assert_eq!(
                Subject::parse(text).map(|subject| subject.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in
            ["", "identity/db-0", "identity//x", "volume/", "fence/", "fence/a/b", "node/n1"]
        {
            assert!(Subject::parse(text).is_err(), "{text}");
        }
    }
}
