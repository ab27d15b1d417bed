//! Templates: pods made of a pod template, and what a template must have. Rule: L-RESTART-23.

use berth_proto::berth_v1::ControllerRestartPolicyRequest;
use berth_proto::core_v1::{Pod, PodTemplateSpec};
use berth_proto::meta_v1::{ObjectMeta, OwnerReference};

use super::expansion::MAX_PODS;
use super::naming;
use crate::lifecycle::restart::controller_restart_policy;
use crate::model::ModelError;

/// The template of a workload, with its path in the object.
#[derive(Copy, Clone, Debug)]
pub(super) struct Template<'a> {
    pub(super) spec: &'a PodTemplateSpec,
    path: &'a str,
}

impl<'a> Template<'a> {
    /// Checks the template at `path`. `controller` is the kind of the pods' controller, `None` for pods without one.
    pub(super) fn of(
        template: Option<&'a PodTemplateSpec>,
        path: &'a str,
        controller: &str,
    ) -> Result<Template<'a>, ModelError> {
        let spec = template.ok_or_else(|| ModelError::new(path, "must be set"))?;
        let template = Template { spec, path };
        let pod = spec.spec.as_ref().ok_or_else(|| template.error("spec", "must be set"))?;
        if pod.containers.is_empty() {
            return Err(template.error("spec.containers", "must have at least one container"));
        }
        let request = ControllerRestartPolicyRequest {
            controller_kind: controller.to_owned(),
            restart_policy: pod.restart_policy.clone(),
        };
        let decided = controller_restart_policy(&request)
            .map_err(|error| template.error("spec.restartPolicy", error.reason))?;
        if !decided.allowed {
            let policy = if pod.restart_policy.is_empty() { "Always" } else { &pod.restart_policy };
            let supported = if controller == "Job" { "`OnFailure` or `Never`" } else { "`Always`" };
            let reason = format!("`{policy}` is not supported in a {controller}: set {supported}");
            return Err(template.error("spec.restartPolicy", reason));
        }
        Ok(template)
    }

    /// An error of a field below the template.
    pub(super) fn error(&self, field: &str, reason: impl Into<String>) -> ModelError {
        ModelError::new(format!("{}.{field}", self.path), reason)
    }

    /// Returns a template at this place in the object, with another content.
    pub(super) fn with<'b>(&self, spec: &'b PodTemplateSpec) -> Template<'b>
    where
        'a: 'b,
    {
        Template { spec, path: self.path }
    }

    /// A pod without a name: labels, annotations, finalizers and spec are the template's.
    pub(super) fn pod(
        &self,
        namespace: &str,
        prefix: String,
        owner: Option<OwnerReference>,
    ) -> Pod {
        let metadata = self.spec.metadata.as_ref();
        let metadata = ObjectMeta {
            generate_name: prefix,
            namespace: namespace.to_owned(),
            labels: metadata.map(|metadata| metadata.labels.clone()).unwrap_or_default(),
            annotations: metadata.map(|metadata| metadata.annotations.clone()).unwrap_or_default(),
            finalizers: metadata.map(|metadata| metadata.finalizers.clone()).unwrap_or_default(),
            owner_references: owner.into_iter().collect(),
            ..ObjectMeta::default()
        };
        Pod { metadata: Some(metadata), spec: self.spec.spec.clone(), status: None }
    }
}

/// `n` pods that differ in their names only.
pub(super) fn copies(pod: &Pod, n: u32) -> Vec<Pod> {
    let named = |number| {
        let mut pod = pod.clone();
        let metadata = pod.metadata.get_or_insert_default();
        metadata.name = naming::generated(&metadata.generate_name, number);
        pod
    };
    (0..n).map(named).collect()
}

/// Number of pods: the one that is asked for, or else `written` at `field`, or else 1.
pub(super) fn n_pods(
    asked: Option<u32>,
    written: Option<i32>,
    field: &str,
) -> Result<u32, ModelError> {
    let n_written = not_negative(written.unwrap_or(1), field)?;
    let (n, field) = asked.map_or((n_written, field), |asked| (asked, "replicas"));
    if n > MAX_PODS {
        let reason = format!("{n} pods are more than {MAX_PODS}, the limit for one workload");
        return Err(ModelError::new(field, reason));
    }
    Ok(n)
}

/// The number at `field`, which must not be negative.
pub(super) fn not_negative(number: i32, field: &str) -> Result<u32, ModelError> {
    u32::try_from(number).map_err(|_| {
        ModelError::new(field, format!("`{number}`: must be greater than or equal to 0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(json: &str) -> PodTemplateSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn metadata_and_spec_are_the_templates() {
        let template = template(
            r#"{"metadata": {"name": "ignored", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"]},
                "spec": {"containers": [{"name": "c"}], "priority": 7}}"#,
        );
        let template = Template::of(Some(&template), "spec.template", "ReplicaSet").unwrap();
        let pods = copies(&template.pod("shop", "web-".to_owned(), None), 2);
        let names: Vec<_> =
            pods.iter().map(|pod| pod.metadata.as_ref().unwrap().name.as_str()).collect();
        assert_eq!(names, ["web-0", "web-1"]);
        let metadata = pods[0].metadata.as_ref().unwrap();
        assert_eq!((metadata.namespace.as_str(), metadata.labels["a"].as_str()), ("shop", "b"));
        assert_eq!(
            (metadata.annotations["c"].as_str(), &*metadata.finalizers),
            ("d", &["e/f".to_owned()][..])
        );
        assert_eq!(pods[1].spec.as_ref().unwrap().priority, Some(7));
    }

    /// L-RESTART-23 in the words of an operator.
    #[test]
    fn unusable_templates() {
        let error = |json: &str, controller: &str| {
            let template = template(json);
            Template::of(Some(&template), "spec.template", controller).unwrap_err().to_string()
        };
        assert_eq!(
            Template::of(None, "spec.template", "Job").unwrap_err().to_string(),
            "`spec.template`: must be set"
        );
        assert_eq!(error("{}", "Job"), "`spec.template.spec`: must be set");
        assert_eq!(
            error(r#"{"spec": {}}"#, "Job"),
            "`spec.template.spec.containers`: must have at least one container"
        );
        assert_eq!(
            error(r#"{"spec": {"containers": [{}]}}"#, "Job"),
            "`spec.template.spec.restartPolicy`: `Always` is not supported in a Job: set `OnFailure` or `Never`"
        );
        assert_eq!(
            error(r#"{"spec": {"restartPolicy": "Never", "containers": [{}]}}"#, "Deployment"),
            "`spec.template.spec.restartPolicy`: `Never` is not supported in a Deployment: set `Always`"
        );
        let unknown = error(r#"{"spec": {"restartPolicy": "never", "containers": [{}]}}"#, "None");
        assert!(unknown.starts_with("`spec.template.spec.restartPolicy`: "), "{unknown}");
    }

    #[test]
    fn numbers_of_pods() {
        assert_eq!(n_pods(None, None, "spec.replicas"), Ok(1));
        assert_eq!(n_pods(None, Some(0), "spec.replicas"), Ok(0));
        assert_eq!(n_pods(Some(5), Some(2), "spec.replicas"), Ok(5));
        let field = |asked, written| n_pods(asked, written, "spec.replicas").unwrap_err().field;
        assert_eq!(field(None, Some(-1)), "spec.replicas");
        assert_eq!(field(Some(1), Some(-1)), "spec.replicas");
        assert_eq!(field(None, Some(i32::MAX)), "spec.replicas");
        assert_eq!(field(Some(MAX_PODS + 1), None), "replicas");
    }
}
