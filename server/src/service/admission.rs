//! Admission of the pods of a request that asks for it: the engine's rules on the target's snapshot, and their result
//! in wire form. Requests without `admit` pay one test of a flag.

use berth_engine as engine;
use berth_engine::{
    AdmissionContext, AdmissionError, Charged, Cluster, ModelError, ObjectKey, ObjectKind,
};
use berth_proto::berth_v1 as wire;
use berth_proto::core_v1;

use super::convert;
use super::error::CallError;
use super::placement::entries::{self, Compiled, Entry};
use crate::escape::{presentable, presentable_path};
use crate::feed::object_name;
use crate::policy::Profiles;

/// Admits the one pod of a request if `admit` is set; `None` if that changed nothing. An absent pod is left to the handler, which refuses it.
///
/// # Errors
/// [`CallError::NotAdmitted`] if the API server would refuse the pod.
pub(crate) fn admit(
    cluster: &Cluster,
    profiles: &Profiles,
    pod: Option<&mut core_v1::Pod>,
    admit: bool,
) -> Result<Option<wire::Admission>, CallError> {
    match pod {
        Some(pod) if admit => {
            convert::name_scheduler(profiles, pod);
            admit_one(&cluster.snapshot(), pod, 0, 1, &mut Charged::default())
        }
        Some(_) | None => Ok(None),
    }
}

#[cold]
fn admit_one(
    snapshot: &engine::Snapshot,
    pod: &mut core_v1::Pod,
    index: usize,
    n_replicas: u32,
    charged: &mut Charged,
) -> Result<Option<wire::Admission>, CallError> {
    let context = AdmissionContext { snapshot, position: index as u64, n_replicas };
    let admitted = engine::admit_next(pod, context, charged).map_err(CallError::NotAdmitted)?;
    Ok(admission(admitted, index))
}

/// Compiles the entries of a request, admitted first if `admit` is set, and with their objects if `keep_objects` is. A
/// refused pod is an error in its entry's place.
pub(crate) fn compile<'s>(
    cluster: &Cluster,
    profiles: &'s Profiles,
    entries: Vec<Entry>,
    admit: bool,
    keep_objects: bool,
) -> (Vec<Compiled<'s>>, Vec<wire::Admission>) {
    if admit {
        admit_entries(cluster, profiles, entries, keep_objects)
    } else {
        (entries::compile(cluster, profiles, entries, keep_objects), Vec::new())
    }
}

/// Objects of a batch after admission.
#[derive(Debug, Default)]
pub(crate) struct AdmittedChanges {
    /// Those that an API server would refuse, by their positions, each with its name and the error.
    pub(crate) refused: Vec<(usize, (String, ModelError))>,
    /// What was filled in.
    pub(crate) admissions: Vec<wire::Admission>,
}

/// Admits the pods of a batch, and the claims that it creates (A-SC-1, A-LIM-6). Claims that the cluster has are left
/// alone.
pub(crate) fn admit_changes(
    snapshot: &engine::Snapshot,
    deltas: &mut [wire::Delta],
) -> AdmittedChanges {
    let (mut changes, mut charged) = (AdmittedChanges::default(), Charged::default());
    for (index, delta) in deltas.iter_mut().enumerate() {
        let (object, admitted) = match &mut delta.change {
            Some(wire::delta::Change::UpsertPod(pod)) => {
                let context = AdmissionContext { snapshot, position: index as u64, n_replicas: 1 };
                let admitted = engine::admit_next(pod, context, &mut charged);
                (object_name("Pod", pod.metadata.as_ref()), admitted)
            }
            Some(wire::delta::Change::UpsertPersistentVolumeClaim(claim))
                if is_new(snapshot, claim) =>
            {
                let admitted = engine::admit_claim(claim, snapshot);
                (object_name("PersistentVolumeClaim", claim.metadata.as_ref()), admitted)
            }
            _ => continue,
        };
        match admitted {
            Ok(admitted) => changes.admissions.extend(admission(admitted, index)),
            Err(AdmissionError { field, reason, .. }) => {
                changes.refused.push((index, (object, ModelError { field, reason })));
            }
        }
    }
    changes
}

/// Whether the cluster lacks a claim of this name.
pub(crate) fn is_new(snapshot: &engine::Snapshot, claim: &core_v1::PersistentVolumeClaim) -> bool {
    let metadata = claim.metadata.clone().unwrap_or_default();
    let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
    let key = ObjectKey::new(ObjectKind::PersistentVolumeClaim, namespace, &metadata.name);
    !snapshot.has_object(&key)
}

#[cold]
fn admit_entries<'s>(
    cluster: &Cluster,
    profiles: &'s Profiles,
    mut entries: Vec<Entry>,
    keep_objects: bool,
) -> (Vec<Compiled<'s>>, Vec<wire::Admission>) {
    let snapshot = cluster.snapshot();
    let (mut admissions, mut refused) = (Vec::new(), Vec::new());
    let mut charged = Charged::default();
    for (index, entry) in entries.iter_mut().enumerate() {
        let Some(pod) = entry.pod.take() else { continue };
        let admitted = pod.decoded().and_then(|mut pod| {
            convert::name_scheduler(profiles, &mut pod);
            let n_replicas = entry.replicas.max(1);
            let admitted = admit_one(&snapshot, &mut pod, index, n_replicas, &mut charged)?;
            entry.pod = Some(pod.into());
            Ok(admitted)
        });
        match admitted {
            Ok(admission) => admissions.extend(admission),
            Err(error) => refused.push((index, error)),
        }
    }
    let mut compiled = entries::compile(cluster, profiles, entries, keep_objects);
    for (index, error) in refused {
        if let Some((entry, _)) = compiled.get_mut(index) {
            *entry = Err(error);
        }
    }
    (compiled, admissions)
}

/// The result in wire form; `None` if there is nothing to tell.
fn admission(admitted: engine::Admitted, index: usize) -> Option<wire::Admission> {
    let engine::Admitted { filled, warnings } = admitted;
    if filled.is_empty() && warnings.is_empty() {
        return None;
    }
    let change = |filled: engine::Filled| wire::AdmissionChange {
        field: presentable_path(&filled.field),
        value: presentable(&filled.value),
        source: presentable(&filled.source),
    };
    let warning = |warning: engine::AdmissionWarning| wire::AdmissionWarning {
        source: presentable(&warning.source),
        message: presentable(&warning.message),
        quota: warning.quota.map(|quota| wire::QuotaExcess {
            resource: presentable(&quota.resource),
            requested: quota.requested,
            used: quota.used,
            hard: quota.hard,
        }),
    };
    Some(wire::Admission {
        admitted: filled.into_iter().map(change).collect(),
        warnings: warnings.into_iter().map(warning).collect(),
        index: convert::saturate(index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use tonic::Code;

    #[test]
    fn only_requests_that_ask_are_admitted() {
        let state = fixture::state(&[("n0", "4")]);
        let mut pod = fixture::pod("p", "1", 0);
        let before = pod.clone();
        assert_eq!(admit(&state.cluster, &state.profiles, Some(&mut pod), false), Ok(None));
        assert_eq!(pod, before);
        let admission =
            admit(&state.cluster, &state.profiles, Some(&mut pod), true).unwrap().unwrap();
        let fields: Vec<&str> = admission.admitted.iter().map(|it| it.field.as_str()).collect();
        assert!(fields.contains(&"spec.restartPolicy"), "{fields:?}");
        assert_eq!(admit(&state.cluster, &state.profiles, None, true), Ok(None));
    }

    #[test]
    fn a_missing_object_is_a_failed_precondition_and_a_bad_field_an_invalid_argument() {
        let state = fixture::state(&[("n0", "4")]);
        let refused = |change: fn(&mut core_v1::PodSpec)| {
            let mut pod = fixture::pod("p", "1", 0);
            change(pod.spec.as_mut().unwrap());
            let error = admit(&state.cluster, &state.profiles, Some(&mut pod), true).unwrap_err();
            (error.code(), error.to_place_error().field)
        };
        assert_eq!(
            refused(|spec| spec.priority_class_name = "gone".to_owned()),
            (Code::FailedPrecondition, "spec.priorityClassName".to_owned())
        );
        assert_eq!(
            refused(|spec| spec.restart_policy = "Sometimes".to_owned()),
            (Code::InvalidArgument, "spec.restartPolicy".to_owned())
        );
    }

    /// A-SC-1: a claim that is there stays as it is.
    #[test]
    fn new_claims_get_the_default_class() {
        let state = fixture::state(&[("n0", "4")]);
        let claim = |name: &str| -> core_v1::PersistentVolumeClaim {
            let json = format!(
                r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"accessModes": ["ReadWriteOnce"],
                    "resources": {{"requests": {{"storage": "1Gi"}}}}}}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let class: berth_proto::storage_v1::StorageClass = serde_json::from_str(
            r#"{"metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "disk.example.com"}"#,
        )
        .unwrap();
        let change = |change| wire::Delta { change: Some(change) };
        let there = vec![
            change(wire::delta::Change::UpsertStorageClass(class)),
            change(wire::delta::Change::UpsertPersistentVolumeClaim(claim("old"))),
        ];
        let compiled = crate::service::cluster::delta::compile(&state.cluster, there);
        let applied = crate::service::cluster::delta::apply_compiled(&state.cluster, compiled);
        assert_eq!(applied.rejections, []);
        let mut deltas = ["old", "new"]
            .map(|name| change(wire::delta::Change::UpsertPersistentVolumeClaim(claim(name))));
        let changes = admit_changes(&state.cluster.snapshot(), &mut deltas);
        assert_eq!(changes.refused, []);
        assert_eq!(changes.admissions.iter().map(|it| it.index).collect::<Vec<_>>(), [1]);
        let classes = deltas.map(|delta| match delta.change {
            Some(wire::delta::Change::UpsertPersistentVolumeClaim(claim)) => {
                claim.spec.and_then(|spec| spec.storage_class_name)
            }
            _ => None,
        });
        assert_eq!(classes, [None, Some("fast".to_owned())]);
    }

    #[test]
    fn a_refused_entry_keeps_its_place() {
        let state = fixture::state(&[("n0", "4")]);
        let mut bad = fixture::pod("bad", "1", 0);
        bad.spec.as_mut().unwrap().containers.clear();
        let entries = [bad, fixture::pod("good", "1", 0)];
        let entries = entries.iter().map(|pod| fixture::entry(pod, 1).into()).collect();
        let (compiled, admissions) = compile(&state.cluster, &state.profiles, entries, true, false);
        let [(bad, _), (good, _)] = &compiled[..] else { panic!("{}", compiled.len()) };
        assert!(matches!(bad, Err(CallError::NotAdmitted(_))) && good.is_ok());
        assert_eq!(admissions.iter().map(|it| it.index).collect::<Vec<_>>(), [1]);
    }
}
