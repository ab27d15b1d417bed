//! StatefulSet: numbered pods, each with claims of its own.

use berth_proto::apps_v1::{StatefulSet, StatefulSetSpec};
use berth_proto::core_v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume, VolumeSource,
};

use super::expansion::{ExpandOptions, Expansion, PodController};
use super::kind::WorkloadKind;
use super::subject::Subject;
use super::template::{Template, n_pods, not_negative};
use super::{naming, selector};
use crate::model::ModelError;
use crate::model::label::check_name;

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn expand(
    set: &StatefulSet,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::StatefulSet, set.metadata.as_ref())?;
    let spec = set.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    let template = Template::of(spec.template.as_ref(), "spec.template", subject.kind.name())?;
    selector::check(subject.kind, spec.selector.as_ref(), template)?;
    check_claims(spec)?;
    let n = n_pods(options.replicas, spec.replicas, "spec.replicas")?;
    let start = spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start);
    let start = not_negative(start, "spec.ordinals.start")?;

    let common = common_pod(&subject, spec, template);
    let (mut pods, mut claims) = (Vec::new(), Vec::new());
    for ordinal in start..start.saturating_add(n) {
        let (pod, of_pod) = numbered(&subject, spec, &common, ordinal);
        pods.push(pod);
        claims.extend(of_pod);
    }
    let stored = StatefulSet {
        metadata: Some(subject.metadata()),
        spec: Some(StatefulSetSpec {
            replicas: i32::try_from(n).ok(),
            selector: spec.selector.clone(),
            service_name: spec.service_name.clone(),
            ..StatefulSetSpec::default()
        }),
    };
    Ok(Expansion {
        kind: subject.kind,
        namespace: subject.namespace,
        name: subject.name,
        pods,
        are_alike: false,
        is_ordered: spec.pod_management_policy != "Parallel",
        controller: Some(PodController::StatefulSet(Box::new(stored))),
        claims,
        notes: Vec::new(),
    })
}

/// Checks that every claim template has a name of its own.
fn check_claims(spec: &StatefulSetSpec) -> Result<(), ModelError> {
    for (i, claim) in spec.volume_claim_templates.iter().enumerate() {
        let name = claim_name(claim);
        let field = format!("spec.volumeClaimTemplates[{i}].metadata.name");
        check_name(&field, name)?;
        if spec.volume_claim_templates[..i].iter().any(|other| claim_name(other) == name) {
            return Err(ModelError::new(field, format!("`{name}` is given twice")));
        }
    }
    Ok(())
}

fn claim_name(claim: &PersistentVolumeClaim) -> &str {
    claim.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
}

/// The parts that all pods of the set share.
fn common_pod(subject: &Subject, spec: &StatefulSetSpec, template: Template<'_>) -> Pod {
    let prefix = format!("{}-", subject.name);
    let mut pod = template.pod(&subject.namespace, prefix, Some(subject.owner()));
    let revision = format!("{}-{}", subject.name, naming::template_hash(template.spec));
    pod.metadata.get_or_insert_default().labels.insert(REVISION_LABEL.to_owned(), revision);
    let of_claim = |volume: &Volume| {
        spec.volume_claim_templates.iter().any(|claim| claim_name(claim) == volume.name)
    };
    let pod_spec = pod.spec.get_or_insert_default();
    // A volume of the template gives way to the claim of its name.
    pod_spec.volumes.retain(|volume| !of_claim(volume));
    pod_spec.subdomain.clone_from(&spec.service_name);
    pod
}

/// The pod of this ordinal, and its claims.
fn numbered(
    subject: &Subject,
    spec: &StatefulSetSpec,
    common: &Pod,
    ordinal: u32,
) -> (Pod, Vec<PersistentVolumeClaim>) {
    let name = format!("{}-{ordinal}", subject.name);
    let claims: Vec<PersistentVolumeClaim> = spec
        .volume_claim_templates
        .iter()
        .map(|claim| claim_of(subject, spec, claim, &name))
        .collect();
    let mut pod = common.clone();
    let metadata = pod.metadata.get_or_insert_default();
    metadata.labels.insert(POD_NAME_LABEL.to_owned(), name.clone());
    metadata.labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
    metadata.name.clone_from(&name);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = name;
    let volume = |(template, claim)| Volume {
        name: claim_name(template).to_owned(),
        volume_source: Some(VolumeSource {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(claim).to_owned(),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..VolumeSource::default()
        }),
    };
    let of_claims = spec.volume_claim_templates.iter().zip(&claims).map(volume);
    pod_spec.volumes = of_claims.chain(pod_spec.volumes.drain(..)).collect();
    (pod, claims)
}

/// The claim of a pod: the template's, called TEMPLATE-POD, with the labels of the set's selector too.
fn claim_of(
    subject: &Subject,
    spec: &StatefulSetSpec,
    template: &PersistentVolumeClaim,
    pod_name: &str,
) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.status = None;
    let metadata = claim.metadata.get_or_insert_default();
    metadata.name = format!("{}-{pod_name}", metadata.name);
    metadata.namespace.clone_from(&subject.namespace);
    let selector = spec.selector.iter().flat_map(|selector| &selector.match_labels);
    metadata.labels.extend(selector.map(|(key, value)| (key.clone(), value.clone())));
    claim
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rest: &str) -> StatefulSet {
        let json = format!(
            r#"{{"metadata": {{"name": "db", "namespace": "shop"}}, "spec": {{
                "serviceName": "db", "replicas": 2,
                "selector": {{"matchLabels": {{"app": "db"}}}},
                "template": {{"metadata": {{"labels": {{"app": "db"}}}}, "spec": {{
                    "containers": [{{"name": "c"}}],
                    "volumes": [{{"name": "tmp", "emptyDir": {{}}}},
                                {{"name": "data", "emptyDir": {{}}}}]}}}}{rest}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn names(expansion: &Expansion) -> Vec<String> {
        expansion.pods.iter().map(|pod| pod.metadata.clone().unwrap().name).collect()
    }

    const CLAIMS: &str = r#", "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"x": "y"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}}]"#;

    #[test]
    fn pods_are_numbered_and_labelled() {
        let expansion = expand(&set(""), &ExpandOptions::default()).unwrap();
        assert_eq!(names(&expansion), ["db-0", "db-1"]);
        let pod = &expansion.pods[1];
        let metadata = pod.metadata.as_ref().unwrap();
        assert_eq!(metadata.labels[POD_NAME_LABEL], "db-1");
        assert_eq!(metadata.labels[POD_INDEX_LABEL], "1");
        assert!(metadata.labels[REVISION_LABEL].starts_with("db-"));
        assert_eq!(metadata.generate_name, "db-");
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!((spec.hostname.as_str(), spec.subdomain.as_str()), ("db-1", "db"));
        assert_eq!((spec.volumes.len(), expansion.claims.len()), (2, 0));
        assert!(expansion.is_ordered);
        let parallel =
            expand(&set(r#", "podManagementPolicy": "Parallel""#), &ExpandOptions::default());
        assert!(!parallel.unwrap().is_ordered);
        let Some(PodController::StatefulSet(stored)) = &expansion.controller else { panic!() };
        assert_eq!(stored.metadata.as_ref().unwrap().uid, metadata.owner_references[0].uid);
    }

    #[test]
    fn ordinals_may_begin_elsewhere() {
        let options = ExpandOptions { replicas: Some(3), nodes: &[] };
        let expansion = expand(&set(r#", "ordinals": {"start": 5}"#), &options).unwrap();
        assert_eq!(names(&expansion), ["db-5", "db-6", "db-7"]);
        let error = expand(&set(r#", "ordinals": {"start": -1}"#), &options).unwrap_err();
        assert_eq!(error.field, "spec.ordinals.start");
    }

    #[test]
    fn each_pod_has_its_own_claims() {
        let expansion = expand(&set(CLAIMS), &ExpandOptions::default()).unwrap();
        let claims: Vec<_> = expansion.claims.iter().map(claim_name).collect();
        assert_eq!(claims, ["data-db-0", "data-db-1"]);
        let claim = &expansion.claims[0];
        let metadata = claim.metadata.as_ref().unwrap();
        assert_eq!((metadata.namespace.as_str(), metadata.labels["app"].as_str()), ("shop", "db"));
        assert_eq!(metadata.labels["x"], "y");
        assert_eq!(claim.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("fast"));
        // The claim takes the place of the template's volume of its name.
        let volumes = &expansion.pods[1].spec.as_ref().unwrap().volumes;
        let volume_names: Vec<_> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!(volume_names, ["data", "tmp"]);
        let source = volumes[0].volume_source.as_ref().unwrap();
        let claim = source.persistent_volume_claim.as_ref().unwrap();
        assert_eq!(claim.claim_name, "data-db-1");
    }

    #[test]
    fn claim_templates_have_names_of_their_own() {
        let field = |rest: &str| expand(&set(rest), &ExpandOptions::default()).unwrap_err().field;
        let nameless = r#", "volumeClaimTemplates": [{"spec": {}}]"#;
        assert_eq!(field(nameless), "spec.volumeClaimTemplates[0].metadata.name");
        let twice = r#", "volumeClaimTemplates": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]"#;
        assert_eq!(field(twice), "spec.volumeClaimTemplates[1].metadata.name");
    }
}
