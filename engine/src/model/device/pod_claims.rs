//! A pod's claims for devices: where the name of each comes from (S-DRA-10).
//!
//! Like its volumes they belong to the pod and not to its shape: pods made from one template differ in their claims.

use std::sync::Arc;

use berth_proto::core_v1;

/// The claims of a pod for devices.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PodDeviceClaims {
    /// Entries of `spec.resourceClaims`, in order.
    pub(crate) entries: Box<[PodDeviceClaim]>,
    /// `status.extendedResourceClaimStatus`.
    pub(crate) extended: Option<ExtendedResourceClaim>,
}

/// An entry of a pod's `spec.resourceClaims`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PodDeviceClaim {
    pub(crate) name: Arc<str>,
    pub(crate) source: DeviceClaimSource,
}

/// Where the name of a pod's claim comes from. Claims are named without the pod's namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DeviceClaimSource {
    /// The spec names this claim, whoever owns it.
    Named(Arc<str>),
    /// This claim was made for the pod from a template; the pod has to own it.
    Made(Arc<str>),
    /// A claim like this one is still to be made for the pod, which is a copy of the one that the claim was made for.
    Copied(Arc<str>),
    /// The status says that the entry needs no claim.
    Unneeded,
    /// The claim has not been made from its template yet.
    NotMade,
    /// Neither a claim nor a template is named.
    Unset,
}

/// The claim that was made for a pod's extended resources.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ExtendedResourceClaim {
    pub(crate) claim: Arc<str>,
    /// Which request provides which resource to which container.
    pub(crate) mappings: Box<[core_v1::ContainerExtendedResourceRequest]>,
}

impl PodDeviceClaims {
    /// Compiles a pod's claims; `None` for a pod without any.
    pub(crate) fn compile(pod: &core_v1::Pod) -> Option<Arc<PodDeviceClaims>> {
        let claims = pod.spec.as_ref().map_or(&[][..], |spec| &spec.resource_claims);
        let status = pod.status.as_ref();
        let statuses = status.map_or(&[][..], |status| &status.resource_claim_statuses);
        let extended = status.and_then(|status| status.extended_resource_claim_status.as_ref());
        if claims.is_empty() && extended.is_none() {
            return None;
        }
        let entry = |claim: &core_v1::PodResourceClaim| PodDeviceClaim {
            name: claim.name.as_str().into(),
            source: DeviceClaimSource::of(claim, statuses),
        };
        Some(Arc::new(PodDeviceClaims {
            entries: claims.iter().map(entry).collect(),
            extended: extended.map(|status| ExtendedResourceClaim {
                claim: status.resource_claim_name.as_str().into(),
                mappings: status.request_mappings.clone().into(),
            }),
        }))
    }

    /// The claims of a copy of the pod: those that were made for the pod from a template are to be made anew for it.
    pub(crate) fn of_copy(&self) -> PodDeviceClaims {
        let entry = |entry: &PodDeviceClaim| {
            let source = match &entry.source {
                DeviceClaimSource::Made(claim) => DeviceClaimSource::Copied(claim.clone()),
                source => source.clone(),
            };
            PodDeviceClaim { name: entry.name.clone(), source }
        };
        PodDeviceClaims { entries: self.entries.iter().map(entry).collect(), extended: None }
    }
}

impl DeviceClaimSource {
    /// The claim that it names, whether for this pod or only to be copied.
    pub(crate) fn claim(&self) -> Option<&Arc<str>> {
        match self {
            DeviceClaimSource::Named(name)
            | DeviceClaimSource::Made(name)
            | DeviceClaimSource::Copied(name) => Some(name),
            DeviceClaimSource::Unneeded | DeviceClaimSource::NotMade | DeviceClaimSource::Unset => {
                None
            }
        }
    }

    /// The claim that it names for this pod.
    pub(crate) fn own_claim(&self) -> Option<&Arc<str>> {
        self.claim().filter(|_| !matches!(self, DeviceClaimSource::Copied(_)))
    }

    fn of(
        claim: &core_v1::PodResourceClaim,
        statuses: &[core_v1::PodResourceClaimStatus],
    ) -> DeviceClaimSource {
        if let Some(name) = &claim.resource_claim_name {
            return DeviceClaimSource::Named(name.as_str().into());
        }
        if claim.resource_claim_template_name.is_none() {
            return DeviceClaimSource::Unset;
        }
        match statuses.iter().find(|status| status.name == claim.name) {
            None => DeviceClaimSource::NotMade,
            Some(status) => match &status.resource_claim_name {
                None => DeviceClaimSource::Unneeded,
                Some(name) => DeviceClaimSource::Made(name.as_str().into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-DRA-10
    #[test]
    fn the_name_of_each_claim_comes_from_spec_or_status() {
        let compile = |json: &str| PodDeviceClaims::compile(&serde_json::from_str(json).unwrap());
        assert_eq!(compile(r#"{"spec": {}, "status": {"resourceClaimStatuses": [{}]}}"#), None);
        let claims = compile(
            r#"{"spec": {"resourceClaims": [
                {"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "t"},
                {"name": "b", "resourceClaimTemplateName": "t"},
                {"name": "c", "resourceClaimTemplateName": "t"},
                {"name": "d", "resourceClaimTemplateName": "t"},
                {"name": "e"}]},
            "status": {"resourceClaimStatuses": [
                {"name": "a", "resourceClaimName": "z"}, {"name": "b", "resourceClaimName": "y"},
                {"name": "c"}, {"name": "e", "resourceClaimName": "z"}]}}"#,
        );
        let entries = claims.unwrap();
        let sources: Vec<_> = entries.entries.iter().map(|entry| entry.source.clone()).collect();
        let expected = [
            DeviceClaimSource::Named("x".into()),
            DeviceClaimSource::Made("y".into()),
            DeviceClaimSource::Unneeded,
            DeviceClaimSource::NotMade,
            DeviceClaimSource::Unset,
        ];
        assert_eq!(sources, expected);
        assert_eq!(entries.extended, None);
    }

    #[test]
    fn a_pod_with_extended_resources_only_has_their_claim() {
        let pod = r#"{"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [
            {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}]}}}"#;
        let claims = PodDeviceClaims::compile(&serde_json::from_str(pod).unwrap()).unwrap();
        let extended = claims.extended.as_ref().unwrap();
        assert_eq!((&*extended.claim, extended.mappings.len()), ("x", 1));
        assert!(claims.entries.is_empty());
    }
}
