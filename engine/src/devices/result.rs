//! Result: the allocation of a claim as it is written. Rules: S-DRA-73, S-DRA-85 to S-DRA-87.

use std::collections::BTreeSet;

use berth_proto::{core_v1, resource_v1};

use super::Fatal;
use super::asked::Asked;
use super::search::Picked;
use crate::hash::hash_text;
use crate::model::device::node_selection::NodeSelection;

/// Label of the field by which a selector names a node.
const NODE_NAME: &str = "metadata.name";

/// What a claim's allocation is made of.
pub(crate) struct Written<'a> {
    pub(crate) asked: &'a Asked<'a>,
    /// The devices of this claim, in the order of their allocation.
    pub(crate) picked: Vec<&'a Picked<'a>>,
    /// Specification of the claim as it was fed; the default for one that is still to be created.
    pub(crate) spec: &'a resource_v1::DeviceClaim,
    /// Name of the node of the search.
    pub(crate) node: &'a str,
    /// Uid of the pod, from which ids of shares are made.
    pub(crate) pod_uid: &'a str,
}

impl Written<'_> {
    /// The allocation of the claim.
    pub(crate) fn allocation(&self) -> Result<resource_v1::AllocationResult, Fatal> {
        if self.asked.requests.is_empty() {
            return Ok(resource_v1::AllocationResult::default());
        }
        Ok(resource_v1::AllocationResult {
            devices: Some(resource_v1::DeviceAllocationResult {
                results: self.picked.iter().enumerate().map(|(i, p)| self.result(i, p)).collect(),
                config: self.config(),
            }),
            node_selector: self.node_selector()?,
            // PreBind sets the time (S-DRA-88).
            allocation_timestamp: None,
        })
    }

    /// `REQUEST`, or `REQUEST/SUBREQUEST`.
    fn request_name(&self, picked: &Picked<'_>) -> String {
        let request = &self.asked.requests[picked.request];
        match request.demands[picked.alternative].alternative {
            Some(alternative) => format!("{}/{alternative}", request.name),
            None => request.name.to_string(),
        }
    }

    fn result(
        &self,
        index: usize,
        picked: &Picked<'_>,
    ) -> resource_v1::DeviceRequestAllocationResult {
        let device = picked.candidate.device;
        let demand = self.asked.requests[picked.request].demands[picked.alternative].demand;
        let request = self.spec.requests.get(picked.request);
        let tolerations = request.and_then(|request| match &request.exactly {
            _ if !request.first_available.is_empty() => {
                Some(&request.first_available.get(picked.alternative)?.tolerations)
            }
            exactly => Some(&exactly.as_ref()?.tolerations),
        });
        let consumed = picked.consumed.iter().flatten();
        let texts =
            |list: &[std::sync::Arc<str>]| list.iter().map(|text| text.to_string()).collect();
        resource_v1::DeviceRequestAllocationResult {
            request: self.request_name(picked),
            driver: device.driver.to_string(),
            pool: device.pool.to_string(),
            device: device.name.to_string(),
            admin_access: demand.is_admin.then_some(true),
            tolerations: tolerations.cloned().unwrap_or_default(),
            binding_conditions: texts(&device.binding_conditions),
            binding_failure_conditions: texts(&device.binding_failure_conditions),
            share_id: picked.consumed.as_ref().map(|_| self.share_id(index)),
            consumed_capacity: consumed
                .map(|(name, amount)| (name.to_string(), amount.notation.clone()))
                .collect(),
        }
    }

    /// Identity of a share: a UUID that depends on the pod, the claim and the position of the result alone, and so is
    /// no other share's.
    fn share_id(&self, index: usize) -> String {
        let text = format!("{}/{}/{index}", self.pod_uid, self.asked.key);
        let [a, b, c, d] = [1, 2, 3, 4].map(|seed| hash_text(&text, seed));
        format!(
            "{a:08x}-{:04x}-4{:03x}-8{:03x}-{:04x}{d:08x}",
            b >> 16,
            b & 0xfff,
            c >> 20,
            c & 0xffff
        )
    }

    /// Configuration of the classes, then the claim's own (S-DRA-86).
    fn config(&self) -> Vec<resource_v1::DeviceAllocationConfiguration> {
        let mut config = Vec::new();
        let mut of_classes: Vec<(&str, usize, usize)> = Vec::new();
        let mut chosen: BTreeSet<String> = BTreeSet::new();
        for (at, request) in self.asked.requests.iter().enumerate() {
            let picked = self.picked.iter().find(|picked| picked.request == at);
            let alternative = picked.map_or(0, |picked| picked.alternative);
            // A request without devices has chosen no alternative that its results would show.
            let Some(demand) = request.demands.get(alternative) else { continue };
            let name = match demand.alternative {
                Some(alternative) => format!("{}/{alternative}", request.name),
                None => request.name.to_string(),
            };
            chosen.insert(name.clone());
            let known = of_classes.iter().find(|(class, ..)| *class == &*demand.class.name);
            if let Some((_, from, to)) = known {
                let entries: &mut [resource_v1::DeviceAllocationConfiguration] =
                    &mut config[*from..*to];
                entries.iter_mut().for_each(|entry| entry.requests.push(name.clone()));
                continue;
            }
            let from = config.len();
            config.extend(demand.class.config.iter().map(|own| {
                resource_v1::DeviceAllocationConfiguration {
                    source: "FromClass".to_owned(),
                    requests: vec![name.clone()],
                    device_configuration: Some(own.clone()),
                }
            }));
            of_classes.push((&demand.class.name, from, config.len()));
        }
        for own in &self.spec.config {
            let entry = resource_v1::DeviceAllocationConfiguration {
                source: "FromClaim".to_owned(),
                requests: own.requests.clone(),
                device_configuration: own.device_configuration.clone(),
            };
            if own.requests.is_empty() {
                config.push(entry);
                continue;
            }
            let is_named = |request: &&super::asked::AskedRequest<'_>| {
                let is_chosen = |name: &String| {
                    chosen.contains(name)
                        && name.split_once('/').is_some_and(|(of, _)| *of == **request.name)
                };
                own.requests.iter().any(|name| **name == **request.name || is_chosen(name))
            };
            let n_named = self.asked.requests.iter().filter(is_named).count();
            config.extend(std::iter::repeat_n(entry, n_named));
        }
        config
    }

    /// The nodes on which the devices can be used (S-DRA-87).
    fn node_selector(&self) -> Result<Option<core_v1::NodeSelector>, Fatal> {
        let mut term = core_v1::NodeSelectorTerm::default();
        for picked in &self.picked {
            let (slice, device) = (picked.candidate.slice, picked.candidate.device);
            let nodes: &NodeSelection =
                if slice.is_per_device { &device.nodes } else { &slice.nodes };
            if nodes.node.is_some() || device.binds_to_node {
                return Ok(Some(self.only_this_node()));
            }
            let terms =
                nodes.selector.as_ref().map(|selector| &selector.written.node_selector_terms);
            match terms.map_or(&[][..], |terms| &terms[..]) {
                [] => {}
                [own] => {
                    own.match_fields.iter().for_each(|r| add(&mut term.match_fields, r));
                    own.match_expressions.iter().for_each(|r| add(&mut term.match_expressions, r));
                }
                many => {
                    return Err(Fatal(format!(
                        "create NodeSelector for claim {}: unsupported ResourceSlice.NodeSelector with {} terms",
                        self.asked.key.name,
                        many.len()
                    )));
                }
            }
        }
        let is_empty = term.match_fields.is_empty() && term.match_expressions.is_empty();
        Ok((!is_empty).then(|| core_v1::NodeSelector { node_selector_terms: vec![term] }))
    }

    fn only_this_node(&self) -> core_v1::NodeSelector {
        let requirement = core_v1::NodeSelectorRequirement {
            key: NODE_NAME.to_owned(),
            operator: "In".to_owned(),
            values: vec![self.node.to_owned()],
        };
        let match_fields = vec![requirement];
        let term = core_v1::NodeSelectorTerm { match_fields, ..Default::default() };
        core_v1::NodeSelector { node_selector_terms: vec![term] }
    }
}

/// Adds a requirement unless an equal one is there: key, operator and set of values.
fn add(
    requirements: &mut Vec<core_v1::NodeSelectorRequirement>,
    new: &core_v1::NodeSelectorRequirement,
) {
    let values =
        |r: &core_v1::NodeSelectorRequirement| r.values.iter().cloned().collect::<BTreeSet<_>>();
    let is_equal = |known: &core_v1::NodeSelectorRequirement| {
        known.key == new.key && known.operator == new.operator && values(known) == values(new)
    };
    if !requirements.iter().any(is_equal) {
        requirements.push(new.clone());
    }
}
