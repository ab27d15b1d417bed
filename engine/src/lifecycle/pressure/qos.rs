//! Quality of service: the class of a pod by its requests and limits.

use berth_proto::Amount;
use berth_proto::berth_v1::{QosClassRequest, QosClassResponse};
use berth_proto::core_v1::{Pod, PodSpec, ResourceRequirements};

use super::request;
use crate::lifecycle::reading::{self, in_list};
use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// QoS class of a pod. The order of eviction does not depend on it (L-PRESS-15).
    enum QosClass {
        /// Requests equal limits (L-PRESS-3).
        Guaranteed = "Guaranteed",
        /// Some requests or limits are set (L-PRESS-4).
        Burstable = "Burstable",
        /// No requests and no limits are set (L-PRESS-2).
        BestEffort = "BestEffort",
    }
}

/// Resources that count (L-PRESS-1, L-PRESS-6).
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Sums of requests and limits, in the order of [`COUNTED`].
#[derive(Default)]
struct Sums {
    requests: [Amount; 2],
    limits: [Amount; 2],
    /// Whether any container, or the pod level, has no limit above zero for one of the two resources.
    is_open: bool,
}

/// `QoSClass`: the class of a pod (L-PRESS-1 to L-PRESS-7).
///
/// # Errors
/// [`ModelError`] under `pod` for an invalid or negative quantity of CPU or memory, and for an unknown recorded class.
pub fn qos_class(request: &QosClassRequest) -> Result<QosClassResponse, ModelError> {
    let pod = reading::given(request.pod.as_ref(), "pod")?;
    let class = qos_class_of(pod).map_err(|error| error.under("pod"))?;
    Ok(QosClassResponse { qos_class: class.word().to_owned() })
}

/// [`qos_class`] with typed arguments. A recorded class stays, even if requests and limits have changed since
/// (L-PRESS-1).
///
/// # Errors
/// [`ModelError`] relative to the pod, as [`qos_class`].
pub fn qos_class_of(pod: &Pod) -> Result<QosClass, ModelError> {
    let recorded = &reading::status(pod).qos_class;
    if !recorded.is_empty() {
        return QosClass::parse(recorded, "status.qosClass");
    }
    Ok(Sums::read(reading::spec(pod)).map_err(|error| error.under("spec"))?.class())
}

impl Sums {
    fn read(spec: &PodSpec) -> Result<Sums, ModelError> {
        let mut sums = Sums::default();
        if let Some(resources) = spec.resources.as_ref().filter(|resources| is_set(resources)) {
            // Pod-level values alone decide (L-PRESS-7).
            for (index, name) in COUNTED.into_iter().enumerate() {
                let limit = request::entry(&resources.limits, name, "resources.limits")?;
                sums.add(index, request::of_pod(spec, name)?, limit);
            }
            return Ok(sums);
        }
        for (index, container) in spec.containers.iter().enumerate() {
            in_list("containers", index, sums.count(container.resources.as_ref()))?;
        }
        // Sidecars count too; ephemeral containers have no resources of their own (L-PRESS-5).
        for (index, container) in spec.init_containers.iter().enumerate() {
            in_list("initContainers", index, sums.count(container.resources.as_ref()))?;
        }
        Ok(sums)
    }

    /// Adds a container.
    fn count(&mut self, resources: Option<&ResourceRequirements>) -> Result<(), ModelError> {
        for (index, name) in COUNTED.into_iter().enumerate() {
            let limit = match resources {
                Some(resources) => request::entry(&resources.limits, name, "resources.limits")?,
                None => None,
            };
            self.add(index, request::request_or_limit(resources, name)?, limit);
        }
        Ok(())
    }

    /// Adds request and limit of one resource; zero counts as unset (L-PRESS-6).
    fn add(&mut self, index: usize, request: Option<Amount>, limit: Option<Amount>) {
        let (request, limit) = (request.unwrap_or_default(), limit.unwrap_or_default());
        self.requests[index] += request;
        self.limits[index] += limit;
        self.is_open |= limit.is_zero();
    }

    fn class(&self) -> QosClass {
        if self.requests.iter().chain(&self.limits).all(|amount| amount.is_zero()) {
            QosClass::BestEffort
        } else if !self.is_open && self.requests == self.limits {
            QosClass::Guaranteed
        } else {
            QosClass::Burstable
        }
    }
}

/// Whether any pod-level request or limit is set.
fn is_set(resources: &ResourceRequirements) -> bool {
    let mut names = resources.requests.keys().chain(resources.limits.keys());
    names.any(|name| request::is_pod_level_name(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(pod: Value) -> Result<QosClass, ModelError> {
        qos_class_of(&serde_json::from_value(pod).unwrap())
    }

    fn check(spec: &Value, expected: QosClass) {
        assert_eq!(class(json!({"spec": spec})), Ok(expected), "{spec}");
    }

    /// L-PRESS-1: a recorded class stays.
    #[test]
    fn the_recorded_class_stays() {
        let pod = json!({"status": {"qosClass": "Guaranteed"}});
        assert_eq!(class(pod), Ok(QosClass::Guaranteed));
        let error = class(json!({"status": {"qosClass": "Best"}})).unwrap_err();
        assert_eq!(error.field, "status.qosClass");
    }

    /// L-PRESS-3, L-PRESS-6: a request of zero counts as unset, and does not default to the limit.
    #[test]
    fn zero_beside_a_limit() {
        let limits = json!({"cpu": "1", "memory": "1Gi"});
        let of = |requests| json!({"containers": [{"resources": {"requests": requests, "limits": limits}}]});
        check(&of(json!({})), QosClass::Guaranteed);
        check(&of(json!({"cpu": "0"})), QosClass::Burstable);
        check(&of(json!({"cpu": "1e0", "memory": "1073741824000m"})), QosClass::Guaranteed);
    }

    /// L-PRESS-3, L-PRESS-4: sums are compared, not containers.
    #[test]
    fn sums_are_compared() {
        let one = |request: &str, limit: &str| {
            json!({"resources": {
                "requests": {"cpu": request, "memory": "1Mi"},
                "limits": {"cpu": limit, "memory": "1Mi"},
            }})
        };
        let spec = json!({"containers": [one("1", "2"), one("3", "2")]});
        check(&spec, QosClass::Guaranteed);
        let sidecar = json!({"restartPolicy": "Always"});
        let spec = json!({"containers": [one("2", "2")], "initContainers": [sidecar]});
        check(&spec, QosClass::Burstable);
    }

    /// L-PRESS-7: defaults of pod-level requests, and a pod level without CPU and memory.
    #[test]
    fn pod_level() {
        let limits = json!({"cpu": "2", "memory": "2Gi"});
        let containers = json!([{"resources": {"requests": {"cpu": "1"}}}]);
        check(&json!({"resources": {"limits": limits}}), QosClass::Guaranteed);
        check(
            &json!({"resources": {"limits": limits}, "containers": containers}),
            QosClass::Burstable,
        );
        check(&json!({"resources": {"limits": {"cpu": "2"}}}), QosClass::Burstable);
        check(&json!({"resources": {}, "containers": containers}), QosClass::Burstable);
        check(&json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}), QosClass::BestEffort);
    }

    /// L-PRESS-2, L-PRESS-5: ephemeral containers do not take part.
    #[test]
    fn ephemeral_containers_do_not_count() {
        let spec = json!({"ephemeralContainers": [{"resources": {"limits": {"cpu": "1"}}}]});
        check(&spec, QosClass::BestEffort);
        check(&json!({}), QosClass::BestEffort);
    }

    #[test]
    fn bad_input_is_refused_with_its_field() {
        let refused = |pod: Value| {
            let pod = serde_json::from_value(pod).unwrap();
            qos_class(&QosClassRequest { pod, key: None }).unwrap_err().to_string()
        };
        assert_eq!(refused(Value::Null), "`pod`: required");
        let of = |list: &str, quantity: &str| json!({"spec": {list: [{}, {"resources": {"limits": {"cpu": quantity}}}]}});
        assert_eq!(
            refused(of("containers", "-1")),
            "`pod.spec.containers[1].resources.limits[cpu]`: `-1` is negative"
        );
        assert!(
            refused(of("initContainers", "1x"))
                .starts_with("`pod.spec.initContainers[1].resources.limits[cpu]`: ")
        );
        let pod = json!({"spec": {"resources": {"requests": {"memory": "1Qi"}}}});
        assert!(refused(pod).starts_with("`pod.spec.resources.requests[memory]`: "));
    }
}
