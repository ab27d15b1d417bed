//! Workloads: the pods that a controller of Kubernetes v1.36 makes of a Deployment, a StatefulSet, a Job and the like,
//! before admission. There is a file for each kind.
//!
//! Nothing here is random: a generated name ends with the pod's number instead of five random characters
//! ([`naming`]), and a workload without a uid gets one from its kind and name.

mod cron_job;
mod daemon_set;
mod deployment;
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
