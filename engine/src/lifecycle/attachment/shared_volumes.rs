//! `CheckSharedVolumes`: volumes that several pods of one controller may write at the same time, with nothing that locks
//! them (L-VOL-17, L-VOL-18).

use std::collections::BTreeMap;

use berth_proto::berth_v1::{CheckSharedVolumesRequest, CheckSharedVolumesResponse, VolumeWarning};
use berth_proto::core_v1::{PersistentVolumeClaim, Pod, Volume, VolumeSource};

use super::access_modes::{AccessMode, AccessModes};
use crate::lifecycle::reading::{self, given, in_list};
use crate::lifecycle::vocabulary::ControllerKind;
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// Reason of a warning.
    enum SharingReason {
        /// Several pods that run at the same time may write the volume (L-VOL-17).
        WrittenByReplicas = "WrittenByReplicas",
        /// A replacement may write the volume while the pod that it replaces still terminates (L-VOL-17).
        WrittenDuringReplacement = "WrittenDuringReplacement",
        /// One pod holds the volume, and the others never start (L-VOL-18).
        OnePodOnly = "OnePodOnly",
    }
}

/// `CheckSharedVolumes`: warnings about the volumes of a controller's pods.
///
/// # Errors
/// [`ModelError`] for a missing pod, an unknown kind, a negative number, a pod without a controller, a claim without or
/// with a duplicate name, and an unknown access mode.
pub fn check_shared_volumes(
    request: &CheckSharedVolumesRequest,
) -> Result<CheckSharedVolumesResponse, ModelError> {
    let kind = ControllerKind::parse(&request.controller_kind, "controllerKind")?;
    if kind == ControllerKind::None {
        let reason = "`None` has no pods that share a volume";
        return Err(ModelError::new("controllerKind", reason));
    }
    let replicas = request.replicas.unwrap_or(1);
    if replicas < 0 {
        return Err(ModelError::new("replicas", format!("`{replicas}` is negative")));
    }
    let pod = given(request.pod.as_ref(), "pod")?;
    let claims = Claims::read(&request.claims)?;
    Ok(CheckSharedVolumesResponse { warnings: claims.warnings(pod, kind, replicas) })
}

/// The warnings about the volumes of a pod, by its controller. The number of replicas is unknown.
///
/// # Errors
/// [`ModelError`] relative to the request of `ExplainPod`, for claims without a name or with an unknown access mode.
pub(crate) fn warnings_of(
    pod: &Pod,
    claims: &[PersistentVolumeClaim],
) -> Result<Vec<VolumeWarning>, ModelError> {
    let claims = Claims::read(claims)?;
    let controller = reading::meta(pod).controller();
    // Controllers of other kinds, such as custom resources, promise nothing that is known here.
    let kind = controller.and_then(|owner| ControllerKind::parse(&owner.kind, "kind").ok());
    match kind {
        Some(kind) if !reading::is_marked(pod) => Ok(claims.warnings(pod, kind, 1)),
        Some(_) | None => Ok(Vec::new()),
    }
}

/// Access modes by the name of the claim.
struct Claims<'a>(BTreeMap<&'a str, AccessModes>);

impl<'a> Claims<'a> {
    /// Reads the modes of claims: those that a bound claim has, else those that it requests.
    fn read(claims: &'a [PersistentVolumeClaim]) -> Result<Claims<'a>, ModelError> {
        let mut by_name = BTreeMap::new();
        for (index, claim) in claims.iter().enumerate() {
            let name = claim.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
            in_list("claims", index, reading::given_text(name, "metadata.name"))?;
            let bound = claim.status.as_ref().map_or(&[][..], |status| &status.access_modes);
            let wanted = claim.spec.as_ref().map_or(&[][..], |spec| &spec.access_modes);
            let (modes, path) = match bound {
                [] => (wanted, "spec"),
                bound => (bound, "status"),
            };
            let modes = AccessModes::parse(modes).map_err(|error| error.under(path));
            if by_name.insert(name, in_list("claims", index, modes)?).is_some() {
                let field = format!("claims[{index}].metadata.name");
                return Err(ModelError::new(field, format!("duplicate `{name}`")));
            }
        }
        Ok(Claims(by_name))
    }

    fn warnings(&self, pod: &Pod, kind: ControllerKind, replicas: i64) -> Vec<VolumeWarning> {
        let volumes = reading::spec(pod).volumes.iter();
        volumes.filter_map(|volume| self.warning(volume, kind, replicas)).collect()
    }

    /// The warning about one volume. Pods of one controller share every volume that is not private to a pod.
    fn warning(
        &self,
        volume: &Volume,
        kind: ControllerKind,
        replicas: i64,
    ) -> Option<VolumeWarning> {
        let shared = Shared::of(volume.volume_source.as_ref()?)?;
        let modes = self.0.get(shared.claim).copied().filter(|_| !shared.claim.is_empty());
        let modes = modes.unwrap_or_default();
        let reason = if modes.is_one_pod_only() {
            (replicas > 1).then_some(SharingReason::OnePodOnly)?
        } else if modes.words() == [AccessMode::ReadOnlyMany.word()] {
            return None;
        } else if replicas > 1 {
            SharingReason::WrittenByReplicas
        } else if replaces_early(kind) {
            SharingReason::WrittenDuringReplacement
        } else {
            return None;
        };
        Some(VolumeWarning {
            volume: volume.name.clone(),
            claim: shared.claim.to_owned(),
            access_modes: modes.words().into_iter().map(ToOwned::to_owned).collect(),
            reason: reason.word().to_owned(),
            message: message(reason, kind, modes, replicas),
            rules: rules(reason).iter().map(|&rule| rule.to_owned()).collect(),
        })
    }
}

/// Whether the controller replaces a pod while it still terminates (L-DEL-14).
const fn replaces_early(kind: ControllerKind) -> bool {
    matches!(
        kind,
        ControllerKind::ReplicaSet
            | ControllerKind::ReplicationController
            | ControllerKind::Deployment
    )
}

/// A volume that every pod of a template has, and that they may write.
struct Shared<'a> {
    /// Name of the claim; empty for a volume without one.
    claim: &'a str,
}

impl<'a> Shared<'a> {
    /// Reads a source. A volume that each pod has for itself, one of the node, and one that is only read are not shared
    /// here. Sources without a claim are disks and servers that know no access modes (L-VOL-13).
    fn of(source: &'a VolumeSource) -> Option<Shared<'a>> {
        if let Some(claim) = &source.persistent_volume_claim {
            return (!claim.read_only).then_some(Shared { claim: &claim.claim_name });
        }
        let writable = [
            source.gce_persistent_disk.as_ref().map(|disk| !disk.read_only),
            source.aws_elastic_block_store.as_ref().map(|disk| !disk.read_only),
            source.nfs.as_ref().map(|nfs| !nfs.read_only),
            source.iscsi.as_ref().map(|disk| !disk.read_only),
            source.rbd.as_ref().map(|disk| !disk.read_only),
            source.cinder.as_ref().map(|disk| !disk.read_only),
            source.fc.as_ref().map(|disk| !disk.read_only),
            source.azure_disk.as_ref().map(|disk| disk.read_only != Some(true)),
            source.portworx_volume.as_ref().map(|volume| !volume.read_only),
        ];
        writable.contains(&Some(true)).then_some(Shared { claim: "" })
    }
}

const fn rules(reason: SharingReason) -> &'static [&'static str] {
    match reason {
        SharingReason::WrittenByReplicas => &["L-VOL-17", "L-VOL-12"],
        SharingReason::WrittenDuringReplacement => &["L-VOL-17", "L-DEL-14"],
        SharingReason::OnePodOnly => &["L-VOL-18", "L-VOL-4"],
    }
}

fn message(
    reason: SharingReason,
    kind: ControllerKind,
    modes: AccessModes,
    replicas: i64,
) -> String {
    let kind = kind.word();
    let where_from = match modes.words()[..] {
        [] => "on any node, as its access modes are unknown",
        _ if modes.allows_multi_attach() => "on any node",
        _ => "on one node; pods on other nodes wait until it is detached",
    };
    match reason {
        SharingReason::WrittenByReplicas => format!(
            "{replicas} pods of the {kind} may write it at the same time {where_from}; only the application can lock it"
        ),
        SharingReason::WrittenDuringReplacement => format!(
            "the {kind} replaces a pod that still terminates, so two pods may write it at the same time {where_from}; \
             only the application can lock it"
        ),
        SharingReason::OnePodOnly => format!(
            "one pod of the {kind} may hold it, so the other {} never start",
            replicas.saturating_sub(1)
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The warnings as `VOLUME CLAIM REASON`.
    fn warn(kind: &str, replicas: i64, volumes: &Value, claims: &Value) -> Vec<String> {
        let request = json!({"controllerKind": kind, "replicas": replicas,
            "pod": {"spec": {"volumes": volumes}}, "claims": claims});
        let request: CheckSharedVolumesRequest = serde_json::from_value(request).unwrap();
        let warnings = check_shared_volumes(&request).unwrap().warnings;
        let line = |warning: &VolumeWarning| {
            format!("{} {} {}", warning.volume, warning.claim, warning.reason)
        };
        warnings.iter().map(line).collect()
    }

    fn claim(modes: &Value) -> Value {
        json!([{"metadata": {"name": "data"}, "spec": {"accessModes": modes}}])
    }

    fn of_claim(kind: &str, replicas: i64, modes: &Value) -> Vec<String> {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        warn(kind, replicas, &volumes, &claim(modes))
    }

    /// L-VOL-17
    #[test]
    fn replicas_without_a_lock_are_warned_of() {
        for modes in [json!(["ReadWriteOnce"]), json!(["ReadWriteMany"]), json!([])] {
            for kind in ["ReplicaSet", "Deployment", "StatefulSet", "Job"] {
                assert_eq!(of_claim(kind, 3, &modes), ["v data WrittenByReplicas"]);
            }
        }
        // A volume that all pods only read needs no lock.
        assert_eq!(of_claim("ReplicaSet", 3, &json!(["ReadOnlyMany"])), [""; 0]);
        let read = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}]);
        assert_eq!(warn("ReplicaSet", 3, &read, &claim(&json!(["ReadWriteMany"]))), [""; 0]);
    }

    /// L-VOL-17, L-DEL-14: one replica is enough where a replacement does not wait.
    #[test]
    fn a_replacement_overlaps() {
        let modes = json!(["ReadWriteOnce"]);
        for kind in ["ReplicaSet", "ReplicationController", "Deployment"] {
            assert_eq!(of_claim(kind, 1, &modes), ["v data WrittenDuringReplacement"]);
        }
        assert_eq!(of_claim("StatefulSet", 1, &modes), [""; 0]);
    }

    /// L-VOL-18
    #[test]
    fn one_pod_only() {
        assert_eq!(of_claim("Deployment", 2, &json!(["ReadWriteOncePod"])), ["v data OnePodOnly"]);
        assert_eq!(of_claim("Deployment", 1, &json!(["ReadWriteOncePod"])), [""; 0]);
    }

    /// L-VOL-13, L-VOL-17: backends without locking; volumes that no other pod has.
    #[test]
    fn sources_without_a_claim() {
        let of = |source: Value| {
            let mut volume = json!({"name": "v"});
            for (field, value) in source.as_object().unwrap() {
                volume[field] = value.clone();
            }
            warn("ReplicaSet", 2, &json!([volume]), &json!([])).len()
        };
        for source in [
            json!({"nfs": {"server": "s", "path": "/"}}),
            json!({"iscsi": {"iqn": "i", "lun": 0}}),
            json!({"fc": {"wwids": ["w"]}}),
            json!({"rbd": {"image": "i"}}),
            json!({"gcePersistentDisk": {"pdName": "d"}}),
            json!({"azureDisk": {"diskName": "d"}}),
        ] {
            assert_eq!(of(source.clone()), 1, "{source}");
        }
        for source in [
            json!({"emptyDir": {}}),
            json!({"hostPath": {"path": "/x"}}),
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
            json!({"nfs": {"server": "s", "path": "/", "readOnly": true}}),
            json!({"azureDisk": {"diskName": "d", "readOnly": true}}),
        ] {
            assert_eq!(of(source.clone()), 0, "{source}");
        }
    }

    /// L-VOL-17: the modes that a claim is bound with count more than those that it requests.
    #[test]
    fn messages_say_where() {
        let request = |claims: Value| {
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
            let request = json!({"controllerKind": "Deployment", "replicas": 2,
                "pod": {"spec": {"volumes": volumes}}, "claims": claims});
            let request: CheckSharedVolumesRequest = serde_json::from_value(request).unwrap();
            check_shared_volumes(&request).unwrap().warnings.remove(0)
        };
        let bound = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]},
            "status": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}}]);
        let warning = request(bound);
        assert_eq!(warning.access_modes, ["ReadWriteOnce", "ReadWriteMany"]);
        assert!(warning.message.contains("at the same time on any node;"), "{}", warning.message);
        let once = request(claim(&json!(["ReadWriteOnce"])));
        assert!(once.message.contains("on one node; pods on other nodes wait"), "{}", once.message);
        let unknown = request(json!([]));
        assert!(unknown.message.contains("access modes are unknown"), "{}", unknown.message);
    }

    /// L-VOL-17: the controller of a pod is enough for `ExplainPod`.
    #[test]
    fn a_pod_names_its_controller() {
        let pod = |kind: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"ownerReferences": [{"kind": kind, "name": "c", "controller": true}]},
                "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
            }))
            .unwrap()
        };
        assert_eq!(warnings_of(&pod("ReplicaSet"), &[]).unwrap().len(), 1);
        for kind in ["StatefulSet", "Workflow", "None"] {
            assert_eq!(warnings_of(&pod(kind), &[]).unwrap(), []);
        }
        assert_eq!(warnings_of(&Pod::default(), &[]).unwrap(), []);
    }

    #[test]
    fn bad_input_is_named() {
        let error = |request: Value| {
            let request: CheckSharedVolumesRequest = serde_json::from_value(request).unwrap();
            check_shared_volumes(&request).unwrap_err().to_string()
        };
        assert!(error(json!({})).starts_with("`controllerKind`: required: one of"));
        assert!(
            error(json!({"controllerKind": "None"})).starts_with("`controllerKind`: `None` has")
        );
        let set = |rest: Value| {
            let mut request = json!({"controllerKind": "ReplicaSet", "pod": {}});
            for (field, value) in rest.as_object().unwrap() {
                request[field] = value.clone();
            }
            error(request)
        };
        assert_eq!(set(json!({"replicas": -1})), "`replicas`: `-1` is negative");
        assert_eq!(set(json!({"pod": null})), "`pod`: required");
        assert_eq!(set(json!({"claims": [{}]})), "`claims[0].metadata.name`: required");
        let twice = json!([claim(&json!([]))[0], claim(&json!([]))[0]]);
        assert_eq!(set(json!({"claims": twice})), "`claims[1].metadata.name`: duplicate `data`");
        assert!(
            set(json!({"claims": claim(&json!(["RWX"]))}))
                .starts_with("`claims[0].spec.accessModes[0]`: unknown value `RWX`")
        );
    }
}
