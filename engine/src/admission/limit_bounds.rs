//! LimitRanger, its second half: bounds of what containers, pods and claims request. Rules: A-LIM-3 to A-LIM-6.

use std::collections::BTreeMap;

use berth_proto::core_v1::{Container, PersistentVolumeClaim, Pod, PodSpec};
use berth_proto::{Amount, Quantity};

use super::limit_ranger::limit_ranges;
use super::outcome::AdmissionError;
use super::requests::{self, AmountsOf};
use crate::model::ModelError;
use crate::model::limit_range::{Limit, LimitType};
use crate::snapshot::Snapshot;

/// Amounts of one container, pod or claim.
struct Observed {
    requests: BTreeMap<String, Amount>,
    limits: BTreeMap<String, Amount>,
}

/// Checks the bounds of the namespace's limit ranges.
pub(super) fn check(pod: &Pod, namespace: &str, snapshot: &Snapshot) -> Result<(), AdmissionError> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    for range in limit_ranges(snapshot, namespace) {
        for limit in &range.limits {
            match limit.of {
                LimitType::Container => {
                    of_containers(&spec.containers, "spec.containers", limit)?;
                    of_containers(&spec.init_containers, "spec.initContainers", limit)?;
                }
                LimitType::Pod => Observed::of_pod(spec)?.check(limit, "spec")?,
                LimitType::PersistentVolumeClaim | LimitType::Other => {}
            }
        }
    }
    Ok(())
}

/// Checks the bounds of claims (A-LIM-6).
pub(super) fn check_claim(
    claim: &PersistentVolumeClaim,
    namespace: &str,
    snapshot: &Snapshot,
) -> Result<(), AdmissionError> {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests = resources.map(|resources| amounts(&resources.requests)).unwrap_or_default();
    // A maximum bounds the request of a claim: it has no limit.
    let observed = Observed { limits: requests.clone(), requests };
    for range in limit_ranges(snapshot, namespace) {
        let of_claims = |limit: &&Limit| limit.of == LimitType::PersistentVolumeClaim;
        for limit in range.limits.iter().filter(of_claims) {
            observed.check_min(limit, "spec")?;
            observed.check_max(limit, "spec", "request")?;
        }
    }
    Ok(())
}

fn of_containers(
    containers: &[Container],
    field: &str,
    limit: &Limit,
) -> Result<(), AdmissionError> {
    for (index, container) in containers.iter().enumerate() {
        Observed::of_container(container).check(limit, &format!("{field}[{index}]"))?;
    }
    Ok(())
}

impl Observed {
    fn of_container(container: &Container) -> Observed {
        let resources = container.resources.as_ref();
        Observed {
            requests: resources.map(|it| amounts(&it.requests)).unwrap_or_default(),
            limits: resources.map(|it| amounts(&it.limits)).unwrap_or_default(),
        }
    }

    /// Sums over the containers, without overhead (A-LIM-5).
    fn of_pod(spec: &PodSpec) -> Result<Observed, ModelError> {
        Ok(Observed {
            requests: requests::of_whole_pod(spec, AmountsOf::Requests, false)?,
            limits: requests::of_whole_pod(spec, AmountsOf::Limits, false)?,
        })
    }

    fn check(&self, limit: &Limit, at: &str) -> Result<(), AdmissionError> {
        self.check_min(limit, at)?;
        self.check_max(limit, at, "limit")?;
        self.check_ratio(limit, at)
    }

    /// The lower bounds (A-LIM-3).
    fn check_min(&self, limit: &Limit, at: &str) -> Result<(), AdmissionError> {
        for (name, min) in &limit.min {
            let bound = value(min);
            let rule = format!("minimum {name} usage per {} is {min}", limit.of.word());
            let (field, fault) = match (self.requests.get(name), self.limits.get(name)) {
                (None, _) => ("requests", "No request is specified".to_owned()),
                (Some(request), _) if *request < bound => {
                    ("requests", format!("but request is {}", requests::text(name, *request)))
                }
                (_, Some(lim)) if *lim < bound => {
                    ("limits", format!("but limit is {}", requests::text(name, *lim)))
                }
                _ => continue,
            };
            return Err(refused(at, field, name, &rule, &fault));
        }
        Ok(())
    }

    /// The upper bounds (A-LIM-3). `what` is the amount that must be there.
    fn check_max(&self, limit: &Limit, at: &str, what: &str) -> Result<(), AdmissionError> {
        let list = if what == "request" { "requests" } else { "limits" };
        for (name, max) in &limit.max {
            let bound = value(max);
            let rule = format!("maximum {name} usage per {} is {max}", limit.of.word());
            let (field, fault) = match (self.limits.get(name), self.requests.get(name)) {
                (None, _) => (list, format!("No {what} is specified")),
                (Some(lim), _) if *lim > bound => {
                    (list, format!("but {what} is {}", requests::text(name, *lim)))
                }
                (_, Some(request)) if *request > bound => {
                    ("requests", format!("but request is {}", requests::text(name, *request)))
                }
                _ => continue,
            };
            return Err(refused(at, field, name, &rule, &fault));
        }
        Ok(())
    }

    /// The bound of the limit relative to the request (A-LIM-4).
    fn check_ratio(&self, limit: &Limit, at: &str) -> Result<(), AdmissionError> {
        for (name, ratio) in &limit.max_limit_request_ratio {
            let rule =
                format!("{name} max limit to request ratio per {} is {ratio}", limit.of.word());
            let given = |list: &BTreeMap<String, Amount>| {
                list.get(name).copied().filter(|amount| !amount.is_zero())
            };
            let (field, fault) = match (given(&self.requests), given(&self.limits)) {
                (None, _) => ("requests", "but no request is specified or request is 0".to_owned()),
                (_, None) => ("limits", "but no limit is specified or limit is 0".to_owned()),
                (Some(request), Some(lim)) => {
                    let milli = |amount: Amount| i128::from(amount.milli_value());
                    if milli(lim) * 1000 <= milli(value(ratio)) * milli(request) {
                        continue;
                    }
                    #[expect(clippy::cast_precision_loss, reason = "shown with six digits")]
                    let provided = lim.milli_value() as f64 / request.milli_value() as f64;
                    ("limits", format!("but provided ratio is {provided:.6}"))
                }
            };
            return Err(refused(at, field, name, &rule, &fault));
        }
        Ok(())
    }
}

fn refused(at: &str, list: &str, name: &str, rule: &str, fault: &str) -> AdmissionError {
    let separator = if fault.starts_with("No ") { "." } else { "," };
    AdmissionError::new(
        format!("{at}.resources.{list}[{name}]"),
        format!("{rule}{separator} {fault}"),
    )
}

/// The amounts of a list; what cannot be read is refused by the checks before this one.
fn amounts(list: &BTreeMap<String, Quantity>) -> BTreeMap<String, Amount> {
    list.iter().map(|(name, quantity)| (name.clone(), value(quantity))).collect()
}

fn value(quantity: &Quantity) -> Amount {
    quantity.parse().unwrap_or_default()
}
