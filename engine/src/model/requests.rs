//! A pod's resource request: exact sums over containers, rounded once at the end.
//! Rules: S-FIT-1 to S-FIT-6, S-RS-3, S-RS-4.

use std::collections::BTreeMap;

use berth_proto::{Amount, Quantity, core_v1};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::Interner;
use super::resources::{Resource, Resources};

/// Scoring defaults of a container without requests (S-RS-3): 100 m CPU and 200 Mi memory.
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// The largest number of different resource names that one pod may request, to bound the time of summing; pods have a
/// handful.
const MAX_NAMES: usize = 512;

/// Exact amounts by resource name; names are unordered and occur once.
type Amounts<'a> = SmallVec<[(&'a str, Amount); 4]>;

/// The parsed requests of one pod. Every quantity in it is valid and ≥ 0.
pub(crate) struct PodRequests<'a> {
    containers: Vec<ContainerRequests<'a>>,
    init_containers: Vec<ContainerRequests<'a>>,
    pod_level: PodLevel<'a>,
    overhead: Amounts<'a>,
    resize_infeasible: bool,
}

struct ContainerRequests<'a> {
    spec: Amounts<'a>,
    /// Actual and allocated amounts, when a status with `resources` exists (S-FIT-5).
    status: Option<Amounts<'a>>,
    is_sidecar: bool,
}

struct PodLevel<'a> {
    spec: Amounts<'a>,
    status: Option<Amounts<'a>>,
}

/// Options of a sum of requests.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Take the larger of spec and status, as for pods on a node (S-FIT-5).
    pub(crate) use_status: bool,
    /// Give containers without an entry the scoring defaults (S-RS-3).
    pub(crate) with_defaults: bool,
    /// Leave `spec.resources` out (S-RS-4).
    pub(crate) skip_pod_level: bool,
}

impl<'a> PodRequests<'a> {
    /// Parses every quantity that a sum may need; errors name the field.
    pub(crate) fn parse(pod: &'a core_v1::Pod) -> Result<PodRequests<'a>, ModelError> {
        let empty_spec = const { &None };
        let (Some(spec), status) = (pod.spec.as_ref().or(empty_spec.as_ref()), pod.status.as_ref())
        else {
            return Err(ModelError::new("spec", "is missing"));
        };
        check_n_names(spec, status)?;
        let statuses = |init: bool| -> &'a [core_v1::ContainerStatus] {
            status.map_or(&[], |s| {
                if init { &s.init_container_statuses } else { &s.container_statuses }
            })
        };
        let read = |list: &'a [core_v1::Container], field: &str, init: bool| {
            list.iter()
                .enumerate()
                .map(|(i, c)| {
                    ContainerRequests::parse(c, statuses(init))
                        .map_err(|e| e.under(&format!("spec.{field}[{i}]")))
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let pod_status = status.and_then(|s| Some((s.resources.as_ref()?, &s.allocated_resources)));
        Ok(PodRequests {
            containers: read(&spec.containers, "containers", false)?,
            init_containers: read(&spec.init_containers, "initContainers", true)?,
            pod_level: PodLevel {
                spec: spec.resources.as_ref().map_or(Ok(Amounts::new()), |r| {
                    parse_list(&r.requests, "spec.resources.requests")
                })?,
                status: pod_status
                    .map(|(actual, allocated)| {
                        let actual = parse_list(&actual.requests, "status.resources.requests")?;
                        Ok(max(actual, &parse_list(allocated, "status.allocatedResources")?))
                    })
                    .transpose()?,
            },
            overhead: parse_list(&spec.overhead, "spec.overhead")?,
            resize_infeasible: status.is_some_and(is_resize_infeasible),
        })
    }

    /// Whether a status could change the sums.
    pub(crate) fn has_status(&self) -> bool {
        self.pod_level.status.is_some()
            || self.containers.iter().chain(&self.init_containers).any(|c| c.status.is_some())
    }

    /// The pod's request as tracked integers.
    pub(crate) fn total(&self, options: Options, names: &Interner) -> Resources {
        let mut total = Resources::default();
        for (name, amount) in self.aggregate(options) {
            let Some(resource) = Resource::from_name(name, names) else {
                continue;
            };
            total.set(resource, resource.units(amount));
        }
        total
    }

    /// The sum of S-FIT-2 to S-FIT-4 in exact amounts.
    pub(crate) fn aggregate(&self, options: Options) -> Amounts<'a> {
        let defaults = if options.with_defaults { self.defaults(options) } else { Amounts::new() };
        let of = |c: &ContainerRequests<'a>, status: bool| {
            let mut amounts = c.effective(options.use_status && status, self.resize_infeasible);
            for (name, default) in &defaults {
                if !amounts.iter().any(|(n, _)| n == name) {
                    amounts.push((name, *default));
                }
            }
            amounts
        };
        let mut sum = Amounts::new();
        for container in &self.containers {
            add(&mut sum, &of(container, true));
        }
        let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            let request = of(container, container.is_sidecar);
            let candidate = if container.is_sidecar {
                add(&mut sum, &request);
                add(&mut sidecars, &request);
                sidecars.clone()
            } else {
                let mut candidate = request;
                add(&mut candidate, &sidecars);
                candidate
            };
            peak = max(peak, &candidate);
        }
        let mut total = max(sum, &peak);
        if !options.skip_pod_level {
            self.apply_pod_level(&mut total, options.use_status);
        }
        add(&mut total, &self.overhead);
        total
    }

    /// Replaces the containers' values by pod-level values (S-FIT-3).
    fn apply_pod_level(&self, total: &mut Amounts<'a>, use_status: bool) {
        if !self.pod_level.is_set() {
            return;
        }
        let level = match &self.pod_level.status {
            Some(status) if use_status && self.resize_infeasible => status.clone(),
            Some(status) if use_status => max(self.pod_level.spec.clone(), status),
            _ => self.pod_level.spec.clone(),
        };
        for (name, amount) in level.into_iter().filter(|(name, _)| is_pod_level_name(name)) {
            match total.iter_mut().find(|(n, _)| *n == name) {
                Some(entry) => entry.1 = amount,
                None => total.push((name, amount)),
            }
        }
    }

    /// The scoring defaults. With pod-level requests a default applies only where the whole pod has no value (S-RS-3).
    fn defaults(&self, options: Options) -> Amounts<'a> {
        let mut defaults = Amounts::new();
        defaults.push(("cpu", Amount::from_milli(DEFAULT_MILLI_CPU)));
        defaults.push(("memory", Amount::from_value(DEFAULT_MEMORY)));
        if !options.skip_pod_level && self.pod_level.is_set() {
            let present = self.aggregate(Options { with_defaults: false, ..options });
            defaults.retain(|(name, _)| !present.iter().any(|(n, _)| n == name));
        }
        defaults
    }
}

impl<'a> ContainerRequests<'a> {
    fn parse(
        container: &'a core_v1::Container,
        statuses: &'a [core_v1::ContainerStatus],
    ) -> Result<ContainerRequests<'a>, ModelError> {
        let spec = match &container.resources {
            Some(resources) => parse_list(&resources.requests, "resources.requests")?,
            None => Amounts::new(),
        };
        // If several statuses have the same name, the last one applies, as in a map filled in order.
        let status = statuses.iter().rfind(|s| s.name == container.name);
        let status = status.and_then(|s| Some((s.resources.as_ref()?, &s.allocated_resources)));
        let status = status
            .map(|(actual, allocated)| {
                let actual = parse_list(&actual.requests, "status.resources.requests")?;
                Ok(max(actual, &parse_list(allocated, "status.allocatedResources")?))
            })
            .transpose()?;
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        Ok(ContainerRequests { spec, status, is_sidecar })
    }

    fn effective(&self, use_status: bool, resize_infeasible: bool) -> Amounts<'a> {
        match &self.status {
            Some(status) if use_status && resize_infeasible => status.clone(),
            Some(status) if use_status => max(self.spec.clone(), status),
            _ => self.spec.clone(),
        }
    }
}

impl PodLevel<'_> {
    fn is_set(&self) -> bool {
        self.spec.iter().any(|(name, _)| is_pod_level_name(name))
    }
}

/// Whether a resource has pod-level requests and limits (S-FIT-3).
pub(crate) fn is_pod_level_name(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn is_resize_infeasible(status: &core_v1::PodStatus) -> bool {
    status.conditions.iter().any(|c| c.r#type == "PodResizePending" && c.reason == "Infeasible")
}

/// Checks the number of different names in a sum.
fn check_n_names(
    spec: &core_v1::PodSpec,
    status: Option<&core_v1::PodStatus>,
) -> Result<(), ModelError> {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let resources = containers.filter_map(|container| container.resources.as_ref());
    let resources = resources.chain(&spec.resources).map(|resources| &resources.requests);
    let statuses = status.into_iter().flat_map(|status| {
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
        let of_containers = containers.flat_map(|it| lists(&it.resources, &it.allocated_resources));
        of_containers.chain(lists(&status.resources, &status.allocated_resources))
    });
    let all = || resources.clone().chain([&spec.overhead]).chain(statuses.clone());
    // Nearly always the number of entries is small enough already.
    let n_entries: usize = all().map(BTreeMap::len).sum();
    if n_entries <= MAX_NAMES {
        return Ok(());
    }
    let names: FxHashSet<&String> = all().flat_map(BTreeMap::keys).collect();
    if names.len() <= MAX_NAMES {
        return Ok(());
    }
    let reason = format!("names {} different resources, more than {MAX_NAMES}", names.len());
    Err(ModelError::new("spec.containers", reason))
}

fn lists<'a>(
    actual: &'a Option<core_v1::ResourceRequirements>,
    allocated: &'a BTreeMap<String, Quantity>,
) -> impl Iterator<Item = &'a BTreeMap<String, Quantity>> + Clone {
    actual.iter().map(|actual| &actual.requests).chain([allocated])
}

/// Parses a resource list of a pod: every amount valid and ≥ 0.
fn parse_list<'a>(
    list: &'a BTreeMap<String, Quantity>,
    field: &str,
) -> Result<Amounts<'a>, ModelError> {
    let mut amounts = Amounts::new();
    for (name, quantity) in list {
        amounts.push((name.as_str(), parse_amount(quantity, name, field)?));
    }
    Ok(amounts)
}

/// One amount of a resource list; negative amounts are an error.
pub(crate) fn parse_amount(
    quantity: &Quantity,
    name: &str,
    field: &str,
) -> Result<Amount, ModelError> {
    let at = || format!("{field}[{}]", super::label::clip(name));
    let amount = quantity.parse().map_err(|error| ModelError::new(at(), error.to_string()))?;
    if amount.is_negative() {
        return Err(ModelError::new(
            at(),
            format!("`{}` is negative", super::label::clip(quantity.text())),
        ));
    }
    Ok(amount)
}

/// A list of amounts, every one valid and ≥ 0, and those finer than a thousandth rounded up to one (A-DEF-9).
pub(crate) fn rounded_list(
    list: &BTreeMap<String, Quantity>,
    field: &str,
) -> Result<BTreeMap<String, Quantity>, ModelError> {
    let mut rounded = list.clone();
    for (name, quantity) in &mut rounded {
        if let Some(coarser) = rounded_up(parse_amount(quantity, name, field)?) {
            *quantity = coarser;
        }
    }
    Ok(rounded)
}

/// The amount rounded up to thousandths; `None` if it is not finer (A-DEF-9).
pub(crate) fn rounded_up(amount: Amount) -> Option<Quantity> {
    let milli = amount.checked_milli_value()?;
    (Amount::from_milli(milli) != amount).then(|| Quantity::new(format!("{milli}m")))
}

fn add<'a>(sum: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        match sum.iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 += *amount,
            None => sum.push((name, *amount)),
        }
    }
}

fn max<'a>(mut left: Amounts<'a>, right: &Amounts<'a>) -> Amounts<'a> {
    for (name, amount) in right {
        match left.iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 = entry.1.max(*amount),
            None => left.push((name, *amount)),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two containers of so many names each.
    fn pod(n_names: usize, of_second: &str) -> core_v1::Pod {
        let container = |prefix: &str| {
            let names = (0..n_names).map(|i| (format!("{prefix}/{i}"), Quantity::new("1")));
            let resources =
                core_v1::ResourceRequirements { requests: names.collect(), ..Default::default() };
            core_v1::Container { resources: Some(resources), ..Default::default() }
        };
        let containers = vec![container("a.b"), container(of_second)];
        let spec = core_v1::PodSpec { containers, ..Default::default() };
        core_v1::Pod { spec: Some(spec), ..Default::default() }
    }

    #[test]
    fn a_pod_may_name_only_so_many_resources() {
        assert!(PodRequests::parse(&pod(MAX_NAMES / 2, "c.d")).is_ok());
        assert!(PodRequests::parse(&pod(MAX_NAMES, "a.b")).is_ok(), "the same names twice");
        let error = PodRequests::parse(&pod(MAX_NAMES / 2 + 1, "c.d")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "`spec.containers`: names 514 different resources, more than 512"
        );
    }
}
