//! Outcome: what placing a pod did to other objects, and would have done to others under another policy. It is taken away from
//! what was recorded after the beginning: each trial binds volumes and allocates devices itself.

use std::collections::BTreeSet;

use berth_proto::{core_v1, resource_v1};
use prost::Message;

use crate::service::recorder::decode::RecordError;
use crate::service::recorder::record::RecordedObject;

/// Annotation of a claim whose node the scheduler chose.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotations of a claim that is bound.
const BOUND: [&str; 2] =
    ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];
/// Annotation of a volume that was made for a claim.
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

/// The claims, by namespace and name, that a scheduler has had bound.
#[derive(Default)]
pub(super) struct Chosen(BTreeSet<(String, String)>);

impl Chosen {
    /// The object without what a placement did to it; `None` for one that only a placement made.
    ///
    /// # Errors
    /// [`RecordError::Encoding`].
    pub(super) fn without(
        &mut self,
        object: RecordedObject,
    ) -> Result<Option<RecordedObject>, RecordError> {
        Ok(match &*object.kind {
            "PersistentVolumeClaim" => Some(self.claim(object)?),
            "PersistentVolume" => self.volume(object)?,
            "ResourceClaim" => {
                let mut claim: resource_v1::ResourceClaim = decode(&object)?;
                claim.status = None;
                Some(RecordedObject { encoded: claim.encode_to_vec(), ..object })
            }
            _ => Some(object),
        })
    }

    fn claim(&mut self, object: RecordedObject) -> Result<RecordedObject, RecordError> {
        let mut claim: core_v1::PersistentVolumeClaim = decode(&object)?;
        let metadata = claim.metadata.get_or_insert_default();
        if metadata.annotations.remove(SELECTED_NODE).is_none() {
            return Ok(object);
        }
        BOUND.iter().for_each(|key| drop(metadata.annotations.remove(*key)));
        self.0.insert((metadata.namespace.clone(), metadata.name.clone()));
        claim.spec.get_or_insert_default().volume_name.clear();
        claim.status = None;
        Ok(RecordedObject { encoded: claim.encode_to_vec(), ..object })
    }

    fn volume(&self, object: RecordedObject) -> Result<Option<RecordedObject>, RecordError> {
        let mut volume: core_v1::PersistentVolume = decode(&object)?;
        let spec = volume.spec.get_or_insert_default();
        let is_of_chosen = spec
            .claim_ref
            .as_ref()
            .is_some_and(|claim| self.0.contains(&(claim.namespace.clone(), claim.name.clone())));
        if !is_of_chosen {
            return Ok(Some(object));
        }
        spec.claim_ref = None;
        let metadata = volume.metadata.get_or_insert_default();
        if metadata.annotations.contains_key(PROVISIONED) {
            return Ok(None);
        }
        Ok(Some(RecordedObject { encoded: volume.encode_to_vec(), ..object }))
    }
}

fn decode<M: Message + Default>(object: &RecordedObject) -> Result<M, RecordError> {
    M::decode(&*object.encoded)
        .map_err(|source| RecordError::Encoding { what: object.kind.clone(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<M: Message + serde::de::DeserializeOwned>(
        kind: &str,
        value: Value,
    ) -> RecordedObject {
        let object: M = serde_json::from_value(value).unwrap();
        RecordedObject { kind: kind.to_owned(), encoded: object.encode_to_vec() }
    }

    fn claim(annotations: &Value) -> RecordedObject {
        object::<core_v1::PersistentVolumeClaim>(
            "PersistentVolumeClaim",
            json!({
                "metadata": {"namespace": "d", "name": "data", "annotations": annotations},
                "spec": {"volumeName": "pv", "storageClassName": "fast"},
            }),
        )
    }

    fn volume(annotations: &Value) -> RecordedObject {
        object::<core_v1::PersistentVolume>(
            "PersistentVolume",
            json!({
                "metadata": {"name": "pv", "annotations": annotations},
                "spec": {"claimRef": {"namespace": "d", "name": "data"}},
            }),
        )
    }

    #[test]
    fn a_claim_that_the_scheduler_had_bound_is_unbound_and_its_volume_free_or_not_made() {
        let (chosen, own) = (json!({SELECTED_NODE: "n0"}), json!({}));
        let mut seen = Chosen::default();
        let bound_by_hand = claim(&own);
        assert_eq!(seen.without(bound_by_hand.clone()).unwrap(), Some(bound_by_hand));
        let free = volume(&own);
        assert_eq!(seen.without(free.clone()).unwrap(), Some(free), "nobody chose that");

        let unbound = seen.without(claim(&chosen)).unwrap().unwrap();
        let unbound: core_v1::PersistentVolumeClaim = decode(&unbound).unwrap();
        let (metadata, spec) = (unbound.metadata.unwrap(), unbound.spec.unwrap());
        assert!(metadata.annotations.is_empty() && spec.volume_name.is_empty());
        assert_eq!(spec.storage_class_name.as_deref(), Some("fast"));
        let kept: core_v1::PersistentVolume =
            decode(&seen.without(volume(&own)).unwrap().unwrap()).unwrap();
        assert_eq!(kept.spec.unwrap().claim_ref, None);
        assert_eq!(seen.without(volume(&json!({PROVISIONED: "x"}))).unwrap(), None);
    }

    #[test]
    fn a_claim_for_devices_is_not_allocated() {
        let claim = object::<resource_v1::ResourceClaim>(
            "ResourceClaim",
            json!({"metadata": {"name": "gpu"}, "status": {"allocation": {"devices": {}}}}),
        );
        let free = Chosen::default().without(claim).unwrap().unwrap();
        let free: resource_v1::ResourceClaim = decode(&free).unwrap();
        assert_eq!((free.metadata.unwrap().name.as_str(), free.status), ("gpu", None));
    }
}
