//! Tells a misspelt kind from one that Kubernetes or an extension of it may have.

use berth_proto::fields;

use crate::escape::clipped;

/// Kubernetes' own groups without a domain, and the first names of those in `k8s.io`. Extensions have other groups.
const GROUPS: [&str; 6] = ["", "apps", "autoscaling", "batch", "extensions", "policy"];
const GROUPS_OF_K8S_IO: [&str; 18] = [
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "authentication",
    "authorization",
    "certificates",
    "coordination",
    "discovery",
    "events",
    "flowcontrol.apiserver",
    "internal.apiserver",
    "networking",
    "node",
    "rbac.authorization",
    "resource",
    "scheduling",
    "storage",
    "storagemigration",
];

/// The group of an `apiVersion`: `apps` for `apps/v1`, empty for `v1`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn is_own(group: &str) -> bool {
    let in_k8s_io = group.strip_suffix(".k8s.io");
    GROUPS.contains(&group) || in_k8s_io.is_some_and(|name| GROUPS_OF_K8S_IO.contains(&name))
}

/// Reason why there can be no object of this kind, with the nearest kind; `None` if there can. Without `apiVersion` the
/// kind is taken for one of Kubernetes' own.
pub(super) fn fault(kind: &str, api_version: &str) -> Option<String> {
    let kinds = fields::kinds();
    if !is_own(group(api_version)) || kinds.binary_search(&kind).is_ok() {
        return None;
    }
    let kind_shown = clipped(kind);
    Some(match fields::nearest(kind, kinds.iter().copied()) {
        Some(nearest) => format!("unknown kind `{kind_shown}`; did you mean `{nearest}`?"),
        None => format!("unknown kind `{kind_shown}`"),
    })
}

/// Reason why no group of Kubernetes' own but that of `expected` has the kind; `None` for groups of extensions, and for
/// the group that once had kinds of all others.
pub(super) fn fault_of_group(kind: &str, api_version: &str, expected: &str) -> Option<String> {
    let group = group(api_version);
    (is_own(group) && group != "extensions").then(|| {
        format!("`{}` has no `{kind}`; a `{kind}` is of `{expected}`", clipped(api_version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_kind_is_told_from_one_of_an_extension() {
        let of_v1 = |kind| fault(kind, "v1");
        assert_eq!(of_v1("Nod").unwrap(), "unknown kind `Nod`; did you mean `Node`?");
        assert_eq!(of_v1("pod").unwrap(), "unknown kind `pod`; did you mean `Pod`?");
        assert_eq!(of_v1("Xylophone").unwrap(), "unknown kind `Xylophone`");
        assert_eq!(
            fault("Deploymnet", "apps/v1").unwrap(),
            "unknown kind `Deploymnet`; did you mean `Deployment`?"
        );
        assert!(fault("Nod", "").is_some() && fault("Clas", "storage.k8s.io/v1").is_some());
        for (kind, api_version) in [
            ("Secret", "v1"),
            ("Role", "rbac.authorization.k8s.io/v1"),
            ("Nod", "example.com/v1"),
            ("Gateway", "gateway.networking.k8s.io/v1"),
            ("VolumeSnapshot", "snapshot.storage.k8s.io/v1"),
        ] {
            assert_eq!(fault(kind, api_version), None, "{kind}");
        }
    }

    #[test]
    fn a_kind_has_one_group() {
        let fault = |api_version| fault_of_group("Pod", api_version, "v1");
        assert_eq!(fault("apps/v1").unwrap(), "`apps/v1` has no `Pod`; a `Pod` is of `v1`");
        assert_eq!((fault("example.com/v1"), fault("extensions/v1beta1")), (None, None));
    }
}
