//! The baseline with devices: eight GPUs a node, half of them held by claims, and incoming pods with a claim each.

use berth_proto::core_v1::{self, Pod, PodResourceClaim};
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::resource_v1::{
    AllocationResult, CelDeviceSelector, Device, DeviceAllocationResult, DeviceAttribute,
    DeviceCapacity, DeviceClaim, DeviceClass, DeviceClassSpec, DeviceConstraint, DeviceRequest,
    DeviceRequestAllocationResult, DeviceSelector, DeviceSubRequest, ExactDeviceRequest,
    ResourceClaim, ResourceClaimConsumerReference, ResourceClaimSpec, ResourceClaimStatus,
    ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use berth_proto::{Quantity, core_v1::NodeSelectorTerm};

use super::kind::Workload;
use super::node::node_name;
use super::pod::{existing, incoming};

/// Name of the driver of every device.
pub const DRIVER: &str = "gpu.example.com";
/// Devices of a node.
pub const N_DEVICES: usize = 8;
/// Claims that hold a device of a node.
pub const N_HELD: usize = 4;

/// One workload with devices, by what the claim of an incoming pod asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DeviceWorkload {
    /// Nothing more: the claim was allocated before.
    Allocated,
    /// A device of the class.
    OneDevice,
    /// A device of the class that an expression selects.
    Selector,
    /// Four selected devices on one NUMA node.
    MatchAttribute,
    /// Two selected devices, or else one of the class.
    FirstAvailable,
}

impl DeviceWorkload {
    /// Every workload, in the baseline's order.
    pub const ALL: [DeviceWorkload; 5] = [
        DeviceWorkload::Allocated,
        DeviceWorkload::OneDevice,
        DeviceWorkload::Selector,
        DeviceWorkload::MatchAttribute,
        DeviceWorkload::FirstAvailable,
    ];

    /// The workload's name in the baseline.
    pub fn name(self) -> &'static str {
        match self {
            DeviceWorkload::Allocated => "b. claim allocated before",
            DeviceWorkload::OneDevice => "c. 1 device, class only",
            DeviceWorkload::Selector => "d. 1 device, CEL selector",
            DeviceWorkload::MatchAttribute => "e. 4 devices, selector, matchAttribute",
            DeviceWorkload::FirstAvailable => "f. firstAvailable (2 with selector, else 1)",
        }
    }

    /// Median time of kube-scheduler v1.36.2 in microseconds with every node considered, measured as the
    /// [other workloads](super::kube_scheduler); `spec/dra.md` has the method.
    pub fn kube_scheduler_us(self) -> u32 {
        match self {
            DeviceWorkload::Allocated => 7_265,
            DeviceWorkload::OneDevice => 77_605,
            DeviceWorkload::Selector => 193_094,
            DeviceWorkload::MatchAttribute => 290_778,
            DeviceWorkload::FirstAvailable => 272_675,
        }
    }
}

/// The class of all devices.
pub fn class() -> DeviceClass {
    let spec = DeviceClassSpec {
        selectors: vec![selector(format!("device.driver == \"{DRIVER}\""))],
        ..DeviceClassSpec::default()
    };
    DeviceClass { metadata: named("", "gpu".into()), spec: Some(spec) }
}

/// The devices of node `i`.
pub fn slice(i: usize) -> ResourceSlice {
    let node = node_name(i);
    let device = |d: usize| {
        let string =
            |string| DeviceAttribute { string: Some(string), ..DeviceAttribute::default() };
        let int = |int| DeviceAttribute { int: Some(int), ..DeviceAttribute::default() };
        let model = if i.is_multiple_of(2) { "A100" } else { "H100" };
        let version =
            DeviceAttribute { version: Some("1.2.3".to_owned()), ..DeviceAttribute::default() };
        let attributes = [
            ("model", string(model.to_owned())),
            ("index", int(d as i64)),
            ("numa", int(i64::from(d >= N_DEVICES / 2))),
            ("driverVersion", version),
            ("uuid", string(format!("GPU-{i:04}-{d}"))),
        ];
        let memory = DeviceCapacity { value: Some(Quantity::new("80Gi")), request_policy: None };
        Device {
            name: device_name(d),
            attributes: attributes.into_iter().map(|(name, it)| (name.to_owned(), it)).collect(),
            capacity: [("memory".to_owned(), memory)].into_iter().collect(),
            ..Device::default()
        }
    };
    let spec = ResourceSliceSpec {
        driver: DRIVER.to_owned(),
        pool: Some(ResourcePool { name: node.clone(), generation: 1, resource_slice_count: 1 }),
        node_name: Some(node),
        devices: (0..N_DEVICES).map(device).collect(),
        ..ResourceSliceSpec::default()
    };
    ResourceSlice { metadata: named("", format!("{}-gpu", node_name(i))), spec: Some(spec) }
}

/// Existing pod `j`, with its claim, which holds a device of its node: every other one, for
/// [`DeviceWorkload::MatchAttribute`] one of the first four.
pub fn holding(j: usize, n_nodes: usize, workload: DeviceWorkload) -> (Pod, ResourceClaim) {
    let (node, nth) = (j % n_nodes, j / n_nodes);
    let device = if workload == DeviceWorkload::MatchAttribute { nth } else { 2 * nth };
    let mut pod = existing(j, n_nodes, Workload::Basic);
    let mut claim = claim(&mut pod, one(None));
    allocate(&mut claim, node, device);
    reserve(&mut claim, &pod);
    (pod, claim)
}

/// Incoming pod `k` with its claim.
pub fn asking(k: usize, n_nodes: usize, workload: DeviceWorkload) -> (Pod, ResourceClaim) {
    let mut pod = incoming(k, Workload::Basic);
    let mut claim = claim(&mut pod, asked(workload, None));
    if workload == DeviceWorkload::Allocated {
        // The even devices are held.
        allocate(&mut claim, 37 * k % n_nodes, 1);
    }
    (pod, claim)
}

/// A pod whose claim asks for what no claim with a smaller `k` asks for: its expression, if it has one, is new.
pub fn asking_anew(k: usize, workload: DeviceWorkload) -> (Pod, ResourceClaim) {
    let mut pod = incoming(k, Workload::Basic);
    if let Some(metadata) = &mut pod.metadata {
        metadata.name = format!("anew-{k}");
        metadata.uid = metadata.name.clone();
    }
    let claim = claim(&mut pod, asked(workload, Some(k)));
    (pod, claim)
}

/// What the claim of a workload asks for, made unlike all others by a number.
fn asked(workload: DeviceWorkload, unlike: Option<usize>) -> DeviceClaim {
    let least = (40_usize << 30) + unlike.map_or(0, |k| k + 1);
    let least = if unlike.is_none() { "40Gi".to_owned() } else { least.to_string() };
    let expression = format!(
        "device.attributes[\"{DRIVER}\"].model == \"H100\" && \
         device.capacity[\"{DRIVER}\"].memory.compareTo(quantity(\"{least}\")) >= 0"
    );
    let mut claim = match workload {
        DeviceWorkload::Allocated | DeviceWorkload::OneDevice => one(None),
        DeviceWorkload::Selector => one(Some(expression)),
        DeviceWorkload::MatchAttribute => {
            let mut claim = one(Some(expression));
            for request in &mut claim.requests {
                request.exactly.get_or_insert_default().count = 4;
            }
            claim.constraints.push(DeviceConstraint {
                match_attribute: Some(format!("{DRIVER}/numa")),
                ..DeviceConstraint::default()
            });
            claim
        }
        DeviceWorkload::FirstAvailable => {
            let alternative = |name: &str, count, selectors| DeviceSubRequest {
                name: name.to_owned(),
                device_class_name: "gpu".to_owned(),
                allocation_mode: "ExactCount".to_owned(),
                count,
                selectors,
                ..DeviceSubRequest::default()
            };
            let alternatives = vec![
                alternative("two", 2, vec![selector(expression)]),
                alternative("one", 1, vec![]),
            ];
            let request =
                DeviceRequest { first_available: alternatives, ..DeviceRequest::default() };
            DeviceClaim { requests: vec![request], ..DeviceClaim::default() }
        }
    };
    for request in &mut claim.requests {
        request.name = unlike.map_or_else(|| "gpu".to_owned(), |k| format!("gpu-{k}"));
    }
    claim
}

/// A request for one device of the class.
fn one(expression: Option<String>) -> DeviceClaim {
    let exactly = ExactDeviceRequest {
        device_class_name: "gpu".to_owned(),
        allocation_mode: "ExactCount".to_owned(),
        count: 1,
        selectors: expression.map(selector).into_iter().collect(),
        ..ExactDeviceRequest::default()
    };
    let request = DeviceRequest {
        name: "gpu".to_owned(),
        exactly: Some(exactly),
        ..DeviceRequest::default()
    };
    DeviceClaim { requests: vec![request], ..DeviceClaim::default() }
}

fn selector(expression: String) -> DeviceSelector {
    DeviceSelector { cel: Some(CelDeviceSelector { expression }) }
}

/// A claim with the pod's name, which the pod names.
fn claim(pod: &mut Pod, devices: DeviceClaim) -> ResourceClaim {
    let metadata = pod.metadata.clone().unwrap_or_default();
    if let Some(spec) = &mut pod.spec {
        spec.resource_claims.push(PodResourceClaim {
            name: "gpu".to_owned(),
            resource_claim_name: Some(metadata.name.clone()),
            ..PodResourceClaim::default()
        });
    }
    ResourceClaim {
        metadata: named(&metadata.namespace, metadata.name),
        spec: Some(ResourceClaimSpec { devices: Some(devices) }),
        status: None,
    }
}

/// Allocates a device of node `i` to a claim.
fn allocate(claim: &mut ResourceClaim, i: usize, device: usize) {
    let node = node_name(i);
    let result = DeviceRequestAllocationResult {
        request: "gpu".to_owned(),
        driver: DRIVER.to_owned(),
        pool: node.clone(),
        device: device_name(device),
        ..DeviceRequestAllocationResult::default()
    };
    let here = core_v1::NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node],
    };
    let term = NodeSelectorTerm { match_fields: vec![here], ..NodeSelectorTerm::default() };
    claim.status.get_or_insert_default().allocation = Some(AllocationResult {
        devices: Some(DeviceAllocationResult { results: vec![result], config: Vec::new() }),
        node_selector: Some(core_v1::NodeSelector { node_selector_terms: vec![term] }),
        allocation_timestamp: None,
    });
}

fn reserve(claim: &mut ResourceClaim, pod: &Pod) {
    let metadata = pod.metadata.clone().unwrap_or_default();
    let consumer = ResourceClaimConsumerReference {
        resource: "pods".to_owned(),
        name: metadata.name,
        uid: metadata.uid,
        ..ResourceClaimConsumerReference::default()
    };
    let status: &mut ResourceClaimStatus = claim.status.get_or_insert_default();
    status.reserved_for.push(consumer);
}

fn device_name(device: usize) -> String {
    format!("gpu-{device}")
}

fn named(namespace: &str, name: String) -> Option<ObjectMeta> {
    let (uid, namespace) = (name.clone(), namespace.to_owned());
    Some(ObjectMeta { namespace, name, uid, ..ObjectMeta::default() })
}
