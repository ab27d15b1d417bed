//! Extended resources that devices provide: what the claim for them asks for on a node. Rules: S-DRA-101 to S-DRA-105.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{core_v1, resource_v1};

use crate::model::Model;
use crate::model::device::class::DeviceClass;
use crate::model::device::request::DeviceRequest;
use crate::model::extended::{ExtendedContainer, ExtendedRequests};
use crate::model::intern::Symbol;

/// A resource that a pod requests and that may come from devices.
#[derive(Clone, Debug)]
pub(crate) struct Provided<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) symbol: Symbol,
    /// The class that provides it, if one does.
    pub(crate) class: Option<&'a Arc<DeviceClass>>,
}

/// The requests of the claim for extended resources on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExtendedAsked {
    /// The requests, by name.
    pub(crate) requests: Vec<resource_v1::DeviceRequest>,
    pub(crate) mappings: Vec<core_v1::ContainerExtendedResourceRequest>,
}

impl ExtendedAsked {
    /// The requests for some resources, in the order of their names, each with the class that provides it (S-DRA-105).
    pub(crate) fn of(
        pod: &ExtendedRequests,
        resources: &[(&Arc<str>, &DeviceClass)],
    ) -> ExtendedAsked {
        let mut asked = ExtendedAsked::default();
        for (resource, class) in resources {
            asked.add(pod, resource, class);
        }
        asked.requests.sort_by(|a, b| a.name.cmp(&b.name));
        asked
    }

    fn add(&mut self, pod: &ExtendedRequests, resource: &Arc<str>, class: &DeviceClass) {
        let of = |container: &ExtendedContainer| {
            let amount = container.amounts.iter().find(|amount| amount.resource == *resource)?;
            let request = format!("container-{}-request-{}", container.number, amount.position);
            Some((request, amount.amount))
        };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        let mapping = |container: &ExtendedContainer, request: &str| {
            core_v1::ContainerExtendedResourceRequest {
                container_name: container.name.to_string(),
                resource_name: resource.to_string(),
                request_name: request.to_owned(),
            }
        };
        let mut long_lived = Vec::new();
        for container in pod.containers.iter().filter(|container| !container.is_short_lived) {
            if let Some((request, amount)) = of(container) {
                self.mappings.push(mapping(container, &request));
                counts.insert(request.clone(), amount);
                long_lived.push((container.number, request, amount));
            }
        }
        let mut largest: Option<(String, i64)> = None;
        let (mut of_short_lived, mut own) = (Vec::new(), Vec::new());
        for container in pod.containers.iter().filter(|container| container.is_short_lived) {
            let Some((request, mut missing)) = of(container) else { continue };
            for (_, reused, amount) in
                long_lived.iter().filter(|(number, ..)| *number >= container.number)
            {
                if missing <= 0 {
                    break;
                }
                of_short_lived.push(mapping(container, reused));
                missing -= amount;
            }
            if missing > 0 {
                own.push(of_short_lived.len());
                of_short_lived.push(mapping(container, &request));
                if largest.as_ref().is_none_or(|(_, most)| missing > *most) {
                    largest = Some((request, missing));
                }
            }
        }
        if let Some((request, missing)) = largest {
            own.into_iter().for_each(|at| of_short_lived[at].request_name.clone_from(&request));
            counts.insert(request, missing);
        }
        self.mappings.append(&mut of_short_lived);
        self.requests.extend(counts.into_iter().map(|(name, count)| resource_v1::DeviceRequest {
            name,
            exactly: Some(resource_v1::ExactDeviceRequest {
                device_class_name: class.name.to_string(),
                allocation_mode: "ExactCount".to_owned(),
                count,
                ..Default::default()
            }),
            ..Default::default()
        }));
    }

    /// The requests as the search takes them.
    pub(crate) fn compile(&self, model: &Model) -> Vec<DeviceRequest> {
        // These requests have no quantity that could fail to parse.
        self.requests
            .iter()
            .filter_map(|request| {
                DeviceRequest::compile(request, model.names(), model.selectors()).ok()
            })
            .collect()
    }
}
