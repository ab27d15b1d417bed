//! Job: the pods that run at a time, with a number each in an indexed Job.

use std::collections::BTreeMap;

use berth_proto::batch_v1::{Job, JobSpec};
use berth_proto::core_v1::Pod;

use super::expansion::{ExpandOptions, Expansion};
use super::kind::WorkloadKind;
use super::subject::Subject;
use super::template::{Template, copies, n_pods, not_negative};
use super::{naming, selector};
use crate::model::ModelError;

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Labels with the Job's uid and name, each with the older key that is still set.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(super) fn expand(job: &Job, options: &ExpandOptions<'_>) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::Job, job.metadata.as_ref())?;
    let spec = job.spec.as_ref().ok_or_else(|| ModelError::new("spec", "must be set"))?;
    pods_of(&subject, spec, "spec", options)
}

/// The pods that the Job `subject` has at first. `path` is that of `spec`.
pub(super) fn pods_of(
    subject: &Subject,
    spec: &JobSpec,
    path: &str,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let template_path = format!("{path}.template");
    let template = Template::of(spec.template.as_ref(), &template_path, "Job")?;
    check_selector(spec, path, template)?;
    let is_indexed = is_indexed(spec, path)?;
    let n = n_active(spec, path, options.replicas)?;
    let mut pod =
        template.pod(&subject.namespace, format!("{}-", subject.name), Some(subject.owner()));
    let metadata = pod.metadata.get_or_insert_default();
    if spec.manual_selector != Some(true) {
        label(&mut metadata.labels, UID_LABELS, &subject.uid);
        label(&mut metadata.labels, NAME_LABELS, &subject.name);
    }
    if !metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        metadata.finalizers.push(FINALIZER.to_owned());
    }
    let pods = if is_indexed {
        (0..n).map(|index| indexed(&pod, subject, spec, index)).collect()
    } else {
        copies(&pod, n)
    };
    let mut notes = Vec::new();
    if spec.suspend == Some(true) {
        notes.push(format!("{} is suspended: it has no pods until it is resumed", subject.text()));
    }
    if let (Some(completions), None) = (spec.completions, options.replicas)
        && i64::from(completions) > i64::from(n)
    {
        let text = subject.text();
        notes.push(format!("{text} runs {n} pods at a time until {completions} have succeeded"));
    }
    Ok(Expansion {
        kind: subject.kind,
        namespace: subject.namespace.clone(),
        name: subject.name.clone(),
        pods,
        are_alike: !is_indexed,
        is_ordered: false,
        controller: None,
        claims: Vec::new(),
        notes,
    })
}

/// Adds the labels of one value. The API server never replaces the labels of the template.
fn label(labels: &mut BTreeMap<String, String>, keys: [&str; 2], value: &str) {
    for key in keys {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
}

/// Checks the selector: written by hand it matches the template, otherwise the API server makes it.
fn check_selector(spec: &JobSpec, path: &str, template: Template<'_>) -> Result<(), ModelError> {
    if spec.manual_selector == Some(true) {
        return selector::check(WorkloadKind::Job, spec.selector.as_ref(), template);
    }
    let Some(selector) = &spec.selector else {
        return Ok(());
    };
    if UID_LABELS.iter().any(|key| selector.match_labels.contains_key(*key)) {
        return Ok(());
    }
    let reason = "`selector` not auto-generated: leave it out, or set `manualSelector: true`";
    Err(ModelError::new(format!("{path}.selector"), reason))
}

fn is_indexed(spec: &JobSpec, path: &str) -> Result<bool, ModelError> {
    match spec.completion_mode.as_deref() {
        None | Some("NonIndexed") => Ok(false),
        Some("Indexed") if spec.completions.is_none() => {
            let reason = "must be set when completion mode is Indexed";
            Err(ModelError::new(format!("{path}.completions"), reason))
        }
        Some("Indexed") => Ok(true),
        Some(other) => {
            let reason = format!("`{other}` is neither `NonIndexed` nor `Indexed`");
            Err(ModelError::new(format!("{path}.completionMode"), reason))
        }
    }
}

/// Number of pods that the Job runs at first: its parallelism, at most its completions.
fn n_active(spec: &JobSpec, path: &str, asked: Option<u32>) -> Result<u32, ModelError> {
    let n_completions = match spec.completions {
        Some(n) => not_negative(n, &format!("{path}.completions"))?,
        None => u32::MAX,
    };
    let n_parallel = n_pods(asked, spec.parallelism, &format!("{path}.parallelism"))?;
    Ok(if asked.is_some() { n_parallel } else { n_parallel.min(n_completions) })
}

/// The pod of a completion index.
fn indexed(common: &Pod, subject: &Subject, spec: &JobSpec, index: u32) -> Pod {
    let mut pod = common.clone();
    let metadata = pod.metadata.get_or_insert_default();
    metadata.generate_name = format!("{}-{index}-", subject.name);
    metadata.name = naming::generated(&metadata.generate_name, 0);
    metadata.annotations.insert(INDEX.to_owned(), index.to_string());
    metadata.labels.insert(INDEX.to_owned(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        metadata.annotations.insert(FAILURE_COUNT.to_owned(), "0".to_owned());
    }
    pod.spec.get_or_insert_default().hostname = format!("{}-{index}", subject.name);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(rest: &str) -> Job {
        let json = format!(
            r#"{{"metadata": {{"name": "load"}}, "spec": {{
                "template": {{"metadata": {{"labels": {{"app": "load"}}}},
                              "spec": {{"restartPolicy": "Never", "containers": [{{"name": "c"}}]}}}}{rest}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn check(rest: &str, replicas: Option<u32>) -> Result<Expansion, ModelError> {
        expand(&job(rest), &ExpandOptions { replicas, nodes: &[] })
    }

    #[test]
    fn pods_have_the_labels_that_the_api_server_gives() {
        let expansion = check("", None).unwrap();
        let [pod] = &expansion.pods[..] else { panic!("{expansion:?}") };
        let metadata = pod.metadata.as_ref().unwrap();
        assert_eq!((metadata.name.as_str(), metadata.generate_name.as_str()), ("load-0", "load-"));
        let uid = &metadata.owner_references[0].uid;
        assert!(UID_LABELS.iter().all(|key| metadata.labels[*key] == *uid));
        assert!(NAME_LABELS.iter().all(|key| metadata.labels[*key] == "load"));
        assert_eq!(metadata.finalizers, [FINALIZER]);
        assert!(expansion.are_alike && expansion.controller.is_none());
    }

    #[test]
    fn parallelism_is_limited_by_completions() {
        let n = |rest: &str, replicas| check(rest, replicas).map(|expansion| expansion.pods.len());
        assert_eq!(n(r#", "parallelism": 4"#, None), Ok(4));
        assert_eq!(n(r#", "completions": 4"#, None), Ok(1));
        assert_eq!(n(r#", "parallelism": 4, "completions": 3"#, None), Ok(3));
        assert_eq!(n(r#", "parallelism": 4, "completions": 2000000000"#, None), Ok(4));
        assert_eq!(n(r#", "parallelism": 0"#, None), Ok(0));
        assert_eq!(n(r#", "parallelism": 4, "completions": 3"#, Some(7)), Ok(7));
        let field = |rest: &str| check(rest, None).unwrap_err().field;
        assert_eq!(field(r#", "parallelism": -1"#), "spec.parallelism");
        assert_eq!(field(r#", "completions": -1"#), "spec.completions");
        let notes = check(r#", "parallelism": 2, "completions": 9"#, None).unwrap().notes;
        assert_eq!(notes, ["Job `default/load` runs 2 pods at a time until 9 have succeeded"]);
    }

    #[test]
    fn an_indexed_job_numbers_its_pods() {
        let rest = r#", "completionMode": "Indexed", "completions": 3, "parallelism": 2, "backoffLimitPerIndex": 1"#;
        let expansion = check(rest, None).unwrap();
        assert!(!expansion.are_alike);
        let metadata = expansion.pods[1].metadata.as_ref().unwrap();
        assert_eq!(
            (metadata.name.as_str(), metadata.generate_name.as_str()),
            ("load-1-0", "load-1-")
        );
        assert_eq!(
            (metadata.labels[INDEX].as_str(), metadata.annotations[INDEX].as_str()),
            ("1", "1")
        );
        assert_eq!(metadata.annotations[FAILURE_COUNT], "0");
        assert_eq!(expansion.pods[1].spec.as_ref().unwrap().hostname, "load-1");
        let field = |rest: &str| check(rest, None).unwrap_err().field;
        assert_eq!(field(r#", "completionMode": "Indexed""#), "spec.completions");
        assert_eq!(field(r#", "completionMode": "indexed""#), "spec.completionMode");
    }

    #[test]
    fn selectors_are_made_by_the_api_server_or_match() {
        let manual = |app: &str| {
            let rest = format!(
                r#", "manualSelector": true, "selector": {{"matchLabels": {{"app": "{app}"}}}}"#
            );
            check(&rest, None)
        };
        let labels = &manual("load").unwrap().pods[0].metadata.clone().unwrap().labels;
        assert_eq!(labels.len(), 1);
        assert_eq!(manual("web").unwrap_err().field, "spec.template.metadata.labels");
        let written = r#", "selector": {"matchLabels": {"app": "load"}}"#;
        assert_eq!(check(written, None).unwrap_err().field, "spec.selector");
        let stored = r#", "selector": {"matchLabels": {"controller-uid": "u"}}"#;
        assert!(check(stored, None).is_ok());
    }

    #[test]
    fn a_suspended_one_says_so() {
        let notes = check(r#", "suspend": true"#, None).unwrap().notes;
        assert!(notes[0].starts_with("Job `default/load` is suspended"), "{notes:?}");
    }
}
