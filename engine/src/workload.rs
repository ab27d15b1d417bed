//! Workloads: the pods that a controller of Kubernetes v1.36 makes of a Deployment, a StatefulSet, a Job and the like,
//! before admission. There is a file for each kind.
//!
//! Nothing here is random: a generated name ends with the pod's number instead of five random characters
//! ([`naming`]), and a workload without a uid gets one from its kind and name.

mod cron_job;
mod daemon_set;
mod deployment;
mod ephemeral;
mod expansion;
mod job;
mod kind;
mod naming;
mod pod_template;
mod replica_set;
mod replication_controller;
mod selector;
mod stateful_set;
mod subject;
mod template;

use berth_proto::{apps_v1, batch_v1, core_v1, meta_v1};

pub use daemon_set::eligibility::DaemonNode;
pub use ephemeral::{ephemeral_claims, has_ephemeral_claims};
pub use expansion::{ExpandOptions, Expansion, MAX_PODS, PodController};
pub use kind::WorkloadKind;

use crate::model::ModelError;

macro_rules! workloads {
    ($($kind:ident($message:ty) = $room:ident,)+) => {
        /// An object that stands for pods.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Workload {
            $(#[doc = concat!("A `", stringify!($kind), "`.")] $kind(Box<$message>),)+
        }

        impl Workload {
            /// The kind of the object.
            pub fn kind(&self) -> WorkloadKind {
                match self { $(Workload::$kind(_) => WorkloadKind::$kind,)+ }
            }

            /// The object's metadata, if any.
            pub fn metadata(&self) -> Option<&meta_v1::ObjectMeta> {
                match self { $(Workload::$kind(object) => object.metadata.as_ref(),)+ }
            }

            /// The object's metadata, to be filled in.
            pub fn metadata_mut(&mut self) -> &mut meta_v1::ObjectMeta {
                match self { $(Workload::$kind(object) => object.metadata.get_or_insert_default(),)+ }
            }

            fn encoded_len(&self) -> usize {
                match self { $(Workload::$kind(object) => prost::Message::encoded_len(&**object),)+ }
            }

            /// Makes the pods of the workload, in the order in which the controller creates them.
            ///
            /// Cost: one copy of the template for each pod.
            ///
            /// # Errors
            /// The field for which the API server refuses the object, or that leaves open what its pods are; `replicas`
            /// for a number that this kind does not take.
            pub fn expand(&self, options: &ExpandOptions<'_>) -> Result<Expansion, ModelError> {
                match self { $(Workload::$kind(object) => $room::expand(object, options),)+ }
            }
        }
    };
}

impl Workload {
    /// An upper bound on the number of pods that [`Workload::expand`] makes, without making any: nothing is checked.
    pub fn n_pods_at_most(&self, options: &ExpandOptions<'_>) -> u64 {
        let written = match self {
            Workload::DaemonSet(_) => return options.nodes.len() as u64,
            Workload::CronJob(object) => {
                let job = object.spec.as_ref().and_then(|spec| spec.job_template.as_ref());
                job.and_then(|template| template.spec.as_ref()?.parallelism)
            }
            Workload::Deployment(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Workload::Job(object) => object.spec.as_ref().and_then(|spec| spec.parallelism),
            Workload::PodTemplate(_) => None,
            Workload::ReplicaSet(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Workload::ReplicationController(object) => {
                object.spec.as_ref().and_then(|spec| spec.replicas)
            }
            Workload::StatefulSet(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
        };
        // A negative number is refused where it is read.
        let written = u64::try_from(written.unwrap_or(1)).unwrap_or(0);
        options.replicas.map_or(written, u64::from)
    }

    /// Number of bytes of the object, which is at least that of a pod of it without what is added.
    pub fn n_bytes(&self) -> usize {
        self.encoded_len()
    }
}

workloads! {
    CronJob(batch_v1::CronJob) = cron_job,
    DaemonSet(apps_v1::DaemonSet) = daemon_set,
    Deployment(apps_v1::Deployment) = deployment,
    Job(batch_v1::Job) = job,
    PodTemplate(core_v1::PodTemplate) = pod_template,
    ReplicaSet(apps_v1::ReplicaSet) = replica_set,
    ReplicationController(core_v1::ReplicationController) = replication_controller,
    StatefulSet(apps_v1::StatefulSet) = stateful_set,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_pods_is_known_before_they_are_made() {
        let check = |workload: Workload, replicas| {
            let node = |name: &str| DaemonNode { name: name.to_owned(), ..DaemonNode::default() };
            let nodes = [node("n0"), node("n1")];
            let options = ExpandOptions { replicas, nodes: &nodes };
            let bound = workload.n_pods_at_most(&options);
            let n_pods = workload.expand(&options).map(|made| made.pods.len() as u64);
            assert!(n_pods.is_ok_and(|n| n <= bound), "{} of {bound}", workload.kind());
            assert!(workload.n_bytes() > 0);
            bound
        };
        let template = r#""template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}"#;
        let of = |more: &str| {
            format!(
                r#"{{"metadata": {{"name": "w"}}, "spec": {{{more} "selector": {{"matchLabels": {{"app": "a"}}}}, {template}}}}}"#
            )
        };
        let three = of(r#""replicas": 3,"#);
        let deployment = |json: &str| Workload::Deployment(serde_json::from_str(json).unwrap());
        assert_eq!(check(deployment(&three), None), 3);
        assert_eq!(check(deployment(&three), Some(7)), 7);
        assert_eq!(check(deployment(&of("")), None), 1);
        assert_eq!(check(Workload::StatefulSet(serde_json::from_str(&three).unwrap()), None), 3);
        assert_eq!(check(Workload::ReplicaSet(serde_json::from_str(&three).unwrap()), None), 3);
        assert_eq!(check(Workload::DaemonSet(serde_json::from_str(&of("")).unwrap()), None), 2);
        let job = r#"{"metadata": {"name": "j"}, "spec": {"parallelism": 4, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}}"#;
        assert_eq!(check(Workload::Job(serde_json::from_str(job).unwrap()), None), 4);
        let cron = format!(
            r#"{{"metadata": {{"name": "c"}}, "spec": {{"schedule": "@daily", "jobTemplate": {{"spec": {}}}}}}}"#,
            &job[job.find(r#"{"parallelism"#).unwrap()..job.len() - 1]
        );
        assert_eq!(check(Workload::CronJob(serde_json::from_str(&cron).unwrap()), None), 4);
    }
}
