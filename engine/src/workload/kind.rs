//! The kinds of workloads, as the API server has them.

macro_rules! kinds {
    ($($kind:ident $version:literal,)+) => {
        /// A kind of object that stands for pods.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WorkloadKind {
            $(#[doc = concat!("`", stringify!($kind), "` of `", $version, "`")] $kind,)+
        }

        impl WorkloadKind {
            /// All kinds.
            pub const ALL: [WorkloadKind; [$(WorkloadKind::$kind),+].len()] = [$(WorkloadKind::$kind),+];

            /// Kubernetes' name of the kind.
            pub fn name(self) -> &'static str {
                match self { $(WorkloadKind::$kind => stringify!($kind),)+ }
            }

            /// The kind with this exact name.
            pub fn from_name(name: &str) -> Option<WorkloadKind> {
                WorkloadKind::ALL.into_iter().find(|kind| kind.name() == name)
            }

            /// The `apiVersion` of objects of this kind.
            pub fn api_version(self) -> &'static str {
                match self { $(WorkloadKind::$kind => $version,)+ }
            }
        }
    };
}

kinds! {
    CronJob "batch/v1",
    DaemonSet "apps/v1",
    Deployment "apps/v1",
    Job "batch/v1",
    PodTemplate "v1",
    ReplicaSet "apps/v1",
    ReplicationController "v1",
    StatefulSet "apps/v1",
}

impl std::fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_exact_name() {
        for kind in WorkloadKind::ALL {
            assert_eq!(WorkloadKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(WorkloadKind::from_name("deployment"), None);
        assert_eq!(WorkloadKind::Job.to_string(), "Job");
        assert_eq!(WorkloadKind::Job.api_version(), "batch/v1");
    }
}
