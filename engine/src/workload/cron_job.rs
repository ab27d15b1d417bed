//! CronJob: the pods of one of its Jobs.

use berth_proto::batch_v1::CronJob;

use super::expansion::{ExpandOptions, Expansion};
use super::job;
use super::kind::WorkloadKind;
use super::subject::Subject;
use crate::model::ModelError;

/// Path of the specification of a CronJob's Jobs.
const JOB_SPEC: &str = "spec.jobTemplate.spec";

pub(super) fn expand(
    cron_job: &CronJob,
    options: &ExpandOptions<'_>,
) -> Result<Expansion, ModelError> {
    let subject = Subject::of(WorkloadKind::CronJob, cron_job.metadata.as_ref())?;
    let missing = |field: &str| ModelError::new(field, "must be set");
    let spec = cron_job.spec.as_ref().ok_or_else(|| missing("spec"))?;
    let template = spec.job_template.as_ref().ok_or_else(|| missing("spec.jobTemplate"))?;
    let job_spec = template.spec.as_ref().ok_or_else(|| missing(JOB_SPEC))?;
    if job_spec.manual_selector == Some(true) {
        let reason = "`true` is not supported in a CronJob";
        return Err(ModelError::new(format!("{JOB_SPEC}.manualSelector"), reason));
    }
    if job_spec.selector.is_some() {
        let reason = "`selector` will be auto-generated: leave it out";
        return Err(ModelError::new(format!("{JOB_SPEC}.selector"), reason));
    }
    // The controller ends the name with the minute of the run, which is not known here.
    let name = format!("{}-0", subject.name);
    let job = Subject::named(WorkloadKind::Job, &subject.namespace, name);
    let mut expansion = job::pods_of(&job, job_spec, JOB_SPEC, options)?;
    expansion.kind = subject.kind;
    expansion.name.clone_from(&subject.name);
    if spec.suspend == Some(true) {
        let text = subject.text();
        expansion.notes.push(format!("{text} is suspended: it starts no Jobs until it is resumed"));
    }
    Ok(expansion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron_job(rest: &str, job: &str) -> CronJob {
        let json = format!(
            r#"{{"metadata": {{"name": "backup", "namespace": "ops"}}, "spec": {{"schedule": "0 3 * * *"{rest},
                "jobTemplate": {{"spec": {{"parallelism": 2{job}, "template": {{
                    "spec": {{"restartPolicy": "OnFailure", "containers": [{{"name": "c"}}]}}}}}}}}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn pods_are_those_of_one_job() {
        let expansion = expand(&cron_job("", ""), &ExpandOptions::default()).unwrap();
        assert_eq!((expansion.kind, expansion.name.as_str()), (WorkloadKind::CronJob, "backup"));
        let metadata = expansion.pods[1].metadata.as_ref().unwrap();
        assert_eq!(metadata.name, "backup-0-1");
        assert_eq!(metadata.labels["job-name"], "backup-0");
        let owner = &metadata.owner_references[0];
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Job", "backup-0"));
    }

    #[test]
    fn faults_and_remarks_are_those_of_both() {
        let expand =
            |rest: &str, job: &str| expand(&cron_job(rest, job), &ExpandOptions::default());
        let notes = expand(r#", "suspend": true"#, "").unwrap().notes;
        assert!(notes[0].starts_with("CronJob `ops/backup` is suspended"), "{notes:?}");
        let field = |job: &str| expand("", job).unwrap_err().field;
        assert_eq!(field(r#", "manualSelector": true"#), "spec.jobTemplate.spec.manualSelector");
        assert_eq!(field(r#", "selector": {}"#), "spec.jobTemplate.spec.selector");
        assert_eq!(field(r#", "completions": -1"#), "spec.jobTemplate.spec.completions");
        assert_eq!(field(r#", "completionMode": "x""#), "spec.jobTemplate.spec.completionMode");
    }
}
