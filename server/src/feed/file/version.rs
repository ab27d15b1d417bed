//! Older versions of kinds that are read like the current one, with a warning (W-JS-13).

use super::written::WrittenObject;

/// An older version of a kind.
pub(super) struct Older {
    kind: &'static str,
    api_version: &'static str,
    /// Restores the meaning of fields that the version read differently.
    convert: fn(&mut WrittenObject),
}

/// The versions, whose fields have the names of the current one.
static OLDER: [Older; 7] = [
    Older { kind: "PodDisruptionBudget", api_version: "policy/v1beta1", convert: empty_is_none },
    Older { kind: "PriorityClass", api_version: "scheduling.k8s.io/v1alpha1", convert: as_it_is },
    Older { kind: "PriorityClass", api_version: "scheduling.k8s.io/v1beta1", convert: as_it_is },
    Older { kind: "DeviceClass", api_version: "resource.k8s.io/v1beta2", convert: as_it_is },
    Older { kind: "ResourceSlice", api_version: "resource.k8s.io/v1beta2", convert: as_it_is },
    Older { kind: "ResourceClaim", api_version: "resource.k8s.io/v1beta2", convert: as_it_is },
    Older {
        kind: "ResourceClaimTemplate",
        api_version: "resource.k8s.io/v1beta2",
        convert: as_it_is,
    },
];

/// The older version of `kind` that `api_version` names, if it is read.
pub(super) fn older(kind: &str, api_version: &str) -> Option<&'static Older> {
    OLDER.iter().find(|older| (older.kind, older.api_version) == (kind, api_version))
}

impl Older {
    /// Converts an object of the version to the current one.
    pub(super) fn convert(&self, object: &mut WrittenObject) {
        (self.convert)(object);
    }
}

fn as_it_is(_: &mut WrittenObject) {}

/// An empty selector of a budget of v1beta1 matches nothing, where that of v1 matches every pod of its namespace; in
/// both versions no selector matches nothing.
fn empty_is_none(object: &mut WrittenObject) {
    if let WrittenObject::PodDisruptionBudget(budget) = object
        && let Some(spec) = &mut budget.spec
    {
        spec.selector = spec.selector.take().filter(|selector| {
            !selector.match_labels.is_empty() || !selector.match_expressions.is_empty()
        });
    }
}
