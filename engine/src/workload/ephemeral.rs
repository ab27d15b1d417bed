//! Generic ephemeral volumes: claims that the ephemeral volume controller makes for each pod.

use berth_proto::core_v1::{
    PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod, Volume, VolumeSource,
};
use berth_proto::meta_v1::{ObjectMeta, OwnerReference};

/// The claims of a pod's generic ephemeral volumes: the volume's template, called POD-VOLUME, owned by the pod (S-VLL-2).
/// None for a pod without a name or a uid, since the controller reads both.
pub fn ephemeral_claims(pod: &Pod) -> Vec<PersistentVolumeClaim> {
    let Some(metadata) = pod.metadata.as_ref() else { return Vec::new() };
    if metadata.name.is_empty() || metadata.uid.is_empty() {
        return Vec::new();
    }
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.filter_map(|volume| Some(claim_of(metadata, volume, template(volume)?))).collect()
}

/// Whether the pod has a generic ephemeral volume, so that copies of it have claims of their own.
pub fn has_ephemeral_claims(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| &spec.volumes).any(|volume| template(volume).is_some())
}

fn template(volume: &Volume) -> Option<&PersistentVolumeClaimTemplate> {
    let VolumeSource { ephemeral, .. } = volume.volume_source.as_ref()?;
    ephemeral.as_ref()?.volume_claim_template.as_ref()
}

fn claim_of(
    pod: &ObjectMeta,
    volume: &Volume,
    template: &PersistentVolumeClaimTemplate,
) -> PersistentVolumeClaim {
    let written = template.metadata.clone().unwrap_or_default();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let metadata = ObjectMeta {
        name: format!("{}-{}", pod.name, volume.name),
        namespace: pod.namespace.clone(),
        labels: written.labels,
        annotations: written.annotations,
        owner_references: vec![owner],
        ..ObjectMeta::default()
    };
    PersistentVolumeClaim {
        metadata: Some(metadata),
        spec: template.spec.clone(),
        ..PersistentVolumeClaim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(metadata: &str) -> Pod {
        let json = format!(
            r#"{{"metadata": {metadata}, "spec": {{"containers": [{{"name": "c"}}], "volumes": [
                {{"name": "tmp", "emptyDir": {{}}}},
                {{"name": "scratch", "ephemeral": {{"volumeClaimTemplate": {{
                    "metadata": {{"labels": {{"a": "b"}}}},
                    "spec": {{"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}}}}}}}]}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn claims_are_called_after_pod_and_volume_and_belong_to_the_pod() {
        let pod = pod(r#"{"name": "p", "namespace": "shop", "uid": "u"}"#);
        assert!(has_ephemeral_claims(&pod));
        let claims = ephemeral_claims(&pod);
        let [claim] = claims.as_slice() else { panic!("{claims:?}") };
        let metadata = claim.metadata.as_ref().unwrap();
        assert_eq!((&*metadata.namespace, &*metadata.name), ("shop", "p-scratch"));
        assert_eq!(metadata.labels["a"], "b");
        let owner = &metadata.owner_references[0];
        assert_eq!((&*owner.kind, &*owner.uid, owner.controller), ("Pod", "u", Some(true)));
        assert_eq!(claim.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("fast"));
    }

    #[test]
    fn a_pod_that_is_not_created_yet_has_none() {
        assert_eq!(ephemeral_claims(&pod(r#"{"generateName": "p-", "uid": "u"}"#)), []);
        assert_eq!(ephemeral_claims(&pod(r#"{"name": "p"}"#)), []);
        assert!(!has_ephemeral_claims(&Pod::default()));
    }
}
